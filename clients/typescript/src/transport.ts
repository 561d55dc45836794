import type { DescMessage, DescMethodServerStreaming, DescMethodUnary, MessageShape } from "@bufbuild/protobuf";

/** What one attempt may take. */
export interface Attempt {
  /** Which address it goes to, counted from 0. */
  address: number;
  /** Its time; Infinity: unbounded. */
  timeoutMs: number;
  /** Its end by the caller. */
  signal: AbortSignal | undefined;
}

/** Transport makes single attempts of calls. What fails is a SetpointError. */
export interface Transport {
  /** How many addresses there are. */
  readonly addresses: number;
  /** Comes when it is closed. */
  readonly closed: AbortSignal;
  /** How many bytes a message takes in a request. */
  size<M extends DescMessage>(schema: M, message: MessageShape<M>): number;
  unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>, request: MessageShape<I>, attempt: Attempt,
  ): Promise<MessageShape<O>>;
  /** Makes a call with many answers. It ends with the signal, or when nobody wants more of them. */
  stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>, request: MessageShape<I>, attempt: { address: number; signal: AbortSignal },
  ): AsyncIterable<MessageShape<O>>;
  close(): void;
}
