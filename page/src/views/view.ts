// What the views of a model show. A view is a function of this and asks nobody, so that the page and a report draw the
// same.
import type { Calibration, Comparison, Estimate, Evaluation, History, Label, Model, Recalibration } from "../api";

// value: the newest answer; undefined before the first one. error: why there is no newer one. wanted: it was asked for.
export interface Answer<T> {
  value?: T | undefined;
  error: string;
  wanted: boolean;
}

// Another model, by the newest rows of both.
export interface Other {
  model: string;
  // With the same diagrams.
  evaluation: Evaluation;
  comparison: Comparison;
}

// What a reader may do where there is a server.
export interface Ask {
  // Computes the diagrams of the newest rows again; classIndex: also the one of this class.
  diagrams: (classIndex?: number) => void;
  // Computes the lenses, the scores and the diagrams of the classes.
  evaluate: () => void;
  // Asks for the diagram of a label.
  label: (name: string) => void;
  // The models that can be compared with this one; undefined before listOthers().
  others: string[] | undefined;
  listOthers: () => void;
  // Chooses a model to compare with, "" for none; and the one that is chosen.
  compare: (model: string) => void;
  compared: string;
  estimate: () => void;
  recalibrate: () => void;
  // These two fail with the server's message.
  acknowledge: (alarm: string, note: string) => Promise<unknown>;
  setErrorLimit: (limit: number) => Promise<unknown>;
}

export interface ViewProps {
  calibration: Calibration;
  model: Model | undefined;
  history: Answer<History>;
  // The diagrams of the top label, and of classes that a reader chose.
  diagrams: Answer<Evaluation>;
  evaluation: Answer<Evaluation>;
  // The label that a reader chose, with its diagram.
  labelDiagram: Answer<Label>;
  other: Answer<Other>;
  estimate: Answer<Estimate>;
  recalibration: Answer<Recalibration>;
  // Shows the history of one of SPANS.
  chooseSpan: (span: number) => void;
  // Without a server there is nobody to ask.
  ask: Ask | undefined;
}
