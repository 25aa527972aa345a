// Scores of the rows that were evaluated.
import { decimal } from "../format";
import { Section } from "../parts";
import type { ViewProps } from "./view";

export function ScoresView({ evaluation: { value } }: ViewProps) {
  const scores = value?.scores;
  const forecast = value?.forecast;
  const facts: [string, number | undefined][] = [
    ["accuracy", scores?.accuracy], ["Brier score", scores?.brier], ["log loss (nats)", scores?.logLoss],
    ["entropy of predictions (nats)", scores?.meanEntropy], ["CRPS (unit of the outcomes)", forecast?.scores?.crps],
    ["negative log density (nats)", forecast?.scores?.logScore], ["log10 e-value", forecast?.log10EValue],
  ];
  const known = facts.filter(([, number]) => number !== undefined);
  if (known.length === 0) return null;
  return <Section title="Scores" id="scores">
    <dl class="facts">{known.map(([title, number]) => <div key={title}><dt>{title}</dt><dd>{decimal(number)}</dd></div>)}</dl>
  </Section>;
}
