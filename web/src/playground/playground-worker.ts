// The worker that runs the engine. It is a classic script, because Go's wasm_exec.js is one.
// It loads the engine from beside the page's scripts, and handles one request after the
// other.

declare function importScripts(...urls: string[]): void;

const scope = self as unknown as {
  Go: new () => { importObject: WebAssembly.Imports; run(i: WebAssembly.Instance): Promise<void> };
  setpointReady: () => void;
  setpointAnswer: (question: string, done: (answer: string) => void) => void;
  location: Location;
  postMessage(message: unknown): void;
  onmessage: ((e: MessageEvent<{ id: number; question: string }>) => void) | null;
};

const engine = new URL("../engine/", scope.location.href);

async function code(): Promise<Response> {
  const got = await fetch(new URL("engine.wasm", engine));
  if (!got.ok) throw new Error(got.status === 404 ? "absent" : `the engine was not sent: ${got.status}`);
  return got;
}

const started = (async () => {
  importScripts(new URL("wasm_exec.js", engine).href);
  const go = new scope.Go();
  const ready = new Promise<void>((done) => (scope.setpointReady = done));
  const { instance } = await WebAssembly.instantiateStreaming(code(), go.importObject);
  void go.run(instance);
  await ready;
})();
started.then(
  () => scope.postMessage({ ready: true }),
  (e: unknown) => scope.postMessage({ failed: e instanceof Error ? e.message : String(e) }),
);

scope.onmessage = (e) => {
  const { id, question } = e.data;
  started.then(
    () => scope.setpointAnswer(question, (answer) => scope.postMessage({ id, answer })),
    () => undefined,
  );
};
