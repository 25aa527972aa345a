// Saves what is shown as a file.
import type { Table } from "./parts";

export function save(name: string, type: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name.replace(/[^A-Za-z0-9._@-]+/g, "_");
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

// Programs that open a CSV file may run a cell that begins with one of these as a formula.
const FORMULA = /^[=+@\t\r]|^-(?![\d.])/;

function cellOf(value: string | number): string {
  if (typeof value === "number") return String(value);
  const text = FORMULA.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csvOf(table: Table): string {
  return [table.columns, ...table.rows].map((row) => row.map(cellOf).join(",")).join("\r\n") + "\r\n";
}

const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "paint-order",
  "font-family", "font-size", "font-weight", "text-anchor", "opacity"];

// The chart with its styles as attributes, so that it looks the same without the style sheet.
export function svgOf(chart: SVGSVGElement): string {
  const copy = chart.cloneNode(true) as SVGSVGElement;
  const originals = chart.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((element, i) => {
    const style = getComputedStyle(originals[i]!);
    for (const name of STYLES) element.setAttribute(name, style.getPropertyValue(name));
    element.removeAttribute("class");
  });
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  ground.setAttribute("width", "100%");
  ground.setAttribute("height", "100%");
  ground.setAttribute("fill", getComputedStyle(document.body).backgroundColor);
  copy.prepend(ground);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new XMLSerializer().serializeToString(copy);
}
