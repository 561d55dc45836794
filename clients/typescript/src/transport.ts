import type { DescMessage, DescMethodUnary, MessageShape } from "@bufbuild/protobuf";

/** What one attempt may take. */
export interface Attempt {
  /** Which address it goes to, counted from 0. */
  address: number;
  /** Its time; Infinity: unbounded. */
  timeoutMs: number;
  /** Its end by the caller. */
  signal: AbortSignal | undefined;
}

/** Transport makes single attempts of unary calls. What fails is a SetpointError. */
export interface Transport {
  /** How many addresses there are. */
  readonly addresses: number;
  unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>, request: MessageShape<I>, attempt: Attempt,
  ): Promise<MessageShape<O>>;
  close(): void;
}
