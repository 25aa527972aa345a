// Numbers, times and names as text. A number has two or three significant digits, as in the sentences of
// the server.

// 64-bit integers are strings in JSON.
export function int(value: string | undefined): number {
  return Number(value ?? 0);
}

function fixed(value: number): string {
  const size = Math.abs(value);
  const text = size === 0 ? "0" : size >= 0.95 ? value.toFixed(1) : value.toPrecision(2);
  return String(Number(text));
}

// A probability in percentage points, without the unit.
export function points(probability: number | undefined): string {
  return fixed(100 * (probability ?? 0));
}

export function percent(probability: number | undefined): string {
  return `${fixed(100 * (probability ?? 0))} %`;
}

export function decimal(value: number | undefined): string {
  return value === undefined ? "" : fixed(value);
}

export function count(value: number): string {
  return value.toLocaleString("en").replaceAll(",", "\u202f");
}

// "churn" or "churn@2", as calibctl has it.
export function shortName(name: string): string {
  return name.replace(/^models\//, "").replace("/versions/", "@");
}

// "2026-11-28 14:04", in UTC as in the sentences of the server.
export function utcTime(time: Date): string {
  return time.toISOString().slice(0, 16).replace("T", " ");
}

// "5 s", "12 min", "3 h" or "4 d".
export function age(seconds: number): string {
  const steps: [number, string][] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [size, unit] = steps.find(([length]) => seconds >= 2 * length) ?? [1, "s"];
  return `${Math.max(0, Math.floor(seconds / size))} ${unit}`;
}

// A text with invisible characters as one line of visible ones.
export function plain(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu, " ");
}
