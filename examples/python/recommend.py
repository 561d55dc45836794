"""Asks a running server how many replicas a workload should have.

    run.sh [host:port]
"""

import json
import sys
import uuid

import grpc
from google.protobuf.timestamp_pb2 import Timestamp
from setpoint.v1 import recommendation_service_pb2 as api
from setpoint.v1.autoscaling_pb2 import HorizontalPodAutoscalerSpec
from setpoint.v1.observation_pb2 import Container, ContainerMetrics, Pod, PodMetrics, PodReadyCondition, Scale
from setpoint.v1.recommendation_service_pb2_grpc import RecommendationServiceStub

TARGET = "clusters/demo/namespaces/shop/targets/python"

# A service that is away for a moment is asked again. The request id makes that
# harmless: what was recorded by an attempt whose answer was lost is answered again.
RETRIES = {
    "methodConfig": [
        {
            "name": [{"service": "setpoint.v1.RecommendationService"}],
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.1s",
                "maxBackoff": "2s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE", "ABORTED"],
            },
        }
    ]
}


def at(text):
    time = Timestamp()
    time.FromJsonString(text)
    return time


def pod(name):
    return Pod(
        name=name,
        phase="Running",
        start_time=at("2026-01-01T00:00:00Z"),
        ready=PodReadyCondition(status="True", last_transition_time=at("2026-01-01T00:00:20Z")),
        containers=[Container(name="app", requests={"cpu": "500m"})],
    )


def usage(name):
    return PodMetrics(
        pod=name,
        timestamp=at("2026-01-01T01:00:00Z"),
        window_seconds=30,
        containers=[ContainerMetrics(name="app", usage={"cpu": "450m"})],
    )


def spec():
    s = HorizontalPodAutoscalerSpec(min_replicas=2, max_replicas=20)
    cpu = s.metrics.add(type="Resource").resource
    cpu.name = "cpu"
    cpu.target.type = "Utilization"
    cpu.target.average_utilization = 60
    s.behavior.scale_down.stabilization_window_seconds = 120
    return s


def main(address):
    pods = ["web-a", "web-b", "web-c"]
    options = [("grpc.service_config", json.dumps(RETRIES)), ("grpc.max_receive_message_length", 256 << 20)]
    with grpc.insecure_channel(address, options) as channel:
        service = RecommendationServiceStub(channel)
        answer = service.Recommend(
            api.RecommendRequest(
                target=TARGET,
                request_id=str(uuid.uuid4()),
                spec=spec(),
                scale=Scale(spec_replicas=3, status_replicas=3),
                pods=[pod(name) for name in pods],
                pod_metrics=[usage(name) for name in pods],
                explain=True,
            ),
            timeout=10,
        )
        print(f"{answer.action}: {answer.current_replicas} → {answer.desired_replicas} replicas")
        print("because:", answer.reason)
        for metric in answer.explanation.metrics:
            print(f"{metric.name}: ratio {metric.usage_ratio:g}, asks for {metric.proposal}")
        if answer.action == "NONE":
            return

        # Here the workload is scaled. Then:
        report = service.ReportScale(
            api.ReportScaleRequest(target=TARGET, recommendation_id=answer.recommendation_id, outcome="APPLIED"),
            timeout=10,
        )
        able = next(c for c in report.status.conditions if c.type == "AbleToScale")
        print("reported:", able.reason)
        # A program that goes on sleeps for its period now. On the ticks of a clock the next
        # question might come less than a period after this change, and would be held back by it.


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9090")
    except grpc.RpcError as err:
        # Hold the count.
        sys.exit(f"{err.code().name}: {err.details()}\n(is the server running: make run?)")
