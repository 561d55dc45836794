"""Answers are held against what was asked, before they are applied."""

from __future__ import annotations

import time
from typing import Any, Mapping, NoReturn, Optional, Union

from google.protobuf.timestamp_pb2 import Timestamp

from setpoint._json import read
from setpoint.v1 import recommendation_service_pb2 as recommendations

# How much the clocks of a service's instances may differ, seconds.
_INSTANCES_DIFFER = 1.0
# Bounds of what stages and overrides changed; texts in bytes.
_MAX_ADJUSTMENTS = 32
_MAX_ADJUSTMENT_TEXT = 256
_MAX_WORD = 1024
class AnswerError(Exception):
    """An answer that can't be one to what was asked. Hold the count: do not apply the answer, nor report it."""

    field: str
    """The path of the first field that is wrong, as in JSON. Empty: there is no answer."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(field, problem)  # what pickle makes another of
        self.field, self.problem = field, problem

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}" if self.field else self.problem


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
    max_replicas, and so is the count without stages; a member of a fleet gets a share, or none if it is
    drained, and nobody else does; there are at most 32 adjustments with short
    texts; it names no other request; action is what the two say, and a change has a
    recommendation of its own; its instant is near, and not before that of the answer before unless it
    names the request; and there is a status with the same counts. A field that is lost on the way
    reads as zero: so does a count. Call it before an answer is applied or reported. The Go client
    also checks what else a status may hold, for who stores it.

    now is the caller's clock, in seconds since 1970, the system's if None; max_skew is how far the
    answer's instant may be from it, or from the request's evaluation_time; previous is the last
    answer for this target that was taken; unrecorded says that nothing will be applied, so that
    the answer of a caller who may only have dry runs will do.
    """
    if answer is None:
        raise AnswerError("", "there is no answer")
    c = _Checker(read(recommendations.RecommendRequest, request), answer, time.time() if now is None else now, max_skew, previous, unrecorded)
    c.question()
    c.fleet()
    c.counts()
    c.adjustments()
    c.action()
    c.instant()
    c.status()


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
        if answer.fleet.drained:
            self.least = 0
        self.most = spec.max_replicas
        self.changes = answer.desired_replicas != answer.current_replicas

    def question(self) -> None:
        got, want = self.answer.request_id, self.request.request_id
        if got and want and got != want:
            _wrong("requestId", "that of another request")

    def fleet(self) -> None:
        """Checks that a member's answer is its share: a service that knows no fleets decides for it alone."""
        member, share = self.request.fleet != "", self.answer.HasField("fleet")
        if member and not share:
            _wrong("fleet", "is missing, although the target is a member of one: it was decided alone, perhaps by a service that does not know fleets")
        if share and not member:
            _wrong("fleet", "there is one, although none was asked about")
        if self.answer.fleet.holds and self.changes:
            _wrong("fleet.holds", "true, but the count changes")

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

    def adjustments(self) -> None:
        """Checks what stages and overrides changed, and the count without them."""
        if self.answer.HasField("plain_desired_replicas"):
            plain, current = self.answer.plain_desired_replicas, self.answer.current_replicas
            known = self.request.HasField("scale") and not self.request.HasField("scale_error") and not self.answer.HasField("fleet")
            if plain < 0 or known and plain != current and not self.least <= plain <= self.most:
                _wrong("plainDesiredReplicas", f"{plain}, neither from {self.least} to {self.most} nor the current {current}")
        if len(self.answer.adjustments) > _MAX_ADJUSTMENTS:
            _wrong("adjustments", f"{len(self.answer.adjustments)} of them")
        for i, a in enumerate(self.answer.adjustments):
            long = any(len(text.encode()) > _MAX_ADJUSTMENT_TEXT for text in (a.stage, a.message)) or any(len(text.encode()) > _MAX_WORD for text in (a.rule, a.metric))
            if not a.stage or long:
                _wrong(f"adjustments[{i}]", "no stage, or texts that are too long")
            if a.before < 0 or a.after < 0:
                _wrong(f"adjustments[{i}]", f"from {a.before} to {a.after} replicas")

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
        if self.changes and not identity and not self.unrecorded and not self.request.dry_run and not answer.HasField("fleet"):
            _wrong("recommendationId", "is missing, although the count changes")
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
        # An answer that names the request is none of before: the service's clock was set back.
        named = self.answer.request_id != "" and self.answer.request_id == self.request.request_id
        if before is not None and before.HasField("evaluation_time") and not named and _seconds(at) < _seconds(before.evaluation_time) - _INSTANCES_DIFFER:
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

    def was_desired(self, n: int) -> bool:
        """Tells whether a count may be what an evaluation before came to."""
        known = [self.most, self.answer.current_replicas, self.request.previous_status.desired_replicas]
        if self.previous is not None:
            known.append(self.previous.status.desired_replicas)
        return 0 <= n <= max(known)

    def _near(self) -> float:
        """Returns the instant that the answer is about."""
        return _seconds(self.request.evaluation_time) if self.request.HasField("evaluation_time") else self.now


def _is_instant(t: Timestamp) -> bool:
    """Tells whether a time is one: from the year 1 to 9999."""
    return -62135596800 <= t.seconds <= 253402300799 and 0 <= t.nanos < 1_000_000_000


def _seconds(t: Timestamp) -> float:
    return float(t.seconds) + t.nanos / 1e9
