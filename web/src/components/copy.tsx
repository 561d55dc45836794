import { useRef, useState } from "preact/hooks";
import { copy } from "../lib/copy";

/** Text to copy, with a button that does; where the browser does not let it, it selects the text. */
export function Copyable(props: { text: string; label: string }) {
  const [said, say] = useState("");
  const shown = useRef<HTMLPreElement>(null);
  const take = async () => {
    const copied = await copy(props.text);
    if (!copied) getSelection()?.selectAllChildren(shown.current!);
    say(copied ? "Copied" : "Selected");
    setTimeout(() => say(""), 1500);
  };
  return (
    <div class="copyable">
      <pre ref={shown} tabIndex={0} aria-label={props.label}>{props.text}</pre>
      <button class="button" onClick={() => void take()}>{said || "Copy"}</button>
    </div>
  );
}
