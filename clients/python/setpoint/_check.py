"""Answers are held against what was asked, before they are applied."""

from __future__ import annotations

import re
import time
from typing import Any, Mapping, NoReturn, Optional, Sequence, Union

from google.protobuf.timestamp_pb2 import Timestamp

from setpoint._json import read
from setpoint.v1 import autoscaling_pb2 as autoscaling
from setpoint.v1 import recommendation_service_pb2 as recommendations

# Bounds of what an answer says. Texts are in bytes.
_MAX_CONDITIONS, _MAX_METRICS, _MAX_WORD, _MAX_TEXT = 8, 1000, 1024, 32 << 10
# Bounds of the readings in a status that is sent along.
_MAX_SEED_METRICS, _MAX_SEED_METRIC_BYTES = 100, 16 << 10
# How much the clocks of a service's instances may differ, seconds.
_INSTANCES_DIFFER = 1.0
# What no text for people has.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
# What a reason is, as the Kubernetes API has it.
_WORD = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")


class AnswerError(Exception):
    """An answer that can't be one to what was asked. Hold the count: do not apply the answer, nor report it."""

    field: str
    """The path of the first field that is wrong, as in JSON. Empty: there is no answer."""

    another_caller: bool
    """The answer to a report is genuine, but shows the counts of a later evaluation: another caller asked about the
    target in between. The report was received; only its status is of no use. check_answer never sets it."""

    def __init__(self, field: str, problem: str, another_caller: bool = False) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field, self.problem, self.another_caller = field, problem, another_caller


def check_answer(
    request: Union[recommendations.RecommendRequest, Mapping[str, Any]],
    answer: Optional[recommendations.RecommendResponse],
    *,
    now: Optional[float] = None,
    max_skew: float = 600.0,
    previous: Optional[recommendations.RecommendResponse] = None,
    unrecorded: bool = False,
) -> None:
    """Raises an AnswerError where the answer can't be one to the request.

    Current replicas are those that were sent; desired ones are those, or from min_replicas to
    max_replicas; it names no other request; action is what the two say, and a change has a
    recommendation of its own; its instant is near and not before that of the answer before; and
    there is a status that says the same, within what a HorizontalPodAutoscaler may hold. A field
    that is lost on the way reads as zero: so does a count. Call it before an answer is applied,
    reported, or written down.

    now is the caller's clock, in seconds since 1970, the system's if None; max_skew is how far the
    answer's instant may be from it, or from the request's evaluation_time; previous is the last
    answer for this target that was taken; unrecorded says that nothing will be applied, so that
    the answer of a caller who may only have dry runs will do.
    """
    if answer is None:
        raise AnswerError("", "there is no answer")
    c = _Checker(read(recommendations.RecommendRequest, request), answer, time.time() if now is None else now, max_skew, previous, unrecorded)
    c.question()
    c.counts()
    c.action()
    c.instant()
    c.status()
    c.texts()


def check_report(
    request: Union[recommendations.RecommendRequest, Mapping[str, Any]],
    answer: recommendations.RecommendResponse,
    report: Union[recommendations.ReportScaleRequest, Mapping[str, Any]],
    response: Optional[recommendations.ReportScaleResponse],
    *,
    previous: Optional[recommendations.RecommendResponse] = None,
) -> None:
    """Raises an AnswerError where the answer to a report can't be one: on the recommendation in that answer.

    One with another_caller says that a second caller uses the target.
    """
    report = read(recommendations.ReportScaleRequest, report)
    if response is None:
        raise AnswerError("", "there is no answer")
    if response.recommendation_id and response.recommendation_id != report.recommendation_id:
        _wrong("recommendationId", f"{response.recommendation_id[:64]!r}, but {report.recommendation_id[:64]!r} was reported on")
    c = _Checker(read(recommendations.RecommendRequest, request), answer, 0, 0, previous, False)
    if not response.HasField("status"):
        _wrong("status", "is missing")
    status = response.status
    c.form(status)
    c.says(response.events, response.error)
    named = response.recommendation_id and status.current_replicas >= 0 and status.desired_replicas >= 0
    kept = report.outcome == "FAILED" and c.was_desired(status.desired_replicas)
    for field, got, want, fits in (
        ("status.currentReplicas", status.current_replicas, answer.current_replicas, False),
        ("status.desiredReplicas", status.desired_replicas, answer.desired_replicas, kept),
    ):
        if got == want or fits:
            continue
        if not named:
            _wrong(field, f"{got}, but {want} were reported on")
        raise AnswerError(field, f"{got}, but {want} were reported on: another caller asked about this target since", another_caller=True)


