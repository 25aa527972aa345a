// Small pieces that several views show.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Calibration } from "./api";
import { age, count, plain, shortName, utcTime } from "./format";
import type { Answer } from "./views/view";

// A name that someone chose: text, whatever it contains, and with its own writing direction.
export function Name({ name }: { name: string }) {
  return <bdi>{shortName(name)}</bdi>;
}

// The time, once a second.
export function useNow(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

// UTC, as in the sentences of the server.
export function Time({ time }: { time: string | undefined }) {
  if (time === undefined) return <>–</>;
  const date = new Date(time);
  return <time dateTime={time} title={date.toString()}>{utcTime(date)} UTC</time>;
}

export function Age({ time, now }: { time: string | undefined; now: number }) {
  if (time === undefined) return <>–</>;
  const date = new Date(time);
  return <time dateTime={time} title={`${utcTime(date)} UTC, ${date.toString()}`}>
    {age((now - date.getTime()) / 1000)}
  </time>;
}

// A mark whose shape and colour say how urgent something is. severity: Reading.severity.
export function Mark({ severity }: { severity: number }) {
  const rank = Math.floor(severity);
  const shapes: [number, string][] = [
    [5, "M8 1L15.5 15H.5Z"],
    [3, "M8 .5L15.5 8L8 15.5L.5 8Z"],
    [1, "M8 1.5A6.5 6.5 0 1 0 8 14.5A6.5 6.5 0 1 0 8 1.5Z"],
    [0, "M1.5 8.5L6 13L14.5 3"],
  ];
  const shape = shapes.find(([least]) => rank >= least)?.[1] ?? "";
  return <svg class={`mark rank-${rank}`} viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
    <path d={shape} />
  </svg>;
}

// The verdict, in the colour of its severity.
export function Banner({ calibration: { reading } }: { calibration: Calibration }) {
  const severity = reading?.severity ?? 0;
  return <p class={`banner rank-${Math.floor(severity)}`} role="status"><Mark severity={severity} />
    <strong>{plain(reading?.verdict?.text ?? "")}</strong></p>;
}

// The rows of an answer. Only those of a model are its newest ones.
export function rowsText(calibration: Calibration, rows: number): string {
  return `${calibration.windowObservations === undefined ? "" : "Newest "}${count(rows)} rows`;
}

// A part of a page with a heading.
export function Section({ title, id, children }: { title: string; id: string; children: ComponentChildren }) {
  return <section aria-labelledby={id} class={`part ${id}`}>
    <h2 id={id}>{title}</h2>
    {children}
  </section>;
}

export interface Table {
  columns: string[];
  rows: (string | number)[][];
}

// A table that may be wider than its place.
export function WideTable({ label, children }: { label: string; children: ComponentChildren }) {
  return <div class="scroll" tabIndex={0} role="group" aria-label={label}><table>{children}</table></div>;
}

export function DataTable({ table, label }: { table: Table; label: string }) {
  return <WideTable label={label}>
    <thead><tr>{table.columns.map((name) => <th key={name} scope="col">{name}</th>)}</tr></thead>
    <tbody>{table.rows.map((row, i) => <tr key={i}>{row.map((cell, k) => <td key={k}><bdi>{cell}</bdi></td>)}</tr>)}</tbody>
  </WideTable>;
}

// Numbers with their names.
export function Facts({ facts }: { facts: [string, ComponentChildren][] }) {
  return <dl class="facts">{facts.map(([title, value]) => <div key={title}><dt>{title}</dt><dd>{value}</dd></div>)}</dl>;
}

// A table that is made when a reader opens it. of: what it is about, for those who do not see the place.
export function TableBelow({ title, of, table }: { title: string; of: string; table: () => Table }) {
  const [open, setOpen] = useState(false);
  return <details onToggle={(event) => setOpen(event.currentTarget.open)}>
    <summary>{title}<span class="hidden"> of {of}</span></summary>
    {open && <DataTable table={table()} label={of} />}
  </details>;
}

// Calls `act` once, as soon as the element is in the window or within the margin around it. Returns how to end it.
export function whenSeen(element: Element, act: () => void, rootMargin: string): () => void {
  const observer = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    act();
  }, { rootMargin });
  observer.observe(element);
  return () => observer.disconnect();
}

// In place of an answer that a reader has to ask for, by a button or if `auto` by going there.
export function Compute({ answer, start, auto = false, children }: {
  answer: Answer<unknown>;
  start: (() => void) | undefined;
  auto?: boolean;
  children: ComponentChildren;
}) {
  const place = useRef<HTMLParagraphElement>(null);
  const isRunning = answer.wanted && answer.error === "";
  useEffect(() => {
    // A reader who has gone past it wants it too.
    return auto && start !== undefined ? whenSeen(place.current!, start, "99999px 0px 0px") : undefined;
  }, [auto]);
  return <p ref={place} class="compute">{children} <button type="button" disabled={isRunning} onClick={start}>Compute</button>
    <span role="status"> {isRunning ? "computing…" : answer.error}</span></p>;
}
