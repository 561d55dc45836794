import { X509Certificate } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import type { DescMessage, DescMethodServerStreaming, DescMethodUnary, MessageShape } from "@bufbuild/protobuf";
import * as grpc from "@grpc/grpc-js";
import { onLoopback, readAddresses } from "./addresses.js";
import { unpacked } from "./details.js";
import { bearer, closedError, failure, fromStatus, SetpointError, text } from "./errors.js";
import { refuseUnknown } from "./options.js";
import type { Names } from "./options.js";
import { after, ending } from "./retry.js";
import { StatusSchema } from "./gen/google/rpc/status_pb.js";
import type { TokenSource } from "./token.js";
import type { Attempt, Transport } from "./transport.js";

/** What to trust and who to be. Without any of it: what the system trusts, and no certificate. */
export interface TLS {
  /** Certificates that are trusted, PEM. Absent: the system's. */
  caFile?: string;
  /** The client's own certificate and its key, PEM: both or neither. */
  certFile?: string;
  keyFile?: string;
  /** What the server's certificate must be for. Absent: the host of the address. */
  serverName?: string;
}

/** How to reach a service over gRPC. */
export interface GrpcOptions {
  /** Does without TLS, which is spoken otherwise, but on localhost and the loopback interface, unless tls is given. */
  insecure?: boolean;
  /** Files are looked at again once a second, and connections are made anew when they have changed. */
  tls?: TLS;
  /** A bearer token, or what returns one at each attempt. */
  token?: string | TokenSource;
  /** Allows a token without TLS, on a trusted network. */
  tokenOverInsecure?: boolean;
  /** Who calls, for example "my-controller/1.2". */
  userAgent?: string;
  /** The largest message to be sent and to be taken, in bytes. Defaults: 16 MiB and 256 MiB. */
  maxRequestBytes?: number;
  maxAnswerBytes?: number;
}

export const grpcOptions: Names<GrpcOptions> = {
  insecure: true, tls: true, token: true, tokenOverInsecure: true, userAgent: true, maxRequestBytes: true, maxAnswerBytes: true,
};
const tlsOptions: Names<TLS> = { caFile: true, certFile: true, keyFile: true, serverName: true };

/** GrpcTransport makes calls over gRPC. It connects when it is first used. */
export class GrpcTransport implements Transport {
  private readonly list: string[];
  private readonly token: TokenSource | undefined;
  private clients: grpc.Client[] = [];
  private version = "";
  private lookedAt = -Infinity;
  private readonly closing = new AbortController();
  private answered = false;
  private readonly plain: boolean;

  /** The target is "host:port" or several of those, separated by commas; the port is 9090 if none is given. */
  constructor(target: string, private readonly options: GrpcOptions = {}) {
    this.list = readAddresses(target);
    const { token, tls, insecure = false } = options;
    refuseUnknown(tls ?? {}, tlsOptions);
    if (insecure && tls) {
      throw new TypeError("setpoint: insecure and tls exclude each other");
    }
    const local = this.list.every(onLoopback);
    this.plain = insecure || (local && !tls);
    if (token !== undefined && this.plain && !local && !options.tokenOverInsecure) {
      throw new TypeError("setpoint: a token would travel unencrypted: use TLS, or tokenOverInsecure on a trusted network");
    }
    if (tls && (tls.certFile === undefined) !== (tls.keyFile === undefined)) {
      throw new TypeError("setpoint: a client certificate takes both certFile and keyFile");
    }
    this.token = typeof token === "string" ? () => token : token;
    this.connect();
  }

  get addresses(): number {
    return this.list.length;
  }

  get closed(): AbortSignal {
    return this.closing.signal;
  }

