"""Connections: one channel for each address."""

from __future__ import annotations

import ipaddress
import math
import os
import re
import ssl
import threading
import time
import weakref
from dataclasses import dataclass
from typing import Any, Iterator, Optional

import grpc

from setpoint._errors import Error, of_rpc
from setpoint._token import TokenSource

_DEFAULT_PORT = "9090"
# For how long an address keeps a connection that failed, in seconds.
_ANEW = 1.0
# How many seconds before its end by this clock a call may be over by the server's.
_AT_ONCE = 0.01
_HOST_PORT = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^:\s/\[\]]+))(?::(\d{1,5}))?")


@dataclass(frozen=True)
class TLS:
    """What to trust and who to be. Without any of it: what gRPC trusts, and no certificate."""

    ca_file: Optional[str] = None
    """Certificates that are trusted, PEM."""
    cert_file: Optional[str] = None
    key_file: Optional[str] = None
    """The client's own certificate and its key, PEM: both or neither."""
    server_name: Optional[str] = None
    """What the server's certificate must be for. None: the host of the address."""


def read_addresses(target: str) -> list[str]:
    """Returns the addresses of a list that commas separate, each with its port."""
    if not isinstance(target, str):
        raise TypeError("setpoint: target must be a string, addresses separated by commas")
    return list(dict.fromkeys(_with_port(part.strip(), target) for part in target.split(",")))


def _with_port(address: str, target: str) -> str:
    match = _HOST_PORT.fullmatch(address)
    if match and 0 < int(match[3] or _DEFAULT_PORT) < 65536:
        host = f"[{match[1]}]" if match[1] else match[2]
        return f"{host}:{match[3] or _DEFAULT_PORT}"
    if address.count(":") > 1 and re.fullmatch(r"[0-9A-Fa-f:.]+", address):
        return f"[{address}]:{_DEFAULT_PORT}"  # an IPv6 address without brackets
    raise ValueError(f"setpoint: address {address!r} in {target!r} is not host:port")


