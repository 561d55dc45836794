// Does with the Node.js clients what the suite asks for: a JSON object a line, answered by one.
//
//   node driver.mjs PACKAGE [rest]
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

const [, , folder, way] = process.argv;
const setpoint = await import(pathToFileURL(`${folder}/dist/index.js`).href);
const { connectRest } = await import(pathToFileURL(`${folder}/dist/rest.js`).href);
const { connectJson } = await import(pathToFileURL(`${folder}/dist/json.js`).href);
const { fromJson, toJson } = await import(pathToFileURL(createRequire(`${folder}/package.json`).resolve("@bufbuild/protobuf")).href);

// What only the garbage collector's leisure holds is to fail here, not after hours.
setFlagsFromString("--expose-gc");
setInterval(runInNewContext("gc"), 300).unref();

delete URLSearchParams.prototype.size; // Node.js 18.0 has none

let client, watch;

process.on("warning", (warning) => {
  if (warning.name === "MaxListenersExceededWarning") {
    throw warning;
  }
});

function told(error) {
  const { code, message, reason, retryDelayMs, violations } = error;
  return {
    code, message, violations: violations.map((v) => v.field),
    ...(reason !== undefined && { reason }), ...(retryDelayMs !== undefined && { retryDelay: retryDelayMs / 1000 }),
  };
}

const ms = (seconds) => (seconds === undefined ? undefined : seconds * 1000);

