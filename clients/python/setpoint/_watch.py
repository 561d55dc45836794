"""Watches: streams that outlive the service's instances."""

from __future__ import annotations

import math
import threading
import time
from typing import Any, Callable, Iterator, Optional

import grpc

from setpoint._errors import Error
from setpoint._retry import SILENT, Retrier, Told
from setpoint._transport import Transport
from setpoint.v1 import target_service_pb2 as targets

_PATH = "/setpoint.v1.TargetService/WatchDecisions"
# For how long a watch may hear nothing, in seconds. An older service gives a sign of life every 15 s: two
# may be lost.
_SILENCE = 45.0
# For how long a watch waits at most because it was told to, in seconds. A call's own time bounds that; a watch has
# none, and must not be silent for days because of one wrong answer.
_LONGEST_DELAY = 300.0
# How many decisions a watch asks for in a response, the maximum: together they are far less work for
# the service than one by one.
_TOGETHER = 1000


class _Silence:
    """Cancels a call on which nothing comes in time while somebody waits for it."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._changed = threading.Condition()
        self._due = self._looks = math.inf
        self._over = False
        self.came = False
        threading.Thread(target=self._run, name="setpoint-watch", daemon=True).start()

    def expect(self, seconds: float) -> None:
        """Something is to come in so many seconds; math.inf: nobody waits."""
        with self._changed:
            self._due = time.monotonic() + seconds
            if self._due < self._looks:
                self._changed.notify()

    def end(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while not self._over:
                left = self._due - time.monotonic()
                if left <= 0:
                    self.came = True
                    self._call.cancel()
                    return
                self._looks = self._due
                self._changed.wait(None if left == math.inf else left)


def _apart(response: targets.WatchDecisionsResponse, before: str) -> Iterator[targets.WatchDecisionsResponse]:
    """Returns a response for each decision. before is the token that is valid until the last of them."""
    last = len(response.decisions) - 1
    for i, one in enumerate(response.decisions):
        token = response.resume_token if i == last else before
        apart = targets.WatchDecisionsResponse(target=one.target, decision=one.decision, resume_token=token)
        if i == 0:
            apart.missed_decisions, apart.missed_uncounted = response.missed_decisions, response.missed_uncounted
        yield apart


class Watch:
    """One use of Client.watch_decisions."""

    def __init__(
        self,
        transport: Transport,
        retrier: Retrier,
        pick: Callable[[set[int]], int],
        closed: threading.Event,
        request: targets.WatchDecisionsRequest,
        interrupted: Optional[Callable[[Error], None]],
    ) -> None:
        self._transport, self._retrier, self._pick, self._closed = transport, retrier, pick, closed
        self._request = targets.WatchDecisionsRequest()
        self._request.CopyFrom(request)
        self._apart = not request.max_decisions  # the caller gets the decisions of a response one by one
        if self._apart:
            self._request.max_decisions = _TOGETHER
        self._interrupted = interrupted
        self._begun = False  # there was a response, and the request has its token
        self._missed = False  # the next response begins anew

    def run(self) -> Iterator[targets.WatchDecisionsResponse]:
        policy = self._retrier.policy
        used: set[int] = set()
        told = Told()  # since the last response
        failures = 0  # one after the other
        while True:
            address = self._pick(used)
            began, answered = time.monotonic(), False
            try:
                for response in self._stream(address):
                    answered = True
                    yield response
                raise Error(grpc.StatusCode.UNAVAILABLE, "the server ended the stream")
            except Error as failed:
                if self._closed.is_set():
                    raise Error(grpc.StatusCode.CANCELLED, "the client is closed") from None
                # A service that answers and breaks at once is not asked ever faster.
                if answered:
                    used, told = {address}, Told()
                    if time.monotonic() - began > policy.max_delay:
                        failures = 0
                failures += 1
                error = told.by(failed)
                least = self._again(error, answered, failures)
                if least is None:
                    raise error from None
                if self._interrupted is not None:
                    self._interrupted(error)
            # The budget is for calls: watches that come back must not take it from them.
            if self._closed.wait(self._retrier.delay(failures, min(least, _LONGEST_DELAY))):
                raise Error(grpc.StatusCode.CANCELLED, "the client is closed")

    def _stream(self, address: int) -> Iterator[targets.WatchDecisionsResponse]:
        """Opens a stream and hands out what comes until it ends."""
        call = self._transport.stream(_PATH, self._request, targets.WatchDecisionsResponse, address)
        silence = _Silence(call)
        try:
            # A connection may take the request and be silent. A service that is well answers at once.
            first = self._retrier.policy.attempt_timeout
            silence.expect(first if first > 0 else _SILENCE)
            for response in self._transport.received(call, address):
                silence.expect(math.inf)  # the caller may take its time
                self._begun = True
                before, self._request.resume_token = self._request.resume_token, response.resume_token
                if self._missed:
                    response.missed_uncounted, self._missed = True, False
                for one in _apart(response, before) if self._apart and response.decisions else (response,):
                    if self._closed.is_set():
                        break  # the error comes next
                    yield one
                silence.expect(_SILENCE)
        except Error:
            if silence.came:
                raise Error(grpc.StatusCode.UNAVAILABLE, SILENT) from None
            raise
        finally:
            silence.end()
            call.cancel()

    def _again(self, error: Error, answered: bool, failures: int) -> Optional[float]:
        """Returns how long to wait at least before another stream; None: there is none."""
        if not self._begun:
            return self._retrier.may_repeat(failures, error)
        if error.code is grpc.StatusCode.INVALID_ARGUMENT and self._request.resume_token and any(v.field == "resumeToken" for v in error.violations):
            # What was since the start of the watch would come twice.
            self._request.resume_token, self._missed = "", True
            self._request.ClearField("start_time")
            return 0.0
        if error.code is grpc.StatusCode.UNAUTHENTICATED and answered:
            return 0.0  # the credentials may have been renewed
        if error.code is grpc.StatusCode.RESOURCE_EXHAUSTED and error.reason == "LIMIT_EXCEEDED":
            # Instances have as many watchers as they may have, those of a killed one among them.
            return max(error.retry_delay or 0.0, self._retrier.policy.max_delay)
        return self._retrier.may_repeat(0, error)