def _wrong(field: str, problem: str) -> NoReturn:
    raise AnswerError(field, problem)


class _Checker:
    def __init__(
        self,
        request: recommendations.RecommendRequest,
        answer: recommendations.RecommendResponse,
        now: float,
        max_skew: float,
        previous: Optional[recommendations.RecommendResponse],
        unrecorded: bool,
    ) -> None:
        self.request, self.answer, self.now, self.max_skew = request, answer, now, max_skew
        self.previous, self.unrecorded = previous, unrecorded
        spec = request.spec
        self.least = spec.min_replicas if spec.HasField("min_replicas") else 1
        self.most = spec.max_replicas
        self.changes = answer.desired_replicas != answer.current_replicas

    def question(self) -> None:
        got, want = self.answer.request_id, self.request.request_id
        if got and want and got != want:
            _wrong("requestId", "that of another request")

    def counts(self) -> None:
        current, desired = self.answer.current_replicas, self.answer.desired_replicas
        if not self.request.HasField("scale") or self.request.HasField("scale_error"):
            # Nobody knows the current count: it is the last one that the service knew.
            if current < 0 or desired != current:
                _wrong("desiredReplicas", f"{desired} of {current}, although the scale could not be read")
            return
        if current != self.request.scale.spec_replicas and not self._observed():
            _wrong("currentReplicas", f"{current}, but {self.request.scale.spec_replicas} were sent")
        if desired != current and not self.least <= desired <= self.most:
            _wrong("desiredReplicas", f"{desired}, neither from {self.least} to {self.most} nor the current {current}")

    def _observed(self) -> bool:
        """Tells whether the answer may go by the replicas that are observed, as two old versions of the controller do."""
        scale, profile = self.request.scale, self.request.options.profile
        if not scale.HasField("status_replicas") or self.answer.current_replicas != scale.status_replicas:
            return False
        return profile in ("cooldown", "design-2015") or profile == "" and not self.changes

    def action(self) -> None:
        answer = self.answer
        want = "SCALE_UP" if answer.desired_replicas > answer.current_replicas else "SCALE_DOWN" if self.changes else "NONE"
        if answer.action != want:
            _wrong("action", f"{answer.action[:32]!r}, but the counts say {want!r}")
        identity = answer.recommendation_id
        if self.changes and not identity and not self.unrecorded and not self.request.dry_run:
            _wrong("recommendationId", "is missing, although the count changes")
        if _bytes(identity) > _MAX_WORD:
            _wrong("recommendationId", f"{_bytes(identity)} bytes long")
        if identity and self.previous is not None and identity == self.previous.recommendation_id:
            _wrong("recommendationId", "that of the answer before")

    def instant(self) -> None:
        field = "evaluationTime"
        if not self.answer.HasField("evaluation_time"):
            _wrong(field, "is missing")
        at = self.answer.evaluation_time
        if not _is_instant(at):
            _wrong(field, "no instant")
        if abs(_seconds(at) - self._near()) > self.max_skew:
            _wrong(field, f"more than {self.max_skew:g} s from now: an old answer, or a clock is wrong")
        before = self.previous
        if before is not None and before.HasField("evaluation_time") and _seconds(at) < _seconds(before.evaluation_time) - _INSTANCES_DIFFER:
            _wrong(field, "before that of the answer before")

    def status(self) -> None:
        answer = self.answer
        if not answer.HasField("status"):
            _wrong("status", "is missing")
        status = answer.status
        if status.current_replicas != answer.current_replicas:
            _wrong("status.currentReplicas", f"{status.current_replicas}, but currentReplicas is {answer.current_replicas}")
        # What came to no count keeps the one of before, and says why it came to none.
        kept = not self.changes and bool(answer.error) and self.was_desired(status.desired_replicas)
        if status.desired_replicas != answer.desired_replicas and not kept:
            _wrong("status.desiredReplicas", f"{status.desired_replicas}, but desiredReplicas is {answer.desired_replicas}")
        if not status.conditions and any(had.type == "ScalingActive" for had in self.request.previous_status.conditions):
            _wrong("status.conditions", "there are none, but there were")
        if (
            status.HasField("observed_generation")
            and self.request.HasField("generation")
            and not answer.error
            and status.observed_generation != self.request.generation
        ):
            _wrong("status.observedGeneration", f"{status.observed_generation}, but generation {self.request.generation} was asked about")
        self.form(status)

    def was_desired(self, n: int) -> bool:
        """Tells whether a count may be what an evaluation before came to."""
        known = [self.most, self.answer.current_replicas, self.request.previous_status.desired_replicas]
        if self.previous is not None:
            known.append(self.previous.status.desired_replicas)
        return 0 <= n <= max(known)

    def form(self, status: autoscaling.HorizontalPodAutoscalerStatus) -> None:
        """Checks what a status holds besides counts."""
        if status.HasField("observed_generation") and status.observed_generation < 0:
            _wrong("status.observedGeneration", "negative")
        had = self.request.previous_status
        problem = self._time_problem(status, "last_scale_time", had)
        if problem:
            _wrong("status.lastScaleTime", problem)
        self._readings(status.current_metrics)
        if len(status.conditions) > _MAX_CONDITIONS:
            _wrong("status.conditions", f"{len(status.conditions)} of them")
        seen: set[str] = set()
        for i, condition in enumerate(status.conditions):
            before = next((c for c in had.conditions if c.type == condition.type), autoscaling.HorizontalPodAutoscalerCondition())
            problem = _condition_problem(condition, seen) or self._time_problem(condition, "last_transition_time", before)
            if problem:
                _wrong(f"status.conditions[{i}]", problem)

    def _near(self) -> float:
        """Returns the instant that the answer is about; 0: unknown, of a report."""
        return _seconds(self.request.evaluation_time) if self.request.HasField("evaluation_time") else self.now

    def _time_problem(self, of: Any, field: str, had: Any) -> str:
        """Says what is wrong with a time of the past: one to come, unless the caller's own status had it."""
        if not of.HasField(field):
            return ""
        at = getattr(of, field)
        if not _is_instant(at):
            return f"{field} is no instant"
        to_come = _seconds(at) - (self._near() or time.time()) > (self.max_skew or 600.0)
        return f"{field} is in the future" if to_come and at != getattr(had, field) else ""

    def _readings(self, readings: Sequence[Any]) -> None:
        """Checks that current metrics are of the spec, or of the status before, which a failed evaluation keeps."""
        spec, previous = self.request.spec.metrics, self.request.previous_status.current_metrics
        asked = self.request.HasField("spec")  # a report that is sent again may have lost it
        if len(readings) > (max(len(spec), len(previous), 1) if asked else _MAX_METRICS):
            _wrong("status.currentMetrics", f"{len(readings)} of them, for {len(spec)} metrics")
        known = {_metric_name(m) for m in (*spec, *previous)} | {("", "", "", "", "")}  # the last could not be computed
        if not spec:
            known.add(("Resource", "cpu", "", "", ""))  # the default
        for i, m in enumerate(readings):
            if asked and _metric_name(m) not in known:
                _wrong(f"status.currentMetrics[{i}]", f"type {m.type[:64]!r} is of a metric that was not asked for")

    def texts(self) -> None:
        if not _is_text(self.answer.reason):
            _wrong("reason", "too long")
        self.says(self.answer.events, self.answer.error)

    def says(self, events: Sequence[Any], problem: str) -> None:
        """Checks events and an error."""
        if not _is_text(problem):
            _wrong("error", "too long")
        # One a metric, and some about the whole.
        if len(events) > len(self.request.spec.metrics) + 8:
            _wrong("events", f"{len(events)} of them")
        for i, event in enumerate(events):
            if event.type not in ("Normal", "Warning") or not _is_word(event.reason) or not _is_text(event.message):
                _wrong(f"events[{i}]", f"type {event.type[:32]!r}, reason {event.reason[:64]!r} and {_bytes(event.message)} bytes of message are none of an event's")


