import { fromBinary, toJson } from "@bufbuild/protobuf";
import type { DescMessage, JsonValue } from "@bufbuild/protobuf";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";

/** unpacked is a detail of an error as its JSON has it; undefined: it is not known, or can't be read. */
export function unpacked({ typeUrl, value }: { typeUrl: string; value: Uint8Array }): JsonValue | undefined {
  const schema = ([ErrorInfoSchema, RetryInfoSchema, BadRequestSchema] as DescMessage[]).find((one) => typeUrl.endsWith(`/${one.typeName}`));
  try {
    return schema && { "@type": typeUrl, ...(toJson(schema, fromBinary(schema, value)) as object) };
  } catch {
    return undefined; // the code alone must do
  }
}
