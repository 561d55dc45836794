/** The names of all options of a kind: what lacks one does not compile. */
export type Names<T> = Record<keyof Required<T>, true>;

/** refuseUnknown throws for an option that is among none of the names: it would be dropped in silence. */
export function refuseUnknown(options: object, ...known: object[]): void {
  const names = [...new Set(known.flatMap(Object.keys))];
  for (const name of Object.keys(options)) {
    if (!names.includes(name)) {
      const close = closest(name, names);
      throw new TypeError(`setpoint: unknown option ${JSON.stringify(name)}${close === undefined ? `: there are ${names.join(", ")}` : `, did you mean ${JSON.stringify(close)}?`}`);
    }
  }
}

/** refuseNaN throws for what is no number, as Number makes of a variable that is not set: each call would have taken too long. */
export function refuseNaN(numbers: object): void {
  for (const [name, value] of Object.entries(numbers)) {
    if (typeof value !== "number" || Number.isNaN(value)) {
      throw new TypeError(`setpoint: ${name} must be a number, is ${said(value)}`);
    }
  }
}

/** closest returns the name that differs from a misspelled one by a third of its letters at most. */
export function closest(name: string, names: string[]): string | undefined {
  let best: string | undefined, fewest = Math.max(1, Math.min(3, Math.floor(name.length / 3))) + 1;
  for (const one of name.length > 64 ? [] : names) {
    let row = Array.from({ length: one.length + 1 }, (_, i) => i);
    for (let i = 1; i <= name.length; i++) {
      const next = [i];
      for (let j = 1; j <= one.length; j++) {
        next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (name[i - 1]!.toLowerCase() === one[j - 1]!.toLowerCase() ? 0 : 1)));
      }
      row = next;
    }
    if (row[one.length]! < fewest) {
      [best, fewest] = [one, row[one.length]!];
    }
  }
  return best;
}

/** said quotes a value, for a text that says what it must be. */
export function said(value: unknown): string {
  switch (typeof value) {
    case "string": return `a string (${JSON.stringify(value.slice(0, 40))})`;
    case "number": case "boolean": case "bigint": return `${typeof value} ${value}`;
    default: return value === null ? "null" : value instanceof Date ? `a Date (${value})` : Array.isArray(value) ? "an array" : typeof value;
  }
}
