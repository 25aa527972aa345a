// The answers that the views of a model show, and how readers get more of them.
import { useEffect, useRef, useState } from "preact/hooks";
import { acknowledge, type Calibration, compare, diagramBody, estimate, evaluate, evaluateBody, fittingHistory, getHistory,
  getLabel, listOthers, type Model, recalibrate, setErrorLimit } from "./api";
import { int } from "./format";
import { useRead } from "./live";
import type { ViewProps } from "./views/view";

const AGAIN_MS = 15_000;
// Number of rows that a diagram needs.
const LEAST_ROWS = 2;
// Of more classes, an evaluation has the diagrams of those that the server names as worst.
const MOST_CLASSES = 20;

// An evaluation of more classes may cost the server half a minute, so that a reader has to ask for it.
export function isCheap(model: Model | undefined): boolean {
  return Number(model?.classes?.count) <= MOST_CLASSES;
}

// The number of rows, which changes at most every 15 s.
function useSlowly(rows: string | undefined): string | undefined {
  const [shown, setShown] = useState(rows);
  const changedAt = useRef(Date.now());
  useEffect(() => {
    if (shown === rows) return;
    const timer = setTimeout(() => {
      changedAt.current = Date.now();
      setShown(rows);
    }, Math.max(0, changedAt.current + AGAIN_MS - Date.now()));
    return () => clearTimeout(timer);
  }, [shown, rows]);
  return shown;
}

function firstClasses(calibration: Calibration, model: Model): number[] {
  const count = Number(model.classes?.count ?? 0);
  // The diagram of class 0 of two is that of class 1, turned around.
  if (count === 2) return [1];
  if (isCheap(model)) return Array.from({ length: count }, (_, k) => k);
  return (calibration.verdict?.whereabouts?.classes ?? []).map(({ classIndex }) => classIndex ?? 0);
}

// calibration: undefined before the first event.
export function useAnswers(name: string, calibration: Calibration | undefined, model: Model | undefined):
    Omit<ViewProps, "calibration" | "model"> {
  const [span, setSpan] = useState<number | undefined>(undefined);
  const [more, setMore] = useState<number[]>([]);
  const [baseline, setBaseline] = useState("");
  const [label, setLabel] = useState("");
  // How often each was asked for: again after a failure.
  const [wanted, setWanted] = useState({ diagrams: 0, evaluate: 0, others: 0, estimate: 0, recalibrate: 0 });
  const want = (what: keyof typeof wanted) => setWanted((old) => ({ ...old, [what]: old[what] + 1 }));

  const rows = useSlowly(calibration?.observations);
  const history = useRead(() => (span === undefined ? fittingHistory((index) => getHistory(name, index)) : getHistory(name, span)),
    calibration && `${span} ${rows}`);

  // The server refuses to compute while it collects the first rows.
  const isReady = calibration !== undefined && model?.classes !== undefined &&
    calibration.insufficientData === undefined && int(calibration.windowObservations) >= LEAST_ROWS;
  const diagrams = useRead(() => evaluate(name, diagramBody(more)), isReady ? `${more.join()} ${wanted.diagrams}` : undefined);
  const evaluation = useRead(() => evaluate(name, evaluateBody(firstClasses(calibration!, model!))),
    isReady && wanted.evaluate > 0 ? String(wanted.evaluate) : undefined);
  const labelDiagram = useRead(() => getLabel(name, label), label === "" ? undefined : `${label} ${rows}`);
  const others = useRead(() => listOthers(model!), wanted.others > 0 && model ? "" : undefined);
  const other = useRead(async () => {
    const [comparison, answer] = await Promise.all([
      compare(name, baseline), model?.classes === undefined ? {} : evaluate(baseline, diagramBody(more))]);
    return { model: baseline, comparison, evaluation: answer };
  }, baseline === "" ? undefined : `${baseline} ${more.join()}`);
  const estimated = useRead(() => estimate(name), wanted.estimate > 0 ? String(wanted.estimate) : undefined);
  const advice = useRead(() => recalibrate(name), wanted.recalibrate > 0 ? String(wanted.recalibrate) : undefined);
  return {
    history, diagrams, evaluation, labelDiagram, other, estimate: estimated, recalibration: advice,
    chooseSpan: setSpan,
    ask: {
      diagrams: (classIndex) => {
        if (classIndex === undefined) want("diagrams");
        else if (!more.includes(classIndex)) setMore([...more, classIndex]);
      },
      evaluate: () => want("evaluate"),
      label: setLabel,
      others: others.value,
      listOthers: () => want("others"),
      compare: setBaseline,
      compared: baseline,
      estimate: () => want("estimate"),
      recalibrate: () => want("recalibrate"),
      acknowledge: (alarm, note) => acknowledge(name, alarm, note),
      setErrorLimit: (limit) => setErrorLimit(name, limit),
    },
  };
}
