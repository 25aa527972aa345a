// Scores of the rows that were evaluated.
import { decimal } from "../format";
import { Facts, Section } from "../parts";
import type { ViewProps } from "../views/view";

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
    <Facts facts={known.map(([title, number]) => [title, decimal(number)])} />
  </Section>;
}
