/**
 * The client of a Setpoint service.
 *
 *     import { checkAnswer, connect, tokenFile } from "@setpoint-dev/client";
 *
 *     const client = connect("setpoint-0:9090,setpoint-1:9090", {
 *       tls: { caFile: "/etc/setpoint/ca.pem" },
 *       token: tokenFile("/var/run/secrets/setpoint/token"),
 *     });
 *     const request = { target: "clusters/demo/namespaces/shop/targets/web", spec, scale: { specReplicas: 3 } };
 *     const answer = await client.recommend(request); // on an error: hold the count
 *     checkAnswer({ request }, answer);
 *
 * @packageDocumentation
 */
import { Client, clientOptions } from "./client.js";
import type { ClientOptions } from "./client.js";
import { grpcOptions, GrpcTransport } from "./grpc.js";
import type { GrpcOptions } from "./grpc.js";
import { refuseUnknown } from "./options.js";

export * from "./common.js";
export { GrpcTransport } from "./grpc.js";
export type { GrpcOptions, TLS } from "./grpc.js";
export { tokenFile } from "./token.js";
export type { TokenSource } from "./token.js";

/** Returns a client of the service's gRPC port: "host:port" or several, separated by commas; 9090 if no port is given. */
export function connect(target: string, options: ClientOptions & GrpcOptions = {}): Client {
  refuseUnknown(options, clientOptions, grpcOptions);
  return new Client(new GrpcTransport(target, options), options);
}
