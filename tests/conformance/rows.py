"""The two sides: Temporal's persistence layer (conformance/cmd/rows) and our engine (temporal_rows_tool), line by line."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import json
import pathlib
import select
import subprocess
import uuid

PATIENCE = 120.0
RANGE_SIZE = 100_000
WORKFLOW, ACTIVITY, NEXUS = 1, 2, 3


def make_tables(program: pathlib.Path, server, database: str) -> None:
    done = subprocess.run([program, *_where(server, database), "schema"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr


def _where(server, database: str) -> list[str]:
    return ["-socket", str(server.folder), "-user", "millrace", "-database", database]


class Talker:
    """A process that answers each line with one."""

    def __init__(self, command: list[object]):
        self._process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        try:
            assert self._process.wait(PATIENCE) == 0
        finally:
            self._process.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def ask(self, line: str) -> str:
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        answer = b""
        while not answer.endswith(b"\n"):
            ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
            assert ready, f"no answer to {line[:200]}"
            piece = self._process.stdout.read1(1 << 20)
            assert piece, f"ended at {line[:200]}"
            answer += piece
        return answer.decode().rstrip("\n")


@dataclasses.dataclass(frozen=True)
class Queue:
    """A physical task queue as Temporal names it: a partition, versioned or not."""

    tables: str
    type: int
    base: str
    namespace: str = dataclasses.field(default_factory=lambda: str(uuid.uuid4()))
    partition: int = 0
    version_set: str = ""
    deployment: str = ""
    build_id: str = ""
    sticky: str = ""
    worker_commands: bool = False


@dataclasses.dataclass(frozen=True, order=True)
class Task:
    subqueue: int
    pass_: int
    id: int
    data: str = dataclasses.field(compare=False)  # The TaskInfo in hex.
    create_time: int = dataclasses.field(default=0, compare=False)  # Ours only.
    expiry_time: int = dataclasses.field(default=0, compare=False)

    @property
    def key(self) -> str:
        return f"{self.subqueue} {self.pass_} {self.id}"


def as_json_time(ns: int) -> str:
    seconds, rest = divmod(ns, 1_000_000_000)
    text = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{rest:09d}Z"


class ConditionFailed(Exception):
    pass


class Temporal(Talker):
    def __init__(self, program: pathlib.Path, server, database: str):
        super().__init__([program, *_where(server, database), "talk"])

    def _do(self, op: str, queue: Queue, **more) -> dict:
        answer = json.loads(self.ask(json.dumps({"op": op, "queue": dataclasses.asdict(queue), **more})))
        if answer.get("error") == "condition failed":
            raise ConditionFailed
        assert "error" not in answer, answer
        return answer

    def create(self, queue: Queue, info: dict | None = None, range_id: int = 1) -> dict:
        return self._do("create", queue, info=info or {}, range_id=range_id)

    def take(self, queue: Queue) -> dict:
        return self._do("take", queue)

    def save(self, queue: Queue, range_id: int, info: dict, unknown: str = "") -> dict:
        return self._do("save", queue, range_id=range_id, info=info, unknown=unknown)

    def append(self, queue: Queue, range_id: int, tasks: list[dict]) -> list[Task]:
        return _tasks(self._do("append", queue, range_id=range_id, tasks=tasks))

    def read(self, queue: Queue, subqueues: int = 2) -> dict:
        """Its tasks are under "tasks", as Task."""
        answer = self._do("read", queue, subqueues=subqueues)
        answer["tasks"] = _tasks(answer)
        return answer

    def complete(self, queue: Queue, below_id: int, below_pass: int = 0, subqueue: int = 0, range_id: int = 0) -> int:
        return self._do("complete", queue, below_id=below_id, below_pass=below_pass, subqueue=subqueue,
                        range_id=range_id)["deleted"]

    def list(self, tables: str) -> list[dict]:
        return self._do("list", Queue(tables, WORKFLOW, "any")).get("queues", [])


def _tasks(answer: dict) -> list[Task]:
    return [Task(t["subqueue"], t["pass"], t["id"], t.get("data", "-")) for t in answer.get("tasks", [])]


class Refused(Exception):
    """Its text starts with the status code's name."""


