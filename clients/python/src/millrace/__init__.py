"""Client and worker for the Millrace durable task queue.

    import millrace

    with millrace.Client("127.0.0.1:7630", codec=millrace.JSON) as client:
        client.enqueue("mail", {"to": "ada@example.org"})
        millrace.Worker(client, "mail", lambda job: print(job.payload), until_empty=True).run()
"""

from .client import Client, EnqueueResult, FailItem, PendingLease
from .codec import BYTES, JSON, TEXT, Codec
from .errors import (Cancelled, DeadlineExceeded, InvalidArgument, LeaseLost, MillraceError, PayloadTooLarge,
                     PermanentError, QueueNotFound, ResourceExhausted, ServerFault, Unavailable)
from .job import Job, LeaseCancelled, Outcome
from .tls import Tls
from .types import LeasedTask, NewTask, QueueCounts, QueueInfo, StoredTask, TaskState
from .worker import Worker, WorkerStats

__all__ = [
    "BYTES", "JSON", "TEXT", "Cancelled", "Client", "Codec", "DeadlineExceeded", "EnqueueResult", "FailItem",
    "InvalidArgument", "Job", "LeaseCancelled", "LeaseLost", "LeasedTask", "MillraceError", "NewTask", "Outcome",
    "PayloadTooLarge", "PendingLease", "PermanentError", "QueueCounts", "QueueInfo", "QueueNotFound",
    "ResourceExhausted", "ServerFault", "StoredTask", "TaskState", "Tls", "Unavailable", "Worker", "WorkerStats",
]
