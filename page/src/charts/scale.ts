// A linear scale from numbers to pixels.
export interface Scale {
  (value: number): number;
  domain: readonly [number, number];
}

export function scaleLinear(domain: readonly [number, number], range: readonly [number, number]): Scale {
  const [start, end] = domain;
  const [first, last] = range;
  const scale = (value: number) => first + ((last - first) * (value - start)) / (end - start || 1);
  return Object.assign(scale, { domain });
}

// The multiples of 1, 2 or 5 times a power of ten in the domain. They are about `number`, because the step is the one
// whose logarithm is next to that of a share of the domain.
export function roundValues([start, end]: readonly [number, number], number: number): number[] {
  const rough = (end - start) / number;
  if (!(rough > 0)) return [];
  const power = 10 ** Math.floor(Math.log10(rough));
  const size = rough / power;
  const step = power * (size >= Math.sqrt(50) ? 10 : size >= Math.sqrt(10) ? 5 : size >= Math.SQRT2 ? 2 : 1);
  const values = [];
  for (let i = Math.ceil(start / step - 1e-9); i <= Math.floor(end / step + 1e-9); ++i) {
    values.push(Number((i * step).toPrecision(12)));
  }
  return values;
}

// The end of an axis that is above nine of ten values, and at least `least`: one interval of few rows must not leave less
// room for all others.
export function ceilingOf(values: number[], least: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return Math.max(least, 1.1 * (sorted[Math.floor(0.9 * sorted.length)] ?? 0));
}
