"""Errors of calls, with what a service says about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, Optional

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

# The domain of the service's own ErrorInfo.
_DOMAIN = "setpoint.dev"
_CODES = {code.value[0]: code for code in grpc.StatusCode}


@dataclass(frozen=True)
class Violation:
    """One thing that is wrong with a request."""

    field: str
    """The path of the field as in JSON, for example "spec.maxReplicas"."""
    description: str
    """What is wrong, in the words of the Kubernetes API server."""


class Error(Exception):
    """A call that failed: the caller holds the count. What could be retried was."""

    code: grpc.StatusCode
    message: str
    reason: Optional[str]
    """Which error of its code it is, for example "TARGET_CONTENDED". None: the service did not say."""
    retry_delay: Optional[float]
    """How long the service asks to wait before a retry, in seconds. None: it does not say."""
    violations: tuple[Violation, ...]
    """What is wrong with the request. Of very many there are only the first."""

    def __init__(self, code: grpc.StatusCode, message: str, details: Iterable[Any] = ()) -> None:
        super().__init__(code, message)  # what pickle makes another of
        self.code, self.message = code, message
        self.reason, self.retry_delay, self.violations = None, None, ()
        for detail in details:
            self._read(detail)

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"

    def _read(self, detail: Any) -> None:
        info, delay, bad = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo(), error_details_pb2.BadRequest()
        try:
            if detail.Unpack(info) and info.domain == _DOMAIN:
                self.reason = info.reason
            elif detail.Unpack(delay) and delay.HasField("retry_delay"):
                self.retry_delay = max(0.0, delay.retry_delay.seconds + delay.retry_delay.nanos / 1e9)
            elif detail.Unpack(bad):
                self.violations = tuple(Violation(v.field, v.description) for v in bad.field_violations)
        except DecodeError:
            pass  # the code alone must do


def of_status(status: status_pb2.Status) -> Error:
    """Returns the error of a google.rpc.Status."""
    return Error(_CODES.get(status.code, grpc.StatusCode.UNKNOWN), status.message, status.details)


def of_rpc(error: grpc.RpcError) -> Error:
    """Returns the error of a failed gRPC call."""
    metadata: Any = error.trailing_metadata()
    for name, value in metadata or ():
        if name == "grpc-status-details-bin":
            try:
                status = status_pb2.Status.FromString(value)
            except DecodeError:
                break
            # What the transport says of the code wins: it may have ended the call itself.
            if status.code == error.code().value[0]:
                return of_status(status)
    words = error.details() or ""
    if words in ("", "No status received"):
        words = (
            "the server ended the call without a message; is the address that of Setpoint's gRPC, "
            "and does each proxy before it pass on trailers?"
        )
    return Error(error.code(), words)
