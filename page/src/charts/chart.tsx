// The frame of a chart: its title, the drawing, the same numbers as a table, and both as files.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { csvOf, save, svgOf } from "../export";
import { type Table, TableBelow } from "../parts";

export interface Size {
  width: number;
  height: number;
}

interface Props {
  title: string;
  // Of the files, without an ending.
  file: string;
  // From the width, in pixels.
  height: (width: number) => number;
  table: () => Table;
  // Switches of the chart.
  controls?: ComponentChildren;
  note?: ComponentChildren;
  children: (size: Size) => ComponentChildren;
}

export function Chart({ title, file, height, table, controls, note, children }: Props) {
  const figure = useRef<HTMLElement>(null);
  const drawing = useRef<SVGSVGElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = figure.current!;
    const measure = () => setWidth(Math.floor(element.clientWidth));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const size = { width, height: height(width) };
  return <figure ref={figure} class="chart">
    <figcaption><span>{title}</span>{controls !== undefined && <span class="controls">{controls}</span>}</figcaption>
    {width > 0 && <svg ref={drawing} role="img" aria-label={title} width={size.width} height={size.height}
      viewBox={`0 0 ${size.width} ${size.height}`}>{children(size)}</svg>}
    {note !== undefined && <p class="note">{note}</p>}
    <div class="files">
      <TableBelow title="Table" of={title} table={table} />
      <button type="button" onClick={() => save(`${file}.svg`, "image/svg+xml", svgOf(drawing.current!))}>
        SVG<span class="hidden"> of {title}</span>
      </button>
      <button type="button" onClick={() => save(`${file}.csv`, "text/csv", csvOf(table()))}>
        CSV<span class="hidden"> of {title}</span>
      </button>
    </div>
  </figure>;
}