  size<M extends DescMessage>(schema: M, message: MessageShape<M>): number {
    return toBinary(schema, message).length;
  }

  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>, request: MessageShape<I>, attempt: Attempt,
  ): Promise<MessageShape<O>> {
    const { ending: one, close } = ending(attempt.signal, this.closed);
    const deadline = Date.now() + attempt.timeoutMs; // Infinity: none
    try {
      const metadata = await this.metadata(one, attempt.timeoutMs);
      const client = this.client(attempt.address);
      return await new Promise((resolve, reject) => {
        const call = client.makeUnaryRequest<MessageShape<I>, MessageShape<O>>(
          `/${method.parent.typeName}/${method.name}`,
          (message) => Buffer.from(toBinary(method.input, message)),
          (bytes) => fromBinary(method.output, bytes),
          request, metadata, { deadline },
          (error, answer) => {
            if (error || !answer) {
              reject(error ? this.told(errorOf(error, !one.signal.aborted && Date.now() >= deadline - deadlineSlackMs)) : new SetpointError("INTERNAL", "the answer is empty"));
            } else {
              this.answered = true;
              resolve(answer);
            }
          },
        );
        one.signal.addEventListener("abort", () => call.cancel());
        if (one.signal.aborted) {
          call.cancel();
        }
      });
    } finally {
      close();
    }
  }

  async *stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>, request: MessageShape<I>, attempt: { address: number; signal: AbortSignal },
  ): AsyncGenerator<MessageShape<O>> {
    const { ending: one, close } = ending(attempt.signal, this.closed);
    let call: grpc.ClientReadableStream<MessageShape<O>> | undefined;
    try {
      const metadata = await this.metadata(one);
      call = this.client(attempt.address).makeServerStreamRequest<MessageShape<I>, MessageShape<O>>(
        `/${method.parent.typeName}/${method.name}`,
        (message) => Buffer.from(toBinary(method.input, message)),
        (bytes) => fromBinary(method.output, bytes),
        request, metadata,
      );
      one.signal.addEventListener("abort", () => call?.cancel());
      if (one.signal.aborted) {
        call.cancel();
      }
      for await (const answer of call) {
        this.answered = true;
        yield answer as MessageShape<O>;
      }
    } catch (error) {
      throw error instanceof Error && "code" in error && typeof error.code === "number" ? this.told(errorOf(error as grpc.ServiceError, false)) : error;
    } finally {
      close();
      call?.on("error", () => {}); // nobody hears that it was cancelled
      call?.cancel();
    }
  }

  /** told adds what to do where the two sides may differ about TLS, as gRPC's own words do not. */
  private told(error: SetpointError): SetpointError {
    if (error.code !== "UNAVAILABLE" || error.reason !== undefined || this.answered) {
      return error;
    }
    const problem = error.problem;
    if (!this.plain && /wrong version number/i.test(problem)) {
      return new SetpointError(error.code, `${problem}: the server speaks no TLS: on a trusted network pass insecure: true`);
    }
    if (this.plain && /ECONNRESET|EPIPE|connection dropped|failed to connect|goaway|socket hang up|protocol error/i.test(problem)) {
      return new SetpointError(error.code, `${problem}: the server ended the connection without a word: if it speaks TLS, pass tls: {}`);
    }
    return error;
  }

  /** metadata is that of an attempt, which may end before there is a token. */
  private async metadata(one: AbortController, ms = Infinity): Promise<grpc.Metadata> {
    const metadata = new grpc.Metadata();
    if (this.token) {
      const timer = after(ms, () => one.abort(new SetpointError("DEADLINE_EXCEEDED", "there was no bearer token in time")));
      try {
        metadata.set("authorization", await bearer(this.token, one.signal));
      } catch (error) {
        throw failure(error, one.signal, this.closed);
      } finally {
        clearTimeout(timer);
      }
    }
    return metadata;
  }

  private client(address: number): grpc.Client {
    this.connect();
    const client = this.clients[address];
    if (this.closed.aborted || !client) {
      throw closedError();
    }
    return client;
  }

  close(): void {
    this.closing.abort();
    this.clients.forEach((client) => client.close());
  }

  /** connect makes the clients, anew when a file has changed. Calls that are running end on the old ones. */
  private connect(): void {
    if (this.closed.aborted || performance.now() - this.lookedAt < 1000) {
      return;
    }
    this.lookedAt = performance.now();
    const first = this.clients.length === 0;
    try {
      const version = this.filesVersion();
      if (!first && version === this.version) {
        return;
      }
      const credentials = this.credentials();
      if (!first && version !== this.filesVersion()) {
        return;
      }
      const before = this.clients;
      this.clients = this.list.map((address) => new grpc.Client(address, credentials, this.channelOptions(address)));
      this.version = version;
      before.forEach((client) => client.close());
    } catch (error) {
      if (first) {
        throw new TypeError(`setpoint: a file of tls: ${error instanceof Error ? error.message : String(error)}`);
      } // else: files are being replaced
    }
  }

  private filesVersion(): string {
    const { tls } = this.options;
    return [tls?.caFile, tls?.certFile, tls?.keyFile].map((name) => {
      if (!name) {
        return "";
      }
      const { ino, mtimeMs, size } = statSync(name);
      return `${ino} ${mtimeMs} ${size}`;
    }).join(",");
  }

  private credentials(): grpc.ChannelCredentials {
    const { tls } = this.options;
    if (this.plain) {
      return grpc.credentials.createInsecure();
    }
    const read = (name: string | undefined) => (name === undefined ? null : readFileSync(name));
    const authorities = read(tls?.caFile);
    if (authorities) {
      readable(authorities, tls?.caFile);
    }
    try {
      return grpc.credentials.createSsl(authorities, read(tls?.keyFile), read(tls?.certFile));
    } catch (error) {
      throw new Error(`${[tls?.certFile, tls?.keyFile].filter(Boolean).join(" and ")}: ${text(error)}`);
    }
  }

  private channelOptions(address: string): grpc.ChannelOptions {
    const { tls, userAgent = "setpoint-client-node", maxRequestBytes = 16 << 20, maxAnswerBytes = 256 << 20 } = this.options;
    return {
      "grpc.primary_user_agent": userAgent,
      "grpc.max_send_message_length": maxRequestBytes,
      "grpc.max_receive_message_length": maxAnswerBytes,
      // The policy of this client is the only one.
      "grpc.enable_retries": 0,
      "grpc.service_config_disable_resolution": 1,
      "grpc.service_config": '{"loadBalancingConfig":[{"round_robin":{}}]}',
      "grpc.keepalive_time_ms": 30_000,
      "grpc.keepalive_timeout_ms": 10_000,
      // gRPC's own would leave a service that comes back unnoticed for two minutes.
      "grpc.initial_reconnect_backoff_ms": 250,
      "grpc.max_reconnect_backoff_ms": 5000,
      ...(onLoopback(address) && { "grpc.enable_http_proxy": 0 }), // a proxy of the environment is on another machine
      ...(tls?.serverName !== undefined && { "grpc.ssl_target_name_override": tls.serverName, "grpc.default_authority": tls.serverName }),
    };
  }
}

