import { create, fromJson, isMessage, ScalarType } from "@bufbuild/protobuf";
import type { DescField, DescMessage, JsonValue, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { invalid } from "./errors.js";
import type { Violation } from "./errors.js";
import { closest, said } from "./options.js";

/** A list that may be absent but not empty, which the message would not show. */
const policies = "setpoint.v1.HPAScalingRules.policies";

/** Fields with Kubernetes quantities, in which the API's JSON may have a number. */
const quantities = new Set(["value", "averageValue", "tolerance", "requests", "overhead", "usage", "usagePerLoad", "idleUsage"]);

/**
 * made returns the message of an object, as create does, which leaves out what it does not know and
 * lets transports find what has another type. What the API does not know is a SetpointError, as
 * over REST. Numbers of quantities become texts. A time may be a Date, and times and durations may be texts as in JSON.
 */
export function made<D extends DescMessage>(schema: D, init: MessageInitShape<D>): MessageShape<D> {
  const wrong: Violation[] = [];
  const form = formOf(schema, init, "", wrong);
  if (wrong.length > 0) {
    throw invalid(wrong);
  }
  return create(schema, form as MessageInitShape<D>);
}

function formOf(schema: DescMessage, init: unknown, path: string, wrong: Violation[]): unknown {
  if (isMessage(init)) {
    return init;
  }
  const example = examples[schema.typeName];
  if (example !== undefined && (typeof init !== "object" || init instanceof Date)) {
    try {
      const message = fromJson(schema, init instanceof Date ? init.toISOString() : init as JsonValue);
      if (typeof init === "string" && init[10] === "T" && !isOnCalendar(init)) {
        throw new RangeError();
      }
      return message;
    } catch {
      wrong.push({ field: path, description: `must be as ${JSON.stringify(example)}, is ${said(init)}` });
      return undefined;
    }
  }
  if (typeof init !== "object" || init === null || Array.isArray(init)) {
    wrong.push({ field: path, description: `must be an object, is ${said(init)}` });
    return undefined;
  }
  const form: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(init)) {
    const at = path === "" ? name : `${path}.${name}`;
    const member = schema.members.find((m) => m.localName === name);
    if (name.startsWith("$") || value === undefined || value === null) {
      continue;
    }
    if (!member) {
      const within = schema.fields.find((f) => f.fieldKind === "message" && f.message.field[name]);
      const close = closest(name, schema.members.map((m) => m.localName)) ?? (within && `${within.localName}.${name}`);
      wrong.push({ field: at, description: `unknown field${close === undefined ? "" : `, did you mean ${JSON.stringify(close)}?`}` });
    } else if (member.kind === "oneof") {
      const { case: chosen, value: one } = value as { case?: string; value?: unknown };
      const field = member.fields.find((f) => f.localName === chosen);
      form[name] = field ? { case: chosen, value: fieldOf(field, one, at, wrong) } : value;
    } else {
      form[name] = fieldOf(member, value, at, wrong);
    }
  }
  return form;
}

/** isOnCalendar tells whether a time has a day and an hour that there are: JavaScript takes the 30th of February for the 2nd of March, and hour 24 for the next day. */
function isOnCalendar(time: string): boolean {
  const day = Number(time.slice(8, 10));
  return time.slice(11, 13) !== "24" && (day < 29 || day <= new Date(Date.UTC(Number(time.slice(0, 4)), Number(time.slice(5, 7)), 0)).getUTCDate());
}

/** Types whose JSON is a text. */
const examples: Record<string, string> = { "google.protobuf.Timestamp": "2030-01-31T12:00:00Z", "google.protobuf.Duration": "300s" };

function fieldOf(field: DescField, value: unknown, path: string, wrong: Violation[]): unknown {
  if (field.fieldKind === "list") {
    if (!Array.isArray(value)) {
      wrong.push({ field: path, description: `must be an array, is ${said(value)}` });
      return undefined;
    }
    if (value.length === 0 && `${field.parent.typeName}.${field.name}` === policies) {
      wrong.push({ field: path, description: "must have at least one policy; without the field there are the defaults" });
    }
    return value.map((one: unknown, i) => elementOf(field, one, `${path}[${i}]`, wrong));
  }
  if (field.fieldKind === "map") {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      wrong.push({ field: path, description: `must be an object, is ${said(value)}` });
      return undefined;
    }
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, elementOf(field, one, `${path}[${JSON.stringify(key)}]`, wrong)]));
  }
  return elementOf(field, value, path, wrong);
}

function elementOf(field: DescField, value: unknown, path: string, wrong: Violation[]): unknown {
  if (field.message) {
    return formOf(field.message, value, path, wrong);
  }
  if (field.scalar === ScalarType.STRING && typeof value === "string") {
    if (surrogate.test(value) && unpaired.test(value)) { // half of a character, as slice may leave it
      wrong.push({ field: path, description: `must be a string without unpaired surrogates, is ${said(value)}` });
    }
    return value;
  }
  const isQuantity = field.scalar === ScalarType.STRING && quantities.has(field.localName);
  if (isQuantity && typeof value === "number" && Number.isFinite(value)) {
    return String(value);
  }
  const want = field.enum ? "number" : kinds[field.scalar!];
  if (want !== undefined && typeof value !== want && !(want === "bigint" && (typeof value === "number" || typeof value === "string"))) {
    wrong.push({ field: path, description: `must be a ${isQuantity ? `quantity such as "500m"` : want}, is ${said(value)}` });
  } else if ((want === "number" && !fractions.has(field.scalar!)) || want === "bigint") {
    const bits = want === "bigint" ? 64 : 32;
    if (!isWhole(value as number, bits, unsigned.has(field.scalar!))) {
      wrong.push({ field: path, description: `must be a whole number of ${bits} bits, is ${said(value)}` });
    }
  }
  return value;
}

function isWhole(value: string | number | bigint, bits: number, isUnsigned: boolean): boolean {
  try {
    const whole = BigInt(typeof value === "string" ? value.trim() || "none" : value); // BigInt takes an empty text for 0
    return whole === (isUnsigned ? BigInt.asUintN(bits, whole) : BigInt.asIntN(bits, whole));
  } catch {
    return false; // it is none
  }
}

const surrogate = /[\ud800-\udfff]/, unpaired = /[\ud800-\udfff]/u; // the first is faster

const fractions = new Set([ScalarType.DOUBLE, ScalarType.FLOAT]);
const unsigned = new Set([ScalarType.UINT32, ScalarType.FIXED32, ScalarType.UINT64, ScalarType.FIXED64]);

/** The types of JavaScript for scalars; bytes have none of their own. */
const kinds: Partial<Record<ScalarType, string>> = {
  [ScalarType.STRING]: "string", [ScalarType.BOOL]: "boolean", [ScalarType.DOUBLE]: "number", [ScalarType.FLOAT]: "number",
  [ScalarType.INT32]: "number", [ScalarType.UINT32]: "number", [ScalarType.SINT32]: "number", [ScalarType.FIXED32]: "number", [ScalarType.SFIXED32]: "number",
  [ScalarType.INT64]: "bigint", [ScalarType.UINT64]: "bigint", [ScalarType.SINT64]: "bigint", [ScalarType.FIXED64]: "bigint", [ScalarType.SFIXED64]: "bigint",
};
