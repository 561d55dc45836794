// The difference of two texts, by lines.

export interface Line {
  /** Of which text it is, undefined: of both. */
  of?: 0 | 1;
  text: string;
}

/** Lines that are compared with each other, at most: beyond them everything between the first and the last difference is different. */
const most = 2_000_000;

/** The lines of two texts in their order. */
export function difference(a: string, b: string): Line[] {
  const x = a.trimEnd().split("\n"), y = b.trimEnd().split("\n");
  let head = 0;
  while (head < x.length && head < y.length && x[head] === y[head]) head++;
  let tail = 0;
  while (tail < x.length - head && tail < y.length - head && x[x.length - 1 - tail] === y[y.length - 1 - tail]) tail++;
  const left = x.slice(head, x.length - tail), right = y.slice(head, y.length - tail);
  const same = (lines: string[]): Line[] => lines.map((text) => ({ text }));
  return [...same(x.slice(0, head)), ...between(left, right), ...same(x.slice(x.length - tail))];
}

/** The longest common subsequence, and what is beside it. */
function between(x: string[], y: string[]): Line[] {
  const width = y.length + 1;
  const out: Line[] = [];
  let i = 0, j = 0;
  if (x.length * y.length <= most) {
    // How long the common part of the rests is.
    const common = new Uint32Array((x.length + 1) * width);
    for (i = x.length - 1; i >= 0; i--) {
      for (j = y.length - 1; j >= 0; j--) {
        common[i * width + j] = x[i] === y[j] ? common[(i + 1) * width + j + 1]! + 1 : Math.max(common[(i + 1) * width + j]!, common[i * width + j + 1]!);
      }
    }
    i = j = 0;
    while (i < x.length && j < y.length) {
      if (x[i] === y[j]) {
        out.push({ text: x[i++]! });
        j++;
      } else if (common[(i + 1) * width + j]! >= common[i * width + j + 1]!) out.push({ of: 0, text: x[i++]! });
      else out.push({ of: 1, text: y[j++]! });
    }
  }
  for (; i < x.length; i++) out.push({ of: 0, text: x[i]! });
  for (; j < y.length; j++) out.push({ of: 1, text: y[j]! });
  return out;
}

/** The differences with so many lines around each; undefined stands for lines that are left out. */
export function hunks(lines: Line[], around = 2): (Line | undefined)[] {
  const out: (Line | undefined)[] = [];
  lines.forEach((l, i) => {
    if (lines.slice(Math.max(0, i - around), i + around + 1).some((n) => n.of !== undefined)) out.push(l);
    else if (out.length === 0 || out.at(-1) !== undefined) out.push(undefined);
  });
  return out;
}
