// States in links: compressed, and short enough for chats. What a link holds is untrusted.

import type { Recorded } from "./engine";
import { checked, limits, type Part, type Recording, type State, tried } from "./state";

/** Characters of a link that is made, and of one that is read; bytes of what is in it. */
const longest = 4_000;
const readable = 64_000;
const unpacked = 2_000_000;

/** A recorded series as whole numbers, which compress well. */
interface Packed {
  /** Milliseconds: the first, and how much the distance to the next one differs from that before it. */
  t: number[];
  /** Values times ten to the power of d: the first, and the differences. */
  v: number[];
  d: number;
}

const power = (d: number): number => Number(`1e${d}`);
const written = (n: number, d: number): string => (d > 0 ? (n / power(d)).toFixed(d).replace(/\.?0+$/, "") : String(n * power(-d)));

/** Lines of seconds and value, packed; undefined if it is anything else, or loses anything. With digits the values are rounded to so many of the largest one's. */
export function pack(content: string, digits?: number): Packed | undefined {
  const rows = content.trim().split("\n").map((l) => /^(\d{1,11}(?:\.\d{1,3})?),(\d+(?:\.(\d+))?)$/.exec(l.trim()));
  if (rows.length > 200_000) return undefined;
  const most = (of: (r: RegExpExecArray | null) => number) => rows.reduce((n, r) => Math.max(n, of(r)), 0);
  const d = digits === undefined ? most((r) => r?.[3]?.length ?? 0) : digits - 1 - Math.floor(Math.log10(most((r) => Number(r?.[2] ?? 0)) || 1));
  if (Math.abs(d) > 12) return undefined;
  const out: Packed = { t: [], v: [], d };
  let at = 0, step = 0, value = 0;
  for (const r of rows) {
    if (!r) return undefined;
    const t = Math.round(Number(r[1]) * 1000), v = Math.round(d < 0 ? Number(r[2]) / power(-d) : Number(r[2]) * power(d));
    if (!Number.isSafeInteger(v) || (digits === undefined && Number(written(v, d)) !== Number(r[2]))) return undefined;
    if (out.t.length === 0) out.t.push(t);
    else {
      out.t.push(t - at - step);
      step = t - at;
    }
    out.v.push(v - value);
    at = t;
    value = v;
  }
  return out;
}

/** The lines of a packed series; throws if it is none. */
export function unpack(p: unknown): string {
  const { t, v, d } = (p ?? {}) as Partial<Packed>;
  const whole = (l: unknown): l is number[] => Array.isArray(l) && l.length > 0 && l.length <= 200_000 && l.every(Number.isSafeInteger);
  if (!whole(t) || !whole(v) || t.length !== v.length || !Number.isInteger(d) || Math.abs(d!) > 12) throw new Error("a recorded series is damaged");
  const lines: string[] = [];
  let at = 0, step = 0, value = 0, size = 0;
  for (let i = 0; i < t.length; i++) {
    if (i > 0) step += t[i]!;
    at += i > 0 ? step : t[0]!;
    value += v[i]!;
    if (!Number.isSafeInteger(at) || !Number.isSafeInteger(value)) throw new Error("a recorded series is damaged");
    const line = `${at / 1000},${written(value, d!)}`;
    if ((size += line.length + 1) > limits.file) throw new Error("a recorded series is too large");
    lines.push(line);
  }
  return lines.join("\n");
}

/** A state whose recorded series have other contents. */
function withSeries<T>(s: State, change: (r: Recording | Part) => T): unknown {
  return { ...s, load: s.load.map((p) => (p.kind === "file" && p.content ? change(p) : p)), ...(s.recorded ? { recorded: change(s.recorded) } : {}) };
}

const toBase64 = (bytes: Uint8Array): string => {
  let binary = "";
  for (let i = 0; i < bytes.length; i += 8192) binary += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(binary).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
};

const fromBase64 = (text: string): Uint8Array<ArrayBuffer> => {
  const binary = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
  return Uint8Array.from(binary, (c) => c.charCodeAt(0));
};

/** Reads a stream to its end, which must not be further than most bytes. */
async function within(stream: ReadableStream<Uint8Array>, most: number): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > most) {
      await reader.cancel();
      throw new Error("it is too large");
    }
    parts.push(value);
  }
  const out = new Uint8Array(size);
  let at = 0;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

