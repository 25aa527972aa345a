"""The errors of calibd: one class for each gRPC status code."""
from __future__ import annotations

from typing import Any, ClassVar, Iterable, NamedTuple, Sequence, Type, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from calibd.remedies import REMEDIES
from calibd.rpc import status_pb2

_Detail = TypeVar("_Detail", bound=Message)

# The delay of a RetryInfo is bounded, so that a wrong response cannot block a client for years.
_MAX_RETRY_SECONDS = 3600.0
_MAX_SHOWN_FIELDS = 10
# The remedy of these is to correct what the message names.
_OBVIOUS = ("INVALID_ARGUMENT", "INVALID_FIELD", "INVALID_OBSERVATIONS", "INVALID_DECLARATION")
# Texts of a server have at most so many characters.
_MAX_TEXT = 10_000


# What gRPC says of an address that no repetition will reach, and what to do.
_HOPELESS = {
    "Trying to connect an http1.x server": (
        "This port speaks HTTP: give the gRPC port of calibd, which is 8460 unless --listen says "
        "otherwise."),
    "DNS resolution failed": (
        "Check the name of the host in the address, which was given or is in CALIBD_SERVER."),
    "is not in peer certificate": (
        "The certificate of the server is not for this host: use a host name that is in the "
        "certificate, or name one by calibd.Tls(server_name=...)."),
} | dict.fromkeys(("certificate verify failed", "CERTIFICATE_VERIFY_FAILED"), (
    "The certificate of the server is not accepted: none of the CAs in Tls.ca has issued it, or it has "
    "expired.")) | dict.fromkeys(("wrong version number", "WRONG_VERSION_NUMBER"), (
        "The server does not use TLS: leave out tls, or check the port."))
# Those of other causes too, so that a call tries again.
_CLOSED = {
    "Endpoint read failed": (
        "The server closed the connection after the handshake of TLS. If this happens again, it does "
        "not accept the certificate of this client, or needs one: give calibd.Tls(certificate=..., "
        "key=...). The log of calibd says what is wrong."),
    "Socket closed": (
        "The server closed the connection at once. If this happens again, only one side uses TLS: give "
        "calibd.Tls(ca=...) for a server with TLS, and leave it out for one without."),
}


class FieldError(NamedTuple):
    """A field that is invalid: its path, such as `rows[17].probabilities`, and what is wrong."""

    path: str
    description: str


# Fields of a request that are lists with one entry for each row.
_LISTS = ("labels", "outcomes", "prediction_ids", "prediction_times", "group_values")


def path_of(field: str, row: int) -> str:
    """The path of a field of a row as the server names it: `rows[17].probabilities[1]`, or `labels[17]`
    for a list with one entry for each row."""
    return f"{field}[{row}]" if field in _LISTS else f"rows[{row}].{field}"


class CalibdError(Exception):
    """An error of a call or a stream.

    message: what was found and what was expected.
    fields: the invalid fields, the first ones if there are many.
    reason: a stable word such as MODEL_NOT_FOUND; without one, the name of the code.
    retry_seconds: how long to wait before the next attempt, or None if the server named no time.
    """

    code: ClassVar[grpc.StatusCode] = grpc.StatusCode.UNKNOWN
    # The remedy of errors without a reason of docs/errors.md.
    _remedy: ClassVar[str] = "See the log of the server."

    def __init__(self, message: str, fields: Sequence[FieldError] = (), reason: str = "",
                 retry_seconds: float | None = None) -> None:
        super().__init__(message, tuple(fields), reason, retry_seconds)
        self.message = message
        self.fields = tuple(fields)
        self.reason = reason or self.code.name
        self._has_reason = bool(reason)
        self.retry_seconds = retry_seconds

    def with_addition(self, text: str) -> CalibdError:
        """The same error with a further message."""
        return type(self)(f"{self.message}; {text}", self.fields,
                          self.reason if self._has_reason else "", self.retry_seconds)

    @property
    def remedy(self) -> str:
        """What to do, in a sentence."""
        if self.retry_seconds is not None:
            return f"Try again in {self.retry_seconds:g} s."
        return REMEDIES.get(self.reason, self._remedy)

    def __str__(self) -> str:
        more = [f"{field.path}: {field.description}" for field in self.fields[:_MAX_SHOWN_FIELDS]
                if field.description not in self.message]
        # A message that names the fields and what is expected needs no remedy.
        remedy = "" if self.fields and self.reason in _OBVIOUS else f" {self.remedy}"
        return f"{'; '.join([self.message, *more])} [{self.code.name}]{remedy}"


class Cancelled(CalibdError):
    """The call or the stream was cancelled."""

    code = grpc.StatusCode.CANCELLED
    _remedy = "Start it again if it is still needed."


class Unknown(CalibdError):
    """The server gave no reason."""


class InvalidArgument(CalibdError, ValueError):
    """A value is invalid; `fields` names it."""

    code = grpc.StatusCode.INVALID_ARGUMENT
    _remedy = "Correct the named fields."


class DeadlineExceeded(CalibdError):
    """The server did not answer in time."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED
    _remedy = "Check the server and the network, or allow more time."


class NotFound(CalibdError):
    """There is no such model or alarm."""

    code = grpc.StatusCode.NOT_FOUND
    _remedy = "Check the name: list_models() lists the models."


class AlreadyExists(CalibdError):
    """The name, number or id is in use for something else."""

    code = grpc.StatusCode.ALREADY_EXISTS
    _remedy = "Use another name or id, or repeat the same content."


class PermissionDenied(CalibdError):
    """The caller may not do this."""

    code = grpc.StatusCode.PERMISSION_DENIED
    _remedy = "Ask the operator of the server for the right."


class ResourceExhausted(CalibdError):
    """A limit of the server is reached."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    _remedy = "Send less, or raise the limit that the message names."


