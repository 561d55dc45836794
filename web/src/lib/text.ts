// Texts that strangers wrote.

import { options } from "preact";

/** Characters that show nothing themselves but change how others are shown: controls, overrides of direction, and separators of lines. */
const tricks = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffb]/g;

/** A text of somebody, in at most so many characters: nothing in it changes how the text around it is shown. */
export function plainText(text: string | undefined, most = 300): string {
  const clean = (text ?? "").slice(0, 4 * most).replace(tricks, "\ufffd").replace(/(\p{M}{4})\p{M}+/gu, "$1");
  const all = [...clean];
  return all.length > most ? `${all.slice(0, most - 1).join("")}…` : clean;
}

/** The text without those characters; its lines and tabs remain. */
export const shown = (text: string): string => text.replace(tricks, (c) => (c === "\n" || c === "\t" || c === "\r" ? c : "\ufffd"));

/** The attributes that a reader sees or hears. */
const spoken = ["title", "aria-label", "placeholder", "alt", "label"];

/** From now on all that is rendered is shown(): names of metrics and reasons come from whoever may call. Fields keep what is typed. */
export function guardTexts(): void {
  const before = options.vnode;
  options.vnode = (node) => {
    const props = node.props as unknown;
    if (typeof props === "string") node.props = shown(props) as never; // a text
    else if (typeof node.type === "string") {
      const of = props as Record<string, unknown>;
      for (const name of spoken) if (typeof of[name] === "string") of[name] = shown(of[name]);
    }
    before?.(node);
  };
}
