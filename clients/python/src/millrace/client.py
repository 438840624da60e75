"""Calls to a Millrace server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator, Sequence, Union

import grpc

from . import codec as codecs
from . import errors
from .tls import Tls
from .types import (LeasedTask, NewTask, QueueCounts, QueueInfo, Seconds, StoredTask, TaskState, from_duration,
                    to_duration, to_seconds)
from .v1 import queue_pb2, queue_pb2_grpc

# What a server waits at most when a lease call names no wait time.
_LONGEST_WAIT = 60.0
_CHANNEL_OPTIONS = (
    # A worker should be back soon after the server is.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # A lease or peek may carry many payloads.
    ("grpc.max_receive_message_length", 256 * 1024 * 1024),
    ("grpc.max_send_message_length", 256 * 1024 * 1024),
)


@dataclass(frozen=True)
class EnqueueResult:
    """What became of one task of a batch: a task id, or the error why it was not stored."""

    task_id: str = ""
    error: errors.MillraceError | None = None

    @property
    def ok(self) -> bool:
        return self.error is None


@dataclass(frozen=True)
class FailItem:
    """One task to fail: its token, why, and whether further attempts are pointless."""

    lease_token: bytes
    error_message: str = ""
    permanent: bool = False


# Per item: None = done, else why not.
ItemErrors = list[Union[errors.MillraceError, None]]


class Client:
    """A connection to one server, made on first use and renewed by itself.

    Threads: every method may be called from any thread at once. Calls block until the answer or `timeout` seconds.
    Fails: a call raises a MillraceError subclass. Batch calls (`..._many`) report each item by itself and raise only
    when the call as a whole failed. Nothing is retried here: after `Unavailable` or `DeadlineExceeded` look at
    `surely_not_done` before you enqueue again, or the task may be stored twice.
    """

    def __init__(
        self,
        address: str = "127.0.0.1:7630",
        *,
        timeout: Seconds = 10.0,
        codec: codecs.Codec = codecs.BYTES,
        tls: Tls | bool = False,
        credentials: grpc.ChannelCredentials | None = None,
        options: Sequence[tuple[str, Any]] = (),
    ):
        """`address` is host:port or unix:/path. `tls`: True trusts the system's roots, a Tls says more; without it the
        connection is plain text (`credentials` are gRPC's own way to say the same). `codec` encodes payloads. Raises
        OSError when a file of `tls` cannot be read."""
        self._timeout = to_seconds(timeout)
        self.codec = codec
        all_options = [*_CHANNEL_OPTIONS, *options]
        if tls:
            if credentials is not None:
                raise ValueError("tls and credentials exclude each other")
            details = tls if isinstance(tls, Tls) else Tls()
            credentials = details.credentials()
            all_options += details.options()
        if credentials is None:
            self._channel = grpc.insecure_channel(address, options=all_options)
        else:
            self._channel = grpc.secure_channel(address, credentials, options=all_options)
        self._stub = queue_pb2_grpc.QueueServiceStub(self._channel)

    def close(self) -> None:
        """Closes the connection; calls in progress end as cancelled."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Producing.

    def enqueue(
        self,
        queue: str,
        payload: Any,
        *,
        headers: dict[str, str] | None = None,
        max_attempts: int = 0,
        time_to_live: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> str:
        """Stores one task and returns its id. It is durable when this returns.

        `max_attempts` counts the first one; 0 = the server's setting. `time_to_live`: seconds after which the task is
        dropped if nobody leased it. Raises InvalidArgument, PayloadTooLarge, ResourceExhausted, Unavailable,
        DeadlineExceeded.
        """
        task = NewTask(payload, headers or {}, max_attempts, time_to_live)
        result = self.enqueue_many(queue, [task], timeout=timeout)[0]
        if result.error is not None:
            raise result.error
        return result.task_id

    def enqueue_many(
        self, queue: str, tasks: Iterable[Any], *, timeout: Seconds | None = None
    ) -> list[EnqueueResult]:
        """Stores 1 to 1,000 tasks (NewTask, or bare payloads) in this order, in one call; one result per task."""
        request = queue_pb2.EnqueueRequest(queue=queue)
        for task in tasks:
            request.tasks.append(self._new_task(task if isinstance(task, NewTask) else NewTask(task)))
        response = self._call(self._stub.Enqueue, request, timeout)
        _check_count(response.results, request.tasks)
        return [
            EnqueueResult(error=errors.from_item(r.error)) if r.HasField("error") else EnqueueResult(r.task_id)
            for r in response.results
        ]

    # Working.

    def lease(
        self,
        queue: str,
        max_tasks: int = 1,
        *,
        lease_duration: Seconds = 30,
        wait: Seconds | None = None,
        worker_id: str = "",
        timeout: Seconds | None = None,
    ) -> list[LeasedTask]:
        """Takes up to `max_tasks` (1 to 1,000) waiting tasks, each leased for `lease_duration` seconds (1 s to 12 h).

        Waits up to `wait` seconds for the first one: 0 = do not wait, None = as long as the server allows. An empty
        list means that none came. `timeout` is for the whole call, default: the wait and the client's timeout.
        """
        return self.start_lease(
            queue, max_tasks, lease_duration=lease_duration, wait=wait, worker_id=worker_id, timeout=timeout
        ).result()

    def start_lease(
        self,
        queue: str,
        max_tasks: int = 1,
        *,
        lease_duration: Seconds = 30,
        wait: Seconds | None = None,
        worker_id: str = "",
        timeout: Seconds | None = None,
    ) -> PendingLease:
        """As lease, without blocking: the returned call is waited for with result() and ended early with cancel()."""
        request = queue_pb2.LeaseRequest(
            queue=queue, max_tasks=max_tasks, lease_duration=to_duration(lease_duration), worker_id=worker_id
        )
        if wait is not None:
            request.wait_time.CopyFrom(to_duration(wait))
        if timeout is None:
            timeout = (_LONGEST_WAIT if wait is None else to_seconds(wait)) + self._timeout
        try:
            return PendingLease(queue, self._stub.Lease.future(request, timeout=to_seconds(timeout)))
        except ValueError as error:
            raise errors.Cancelled(f"the client is closed: {error}", code=grpc.StatusCode.CANCELLED) from error

    def complete(self, task: LeasedTask, *, timeout: Seconds | None = None) -> None:
        """Ends a task as done. It never comes back once this returns. Raises LeaseLost if the lease had ended.

        After Unavailable or DeadlineExceeded it may be done or not: call again. LeaseLost on such a second try means
        that either the first one did it, or the lease ended in between.
        """
        _raise_first(self.complete_many(task.queue, [task.lease_token], timeout=timeout))

    def complete_many(self, queue: str, tokens: Iterable[bytes], *, timeout: Seconds | None = None) -> ItemErrors:
        """Ends 1 to 1,000 tasks of one queue as done."""
        request = queue_pb2.CompleteRequest(queue=queue, lease_tokens=tokens)
        response = self._call(self._stub.Complete, request, timeout)
        return _item_errors(response.results, request.lease_tokens)

    def fail(
        self, task: LeasedTask, message: str = "", *, permanent: bool = False, timeout: Seconds | None = None
    ) -> None:
        """Gives a task back as failed: to the end of the queue with attempt + 1, or dead when its attempts are used up
        or `permanent`. Raises LeaseLost."""
        _raise_first(self.fail_many(task.queue, [FailItem(task.lease_token, message, permanent)], timeout=timeout))

    def fail_many(self, queue: str, items: Iterable[FailItem], *, timeout: Seconds | None = None) -> ItemErrors:
        """Fails 1 to 1,000 tasks of one queue."""
        request = queue_pb2.FailRequest(queue=queue)
        for item in items:
            request.items.add(
                lease_token=item.lease_token, error_message=item.error_message, permanent=item.permanent
            )
        response = self._call(self._stub.Fail, request, timeout)
        return _item_errors(response.results, request.items)

    def extend(self, task: LeasedTask, lease_duration: Seconds = 30, *, timeout: Seconds | None = None) -> None:
        """Sets the time left of a lease to `lease_duration` seconds from now (1 s to 12 h). Raises LeaseLost."""
        _raise_first(self.extend_many(task.queue, [task.lease_token], lease_duration, timeout=timeout))

    def extend_many(
        self, queue: str, tokens: Iterable[bytes], lease_duration: Seconds = 30, *, timeout: Seconds | None = None
    ) -> ItemErrors:
        """Extends 1 to 1,000 leases of one queue."""
        request = queue_pb2.ExtendRequest(
            queue=queue, lease_tokens=tokens, lease_duration=to_duration(lease_duration)
        )
        response = self._call(self._stub.Extend, request, timeout)
        return _item_errors(response.results, request.lease_tokens)

    def release(self, task: LeasedTask, *, timeout: Seconds | None = None) -> None:
        """Gives a task back unworked: to the end of the queue, no attempt charged. Raises LeaseLost."""
        _raise_first(self.release_many(task.queue, [task.lease_token], timeout=timeout))

    def release_many(self, queue: str, tokens: Iterable[bytes], *, timeout: Seconds | None = None) -> ItemErrors:
        """Releases 1 to 1,000 tasks of one queue."""
        request = queue_pb2.ReleaseRequest(queue=queue, lease_tokens=tokens)
        response = self._call(self._stub.Release, request, timeout)
        return _item_errors(response.results, request.lease_tokens)

    # Looking.

    def peek(
        self,
        queue: str,
        state: TaskState | None = None,
        *,
        payloads: bool = True,
        page_size: int = 100,
        timeout: Seconds | None = None,
    ) -> Iterator[StoredTask]:
        """Goes through the stored tasks in queue order without leasing them, page by page as they are asked for.

        `state` None = waiting and leased. Tasks that move while this pages may be missed or seen twice. Raises
        QueueNotFound.
        """
        view = queue_pb2.TASK_VIEW_FULL if payloads else queue_pb2.TASK_VIEW_BASIC
        request = queue_pb2.PeekRequest(queue=queue, state=int(state or 0), page_size=page_size, view=view)
        while True:
            response = self._call(self._stub.Peek, request, timeout)
            for task in response.tasks:
                yield _stored_task(task)
            if not response.next_page_token:
                return
            request.page_token = response.next_page_token

    def describe(self, queue: str, *, timeout: Seconds | None = None) -> QueueInfo:
        """Counts and levels of one queue. Raises QueueNotFound."""
        response = self._call(self._stub.Describe, queue_pb2.DescribeRequest(queue=queue), timeout)
        return _queue_info(response.queue)

    def list_queues(
        self, name_prefix: str = "", *, page_size: int = 100, timeout: Seconds | None = None
    ) -> Iterator[QueueInfo]:
        """Goes through the queues whose names start with `name_prefix`, page by page."""
        request = queue_pb2.ListRequest(page_size=page_size, name_prefix=name_prefix)
        while True:
            response = self._call(self._stub.List, request, timeout)
            for info in response.queues:
                yield _queue_info(info)
            if not response.next_page_token:
                return
            request.page_token = response.next_page_token

    def _call(self, method: Callable[..., Any], request: Any, timeout: Seconds | None) -> Any:
        try:
            return method(request, timeout=self._timeout if timeout is None else to_seconds(timeout))
        except grpc.RpcError as error:
            raise errors.from_rpc(error) from error
        except ValueError as error:
            raise errors.Cancelled(f"the client is closed: {error}", code=grpc.StatusCode.CANCELLED) from error

    def _new_task(self, task: NewTask) -> Any:
        message = queue_pb2.NewTask(
            payload=self.codec.encode(task.payload), headers=task.headers, max_attempts=task.max_attempts
        )
        if task.time_to_live is not None:
            message.time_to_live.CopyFrom(to_duration(task.time_to_live))
        return message


class PendingLease:
    """A lease call under way. Threads: any."""

    def __init__(self, queue: str, future: Any):
        self._queue = queue
        self._future = future

    def result(self) -> list[LeasedTask]:
        """Waits for the answer. Raises MillraceError; Cancelled after cancel()."""
        try:
            response = self._future.result()
        except grpc.FutureCancelledError as error:
            raise errors.Cancelled("the lease call was cancelled", code=grpc.StatusCode.CANCELLED) from error
        except grpc.RpcError as error:
            raise errors.from_rpc(error) from error
        return [_leased_task(self._queue, task) for task in response.tasks]

    def cancel(self) -> None:
        """Ends the call. A task the server was just handing out comes back when its lease ends."""
        self._future.cancel()


def _check_count(results: Any, items: Any) -> None:
    if len(results) != len(items):
        raise errors.ServerFault(
            f"the server answered {len(results)} results for {len(items)} items", code=grpc.StatusCode.INTERNAL
        )


def _item_errors(results: Any, items: Any) -> ItemErrors:
    _check_count(results, items)
    return [errors.from_item(r.error) if r.HasField("error") else None for r in results]


def _raise_first(item_errors: ItemErrors) -> None:
    if item_errors[0] is not None:
        raise item_errors[0]


def _timestamp(value: Any) -> float:
    return value.seconds + value.nanos / 1e9


def _leased_task(queue: str, task: Any) -> LeasedTask:
    return LeasedTask(
        queue=queue,
        task_id=task.task_id,
        lease_token=task.lease_token,
        data=task.payload,
        headers=dict(task.headers),
        attempt=task.attempt,
        max_attempts=task.max_attempts,
        enqueue_time=_timestamp(task.enqueue_time),
        lease_duration=from_duration(task.lease_duration),
    )


def _stored_task(task: Any) -> StoredTask:
    return StoredTask(
        task_id=task.task_id,
        state=TaskState(task.state),
        data=task.payload,
        headers=dict(task.headers),
        attempt=task.attempt,
        max_attempts=task.max_attempts,
        enqueue_time=_timestamp(task.enqueue_time),
        expiry_time=_timestamp(task.expiry_time) if task.HasField("expiry_time") else None,
        lease_time_left=from_duration(task.lease_time_left),
        worker_id=task.worker_id,
        error_message=task.error_message,
    )


def _queue_info(info: Any) -> QueueInfo:
    c = info.counts
    return QueueInfo(
        name=info.name,
        counts=QueueCounts(c.accepted, c.done, c.waiting, c.leased, c.dead, c.dropped),
        oldest_age=from_duration(info.oldest_age) if info.HasField("oldest_age") else None,
        pollers=info.pollers,
        loaded=info.loaded,
        backlog={name.name: getattr(info.backlog, name.name) for name in info.backlog.DESCRIPTOR.fields},
    )
