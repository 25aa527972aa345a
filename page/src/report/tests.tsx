// Tests of the rows that were evaluated. The page and reports of models have none, because they take long.
import { decimal } from "../format";
import { DataTable, Section, type Table } from "../parts";
import type { ViewProps } from "../views/view";

function tableOf({ lenses, forecast }: NonNullable<ViewProps["evaluation"]["value"]>): Table {
  if (forecast !== undefined) {
    return {
      columns: ["form", "MMD²", "tested value", "95 % if calibrated", "p-value"],
      rows: (forecast.discrepancies ?? []).map(({ form, mmdSquared, test }) => [form ?? "", decimal(mmdSquared), decimal(test?.value),
        decimal(test?.replicateUpperQuantile), decimal(test?.pValue)]),
    };
  }
  return {
    columns: ["lens", "SKCE", "p-value"],
    rows: (lenses ?? []).flatMap(({ lens, result }) => (result?.pValue === undefined ? []
      : [[lens ?? "", decimal(result.skceUnbiased), decimal(result.pValue)]])),
  };
}

export function TestsView({ evaluation: { value } }: ViewProps) {
  const table = tableOf(value ?? {});
  if (table.rows.length === 0) return null;
  return <Section title="Tests" id="tests"><DataTable label="Tests" table={table} /></Section>;
}
