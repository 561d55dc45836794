// Responses of the API, as JSON. Fields with zero values may be missing.

export interface Condition {
  type: string;
  status: string;
  lastTransitionTime?: string;
  reason?: string;
  message?: string;
}

export interface MetricValue {
  value?: string;
  averageValue?: string;
  averageUtilization?: number;
}

export interface MetricIdentifier {
  name?: string;
}

export interface MetricStatus {
  type?: string;
  object?: { metric?: MetricIdentifier; current?: MetricValue; describedObject?: ObjectReference };
  pods?: { metric?: MetricIdentifier; current?: MetricValue };
  resource?: { name?: string; current?: MetricValue };
  containerResource?: { name?: string; container?: string; current?: MetricValue };
  external?: { metric?: MetricIdentifier; current?: MetricValue };
}

export interface ObjectReference {
  kind?: string;
  name?: string;
  apiVersion?: string;
}

export interface Status {
  lastScaleTime?: string;
  currentReplicas?: number;
  desiredReplicas?: number;
  currentMetrics?: MetricStatus[];
  conditions?: Condition[];
}

/** What a decision was made within, as far as the log knows. */
export interface DecisionBasis {
  proposal?: number;
  /** By metric, in the order of the spec; -1: it could not be computed. */
  metricProposals?: number[];
  minReplicas?: number;
  maxReplicas?: number;
  ceiling?: number;
  floor?: number;
  scaleUpWindowSeconds?: number;
  scaleDownWindowSeconds?: number;
}

export interface Decision {
  recommendationId?: string;
  requestId?: string;
  time?: string;
  currentReplicas?: number;
  desiredReplicas?: number;
  action?: string;
  reason?: string;
  conditions?: Condition[];
  currentMetrics?: MetricStatus[];
  error?: string;
  outcome?: string;
  basis?: DecisionBasis;
}

export interface ScaleEvent {
  replicaChange?: number;
  time?: string;
  outdated?: boolean;
}

export interface History {
  recommendations?: { replicas?: number; time?: string }[];
  scaleUps?: ScaleEvent[];
  scaleDowns?: ScaleEvent[];
  pending?: { recommendationId?: string; currentReplicas?: number; desiredReplicas?: number; time?: string };
}

export interface Target {
  name: string;
  scaleTargetRef?: ObjectReference;
  status?: Status;
  lastDecision?: Decision;
  history?: History;
  updateTime?: string;
  /** Absent: none is stored, or it is one of a list. */
  targetSpec?: TargetSpec;
}

export interface MetricTarget extends MetricValue {
  type?: string;
}

export interface MetricSpec {
  type?: string;
  object?: { metric?: MetricIdentifier; target?: MetricTarget; describedObject?: ObjectReference };
  pods?: { metric?: MetricIdentifier; target?: MetricTarget };
  resource?: { name?: string; target?: MetricTarget };
  containerResource?: { name?: string; container?: string; target?: MetricTarget };
  external?: { metric?: MetricIdentifier; target?: MetricTarget };
}

export interface ScalingRules {
  stabilizationWindowSeconds?: number;
  selectPolicy?: string;
  policies?: { type?: string; value?: number; periodSeconds?: number }[];
  tolerance?: string;
}

export interface Spec {
  scaleTargetRef?: ObjectReference;
  minReplicas?: number;
  maxReplicas?: number;
  metrics?: MetricSpec[];
  behavior?: { scaleUp?: ScalingRules; scaleDown?: ScalingRules };
}

export interface TargetSpec {
  name?: string;
  spec?: Spec;
  options?: Record<string, unknown>;
  period?: string;
  observationMaxAge?: string;
  assumeApplied?: boolean;
  etag?: string;
  createTime?: string;
  updateTime?: string;
  updatedBy?: string;
}

/** One message of WatchDecisions. Without decisions it is a heartbeat. */
export interface WatchMessage {
  target?: string;
  decision?: Decision;
  /** Several decisions that came together, in order. */
  decisions?: { target?: string; decision?: Decision }[];
  resumeToken?: string;
  missedDecisions?: number;
  missedUncounted?: boolean;
}

export interface Caller {
  name?: string;
  method?: string;
  groups?: string[];
  expireTime?: string;
  permissions?: { verbs?: string[]; clusters?: string[]; namespaces?: string[] }[];
  permissionsTruncated?: boolean;
}

export interface Instance {
  id?: string;
  version?: string;
  state?: string;
  startTime?: string;
  heartbeatTime?: string;
  callsPerSecond?: number;
  refusedPerSecond?: number;
  inFlight?: number;
  maxInFlight?: number;
  concurrencyLimit?: number;
  shedding?: boolean;
  streams?: number;
  latencyP50?: string;
  latencyP99?: string;
  memoryBytes?: string;
  processors?: number;
  self?: boolean;
}

export interface StoreState {
  kind?: string;
  reachable?: boolean;
  targets?: string;
  targetBytes?: string;
  latency?: string;
  countedTime?: string;
  problem?: string;
}

export interface CallerUse {
  name?: string;
  inFlight?: number;
  maxInFlight?: number;
  streams?: number;
  maxStreams?: number;
  maxRate?: number;
  burst?: number;
  burstLeft?: number;
}
