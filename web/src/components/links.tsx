import { parseName, shadowSuffix } from "../lib/names";
import { useSession } from "../session";

/** A template with a target's name in its place; the service has checked where it leads. */
export function linkOf(template: string, name: string): string {
  const { cluster, namespace, target } = parseName(name);
  const parts: Record<string, string> = { cluster, namespace, target: target.replace(shadowSuffix, "") };
  return template.replace(/\{(cluster|namespace|target)\}/g, (_, part: string) => encodeURIComponent(parts[part]!));
}

/** Where else a target is shown, by the service's --ui-links; in a row of a grid Tab passes them by. */
export function Links(props: { name: string; inRow?: boolean }) {
  const links = useSession().config?.links ?? [];
  return (
    <>
      {links.map((l) => (
        <a key={l.name} class="elsewhere" href={linkOf(l.url, props.name)} target="_blank" rel="noreferrer" tabIndex={props.inRow ? -1 : undefined}>
          {l.name}<span aria-hidden="true"> ↗</span>
        </a>
      ))}
    </>
  );
}
