/** What the clients over gRPC and over REST have in common. */
export { Client } from "./client.js";
export type { ClientOptions, Result } from "./client.js";
export { AnswerError, checkAnswer } from "./check.js";
export type { Asked } from "./check.js";
export { SetpointError } from "./errors.js";
export type { Code, Violation } from "./errors.js";
export { defaultRetry } from "./retry.js";
export type { CallOptions, Retry } from "./retry.js";
export type { Attempt, Transport } from "./transport.js";
export type { WatchOptions } from "./watch.js";
export * from "./gen/setpoint/v1/autoscaling_pb.js";
export * from "./gen/setpoint/v1/explanation_pb.js";
export * from "./gen/setpoint/v1/observation_pb.js";
export * from "./gen/setpoint/v1/override_service_pb.js";
export * from "./gen/setpoint/v1/recommendation_service_pb.js";
export * from "./gen/setpoint/v1/simulation_service_pb.js";
export * from "./gen/setpoint/v1/stages_pb.js";
export * from "./gen/setpoint/v1/target_service_pb.js";
