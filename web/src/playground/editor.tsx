// A YAML editor with the API's problems beside their lines, and completion from its schema.

import { autocompletion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";
import { Annotation, EditorState, type Text } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";
import messages from "schema:autoscaling";

export interface Mark {
  line: number;
  severity: "error" | "warning" | "info";
  text: string;
}

const theme = EditorView.theme({
  "&": { backgroundColor: "var(--surface)", color: "var(--text)", fontSize: "12.5px", height: "100%" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-content": { fontFamily: "var(--mono)", caretColor: "var(--text)", padding: "8px 0" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--faint)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--chosen) !important" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line-strong)", borderRadius: "6px", maxWidth: "44em" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--accent-text)" },
  ".cm-completionInfo": { padding: "8px 10px", whiteSpace: "pre-wrap", fontFamily: "system-ui, sans-serif" },
  ".cm-diagnostic": { fontFamily: "system-ui, sans-serif", borderLeftWidth: "3px", padding: "5px 8px" },
});

const colors = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: [tags.string, tags.content], color: "var(--text)" },
  { tag: [tags.number, tags.bool, tags.atom], color: "var(--up)" },
  { tag: tags.comment, color: "var(--faint)", fontStyle: "italic" },
  { tag: [tags.punctuation, tags.separator, tags.bracket], color: "var(--muted)" },
]);

/** Marks a change that comes from outside, which nobody outside has to be told of. */
const fromOutside = Annotation.define<boolean>();

/** Texts that were told of and have not come back yet, at most. */
const mostEchoes = 20;

const root = "HorizontalPodAutoscalerSpec";

/** The keys above a line, from the top: those of lines that are indented less. */
function keysAbove(doc: Text, line: number, indent: number): string[] {
  const out: string[] = [];
  for (let n = line - 1; n >= 1 && indent > 0; n--) {
    const text = doc.line(n).text;
    if (!text.trim() || text.trim().startsWith("#")) continue;
    const dashes = /^(\s*)((?:- )*)/.exec(text)!;
    const at = dashes[1]!.length;
    const key = /^([A-Za-z]+):/.exec(text.slice(dashes[0].length));
    const inner = dashes[0].length;
    if (key && inner < indent) {
      out.unshift(key[1]!);
      indent = dashes[2] ? at + 1 : inner;
      if (dashes[2]) indent = at;
    } else if (at < indent && dashes[2]) indent = at;
  }
  return out;
}

/** Completes keys and words from the API's schema. */
function complete(context: CompletionContext): CompletionResult | null {
  const line = context.state.doc.lineAt(context.pos);
  const before = line.text.slice(0, context.pos - line.from);
  const at = /^(\s*(?:- )*)(?:([A-Za-z]+):\s*)?((?:.*[{,]\s*)?)([A-Za-z]*)(?::\s*([A-Za-z]*))?$/.exec(before);
  if (!at) return null;
  const [, space = "", outer, inside, word = "", value] = at;
  const path = keysAbove(context.state.doc, line.number, space.length);
  if (path[0] !== "spec") return null;
  path.shift();
  if (outer && inside) {
    path.push(outer);
    // The key before each open brace.
    for (const m of inside.matchAll(/([A-Za-z]+):\s*\{[^}]*$/g)) path.push(m[1]!);
  }
  let message: string | undefined = root;
  for (const key of path) message = message && messages[message]?.[key]?.of;
  const fields = message && messages[message];
  if (!fields) return null;
  const key = value !== undefined ? word : outer && !inside ? outer : undefined;
  if (key !== undefined) {
    const words = fields[key]?.values ?? [];
    const from = context.pos - (value ?? word).length;
    return words.length > 0 ? { from, options: [...new Set(words)].map((label) => ({ label, type: "enum" })), validFor: /^[A-Za-z]*$/ } : null;
  }
  if (!word && !context.explicit) return null;
  return {
    from: context.pos - word.length,
    options: Object.entries(fields).map(([label, f]) => ({ label, apply: f.of && !inside ? `${label}:` : `${label}: `, type: "property", info: f.text, detail: f.list ? "list" : undefined })),
    validFor: /^[A-Za-z]*$/,
  };
}

export function Editor(props: { label: string; value: string; onChange: (value: string) => void; marks: Mark[]; completes?: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | undefined>(undefined);
  const latest = useRef(props);
  latest.current = props;
  // Typed text comes back as the value, maybe after more has been typed: overwriting the newer
  // text with it, and reporting that as typed, would loop for ever.
  const echoes = useRef<string[]>([]);
  useEffect(() => {
    // In a shadow tree CodeMirror's styles are objects, not elements, which the page's policy
    // forbids.
    const shadow = box.current!.shadowRoot ?? box.current!.attachShadow({ mode: "open" });
    const made = new EditorView({
      root: shadow,
      parent: shadow,
      state: EditorState.create({
        doc: latest.current.value,
        extensions: [
          lineNumbers(),
          highlightSpecialChars(),
          EditorView.lineWrapping,
          history(),
          drawSelection(),
          highlightActiveLine(),
          indentUnit.of("  "),
          yaml(),
          syntaxHighlighting(colors),
          lintGutter(),
          ...(latest.current.completes ? [autocompletion({ override: [complete] })] : []),
          // After Escape, Tab leaves the editor.
          keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
          theme,
          EditorView.contentAttributes.of({ "aria-label": `${latest.current.label}. Tab indents; Escape, then Tab, leaves the editor.`, tabindex: "0" }),
          EditorView.updateListener.of((u) => {
            if (!u.docChanged || u.transactions.some((t) => t.annotation(fromOutside))) return;
            const text = u.state.doc.toString();
            echoes.current = [...echoes.current, text].slice(-mostEchoes);
            latest.current.onChange(text);
          }),
        ],
      }),
    });
    view.current = made;
    return () => {
      made.destroy();
      view.current = undefined;
    };
  }, []);
  useEffect(() => {
    const v = view.current;
    const echo = echoes.current.indexOf(props.value);
    if (echo >= 0) {
      echoes.current = echoes.current.slice(echo + 1);
      return;
    }
    if (v && v.state.doc.toString() !== props.value) {
      v.dispatch({ changes: { from: 0, to: v.state.doc.length, insert: props.value }, annotations: fromOutside.of(true) });
    }
  }, [props.value]);
  useEffect(() => {
    const v = view.current;
    if (!v) return;
    const doc = v.state.doc;
    const found: Diagnostic[] = props.marks.map((m) => {
      const line = doc.line(Math.min(Math.max(1, m.line), doc.lines));
      const from = line.from + (line.text.length - line.text.trimStart().length);
      return { from: Math.min(from, line.to), to: line.to, severity: m.severity, message: m.text };
    });
    v.dispatch(setDiagnostics(v.state, found));
  }, [props.marks]);
  return (
    <>
      <div ref={box} class="pg-editor" />
      <p class="pg-hint">Tab indents. Escape, then Tab, leaves the editor.</p>
    </>
  );
}
