// The parts of the page of a model, in their order. A new one is a file and a line here.
import { AlarmsView } from "./alarms";
import { BreakdownView } from "./breakdown";
import { ComparisonView } from "./comparison";
import { DataView } from "./data";
import { DiagramView } from "./diagram";
import { EstimateView } from "./estimate";
import { FanView } from "./fan";
import { CoverageView, PitView } from "./forecast";
import { HeatMapView } from "./heat_map";
import { HistoryView } from "./history";
import { LabelDiagramView } from "./label_diagram";
import { LensesView } from "./lenses";
import { RecalibrationView } from "./recalibration";
import { SourceView } from "./source";

// Side by side on a wide screen: the distribution of the outcomes, and time.
export const FIRST_VIEWS = [DiagramView, LabelDiagramView, PitView, HistoryView];
// In two columns, or across both.
export const VIEWS = [BreakdownView, LensesView, HeatMapView, FanView, CoverageView, EstimateView, RecalibrationView, ComparisonView, DataView, AlarmsView, SourceView];
