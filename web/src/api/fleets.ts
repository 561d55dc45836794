// The fleets that are stored, as far as the caller may read them.

import type { ListTargetSpecsResponseJson, TargetSpecJson as TargetSpec } from "@setpoint-dev/client/json";
import { get } from "./client";

/** Fleets that are read at most. */
export const mostFleets = 10_000;
/** Pages that are read at most: they may be empty where fleets are few among many stored specs. */
const mostPages = 100;

/** The specs of the stored fleets; more: these are not all. */
export async function storedFleets(parent: string, signal: AbortSignal): Promise<{ fleets: TargetSpec[]; more: boolean }> {
  const fleets: TargetSpec[] = [];
  let token = "";
  let pages = 0;
  do {
    const query = new URLSearchParams({ pageSize: "1000", fleetsOnly: "true", ...(token && { pageToken: token }) });
    const page = await get<ListTargetSpecsResponseJson>(`/v1/${parent}/targetSpecs?${query}`, signal);
    fleets.push(...(page.targetSpecs ?? []));
    token = page.nextPageToken ?? "";
  } while (token && fleets.length < mostFleets && ++pages < mostPages);
  return { fleets, more: token !== "" };
}
