"""The client of a Setpoint service, which says how many replicas a workload should have.

    import setpoint

    with setpoint.Client(
        "setpoint-0:9090,setpoint-1:9090",
        tls=setpoint.TLS(ca_file="/etc/setpoint/ca.pem"),
        token=setpoint.token_file("/var/run/secrets/setpoint/token"),
    ) as client:
        request = setpoint.RecommendRequest(
            target="clusters/demo/namespaces/shop/targets/web", spec=spec, scale=setpoint.Scale(spec_replicas=3)
        )
        answer = client.recommend(request)  # setpoint.Error: hold the count; what could be retried was
        setpoint.check_answer(request, answer)  # setpoint.AnswerError: hold the count
        if answer.action != "NONE":
            ...  # apply answer.desired_replicas, then client.report_scale
        time.sleep(15)  # and again

A caller waits for a period after it has applied and reported an answer, and does not ask on the
ticks of a clock: the policies of a behavior count what changed within their period, and a round
that comes a moment too early is held back by the last one.
"""

from setpoint._check import AnswerError, check_answer
from setpoint._client import Client, Result
from setpoint._errors import Error, Violation
from setpoint._retry import Retry
from setpoint._token import TokenSource, token_file
from setpoint._transport import TLS
from setpoint.v1.autoscaling_pb2 import HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus, MetricSpec
from setpoint.v1.fleet_service_pb2 import Fleet, FleetMember, FleetShare, FleetSpec
from setpoint.v1.observation_pb2 import Container, ContainerMetrics, CustomMetric, ExternalMetric, MetricError, Pod, PodMetrics, PodReadyCondition, Scale
from setpoint.v1.override_service_pb2 import Override
from setpoint.v1.recommendation_service_pb2 import (
    Recommendation,
    RecommendOptions,
    RecommendRequest,
    RecommendResponse,
    ReportObservationRequest,
    ReportScaleRequest,
    ReportScaleResponse,
)
from setpoint.v1.simulation_service_pb2 import (
    LoadPoint,
    ScenarioFile,
    SimulatedSpec,
    SimulatedWorkload,
    SimulateRequest,
    SimulateResponse,
)
from setpoint.v1.stages_pb2 import Adjustment, Proposal, Schedule, Stages
from setpoint.v1.target_service_pb2 import Decision, Target, TargetSpec, WatchDecisionsRequest, WatchDecisionsResponse

__all__ = [
    "Adjustment",
    "AnswerError",
    "Client",
    "Container",
    "ContainerMetrics",
    "CustomMetric",
    "Decision",
    "Error",
    "ExternalMetric",
    "Fleet",
    "FleetMember",
    "FleetShare",
    "FleetSpec",
    "HorizontalPodAutoscalerSpec",
    "HorizontalPodAutoscalerStatus",
    "LoadPoint",
    "MetricError",
    "MetricSpec",
    "Override",
    "Pod",
    "PodMetrics",
    "PodReadyCondition",
    "Proposal",
    "RecommendOptions",
    "RecommendRequest",
    "RecommendResponse",
    "Recommendation",
    "ReportObservationRequest",
    "ReportScaleRequest",
    "ReportScaleResponse",
    "Result",
    "Retry",
    "Scale",
    "ScenarioFile",
    "Schedule",
    "SimulateRequest",
    "SimulateResponse",
    "SimulatedSpec",
    "SimulatedWorkload",
    "Stages",
    "TLS",
    "Target",
    "TargetSpec",
    "TokenSource",
    "Violation",
    "WatchDecisionsRequest",
    "WatchDecisionsResponse",
    "check_answer",
    "token_file",
]
