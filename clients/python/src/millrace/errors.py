"""What a call can fail with: one class for each thing a caller does differently.

Every error carries the canonical code (grpc.StatusCode), the reason from the server's fixed list ("" when it gave
none) and, where waiting helps, the seconds to wait. A failed call raises; an item of a batch that did not happen is
returned as an error object in its place.
"""

from __future__ import annotations

from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

DOMAIN = "millrace"
# What gRPC says when a call failed because there was no connection to send it on.
_NEVER_SENT = "failed to connect to all addresses"
_DETAILS_KEY = "grpc-status-details-bin"
_CODE_BY_NUMBER = {code.value[0]: code for code in grpc.StatusCode}


class MillraceError(Exception):
    """A call or one item of a batch did not succeed. The base of everything this package raises for the server."""

    def __init__(
        self,
        message: str,
        *,
        code: grpc.StatusCode = grpc.StatusCode.UNKNOWN,
        reason: str = "",
        retry_after: float | None = None,
        fields: dict[str, str] | None = None,
    ):
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        # Seconds the server asks to wait before another try, or None.
        self.retry_after = retry_after
        # Wrong request fields and what is wrong with them.
        self.fields = dict(fields or {})

    def __str__(self) -> str:
        name = f"{self.code.name} {self.reason}".rstrip()
        return f"{name}: {self.message}"

    @property
    def surely_not_done(self) -> bool:
        """Whether the server said that nothing happened. False also when the reply may merely have been lost."""
        return True


class InvalidArgument(MillraceError):
    """The request is wrong as it is; `fields` names what. The same call will fail again."""


class PayloadTooLarge(InvalidArgument):
    """One task's payload is above the server's limit."""


class QueueNotFound(MillraceError):
    """No queue of this name has ever been used."""


class LeaseLost(MillraceError):
    """The token is not the task's current lease: it ended, expired, or was handed to somebody else. Nothing changed."""


class ResourceExhausted(MillraceError):
    """A limit or a full buffer. Surely not done; try again after `retry_after` seconds."""


class Unavailable(MillraceError):
    """The server cannot be reached or cannot do it now.

    The reason tells whether it may have happened: STORE_READ_ONLY and DRAINING say it did not, and neither did a call
    that found no connection to go out on; OUTCOME_UNKNOWN, or a connection that broke, leave it open.
    """

    @property
    def surely_not_done(self) -> bool:
        return self.reason in ("STORE_READ_ONLY", "DRAINING") or (
            not self.reason and self.message.startswith(_NEVER_SENT)
        )


class DeadlineExceeded(MillraceError):
    """No answer within the call's timeout. It may have happened."""

    @property
    def surely_not_done(self) -> bool:
        return False


class Cancelled(MillraceError):
    """The call was cancelled on this side. It may have happened."""

    @property
    def surely_not_done(self) -> bool:
        return False


class ServerFault(MillraceError):
    """The server failed in a way it should not (INTERNAL, UNKNOWN, DATA_LOSS). It may have happened."""

    @property
    def surely_not_done(self) -> bool:
        return False


class PermanentError(Exception):
    """Raised by a handler to say that no further attempt will help: the task is set aside as dead at once."""


_BY_REASON: dict[str, type[MillraceError]] = {
    "LEASE_LOST": LeaseLost,
    "QUEUE_NOT_FOUND": QueueNotFound,
    "PAYLOAD_TOO_LARGE": PayloadTooLarge,
}

_BY_CODE: dict[grpc.StatusCode, type[MillraceError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgument,
    grpc.StatusCode.OUT_OF_RANGE: InvalidArgument,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.CANCELLED: Cancelled,
    grpc.StatusCode.INTERNAL: ServerFault,
    grpc.StatusCode.UNKNOWN: ServerFault,
    grpc.StatusCode.DATA_LOSS: ServerFault,
}


def error_class(code: grpc.StatusCode, reason: str) -> type[MillraceError]:
    """The reason decides where it is known, else the code."""
    return _BY_REASON.get(reason) or _BY_CODE.get(code, MillraceError)


def from_item(item: Any) -> MillraceError:
    """The error object for a batch item's ItemError."""
    code = _CODE_BY_NUMBER.get(item.code, grpc.StatusCode.UNKNOWN)
    return error_class(code, item.reason)(item.message, code=code, reason=item.reason)


def from_rpc(error: grpc.RpcError) -> MillraceError:
    """The exception for a failed call, with what the status details say."""
    code = error.code() if callable(getattr(error, "code", None)) else grpc.StatusCode.UNKNOWN
    message = (error.details() if callable(getattr(error, "details", None)) else None) or ""
    trailers = error.trailing_metadata() if callable(getattr(error, "trailing_metadata", None)) else None
    reason, retry_after, fields = read_details(_details_bytes(trailers))
    return error_class(code, reason)(
        message, code=code, reason=reason, retry_after=retry_after, fields=fields
    )


def read_details(data: bytes) -> tuple[str, float | None, dict[str, str]]:
    """(reason, retry_after, fields) of a serialized google.rpc.Status; bytes that do not parse count as none."""
    reason, retry_after, fields = "", None, {}
    status = status_pb2.Status()
    try:
        status.ParseFromString(data)
        for detail in status.details:
            if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
                info = error_details_pb2.ErrorInfo()
                detail.Unpack(info)
                if info.domain == DOMAIN:
                    reason = info.reason
            elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
                retry = error_details_pb2.RetryInfo()
                detail.Unpack(retry)
                retry_after = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
            elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
                bad = error_details_pb2.BadRequest()
                detail.Unpack(bad)
                fields = {v.field: v.description for v in bad.field_violations}
    except Exception:  # noqa: BLE001 - a peer's bytes never break the error path
        return reason, retry_after, fields
    return reason, retry_after, fields


def _details_bytes(trailers: Any) -> bytes:
    for key, value in trailers or ():
        if key == _DETAILS_KEY:
            return value if isinstance(value, bytes) else value.encode("latin-1")
    return b""