def on_loopback(target: str) -> bool:
    """Reports whether all addresses of a list are of this machine only."""
    return all(_is_loopback(address.rsplit(":", 1)[0].strip("[]")) for address in read_addresses(target))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Transport:
    """Makes single attempts of calls."""

    def __init__(
        self,
        target: str,
        *,
        insecure: bool,
        tls: Optional[TLS],
        token: Optional[TokenSource],
        user_agent: str,
        max_request_bytes: int,
        max_answer_bytes: int,
    ) -> None:
        self.addresses = read_addresses(target)
        self._tls = None if insecure else tls or TLS()
        if self._tls and (self._tls.cert_file is None) != (self._tls.key_file is None):
            raise ValueError("setpoint: a client certificate takes both cert_file and key_file")
        self._token = token
        self._options: list[tuple[str, Any]] = [
            ("grpc.primary_user_agent", user_agent),
            ("grpc.max_send_message_length", max_request_bytes),
            ("grpc.max_receive_message_length", max_answer_bytes),
            # The policy of this client is the only one.
            ("grpc.enable_retries", 0),
            ("grpc.service_config_disable_resolution", 1),
            ("grpc.lb_policy_name", "round_robin"),
            ("grpc.use_local_subchannel_pool", 1),  # a new channel is not to wait for what an old one does
            ("grpc.keepalive_time_ms", 30_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            # gRPC's own would leave a service that comes back unnoticed for two minutes.
            ("grpc.initial_reconnect_backoff_ms", 250),
            ("grpc.min_reconnect_backoff_ms", 5000),  # the time of a handshake at least
            ("grpc.max_reconnect_backoff_ms", 5000),
        ]
        if self._tls and self._tls.server_name:
            self._options.append(("grpc.ssl_target_name_override", self._tls.server_name))
            self._options.append(("grpc.default_authority", self._tls.server_name))
        self._lock = threading.Lock()
        self._channels: list[grpc.Channel] = []
        self._version: object = None
        self._looked = 0.0
        self._closed = False
        self._answered = False
        self._failed: dict[int, float] = {}  # since when addresses did not answer
        self._streams: weakref.WeakSet[Any] = weakref.WeakSet()  # also on channels that others have replaced
        self._connect()

    def unary(self, path: str, request: Any, answer: Any, address: int, timeout: Optional[float]) -> Any:
        """Makes one attempt: answer is the class of the message that comes."""
        metadata = self._metadata()
        call: Any = self._channel(address).unary_unary(
            path, request_serializer=type(request).SerializeToString, response_deserializer=answer.FromString
        )
        ends = _end(timeout)
        try:
            response = call(request, timeout=timeout, metadata=metadata)
        except grpc.RpcError as error:
            raise self._told(of_rpc(error), address, ends) from None
        except ValueError:  # the channel was closed meanwhile
            raise self._gone() from None
        self._well(address)
        if response is None:  # gRPC's for a status of success without a whole message
            raise Error(grpc.StatusCode.INTERNAL, "the server ended the call without an answer")
        return response

    def stream(self, path: str, request: Any, answer: Any, address: int, timeout: Optional[float] = None) -> Any:
        """Begins a call with many answers, which received reads. None: it may take any time."""
        metadata = self._metadata()
        call: Any = self._channel(address).unary_stream(
            path, request_serializer=type(request).SerializeToString, response_deserializer=answer.FromString
        )
        try:
            stream = call(request, metadata=metadata, timeout=timeout)
        except ValueError:  # the channel was closed meanwhile
            raise self._gone() from None
        with self._lock:
            self._streams.add(stream)
            if self._closed:
                stream.cancel()
        return stream

    def received(self, call: Any, address: int, timeout: Optional[float] = None) -> Iterator[Any]:
        """Returns what comes on a stream that has just begun, with its time."""
        ends = _end(timeout)
        try:
            for response in call:
                self._well(address)
                yield response
        except grpc.RpcError as error:
            raise self._told(of_rpc(error), address, ends) from None
        except ValueError:
            raise self._gone() from None

    def _well(self, address: int) -> None:
        """Notes an answer."""
        self._answered = True
        self._failed.pop(address, None)

    def _told(self, error: Error, address: int, ends: float) -> Error:
        """Adds what to do where the two sides may differ about TLS, as gRPC's own words do not. Where the server is the first to
        see that a call's time is over it resets the stream, for which gRPC's word is CANCELLED."""
        if error.code is grpc.StatusCode.CANCELLED and not self._closed and time.monotonic() >= ends - _AT_ONCE:
            return Error(grpc.StatusCode.DEADLINE_EXCEEDED, "the call took too long")
        if error.code is not grpc.StatusCode.UNAVAILABLE or error.reason is not None:
            if error.code is not grpc.StatusCode.DEADLINE_EXCEEDED:
                self._failed.pop(address, None)
            return error
        self._failed.setdefault(address, time.monotonic())
        if self._answered:
            return error
        hint = ""
        if self._tls and re.search("wrong.version.number", error.message, re.IGNORECASE):
            hint = "the server speaks no TLS: on a trusted network pass insecure=True"
        elif not self._tls and re.search("socket closed|connection reset|closed connection|goaway|preface", error.message, re.IGNORECASE):
            hint = "the server ended the connection without a word: if it speaks TLS, pass tls=setpoint.TLS(…)"
        return Error(error.code, f"{error.message}: {hint}") if hint else error

    def _metadata(self) -> Optional[tuple[tuple[str, str], ...]]:
        if not self._token:
            return None
        try:
            token = self._token()
            if not token:
                raise ValueError("there is none")
            fits = re.fullmatch("[ -~]*", token)
        except Exception as error:
            raise Error(grpc.StatusCode.UNAUTHENTICATED, f"bearer token: {error}") from error
        if not fits:
            raise Error(grpc.StatusCode.UNAUTHENTICATED, "bearer token: it has a line break, or another character that no header may have")
        return (("authorization", "Bearer " + token),)

    def _channel(self, address: int) -> grpc.Channel:
        self._connect()
        with self._lock:
            if self._closed:
                raise Error(grpc.StatusCode.CANCELLED, "the client is closed")
            # Some versions of gRPC work on a connection only during a call, so that a handshake runs out of its time between
            # two. Where nothing else answers, a call has a connection of its own begun.
            now = time.monotonic()
            if len(self._failed) == len(self.addresses) and now - self._failed.get(address, now) >= _ANEW:
                self._channels[address], self._failed[address] = self._opened(address), now
            return self._channels[address]

    def _opened(self, address: int) -> grpc.Channel:
        name, options = self.addresses[address], self._options
        if on_loopback(name):
            options = [*options, ("grpc.enable_http_proxy", 0)]  # a proxy of the environment is on another machine
        return grpc.secure_channel(name, self._trusted, options) if self._trusted else grpc.insecure_channel(name, options)

    def _gone(self) -> Error:
        return Error(grpc.StatusCode.CANCELLED if self._closed else grpc.StatusCode.UNAVAILABLE, "the connection was closed")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            channels, streams = self._channels, list(self._streams)
        for stream in streams:
            stream.cancel()
        for channel in channels:
            channel.close()

    def _connect(self) -> None:
        """Makes the channels, anew when a file has changed."""
        with self._lock:
            first = not self._channels
            if self._closed or not first and (not self._tls or time.monotonic() - self._looked < 1):
                return
            self._looked = time.monotonic()
            try:
                version = self._files_version()
                if not first and version == self._version:
                    return
                trusted = self._credentials()
                if not first and version != self._files_version():
                    return
            except (OSError, ValueError) as error:
                if not first:
                    return  # files are being replaced
                if isinstance(error, OSError):
                    raise type(error)(error.errno, f"setpoint: a file of tls: {error.strerror}", error.filename) from None
                raise
            self._trusted = trusted
            # Calls on the channels of before end by themselves; these close when nobody has them.
            self._channels = [self._opened(i) for i in range(len(self.addresses))]
            self._version = version
            self._failed.clear()

    def _files_version(self) -> object:
        names = (self._tls.ca_file, self._tls.cert_file, self._tls.key_file) if self._tls else ()
        found = [os.stat(name) for name in names if name]
        return [(f.st_ino, f.st_mtime_ns, f.st_size) for f in found]

    def _credentials(self) -> Optional[grpc.ChannelCredentials]:
        if not self._tls:
            return None
        tls = self._tls
        # gRPC takes whatever they hold, and then fails each call without a word about it.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            if tls.ca_file:
                context.load_verify_locations(tls.ca_file)
        except ssl.SSLError as error:
            raise ValueError(f"setpoint: ca_file: {tls.ca_file} must be certificates in PEM: {error}") from None
        try:
            if tls.cert_file:
                context.load_cert_chain(tls.cert_file, tls.key_file, password="")  # gRPC asks for none, either
        except ssl.SSLError as error:
            raise ValueError(f"setpoint: cert_file and key_file: {tls.cert_file} and {tls.key_file} must be a certificate and its key in PEM: {error}") from None
        return grpc.ssl_channel_credentials(_read(tls.ca_file), _read(tls.key_file), _read(tls.cert_file))


def _end(timeout: Optional[float]) -> float:
    """Returns when a call is over that begins now."""
    return math.inf if timeout is None else time.monotonic() + timeout


def _read(name: Optional[str]) -> Optional[bytes]:
    if name is None:
        return None
    with open(name, "rb") as file:
        return file.read()