/** readable throws unless a file is certificates: Node.js leaves out in silence what it can't read. */
function readable(pem: Buffer, name = ""): void {
  const [, ...blocks] = pem.toString("latin1").split(/^-----BEGIN (?=(?:X509 |TRUSTED )?CERTIFICATE-----)/m);
  try {
    blocks.forEach((block) => new X509Certificate(`-----BEGIN ${block}`));
  } catch (error) {
    throw new Error(`${name} must be certificates in PEM: ${text(error)}`);
  }
  if (blocks.length === 0) {
    throw new Error(`${name} must be certificates in PEM`);
  }
}

/** How much earlier than this side a server may find that an attempt's time is over. */
const deadlineSlackMs = 100;

function errorOf(error: grpc.ServiceError, timeIsOver: boolean): SetpointError {
  // A server that gives up at the deadline resets the stream, which reads as cancelled.
  if (error.code === grpc.status.CANCELLED && timeIsOver) {
    return fromStatus(grpc.status.DEADLINE_EXCEEDED, error.details, []);
  }
  const trailer = error.metadata?.get("grpc-status-details-bin")[0];
  if (trailer instanceof Uint8Array) {
    try {
      const { code, message, details } = fromBinary(StatusSchema, trailer);
      if (code === error.code) { // else the transport ended the call itself
        return fromStatus(code, message, details.map(unpacked));
      }
    } catch {
      // The code alone must do.
    }
  }
  if (error.code === grpc.status.UNIMPLEMENTED && error.details === "No message received") { // the method is there
    return new SetpointError("INTERNAL", "the server ended the call without an answer");
  }
  return fromStatus(error.code, /^(Received HTTP status code 200)?$/.test(error.details) ? wordless : error.details, []);
}

/** What an error says for which gRPC has no words, or none that tell more than an answer without a status does. */
const wordless = "the server ended the call without a message; is the address that of Setpoint's gRPC, and does each proxy before it pass on trailers?";
