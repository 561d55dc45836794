"""The client."""

from __future__ import annotations

import itertools
import random
import threading
import uuid
from types import TracebackType
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Optional, Sequence, TypeVar, Union

import grpc
from google.protobuf.message import Message

from setpoint._errors import Error, of_status
from setpoint._json import read
from setpoint._retry import Deadline, Retrier, Retry, Told
from setpoint._token import TokenSource
from setpoint._transport import TLS, Transport, on_loopback
from setpoint._watch import Watch
from setpoint.v1 import fleet_service_pb2 as fleets
from setpoint.v1 import override_service_pb2 as overrides
from setpoint.v1 import recommendation_service_pb2 as recommendations
from setpoint.v1 import simulation_service_pb2 as simulations
from setpoint.v1 import target_service_pb2 as targets

_RECOMMENDATIONS = "/setpoint.v1.RecommendationService/"
_TARGETS = "/setpoint.v1.TargetService/"
_SIMULATIONS = "/setpoint.v1.SimulationService/"
_FLEETS = "/setpoint.v1.FleetService/"
_OVERRIDES = "/setpoint.v1.OverrideService/"
# Of a request in a batch, with its length.
_TAG = 6

M = TypeVar("M", bound=Message)
T = TypeVar("T")


class Result(NamedTuple):
    """One outcome of a batch: an answer, or why there is none."""

    response: Optional[recommendations.RecommendResponse]
    error: Optional[Error]


# Requests are messages, or mappings in the JSON form of the API.
RecommendRequestLike = Union[recommendations.RecommendRequest, Mapping[str, Any]]


