import { useState } from "preact/hooks";

/** Text to copy, with a button that does. */
export function Copyable(props: { text: string; label: string }) {
  const [done, set] = useState(false);
  return (
    <div class="copyable">
      <pre tabIndex={0} aria-label={props.label}>{props.text}</pre>
      <button
        class="button"
        onClick={() =>
          navigator.clipboard?.writeText(props.text).then(
            () => {
              set(true);
              setTimeout(() => set(false), 1500);
            },
            () => {},
          )
        }
      >
        {done ? "Copied" : "Copy"}
      </button>
    </div>
  );
}