class FailedPrecondition(CalibdError):
    """The state of the model or the producer does not allow this."""

    code = grpc.StatusCode.FAILED_PRECONDITION
    _remedy = "The same call fails until that is changed."


class Aborted(CalibdError):
    """Another producer or a broken stream prevented this."""

    code = grpc.StatusCode.ABORTED
    _remedy = "Use a producer_id for one producer at a time, and open the stream again."


class OutOfRange(CalibdError):
    """A position is outside the valid range."""

    code = grpc.StatusCode.OUT_OF_RANGE
    _remedy = "Correct the named fields."


class Unimplemented(CalibdError):
    """The server does not know the call."""

    code = grpc.StatusCode.UNIMPLEMENTED
    _remedy = "Check that a calibd of this version answers at this address."


class Internal(CalibdError):
    """A fault in the server or the transport."""

    code = grpc.StatusCode.INTERNAL


class Unavailable(CalibdError):
    """The server cannot be reached, or is starting or stopping."""

    code = grpc.StatusCode.UNAVAILABLE
    _remedy = ("Check that calibd runs, and that its address, which was given or is in CALIBD_SERVER, "
               "is right.")

    @property
    def remedy(self) -> str:
        """What to do, in a sentence."""
        # A connection that closed later says nothing about TLS.
        known = _HOPELESS | _CLOSED if "failed to connect" in self.message else _HOPELESS
        return next((remedy for words, remedy in known.items() if words in self.message),
                    super().remedy)


class DataLoss(CalibdError):
    """The store is damaged, or the server has lost acknowledged data."""

    code = grpc.StatusCode.DATA_LOSS
    _remedy = "Run `calibctl verify`, and restore a backup if it finds damage."


class Unauthenticated(CalibdError):
    """The caller is unknown."""

    code = grpc.StatusCode.UNAUTHENTICATED
    _remedy = "Check the credentials."


def invalid(field: str, description: str, reason: str = "") -> InvalidArgument:
    """The error of one field: its name, and what it is and should be."""
    return InvalidArgument(f"{field} {description}", [FieldError(field, description)], reason)


_CLASSES: dict[int, Type[CalibdError]] = {kind.code.value[0]: kind for kind in (
    Cancelled, Unknown, InvalidArgument, DeadlineExceeded, NotFound, AlreadyExists, PermissionDenied,
    ResourceExhausted, FailedPrecondition, Aborted, OutOfRange, Unimplemented, Internal, Unavailable,
    DataLoss, Unauthenticated)}


def of_code(code: int, message: str) -> CalibdError:
    """The error of a gRPC status code that is not OK."""
    return _CLASSES.get(code, Unknown)(message)


def _detail(status: status_pb2.Status, kind: Type[_Detail]) -> _Detail | None:
    for detail in status.details:
        if detail.type_url == f"type.googleapis.com/google.rpc.{kind.DESCRIPTOR.name}":
            try:
                found: _Detail = kind.FromString(detail.value)
                return found
            except DecodeError:
                return None
    return None


def printable(text: str) -> str:
    """A text of a server with its control, bidirectional and separating characters escaped.

    It is also cut to the length that a message of a server may have.
    """
    text = text[:_MAX_TEXT]
    return text if text.isprintable() else "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def violations(found: Iterable[status_pb2.BadRequest.FieldViolation]) -> list[FieldError]:
    """The invalid fields that a server names."""
    return [FieldError(printable(one.field), printable(one.description)) for one in found]


def from_status(status: status_pb2.Status) -> CalibdError:
    """The error of a status of the server that is not OK."""
    retry = _detail(status, status_pb2.RetryInfo)
    bad_request = _detail(status, status_pb2.BadRequest)
    info = _detail(status, status_pb2.ErrorInfo)
    fields = violations(bad_request.field_violations) if bad_request is not None else []
    seconds = None
    if retry is not None:
        asked = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
        seconds = min(max(asked, 0.0), _MAX_RETRY_SECONDS)
    return _CLASSES.get(status.code, Unknown)(
        printable(status.message), fields, printable(info.reason) if info is not None else "", seconds)


def from_rpc_error(error: Any) -> CalibdError:
    """The error of a grpc.RpcError, which is also a grpc.Call."""
    code = error.code().value[0]
    details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    try:
        status = status_pb2.Status.FromString(details)
    except DecodeError:
        status = status_pb2.Status()
    # Details that belong to another status are ignored.
    if status.code != code:
        status = status_pb2.Status()
    status.code = code
    status.message = error.details() or ""
    return from_status(status)


def is_retryable(error: CalibdError) -> bool:
    """Whether the same call may succeed later."""
    return isinstance(error, Unavailable) or (
        isinstance(error, ResourceExhausted) and error.retry_seconds is not None)


def is_hopeless(error: CalibdError | None) -> bool:
    """Whether the address is certainly wrong: no calibd answers there, or its host has no address."""
    return isinstance(error, Unavailable) and any(words in error.message for words in _HOPELESS)


def is_cut_off(error: CalibdError) -> bool:
    """Whether the transport produced the error itself because a connection broke."""
    # The server gives each of its errors a reason.
    return isinstance(error, (Unknown, Internal, Cancelled)) and not error._has_reason
