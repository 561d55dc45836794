// Answers the questions of standard input, one a line, with the engine in the folder given.
import fs from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const folder = process.argv[2];
globalThis.require = createRequire(import.meta.url);
globalThis.fs = fs;
await import(pathToFileURL(`${folder}/wasm_exec.js`));
const go = new Go();
const ready = new Promise((done) => (globalThis.setpointReady = done));
const { instance } = await WebAssembly.instantiate(fs.readFileSync(`${folder}/engine.wasm`), go.importObject);
go.run(instance);
await ready;
for (const question of fs.readFileSync(0, "utf8").split("\n")) {
  if (!question) continue;
  const answer = await new Promise((done) => globalThis.setpointAnswer(question, done));
  fs.writeFileSync(1, `${answer}\n`);
}
process.exit(0);
