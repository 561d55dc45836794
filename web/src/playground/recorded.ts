// What the service recorded of a target (TargetService.GetRecording), read by the engine.

import { get } from "../api/client";
import type { Answer, Question, Recorded } from "./engine";

/** Pages of 100 chunks that are read: a day has 144. */
const mostPages = 4;

/** What the service recorded of a target; undefined: nothing, or it may not be read. */
export async function recordedOf(target: string, engine: { ask(q: Question): Promise<Answer> }, read = get): Promise<Recorded | undefined> {
  try {
    const chunks: string[] = [];
    let token = "";
    for (let page = 0; page < mostPages && (page === 0 || token); page++) {
      const query = new URLSearchParams({ pageSize: "100", ...(token ? { pageToken: token } : {}) });
      const got = await read<{ chunks?: string[]; nextPageToken?: string }>(`/v1/${target}/recording?${query}`);
      chunks.push(...(got.chunks ?? []));
      token = got.nextPageToken ?? "";
    }
    return chunks.length > 0 ? (await engine.ask({ ask: "recorded", chunks })).recorded : undefined;
  } catch {
    return undefined; // the link has the last decisions
  }
}