class Millrace(Talker):
    """Queues are named as Temporal's answers name them."""

    def __init__(self, program: pathlib.Path, url: str, tables: str):
        super().__init__([program, url, tables])
        self._numbers = itertools.count(1)

    def words(self, line: str) -> list[str]:
        answer = self.ask(line)
        assert not answer.startswith("error"), answer
        if answer.startswith("refused "):
            raise Refused(answer.removeprefix("refused "))
        return answer.split()

    def own(self, queue: Queue, name: str) -> Owned:
        number = next(self._numbers)
        assert self.words(f"queue {number} {_words(queue, name)}") == ["made"]
        return Owned(self, number)

    def metadata(self, queue: Queue, name: str) -> dict:
        _, range_id, _, state, count, *rest = self.words(f"metadata {_words(queue, name)}")
        levels = [tuple(int(word) for word in rest[i:i + 3]) for i in range(0, len(rest), 3)]
        assert len(levels) == int(count)
        return {"range_id": int(range_id), "state": state, "subqueues": levels}

    def rows(self, queue: Queue, name: str, subqueue: int = 0) -> list[Task]:
        return _loaded(self.words(f"rows {_words(queue, name)} {subqueue}"))

    def write(self, queue: Queue, name: str, expected: int, range_id: int, *changes: str) -> None:
        line = f"write {_words(queue, name)} {expected} {range_id} {' '.join(changes)}"
        assert self.words(line) == ["written"]

    def list(self) -> dict[tuple[str, str, int], int]:
        _, count, *rest = self.words("list")
        listed = {(rest[i], bytes.fromhex(rest[i + 1]).decode(), int(rest[i + 2])): int(rest[i + 3])
                  for i in range(0, len(rest), 4)}
        assert len(listed) == int(count)
        return listed


def _words(queue: Queue, name: str) -> str:
    return f"{queue.namespace} {name.encode().hex()} {queue.type}"


def create(task: Task) -> str:
    """A change for Millrace.write."""
    return f"create {task.key} {task.create_time} {task.expiry_time} {task.data}"


def _loaded(words: list[str]) -> list[Task]:
    _, count, *rest = words
    tasks = []
    for i in range(0, len(rest), 6):
        subqueue, pass_, id_, created, expires, data = rest[i:i + 6]
        tasks.append(Task(int(subqueue), int(pass_), int(id_), data, int(created), int(expires)))
    assert len(tasks) == int(count)
    return tasks


class Owned:
    """A queue that our engine owns."""

    def __init__(self, tool: Millrace, number: int):
        self._tool = tool
        self._number = number
        self.range_id = 0

    def _do(self, line: str) -> list[str]:
        return self._tool.words(f"queue {self._number} {line}")

    def start(self) -> Owned:
        word, range_id, first, last = self._do("start")
        assert word == "held"
        self.range_id = int(range_id)
        # The block of ids that goes with a range id.
        assert (int(first), int(last)) == block(self.range_id)
        return self

    def take(self, count: int) -> list[Task]:
        return _loaded(self._do(f"take {count}"))

    def complete(self, task: Task) -> None:
        assert self._do(f"complete {task.key}") == ["done"]

    def rewrite(self, task: Task) -> Task:
        return self._stored(task, self._do(f"rewrite {task.key}"))

    def spool(self, data: str, subqueue: int = 0, create_time: int = 0, expiry_time: int = 0) -> Task:
        task = Task(subqueue, 0, 0, data, create_time, expiry_time)
        return self._stored(task, self._do(f"spool {subqueue} {create_time} {expiry_time} {data}"))

    @staticmethod
    def _stored(task: Task, words: list[str]) -> Task:
        word, subqueue, pass_, id_ = words
        assert word == "stored"
        return dataclasses.replace(task, subqueue=int(subqueue), pass_=int(pass_), id=int(id_))

    def status(self) -> tuple[int, int, str]:
        """Range id, count, why the queue must be unloaded."""
        _, range_id, count, cause = self._do("status")
        return int(range_id), int(count), cause

    def stop(self) -> None:
        assert self._do("stop") == ["stopped"]


def block(range_id: int) -> tuple[int, int]:
    return (range_id - 1) * RANGE_SIZE + 1, range_id * RANGE_SIZE
