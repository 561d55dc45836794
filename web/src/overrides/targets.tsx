// The overrides of all targets: of those that are listed, their namespaces and clusters.

import { useMemo } from "preact/hooks";
import { serviceNow } from "../api/client";
import { useMore } from "../components/more";
import { Problem } from "../components/problem";
import type { Row } from "../targets/store";
import { matcher } from "../targets/query";
import { current, placeOf } from "../lib/overrides";
import { OverrideList, summary } from "./list";
import type { Listed } from "./store";

/** Overrides that act on a listed target, or whose place has every word of the search. */
export function listedOverrides(listed: Listed, rows: readonly Pick<Row, "name">[], all: boolean, text: string) {
  const overrides = listed.all ?? [];
  if (all) return overrides;
  const places = new Set<string>();
  for (const { name } of rows) {
    const s = name.split("/");
    places.add(name).add(s.slice(0, 4).join("/")).add(s.slice(0, 2).join("/"));
  }
  const found = text ? matcher(text) : () => false;
  return overrides.filter((o) => {
    const place = placeOf(o.name ?? "");
    return places.has(place) || found(place.toLowerCase());
  });
}

interface Shown {
  listed: Listed;
  reload: () => void;
  rows: readonly Row[];
  /** Nothing is searched or filtered. */
  all: boolean;
  text: string;
  /** The list's clock. */
  now: number;
}

/** Overrides that are shown at first, and that each click shows more of: there may be thousands. */
const perPage = 100;

/** They are drawn when one of them changes and with the clock, not with each decision. */
export function ListedOverrides(props: Shown) {
  const { listed, reload, rows, all, text, now } = props;
  const shown = useMemo(() => listedOverrides(listed, rows, all, text), [listed, all || rows, all, text]);
  const open = useMemo(() => current(shown, serviceNow()), [shown, now]);
  const [most, button] = useMore(open.length, perPage, text);
  return useMemo(() => (
    <section class="listed-overrides" id="listed-overrides" aria-label="Overrides">
      {listed.error && <Problem error={listed.error} what={listed.all ? "Not up to date." : "The overrides can't be read."} retry={reload} />}
      {listed.all && (
        <p class="muted small" role="status">
          {summary(shown)}{all ? "" : ", for the targets that are listed"}{listed.more ? ". There are more than are read here: setpoint override list has all" : ""}.
        </p>
      )}
      <OverrideList overrides={open.slice(0, most).map((o) => o.override)} target="" changed={reload} />
      {button}
    </section>
  ), [listed, open, most]);
}