def _condition_problem(c: autoscaling.HorizontalPodAutoscalerCondition, seen: set[str]) -> str:
    """Says what is wrong with a condition; seen are the types before it."""
    if c.type not in ("AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero"):
        return f"type {c.type[:64]!r} is not one of a HorizontalPodAutoscaler's"
    if c.type in seen:
        return f"type {c.type} was there before"
    seen.add(c.type)
    if c.status not in ("True", "False", "Unknown"):
        return f"status {c.status[:32]!r} is not one of a condition's"
    if not _is_word(c.reason):
        return f"reason {c.reason[:64]!r} is not one word"
    if not _is_text(c.message):
        return "message is not valid text, or too long"
    return ""


def _metric_name(m: Any) -> tuple[str, str, str, str, str]:
    """Identifies a metric of a spec or a status."""
    container = m.container_resource.container + m.container_resource.name
    return (m.type, m.resource.name, container, m.object.metric.name + m.pods.metric.name, m.external.metric.name)


def _bytes(text: str) -> int:
    return len(text.encode())


def _is_word(text: str) -> bool:
    return len(text) <= _MAX_WORD and _WORD.fullmatch(text) is not None


def _is_text(text: str) -> bool:
    """Tells whether a text can be shown: it may have lines, and nothing that moves a cursor or colors a terminal."""
    return _bytes(text) <= _MAX_TEXT and _CONTROL.search(text) is None


