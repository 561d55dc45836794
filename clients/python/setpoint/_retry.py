"""When calls are tried again."""

from __future__ import annotations

import math
import random
import re
import threading
import time
from dataclasses import dataclass
from typing import Optional

import grpc

from setpoint._errors import Error


@dataclass(frozen=True)
class Retry:
    """When a call is tried again. Times are in seconds.

    Tried again are UNAVAILABLE, ABORTED, a call that a proxy cut off, an attempt that ran out of its own time, and
    RESOURCE_EXHAUSTED where the service says when to come back. The delay before attempt n+1 is
    random between 0 and min(max_delay, base_delay * 2**(n-1)); where the service says when to come
    back, that much later. A delay that would outlast the call is not waited for.
    """

    max_attempts: int = 4
    """The attempts of a call at most, the first included; 1: nothing is tried again."""
    base_delay: float = 0.1
    """The longest delay before the second attempt."""
    max_delay: float = 2.0
    """The longest delay at all, before what the service asks for."""
    attempt_timeout: float = 4.0
    """The time of each attempt; 0: unbounded."""
    budget_reserve: int = 100
    """How many attempts beyond the first ones the client may make at once, over all calls."""
    budget_ratio: float = 0.2
    """How much of one each call adds, up to the reserve: a service in trouble gets no multiple of its load."""


class Deadline:
    """That of a call, all attempts together."""

    def __init__(self, timeout: float) -> None:
        self._end = time.monotonic() + timeout if timeout != 0 else math.inf

    def left(self) -> float:
        return self._end - time.monotonic()


# gRPC's words for a call that ended without an answer, as proxies end those of an instance that is gone: its code then is by the
# number of the reset, or none.
_CUT_OFF = re.compile("RST_STREAM|Stream removed")

# What a stream fails with on which nothing comes in time.
SILENT = "the server gave no sign of life in time on a watch"


class Told:
    """What the attempts of a call, of a request in a batch, or of a watch were told."""

    def __init__(self) -> None:
        self._error: Optional[Error] = None  # of the last one that did not run out of time

    def by(self, error: Error) -> Error:
        """Notes the error of an attempt, and returns it as the call's: of an attempt that ran out of time
        also what an earlier one was told."""
        if error.code is not grpc.StatusCode.DEADLINE_EXCEEDED and error.message != SILENT:
            self._error = error
        elif self._error is not None:
            late = Error(error.code, f"{error.message}; an earlier attempt: {self._error.message}")
            late.reason, late.retry_delay, late.violations = error.reason, error.retry_delay, error.violations
            return late
        return error


class Retrier:
    """Says whether and when there is another attempt."""

    def __init__(self, policy: Retry) -> None:
        self.policy = policy
        self._lock = threading.Lock()
        self._tokens = float(policy.budget_reserve)

    def deposit(self) -> None:
        """Notes a call."""
        with self._lock:
            self._tokens = min(self._tokens + self.policy.budget_ratio, self.policy.budget_reserve)

    def may_repeat(self, attempt: int, error: Error) -> Optional[float]:
        """Returns how long to wait at least for another attempt; None: there is none."""
        if attempt >= self.policy.max_attempts:
            return None
        if error.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED, grpc.StatusCode.DEADLINE_EXCEEDED):
            return error.retry_delay or 0.0
        if error.code in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL):
            return 0.0 if error.reason is None and _CUT_OFF.search(error.message) else None
        return error.retry_delay if error.code is grpc.StatusCode.RESOURCE_EXHAUSTED else None

    def delay(self, attempt: int, least: float) -> float:
        """Returns a random delay after that attempt, at least so long, and no longer than anybody can wait."""
        longest = min(self.policy.base_delay * 2 ** min(attempt - 1, 60), self.policy.max_delay)
        return min(least + random.uniform(0, longest), threading.TIMEOUT_MAX)

    def wait(self, attempt: int, least: float, deadline: Deadline, closed: threading.Event) -> bool:
        """Waits for the attempt after the one given, if there is time and budget."""
        delay = self.delay(attempt, least)
        if deadline.left() <= delay:
            return False
        with self._lock:
            if self._tokens < 1:
                return False
            self._tokens -= 1
        return not closed.wait(delay)