class Client:
    """Calls a service. It may be used on many threads; one is enough for a program.

    Calls are spread over all addresses. One that fails for a reason that may pass is tried again,
    at another address where there is one, with the same request id: so it counts once, whatever
    became of the first attempt. What fails is an Error.

    target: "host:port" or several of those, separated by commas; the port is 9090 if none is given.
    insecure: does without TLS, which is spoken otherwise, but on localhost and the loopback interface,
    unless tls is given. Files of tls are looked at again once a second, and connections are made anew
    when they have changed.
    token: a bearer token, or what returns one. timeout: that of a call, all attempts together, in
    seconds; 0: unbounded.
    """

    def __init__(
        self,
        target: str,
        *,
        insecure: bool = False,
        tls: Optional[TLS] = None,
        token: Union[str, TokenSource, None] = None,
        token_over_insecure: bool = False,
        timeout: float = 10.0,
        retry: Retry = Retry(),
        max_batch: int = 1000,
        max_request_bytes: int = 16 << 20,
        max_answer_bytes: int = 256 << 20,
        user_agent: str = "setpoint-client-python",
    ) -> None:
        if insecure and tls is not None:
            raise ValueError("setpoint: insecure and tls exclude each other")
        local = on_loopback(target)
        insecure = insecure or (local and tls is None)
        if token is not None and insecure and not local and not token_over_insecure:
            raise ValueError("setpoint: a token would travel unencrypted: use TLS, or token_over_insecure on a trusted network")
        if max_batch < 1 or max_request_bytes < 1 or max_answer_bytes < 1:
            raise ValueError("setpoint: max_batch, max_request_bytes and max_answer_bytes must be at least 1")
        self._transport = Transport(
            target,
            insecure=insecure,
            tls=tls,
            token=_constant(token) if isinstance(token, str) else token,
            user_agent=user_agent,
            max_request_bytes=max_request_bytes,
            max_answer_bytes=max_answer_bytes,
        )
        self._timeout, self._retrier = timeout, Retrier(retry)
        self._max_batch, self._max_request_bytes = max_batch, max_request_bytes
        self._next = itertools.count(random.randrange(1024))
        self._closed = threading.Event()

    def close(self) -> None:
        """Closes all connections. Calls that are running fail."""
        self._closed.set()
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def recommend(self, request: RecommendRequestLike, *, timeout: Optional[float] = None) -> recommendations.RecommendResponse:
        """Asks for the replica count of one target: a message, or a mapping as in JSON. A request
        without request_id is sent with a random one; the one given stays as it is. Call
        check_answer before the answer is applied."""
        return self._call(_RECOMMENDATIONS + "Recommend", _identified(request), recommendations.RecommendResponse, timeout)

    def batch_recommend(self, requests: Sequence[RecommendRequestLike], *, timeout: Optional[float] = None) -> list[Result]:
        """Asks for many targets. The results are as many as the requests and in their order; a bad
        request fails alone. More than a service takes at once go in several calls, one after the
        other: timeout bounds all of them, the client's own each. Requests that failed for a reason
        that may pass are sent again, together, unless a later one for their target was answered
        meanwhile."""
        if isinstance(requests, (Mapping, str)):
            raise TypeError("setpoint: batch_recommend takes a list of requests")
        everything: list[recommendations.RecommendRequest] = []
        refused: list[tuple[int, Error]] = []  # mappings that are no requests
        for i, request in enumerate(requests):
            try:
                everything.append(_identified(request))
            except Error as error:
                refused.append((i, error))
        results: list[Result] = []
        deadline = None if timeout is None else Deadline(timeout)
        while len(results) < len(everything):
            rest = everything[len(results) : len(results) + self._max_batch]
            results += self._recommend_all(rest[: self._fitting(rest)], deadline or Deadline(self._timeout))
        for i, wrong in refused:
            results.insert(i, Result(None, wrong))
        return results

    def report_scale(
        self, request: Union[recommendations.ReportScaleRequest, Mapping[str, Any]], *, timeout: Optional[float] = None
    ) -> recommendations.ReportScaleResponse:
        """Tells what became of a recommendation that changed the count: outcome "APPLIED" or "FAILED"."""
        request = read(recommendations.ReportScaleRequest, request)
        return self._call(_RECOMMENDATIONS + "ReportScale", request, recommendations.ReportScaleResponse, timeout)

    def report_observation(
        self, request: Union[recommendations.ReportObservationRequest, Mapping[str, Any]], *, timeout: Optional[float] = None
    ) -> recommendations.ReportObservationResponse:
        """Stores what was observed of a target with a stored spec, for those who poll."""
        request = read(recommendations.ReportObservationRequest, request)
        return self._call(_RECOMMENDATIONS + "ReportObservation", request, recommendations.ReportObservationResponse, timeout)

    def get_recommendation(
        self, request: Union[recommendations.GetRecommendationRequest, Mapping[str, Any]], *, timeout: Optional[float] = None
    ) -> recommendations.Recommendation:
        """Returns the recommendation for a target with a stored spec."""
        request = read(recommendations.GetRecommendationRequest, request)
        answer = self._call(_RECOMMENDATIONS + "GetRecommendation", request, recommendations.GetRecommendationResponse, timeout)
        return answer.recommendation

    def get_target(self, name: str, *, timeout: Optional[float] = None) -> targets.Target:
        """Returns what is kept of a target."""
        return self._call(_TARGETS + "GetTarget", targets.GetTargetRequest(name=_name(name)), targets.GetTargetResponse, timeout).target

    def list_targets(self, parent: str, *, timeout: Optional[float] = None) -> Iterator[targets.Target]:
        """Lists the targets of clusters/{cluster}/namespaces/{namespace}, "-" standing for all of
        either, sorted by name and without their history. Pages are asked for as they are needed."""
        yield from self._pages(_TARGETS + "ListTargets", targets.ListTargetsRequest(parent=_name(parent)), targets.ListTargetsResponse, "targets", timeout)

    def list_decisions(self, target: str, *, timeout: Optional[float] = None) -> Iterator[targets.Decision]:
        """Lists the last decisions about a target, the newest first."""
        yield from self._pages(_TARGETS + "ListDecisions", targets.ListDecisionsRequest(parent=_name(target)), targets.ListDecisionsResponse, "decisions", timeout)

    def watch_decisions(
        self,
        request: Union[targets.WatchDecisionsRequest, Mapping[str, Any]],
        *,
        interrupted: Optional[Callable[[Error], None]] = None,
    ) -> Iterator[targets.WatchDecisionsResponse]:
        """Returns decisions as they are made, until the caller leaves the loop or the client is
        closed. A response without a decision is a sign of life; missed_decisions and
        missed_uncounted say that decisions before it were missed.

        Unless the request has max_decisions, the service is asked for several decisions in a response,
        and each comes as a response of its own. Only the last of these has the token after all of them;
        those before it have the token before all, so that nothing is lost by who begins there. With a
        max_decisions of 1 each decision has its own token; above 1 responses come as they are.

        When the stream breaks, the service stops, or it says nothing for 45 s, the watch goes on
        where it was, at another address if there is one: nothing is lost and nothing comes twice,
        as far as the service still holds what was between. Where a service does not take the token
        of another one, the watch begins anew, and the first response has missed_uncounted. It ends
        with the first error that will not pass. interrupted is called with the error of each stream
        that ends and is followed by another."""
        request = read(targets.WatchDecisionsRequest, request)
        return Watch(self._transport, self._retrier, self._pick, self._closed, request, interrupted).run()

    def simulate(
        self, request: Union[simulations.SimulateRequest, Mapping[str, Any]], *, timeout: Optional[float] = None
    ) -> Iterator[simulations.SimulateResponse]:
        """Runs a spec, or several, against a load, and returns each evaluation as it is made, and the
        figures of each spec after its last one. It ends when the caller leaves the loop.

        A simulation may take a minute: timeout bounds all of it, in seconds, and the client's own does
        not. Until the first response it is tried again as other calls are. A stream that breaks later
        is an Error: what came would come again."""
        return self._simulated(read(simulations.SimulateRequest, request), Deadline(timeout or 0.0))

    def _simulated(self, request: simulations.SimulateRequest, deadline: Deadline) -> Iterator[simulations.SimulateResponse]:
        opened: Any = None

        def first(_: int, address: int, timeout: Optional[float]) -> Any:
            """Returns the first response, None if there is none, and what comes after it."""
            nonlocal opened
            opened = self._transport.stream(_SIMULATIONS + "Simulate", request, simulations.SimulateResponse, address, timeout)
            responses = self._transport.received(opened, address, timeout)
            try:
                return next(responses, None), responses
            except Error:
                opened.cancel()
                raise

        try:
            response, responses = self._attempts(first, deadline)
            if response is not None:
                yield response
                yield from responses
        except Error:
            if self._closed.is_set():
                raise Error(grpc.StatusCode.CANCELLED, "the client is closed") from None
            raise
        finally:
            if opened is not None:
                opened.cancel()

    def delete_target(self, name: str, *, target_uid: str = "", cluster_uid: str = "", timeout: Optional[float] = None) -> None:
        """Forgets a target, or only the incarnation that the uids name. NOT_FOUND says that there
        was none; it is taken for success when an earlier attempt of this call failed, for that may
        have deleted it."""
        request = targets.DeleteTargetRequest(name=_name(name), target_uid=target_uid, cluster_uid=cluster_uid)
        self._call(_TARGETS + "DeleteTarget", request, targets.DeleteTargetResponse, timeout, gone=True)

    def set_target_spec(self, name: str, spec: Union[targets.TargetSpec, Mapping[str, Any]], *, timeout: Optional[float] = None) -> targets.TargetSpec:
        """Stores a spec. It is sent once: of an error it is not known whether the spec was stored."""
        request = targets.SetTargetSpecRequest(name=_name(name), target_spec=read(targets.TargetSpec, spec, "targetSpec"))
        return self._call(_TARGETS + "SetTargetSpec", request, targets.SetTargetSpecResponse, timeout, repeat=False).target_spec

    def get_target_spec(self, name: str, *, timeout: Optional[float] = None) -> targets.TargetSpec:
        """Returns the stored spec of a target."""
        return self._call(_TARGETS + "GetTargetSpec", targets.GetTargetSpecRequest(name=_name(name)), targets.GetTargetSpecResponse, timeout).target_spec

    def list_target_specs(self, parent: str, *, fleets_only: bool = False, timeout: Optional[float] = None) -> Iterator[targets.TargetSpec]:
        """Lists the stored specs of clusters/{cluster}/namespaces/{namespace}, "-" standing for all of either, by the
        names of their targets; with fleets_only those of fleets. Pages are asked for as they are needed."""
        yield from self._pages(_TARGETS + "ListTargetSpecs", targets.ListTargetSpecsRequest(parent=_name(parent), fleets_only=fleets_only), targets.ListTargetSpecsResponse, "target_specs", timeout)

    def delete_target_spec(self, name: str, *, etag: str = "", timeout: Optional[float] = None) -> None:
        """Deletes the stored spec of a target, with an etag only that version. It is sent once: of an error it is not
        known whether the spec was deleted."""
        request = targets.DeleteTargetSpecRequest(name=_name(name), etag=etag)
        self._call(_TARGETS + "DeleteTargetSpec", request, targets.DeleteTargetSpecResponse, timeout, repeat=False)

    def promote_shadow(self, name: str, shadow: str, etag: str, *, condition: str = "", timeout: Optional[float] = None) -> targets.TargetSpec:
        """Makes a shadow of the stored spec with that etag the spec, which becomes the shadow of that name; with a
        condition, such as "different < 2 % over 7 days", only if that held. It is sent once: of an error it is not known
        whether the shadow was promoted. get_target has how shadows differ, and get_target_spec the etag."""
        request = targets.PromoteShadowRequest(name=_name(name), shadow=shadow, etag=etag, condition=condition)
        return self._call(_TARGETS + "PromoteShadow", request, targets.PromoteShadowResponse, timeout, repeat=False).target_spec

    def get_fleet(self, name: str, *, timeout: Optional[float] = None) -> fleets.Fleet:
        """Returns the state of a fleet, which is a stored spec with members: its count, the shares, and what is known of each member."""
        return self._call(_FLEETS + "GetFleet", fleets.GetFleetRequest(name=_name(name)), fleets.GetFleetResponse, timeout).fleet

    def create_override(
        self, parent: str, override: Union[overrides.Override, Mapping[str, Any]], *, override_id: str = "", timeout: Optional[float] = None
    ) -> overrides.Override:
        """Creates an override of a target, a namespace or a cluster, and returns it with its name. With an
        override_id, the last part of that, it is tried again as other calls are, as the service returns the
        one that there is; without one it is sent once, for each attempt would create another one."""
        request = overrides.CreateOverrideRequest(parent=_name(parent), override=read(overrides.Override, override, "override"), override_id=override_id)
        return self._call(_OVERRIDES + "CreateOverride", request, overrides.CreateOverrideResponse, timeout, repeat=override_id != "").override

    def list_overrides(self, cluster: str, *, resource: str = "", timeout: Optional[float] = None) -> Iterator[overrides.Override]:
        """Lists the overrides of clusters/{cluster}, "-" standing for all clusters: those in force and those that
        begin later. With resource only those that act on that target, namespace or cluster."""
        yield from self._pages(_OVERRIDES + "ListOverrides", overrides.ListOverridesRequest(parent=_name(cluster), resource=resource), overrides.ListOverridesResponse, "overrides", timeout)

    def delete_override(self, name: str, *, timeout: Optional[float] = None) -> None:
        """Deletes an override: it ends at once. NOT_FOUND says that there was none; it is taken for success
        when an earlier attempt of this call failed, for that may have deleted it."""
        request = overrides.DeleteOverrideRequest(name=_name(name))
        self._call(_OVERRIDES + "DeleteOverride", request, overrides.DeleteOverrideResponse, timeout, gone=True)

    def _pages(self, path: str, request: Any, answer: type[M], items: str, timeout: Optional[float]) -> Iterator[Any]:
        """Yields the items of a list's pages, each asked for when it is needed. It changes the request."""
        while True:
            page: Any = self._call(path, request, answer, timeout)
            yield from getattr(page, items)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def _call(self, path: str, request: Message, answer: type[M], timeout: Optional[float], *, repeat: bool = True, gone: bool = False) -> M:
        return self._answer(path, request, answer, Deadline(self._timeout if timeout is None else timeout), repeat, gone)

    def _answer(self, path: str, request: Message, answer: type[M], deadline: Deadline, repeat: bool = True, gone: bool = False) -> M:
        def made(attempt: int, address: int, timeout: Optional[float]) -> M:
            try:
                one: M = self._transport.unary(path, request, answer, address, timeout)
                return one
            except Error as error:
                if gone and attempt > 1 and error.code is grpc.StatusCode.NOT_FOUND:
                    return answer()
                raise

        return self._attempts(made, deadline, repeat, self._retrier.policy.attempt_timeout if repeat else 0.0)

    def _attempts(self, made: Callable[[int, int, Optional[float]], T], deadline: Deadline, repeat: bool = True, longest: float = 0.0) -> T:
        """Returns what the first attempt made that did not fail: made is called with the number of the
        attempt, counted from 1, its address and its time in seconds, None if it is unbounded. longest:
        that time at most; 0: what the deadline leaves."""
        used: set[int] = set()
        self._retrier.deposit()
        told = Told()
        for attempt in itertools.count(1):
            left = deadline.left()
            if left <= 0:
                raise told.by(Error(grpc.StatusCode.DEADLINE_EXCEEDED, "the call took too long"))
            if longest > 0:
                left = min(left, longest)
            try:
                return made(attempt, self._pick(used), left if left < 1e9 else None)
            except Error as failed:
                error = told.by(failed)
                least = self._retrier.may_repeat(attempt, error) if repeat else None
                if least is None or not self._retrier.wait(attempt, least, deadline, self._closed):
                    raise error from None
        raise AssertionError("unreachable")

    def _pick(self, used: set[int]) -> int:
        """Returns the next address that the call has not used, the next one if it has used all."""
        n = len(self._transport.addresses)
        address = next(self._next) % n
        for _ in range(n - 1):
            if address not in used:
                break
            address = (address + 1) % n
        used.add(address)
        return address

    def _fitting(self, requests: Sequence[recommendations.RecommendRequest]) -> int:
        """Returns how many of the requests fit into one call, at least one."""
        size = 0
        for i, request in enumerate(requests):
            size += request.ByteSize() + _TAG
            if i > 0 and size > self._max_request_bytes:
                return i
        return len(requests)

    def _recommend_all(self, requests: Sequence[recommendations.RecommendRequest], deadline: Deadline) -> list[Result]:
        results = [Result(None, None)] * len(requests)
        told = [Told() for _ in requests]
        left = list(range(len(requests)))  # those to be sent, in order
        for attempt in itertools.count(1):
            sent = self._recommend_once(requests, results, left, deadline)
            for i in left:
                error = results[i].error
                if error is not None:
                    results[i] = Result(None, told[i].by(error))
            if not sent:
                break
            left, least = self._unsettled(attempt, requests, results)
            if not left or not self._retrier.wait(attempt, least, deadline, self._closed):
                break
        return results

    def _recommend_once(
        self, requests: Sequence[recommendations.RecommendRequest], results: list[Result], send: Sequence[int], deadline: Deadline
    ) -> bool:
        """Sends those requests, and reports whether they were answered. If not, the call was retried as such."""
        batch = recommendations.BatchRecommendRequest(requests=[requests[i] for i in send])
        try:
            answers = self._answer(_RECOMMENDATIONS + "BatchRecommend", batch, recommendations.BatchRecommendResponse, deadline).results
            if len(answers) != len(send):
                raise Error(grpc.StatusCode.INTERNAL, f"{len(answers)} results came for {len(send)} requests")
        except Error as error:
            for i in send:
                results[i] = Result(None, error)
            return False
        for i, one in zip(send, answers):
            results[i] = _result_of(one)
        _refuse_shared(requests, results, send)
        for i in send:
            answer = results[i].response
            if answer is not None and answer.request_id and answer.request_id != requests[i].request_id:
                results[i] = Result(
                    None,
                    Error(
                        grpc.StatusCode.INTERNAL,
                        f"the answer to request {answer.request_id[:64]!r} came for request {requests[i].request_id[:64]!r}",
                    ),
                )
        return True

    def _unsettled(
        self, attempt: int, requests: Sequence[recommendations.RecommendRequest], results: Sequence[Result]
    ) -> tuple[list[int], float]:
        """Returns the requests to be sent again, in order, and how long to wait before that at least."""
        answered = {requests[i].target: i for i, result in enumerate(results) if result.error is None}
        again: list[int] = []
        longest = 0.0
        for i, (_, error) in enumerate(results):
            if error is None or answered.get(requests[i].target, -1) > i:
                continue
            least = self._retrier.may_repeat(attempt, error)
            if least is not None:
                again.append(i)
                longest = max(longest, least)
        return again, longest