def _is_instant(t: Timestamp) -> bool:
    """Tells whether a time is one: from the year 1 to 9999."""
    return -62135596800 <= t.seconds <= 253402300799 and 0 <= t.nanos < 1_000_000_000


def _seconds(t: Timestamp) -> float:
    return float(t.seconds) + t.nanos / 1e9


def seed(status: Union[autoscaling.HorizontalPodAutoscalerStatus, Mapping[str, Any]]) -> autoscaling.HorizontalPodAutoscalerStatus:
    """Returns of an autoscaler's stored status what a first evaluation needs, as previous_status of a request.

    Whoever may write a status can write anything into it: what no evaluation would write is left
    out, and texts are clipped, so that it can neither have requests refused nor come back in an
    answer that check_answer refuses. The status given stays as it is.
    """
    status = read(autoscaling.HorizontalPodAutoscalerStatus, status)
    kept = autoscaling.HorizontalPodAutoscalerStatus(
        current_replicas=max(0, status.current_replicas), desired_replicas=max(0, status.desired_replicas)
    )
    if status.HasField("observed_generation") and status.observed_generation >= 0:
        kept.observed_generation = status.observed_generation
    if status.HasField("last_scale_time") and _is_instant(status.last_scale_time):
        kept.last_scale_time.CopyFrom(status.last_scale_time)
    metrics = status.current_metrics
    if len(metrics) <= _MAX_SEED_METRICS and sum(metric.ByteSize() for metric in metrics) <= _MAX_SEED_METRIC_BYTES:
        kept.current_metrics.extend(metrics)
    seen: set[str] = set()
    for c in status.conditions:
        message = c.message.encode()[:_MAX_TEXT].decode(errors="ignore")
        clipped = autoscaling.HorizontalPodAutoscalerCondition(type=c.type, status=c.status, reason=c.reason, message=message)
        if c.HasField("last_transition_time") and _is_instant(c.last_transition_time):
            clipped.last_transition_time.CopyFrom(c.last_transition_time)
        if not _condition_problem(clipped, seen):
            kept.conditions.append(clipped)
    return kept