function defined(options) {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

function open(config) {
  client?.close();
  client = undefined;
  const { retry = {} } = config;
  const options = defined({
    timeoutMs: ms(config.timeout), maxBatch: config.maxBatch, tokenOverInsecure: config.tokenOverInsecure,
    token: config.tokenNone ? () => undefined : config.tokenNever ? () => new Promise(() => {}) : config.tokenFile === undefined ? config.token : setpoint.tokenFile(config.tokenFile),
    retry: { // what is undefined has its default
      maxAttempts: retry.maxAttempts, baseDelayMs: ms(retry.baseDelay), maxDelayMs: ms(retry.maxDelay),
      attemptTimeoutMs: ms(retry.attemptTimeout), budgetReserve: retry.budgetReserve, budgetRatio: retry.budgetRatio,
    },
    ...config.options,
  });
  if (way === "rest") {
    client = connectRest(config.target, options);
    return;
  }
  const { caFile, certFile, keyFile, serverName } = config;
  const tls = defined({ caFile, certFile, keyFile, serverName });
  client = setpoint.connect(config.target, { ...options, insecure: config.insecure, ...(Object.keys(tls).length > 0 && { tls }) });
}

const read = (schema, json) => fromJson(schema, json);
const write = (schema, message) => toJson(schema, message);

async function all(generator, name) {
  const names = [];
  for await (const one of generator) {
    names.push(name(one));
  }
  return { names };
}

async function act(command) {
  switch (command.op) {
    case "openJson":
      try {
        connectJson(command.url, command.options);
      } catch (error) {
        return { error: { code: "CONFIG", message: error.message } };
      }
      return {};
    case "open":
      try {
        open(command.config);
      } catch (error) {
        if (!(error instanceof TypeError)) {
          throw error;
        }
        return { error: { code: "CONFIG", message: error.message } };
      }
      return {};
    case "recommend":
      return { answer: write(setpoint.RecommendResponseSchema, await client.recommend(read(setpoint.RecommendRequestSchema, command.request))) };
    case "object": {
      const answer = await client.recommend(command.request);
      setpoint.checkAnswer({ request: command.request }, answer);
      return { answer: write(setpoint.RecommendResponseSchema, answer) };
    }
    case "batch": {
      const results = await client.batchRecommend(
        command.raw ? command.requests : command.requests.map((one) => read(setpoint.RecommendRequestSchema, one)), defined({ timeoutMs: ms(command.timeout) }),
      );
      return { results: results.map(({ response, error }) => (error ? { error: told(error) } : { answer: write(setpoint.RecommendResponseSchema, response) })) };
    }
    case "many": // at once
      return { results: await Promise.all(command.requests.map(async (one) => ({
        answer: write(setpoint.RecommendResponseSchema, await client.recommend(read(setpoint.RecommendRequestSchema, one))),
      }))) };
    case "report":
      return { answer: write(setpoint.ReportScaleResponseSchema, await client.reportScale(read(setpoint.ReportScaleRequestSchema, command.request))) };
    case "get":
      return { answer: write(setpoint.TargetSchema, await client.getTarget(command.name)) };
    case "list":
      return all(client.listTargets(command.parent), (target) => target.name);
    case "decisions":
      return all(client.listDecisions(command.name), (decision) => decision.recommendationId);
    case "watch":
      await watch?.return();
      watch = client.watchDecisions(read(setpoint.WatchDecisionsRequestSchema, command.request));
      return { answer: write(setpoint.WatchDecisionsResponseSchema, (await watch.next()).value) };
    case "next": {
      const results = [];
      for (let decisions = 0; decisions < command.count;) {
        const { value } = await watch.next();
        decisions += value.decision ? 1 : 0;
        results.push({ answer: write(setpoint.WatchDecisionsResponseSchema, value) });
      }
      return { results };
    }
    case "closeAmidWatch":
      setTimeout(() => client.close(), ms(command.after));
      for (;;) {
        await watch.next();
      }
    case "unwatch":
      await watch.return();
      watch = undefined;
      return {};
    case "simulate": {
      const results = [];
      for await (const step of client.simulate(read(setpoint.SimulateRequestSchema, command.request), { timeoutMs: ms(command.timeout) })) {
        results.push({ answer: write(setpoint.SimulateResponseSchema, step) });
        if (results.length === command.count) break;
      }
      return { results };
    }
    case "delete":
      await client.deleteTarget(command.name);
      return {};
    case "setSpec":
      return { answer: write(setpoint.TargetSpecSchema, await client.setTargetSpec(command.name, read(setpoint.TargetSpecSchema, command.request))) };
    case "getSpec":
      return { answer: write(setpoint.TargetSpecSchema, await client.getTargetSpec(command.name)) };
    case "specs":
      return all(client.listTargetSpecs(command.parent), (spec) => spec.name);
    case "deleteSpec":
      await client.deleteTargetSpec(command.name, command.etag);
      return {};
    case "close":
      client.close();
      return {};
    case "promote":
      return { answer: write(setpoint.TargetSpecSchema, await client.promoteShadow(command.name, command.id, command.etag, command.condition)) };
    case "fleet":
      return { answer: write(setpoint.FleetSchema, await client.getFleet(command.name)) };
    case "override":
      return { answer: write(setpoint.OverrideSchema, await client.createOverride(command.name, command.raw ? command.request : read(setpoint.OverrideSchema, command.request), command.id)) };
    case "overrides": {
      const names = [];
      for await (const override of client.listOverrides(command.parent, command.name)) {
        names.push(override.name);
      }
      return { names };
    }
    case "deleteOverride":
      await client.deleteOverride(command.name);
      return {};
    case "check":
      try {
        setpoint.checkAnswer(defined({
          request: read(setpoint.RecommendRequestSchema, command.request), now: command.now * 1000, unrecorded: command.unrecorded,
          previous: command.previous && read(setpoint.RecommendResponseSchema, command.previous),
        }), read(setpoint.RecommendResponseSchema, command.answer));
      } catch (error) {
        if (error instanceof setpoint.AnswerError) {
          return { field: error.field };
        }
        throw error;
      }
      return {};
    default:
      throw new Error(`no such command: ${command.op}`);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  let said;
  try {
    said = await act(JSON.parse(line, (_, value) => (value?.$date === undefined ? value : new Date(value.$date))));
  } catch (error) {
    if (!(error instanceof setpoint.SetpointError)) {
      throw error;
    }
    said = { error: told(error) };
  }
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
client?.close();