def _name(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"setpoint: a name is wanted, such as clusters/demo/namespaces/shop/targets/web, not {type(name).__name__}")
    return name


def _constant(token: str) -> TokenSource:
    return lambda: token


def _identified(request: RecommendRequestLike) -> recommendations.RecommendRequest:
    """Returns the request, or a copy with an id. A dry run records nothing and needs none."""
    request = read(recommendations.RecommendRequest, request)
    if request.request_id or request.dry_run:
        return request
    copy = recommendations.RecommendRequest()
    copy.CopyFrom(request)
    copy.request_id = str(uuid.uuid4())
    return copy


def _result_of(one: recommendations.BatchRecommendResult) -> Result:
    kind = one.WhichOneof("result")
    if kind == "response":
        return Result(one.response, None)
    if kind == "error":
        return Result(None, of_status(one.error))
    return Result(None, Error(grpc.StatusCode.INTERNAL, "the service gave neither an answer nor an error"))


def _refuse_shared(requests: Sequence[recommendations.RecommendRequest], results: list[Result], sent: Sequence[int]) -> None:
    """Refuses recommendations that came for several targets: at most one of them is right, and nobody knows which."""
    owners: dict[str, set[str]] = {}
    for i in sent:
        answer = results[i].response
        if answer is not None and answer.recommendation_id:
            owners.setdefault(answer.recommendation_id, set()).add(requests[i].target)
    for i in sent:
        answer = results[i].response
        if answer is not None and len(owners.get(answer.recommendation_id, ())) > 1:
            results[i] = Result(
                None, Error(grpc.StatusCode.INTERNAL, f"recommendation {answer.recommendation_id[:64]!r} came for several targets")
            )