/** The fragment of a link to a state, however long. */
async function fragmentOf(state: State): Promise<string> {
  const short = withSeries(state, (r) => {
    const packed = pack(r.content!);
    return packed ? { ...r, content: undefined, packed } : r;
  });
  const bytes = new TextEncoder().encode(JSON.stringify(short, (_, v: unknown) => (v === "" ? undefined : v)));
  const packed = await within(new Blob([bytes]).stream().pipeThrough(new CompressionStream("deflate-raw")), 8 * limits.file);
  return `#p2=${toBase64(packed)}`;
}

export interface Shared {
  /** Absent: it is too large for a link. */
  fragment?: string;
  /** The state that the link holds: with rounded series if they do not fit otherwise. */
  state: State;
  /** Digits that series were rounded to. */
  digits?: number;
  /** Characters of the link, or of the shortest that there is. */
  size: number;
}

/** A link to a state, that chats do not cut. before is the length of the address before the fragment. */
export async function shared(state: State, before: number): Promise<Shared> {
  let size = 0;
  for (const digits of [undefined, 4, 3]) {
    const at = digits === undefined ? state : (withSeries(state, (r) => {
      const packed = pack(r.content!, digits);
      return packed ? { ...r, content: unpack(packed) } : r;
    }) as State);
    const fragment = await fragmentOf(at);
    size = before + fragment.length;
    if (size <= longest) return { fragment, state: at, digits, size };
  }
  return { state, size };
}

/** The state of a fragment, undefined where it has none. recordedOf returns what the service recorded of a target, if anything. */
export async function stateOfFragment(fragment: string, recordedOf?: (target: string) => Promise<Recorded | undefined>): Promise<State | undefined> {
  const [, kind, text] = /^#(p1|p2|try)=([A-Za-z0-9_-]+)$/.exec(fragment) ?? [];
  if (!text) {
    if (/^#(p\d+|try)=/.test(fragment)) throw new Error("it is of another version, or damaged");
    return undefined;
  }
  if (text.length > (kind === "try" ? limits.file : readable)) throw new Error("it is too large");
  if (kind === "try") {
    const from = JSON.parse(new TextDecoder().decode(fromBase64(text)));
    const name: unknown = from?.recording;
    const got = typeof name === "string" && target.test(name) ? await recordedOf?.(name) : undefined;
    return tried(got ? withRecording(from, got) : from);
  }
  const stream = new Blob([fromBase64(text)]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const state = JSON.parse(new TextDecoder().decode(await within(stream, unpacked)));
  return checked(kind === "p1" ? state : withContents(state));
}

/** Links are untrusted: what is asked for is nothing but a target. */
const target = /^clusters\/[\w.-]{1,253}\/namespaces\/[\w.-]{1,253}\/targets\/[\w.-]{1,253}$/;

/** A link's target with what the service recorded of it, in place of its last decisions. */
function withRecording(from: object, got: Recorded): object {
  const load = got.load ?? [], counts = got.counts ?? [];
  if (load.length < 2 || counts.length === 0) return from;
  const hours = (load.at(-1)![0] - load[0]![0]) / 3_600_000;
  const said = String((from as { lesson?: unknown }).lesson ?? "").replace(/^Load of [^.]*\. /, "");
  const bounds = got.max > 0 ? ` It was within ${got.min} and ${got.max} replicas${got.proposal > 0 ? `, and metrics asked for ${got.proposal} at most` : ""}.` : "";
  return { ...from, load, counts, replicas: counts[0]![1], lesson: `Load and count of ${counts.length} recorded decisions, of ${hours.toFixed(1)} hours.${bounds} ${said}` };
}

/** What a link holds, with its series as lines. */
function withContents(from: unknown): unknown {
  const { load, recorded } = (from ?? {}) as { load?: unknown; recorded?: unknown };
  let size = 0;
  const full = (r: unknown): unknown => {
    const packed = (r as { packed?: unknown } | null)?.packed;
    if (packed === undefined) return r;
    const content = unpack(packed);
    if ((size += content.length) > limits.file) throw new Error("its recorded series are too large");
    return { ...(r as object), content };
  };
  return { ...(from as object), ...(Array.isArray(load) ? { load: load.slice(0, limits.parts + 1).map(full) } : {}), ...(recorded === undefined ? {} : { recorded: full(recorded) }) };
}
