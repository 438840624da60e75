"""Backlogs that go from Temporal to us and from us to Temporal."""

from __future__ import annotations

import dataclasses
import time

import pytest

import rows
from rows import ACTIVITY, NEXUS, WORKFLOW, Queue, Task

SECOND = 1_000_000_000
NOW = time.time_ns()
CREATED = NOW - 5 * SECOND
EXPIRES = NOW + 3600 * SECOND
EXPIRED = NOW - SECOND
UNKNOWN = "ba3e036e6577"  # Field 999, "new": of a Temporal yet to come.

# Every way in which Temporal names a physical queue.
SHAPES = {
    "workflow_root": lambda t: Queue(t, WORKFLOW, "orders"),
    "activity_partition": lambda t: Queue(t, ACTIVITY, "orders", partition=3),
    "nexus_partition": lambda t: Queue(t, NEXUS, "a/b c|d#e:f\u00e9", partition=130),
    "build_id": lambda t: Queue(t, WORKFLOW, "orders", build_id="v1.0/\u00fc+x", partition=2),
    "deployment": lambda t: Queue(t, ACTIVITY, "orders", deployment="shop", build_id="v2", partition=1),
    "version_set": lambda t: Queue(t, WORKFLOW, "orders", version_set="set7"),
    "sticky": lambda t: Queue(t, WORKFLOW, "orders", sticky="host-1:2f0c"),
    "worker_commands": lambda t: Queue(t, NEXUS, "commands-of-w1", worker_commands=True),
}
NAMES = {
    "workflow_root": "orders",
    "activity_partition": "/_sys/orders/3",
    "nexus_partition": "/_sys/a/b c|d#e:f\u00e9/130",
    "build_id": "/_sys/orders/djEuMC_DvCt4#2",
    "deployment": "/_sys/orders/c2hvcA|djI#1",
    "version_set": "/_sys/orders/set7:0",
    "sticky": "host-1:2f0c",
    "worker_commands": "commands-of-w1",
}
CLASSIC_SHAPES = list(SHAPES)
FAIR_SHAPES = [name for name in SHAPES if name not in ("sticky", "worker_commands")]


def task_info(number: int, queue: Queue, created: int = CREATED, expires: int = 0) -> dict:
    """Every field that a task has."""
    info = {
        "namespaceId": queue.namespace, "workflowId": f"wf-{number}", "runId": f"run-{number}",
        "scheduledEventId": str(number), "createTime": rows.as_json_time(created),
        "clock": {"shardId": 7, "clock": str(1000 + number), "clusterId": "1"},
        "versionDirective": {"assignedBuildId": "b", "behavior": "VERSIONING_BEHAVIOR_PINNED", "revisionNumber": "3",
                             "deploymentVersion": {"deploymentName": "shop", "buildId": "v2"}},
        "stamp": 4, "priority": {"priorityKey": 2, "fairnessKey": "k", "fairnessWeight": 1.5},
        "componentRef": "AAEC/w==",
    }
    if expires:
        info["expiryTime"] = rows.as_json_time(expires)
    return info


def new_task(subqueue: int, pass_: int, id_: int, queue: Queue, expires: int = 0, unknown: str = "") -> dict:
    return {"subqueue": subqueue, "pass": pass_, "id": id_, "info": task_info(id_, queue, expires=expires),
            "unknown": unknown}


def queue_info(*subqueues: dict) -> dict:
    first = subqueues[0]
    return {"ackLevel": first.get("ackLevel", "0"), "approximateBacklogCount": first["approximateBacklogCount"],
            "subqueues": list(subqueues), "otherHasTasks": True}


def subqueue_info(priority: int, count: int, ack: int = 0, **more) -> dict:
    info = {"key": {"priority": priority}, "approximateBacklogCount": str(count), **more}
    if ack:
        info["ackLevel"] = str(ack)
    return info


def without_times(info: dict) -> dict:
    return {name: value for name, value in info.items() if name not in ("lastUpdateTime", "expiryTime")}


def rows_of(server, database: str, queue: Queue, name: str) -> str:
    """All the bytes of its rows in Temporal's tables, as the database has them."""
    namespace = queue.namespace.replace("-", "") + name.encode().hex()
    suffix = "_v2" if queue.tables == "fair" else ""
    where = f"WHERE encode(task_queue_id, 'hex') LIKE '{namespace}%'"
    return server.sql(f"SELECT string_agg(t::text, '|' ORDER BY t::text) FROM task_queues{suffix} t {where}", database) + \
        "\n" + server.sql(f"SELECT string_agg(t::text, '|' ORDER BY t::text) FROM tasks{suffix} t {where}", database)


# ---- The schema ------------------------------------------------------------------------------------------------------


def test_temporals_schema_is_used_as_it_is(server, schema, migrate):
    name = server.new_database()
    schema(name)
    columns = ("SELECT string_agg(c.table_name || ' ' || c.column_name || ' ' || c.data_type || ' ' || c.is_nullable || ' ' ||"
               " coalesce(c.column_default, ''), E'\\n' ORDER BY c.table_name, c.ordinal_position)"
               " FROM information_schema.columns c WHERE table_schema = 'public' AND table_name NOT LIKE 'millrace%'")
    indexes = ("SELECT string_agg(indexdef, E'\\n' ORDER BY indexdef) FROM pg_indexes"
               " WHERE schemaname = 'public' AND tablename NOT LIKE 'millrace%'")
    tables = "SELECT string_agg(tablename, ' ' ORDER BY tablename) FROM pg_tables WHERE schemaname = 'public'"
    before = [server.sql(text, name) for text in (columns, indexes)]
    theirs = set(server.sql(tables, name).split())
    assert {"task_queues", "tasks", "task_queues_v2", "tasks_v2"} <= theirs
    migrate(name)
    assert [server.sql(text, name) for text in (columns, indexes)] == before
    ours = set(server.sql(tables, name).split()) - theirs
    assert ours and all(table.startswith("millrace_") for table in ours)
    migrate(name)


# ---- Classic tables --------------------------------------------------------------------------------------------------


def test_a_backlog_written_by_temporal_drains_through_us(shape, temporal, classic):
    queue = SHAPES[shape]("classic")
    name = temporal.create(queue)["name"]
    assert name == NAMES[shape]
    taken = temporal.take(queue)
    assert taken["range_id"] == 2
    first, _ = rows.block(2)
    ids = list(range(first, first + 120))
    tasks = temporal.append(queue, 2, [
        new_task(0, 0, i, queue, expires=EXPIRES if i % 2 else 0, unknown=UNKNOWN if i % 3 == 0 else "") for i in ids])
    tasks += temporal.append(queue, 2, [new_task(1, 0, i, queue) for i in range(first + 200, first + 230)])
    temporal.append(queue, 2, [new_task(1, 0, first + 230, queue, expires=EXPIRED)])
    info = queue_info(subqueue_info(3, 110, ack=ids[9]), subqueue_info(1, 31))
    saved = temporal.save(queue, 2, info, unknown=UNKNOWN)

    owned = classic.own(queue, name).start()
    assert owned.range_id == 3
    loaded = sorted(owned.take(1000))  # Of two subqueues either may be loaded first.
    live = [task for task in tasks if task.subqueue == 1 or task.id > ids[9]]
    assert loaded == live
    assert [task.data for task in loaded] == [task.data for task in live], "bytes changed"
    assert {task.create_time for task in loaded} == {CREATED}
    assert all(task.expiry_time == (EXPIRES if task.subqueue == 0 and task.id % 2 else 0) for task in loaded)
    for task in loaded:
        owned.complete(task)
    own = [owned.spool(tasks[0].data, subqueue, CREATED, 0 if subqueue else EXPIRES) for subqueue in (0, 1, 1)]
    assert [task.id for task in own] == list(range(rows.block(3)[0], rows.block(3)[0] + 3))
    assert owned.status() == (3, 3, "none")
    owned.stop()

    found = temporal.read(queue)
    assert found["range_id"] == 3
    assert found["tasks"] == sorted(own)
    # The fields that were planted, and no other.
    assert found["unknown"][0] == f": {UNKNOWN}" and all(UNKNOWN in text for text in found["unknown"])
    # Everything but what we decide on.
    expected = without_times(saved["info"])
    after = without_times(found["info"])
    for subqueue, count in ((0, "1"), (1, "2")):
        assert after["subqueues"][subqueue].pop("approximateBacklogCount") == count
        assert int(after["subqueues"][subqueue].pop("ackLevel")) >= ids[-1]
        del expected["subqueues"][subqueue]["approximateBacklogCount"]
        expected["subqueues"][subqueue].pop("ackLevel", None)
    assert after.pop("approximateBacklogCount") == "1" and expected.pop("approximateBacklogCount")
    assert after.pop("ackLevel") and expected.pop("ackLevel")
    assert after == expected
    assert ("expiryTime" in found["info"]) == (shape in ("sticky", "worker_commands"))
    assert temporal.take(queue)["range_id"] == 4


def test_a_backlog_written_by_us_is_temporals(shape, temporal, classic, server, database):
    queue = SHAPES[shape]("classic")
    name = NAMES[shape]
    template = temporal.append(queue_for_templates(temporal), 1, [new_task(0, 0, 1, queue, expires=EXPIRES, unknown=UNKNOWN)])
    data = template[0].data
    owned = classic.own(queue, name).start()
    assert owned.range_id == 1
    own = [owned.spool(data, i % 2, CREATED, EXPIRES) for i in range(60)]
    assert [task.id for task in own] == list(range(1, 61))
    owned.stop()

    found = temporal.read(queue)
    assert found["name"] == name and found["range_id"] == 1
    assert found["tasks"] == sorted(own) and {task.data for task in found["tasks"]} == {data}
    assert {text.split(": ")[1] for text in found["unknown"]} == {UNKNOWN}
    assert [s["approximateBacklogCount"] for s in found["info"]["subqueues"]] == ["30", "30"]
    assert found["info"]["taskType"] in {"TASK_QUEUE_TYPE_WORKFLOW", "TASK_QUEUE_TYPE_ACTIVITY", "TASK_QUEUE_TYPE_NEXUS"}
    assert classic.metadata(queue, name)["state"] != "-", "our own totals were kept"

    # Temporal finishes some, adds some, and gives it back.
    info = temporal.take(queue)
    assert info["range_id"] == 2
    assert temporal.complete(queue, below_id=21, subqueue=0) == 10
    first, _ = rows.block(2)
    added = temporal.append(queue, 2, [new_task(0, 0, first, queue), new_task(1, 0, first + 1, queue)])
    back = info["info"]
    back["subqueues"][0].update(ackLevel="20", approximateBacklogCount="21")
    back["subqueues"][1].update(approximateBacklogCount="31")
    temporal.save(queue, 2, back)
    assert classic.metadata(queue, name)["state"] == "-", "totals from before Temporal had it mean nothing"
    owned = classic.own(queue, name).start()
    assert owned.range_id == 3
    loaded = sorted(owned.take(1000))
    assert loaded == sorted([task for task in own if task.subqueue == 1 or task.id > 20] + added)
    assert owned.status() == (3, 52, "none")
    for task in loaded:
        owned.complete(task)
    owned.stop()
    found = temporal.read(queue)
    assert found["tasks"] == []
    assert [s.get("approximateBacklogCount", "0") for s in found["info"]["subqueues"]] == ["0", "0"]
    assert rows_of(server, database, queue, name).endswith("\n"), "a row is left"


def queue_for_templates(temporal) -> Queue:
    """A queue for rows whose bytes alone are wanted."""
    queue = Queue("classic", WORKFLOW, "templates")
    temporal.create(queue)
    return queue


def test_a_task_written_again_keeps_every_field(temporal, classic):
    queue = Queue("classic", ACTIVITY, "again")
    name = temporal.create(queue)["name"]
    tasks = temporal.append(queue, 1, [
        new_task(0, 0, 1, queue), new_task(0, 0, 2, queue, expires=EXPIRES, unknown=UNKNOWN),
        {"subqueue": 0, "pass": 0, "id": 3, "info": {}}, {"subqueue": 0, "pass": 0, "id": 4, "info": {}, "unknown": UNKNOWN}])
    temporal.save(queue, 1, queue_info(subqueue_info(3, 4)))
    owned = classic.own(queue, name).start()
    loaded = owned.take(10)
    assert loaded == tasks
    again = [owned.rewrite(task) for task in loaded]
    assert [task.id for task in again] == list(range(rows.block(2)[0], rows.block(2)[0] + 4))
    assert owned.status() == (2, 4, "none")
    owned.stop()
    found = temporal.read(queue)
    assert found["tasks"] == again
    assert [task.data for task in found["tasks"]] == [task.data for task in tasks]
    assert found["info"]["subqueues"][0]["approximateBacklogCount"] == "4"
    assert [text.split(": ")[1] for text in found["unknown"]] == [UNKNOWN, UNKNOWN]


def test_whoever_lost_the_queue_is_refused(temporal, classic, server, database):
    queue = Queue("classic", WORKFLOW, "fence")
    name = temporal.create(queue)["name"]
    owned = classic.own(queue, name).start()
    data = owned.spool("0a0161", 0, CREATED).data
    # Temporal takes it while we are at work.
    assert temporal.take(queue)["range_id"] == 3
    before = rows_of(server, database, queue, name)
    with pytest.raises(rows.Refused, match="^FENCED"):
        owned.spool(data, 0, CREATED)
    assert owned.status()[2] == "conflict"
    owned.stop()
    assert rows_of(server, database, queue, name) == before
    # And we take it while Temporal is.
    first, _ = rows.block(3)
    temporal.append(queue, 3, [new_task(0, 0, first, queue)])
    owned = classic.own(queue, name).start()
    assert owned.range_id == 4
    before = rows_of(server, database, queue, name)
    with pytest.raises(rows.ConditionFailed):
        temporal.append(queue, 3, [new_task(0, 0, first + 1, queue)])
    with pytest.raises(rows.ConditionFailed):
        temporal.save(queue, 3, queue_info(subqueue_info(3, 0)))
    assert rows_of(server, database, queue, name) == before
    assert [task.id for task in owned.take(10)] == [rows.block(2)[0], first]
    owned.stop()


def test_a_queue_that_temporal_deleted_and_made_anew_has_none_of_our_old_state(temporal, classic, server, database):
    queue = Queue("classic", WORKFLOW, "scavenged")
    owned = classic.own(queue, "scavenged").start()
    owned.spool("0a0161", 0, CREATED)
    owned.stop()
    assert classic.metadata(queue, "scavenged")["state"] != "-"
    where = f"WHERE encode(task_queue_id, 'hex') LIKE '{queue.namespace.replace('-', '')}%'"
    server.sql(f"DELETE FROM task_queues {where}; DELETE FROM tasks {where}", database)
    temporal.create(queue)
    assert classic.metadata(queue, "scavenged")["state"] == "-"
    owned = classic.own(queue, "scavenged").start()
    assert owned.range_id == 2 and owned.take(10) == [] and owned.status() == (2, 0, "none")
    owned.stop()


# ---- Fair tables: the store's calls; the engine itself knows no passes yet -------------------------------------------


def test_fair_rows_written_by_temporal_are_read_and_given_back(shape, temporal, fair, server, database):
    queue = SHAPES[shape]("fair")
    name = temporal.create(queue)["name"]
    assert name == NAMES[shape]
    assert temporal.take(queue)["range_id"] == 2
    first, _ = rows.block(2)
    # Ids and passes in different orders.
    tasks = temporal.append(queue, 2, [
        new_task(subqueue, 1 + (7 * i + subqueue) % 5, first + 2 * i + subqueue, queue, expires=EXPIRES if i % 2 else 0,
                 unknown=UNKNOWN if i % 3 == 0 else "") for i in range(40) for subqueue in (0, 1)])
    level = {"taskPass": "1", "taskId": str(first - 1)}
    more = {"fairAckLevel": level, "fairMaxReadLevel": {"taskPass": "5", "taskId": str(first + 79)},
            "topKFairnessCounts": [{"key": "k", "count": "40"}]}
    saved = temporal.save(queue, 2, queue_info(subqueue_info(3, 40, ack=first - 1, **more), subqueue_info(1, 40, **more)),
                          unknown=UNKNOWN)
    assert fair.metadata(queue, name) == {"range_id": 2, "state": "-", "subqueues": [(1, first - 1, 40)] * 2}
    by_subqueue = [sorted(task for task in tasks if task.subqueue == subqueue) for subqueue in (0, 1)]
    for subqueue in (0, 1):
        loaded = fair.rows(queue, name, subqueue)
        assert loaded == by_subqueue[subqueue]
        assert [task.data for task in loaded] == [task.data for task in by_subqueue[subqueue]]
        assert {task.create_time for task in loaded} == {CREATED}
        assert {task.expiry_time for task in loaded} == {0, EXPIRES}

    # A lease, then a write that ends the first ten of subqueue 0 and adds one behind all others.
    fair.write(queue, name, 2, 3)
    ended, added = by_subqueue[0][:10], Task(0, 9, rows.block(3)[0], tasks[0].data, CREATED)
    fair.write(queue, name, 3, 3, *(f"delete {task.key}" for task in ended), rows.create(added),
               f"subqueue {ended[-1].pass_} {ended[-1].id} 31", f"subqueue 1 {first - 1} 40")
    found = temporal.read(queue)
    assert found["range_id"] == 3
    assert found["tasks"] == by_subqueue[0][10:] + [added] + by_subqueue[1]
    assert all(UNKNOWN in text for text in found["unknown"])
    expected = without_times(saved["info"])
    expected["approximateBacklogCount"] = expected["subqueues"][0]["approximateBacklogCount"] = "31"
    expected["subqueues"][0]["fairAckLevel"] = {"taskPass": str(ended[-1].pass_), "taskId": str(ended[-1].id)}
    assert without_times(found["info"]) == expected

    # Whoever lost it is refused, deletions too.
    with pytest.raises(rows.ConditionFailed):
        temporal.append(queue, 2, [new_task(0, 9, first + 200, queue)])
    with pytest.raises(rows.ConditionFailed):
        temporal.complete(queue, below_pass=9, below_id=first, range_id=2)
    assert temporal.take(queue)["range_id"] == 4
    before = rows_of(server, database, queue, name)
    with pytest.raises(rows.Refused, match="^FENCED"):
        fair.write(queue, name, 3, 3, rows.create(dataclasses.replace(added, id=added.id + 1)))
    assert rows_of(server, database, queue, name) == before
    assert temporal.complete(queue, below_pass=10, below_id=0, range_id=4) == 31
    assert fair.rows(queue, name) == [] and fair.rows(queue, name, 1) == by_subqueue[1]


def test_fair_rows_written_by_us_are_temporals(shape, temporal, fair):
    queue = SHAPES[shape]("fair")
    name = NAMES[shape]
    data = temporal.append(queue_for_templates(temporal), 1, [new_task(0, 0, 1, queue, expires=EXPIRES)])[0].data
    own = [Task(i % 2, 1 + i % 4, 1 + i, data, CREATED, EXPIRES) for i in range(50)]
    fair.write(queue, name, 0, 1, "subqueue 0 0 0")
    fair.write(queue, name, 1, 1, *(rows.create(task) for task in own), "subqueue 1 0 25", "subqueue 1 0 25")
    found = temporal.read(queue)
    assert found["range_id"] == 1 and "unknown" not in found
    assert found["tasks"] == sorted(own) and {task.data for task in found["tasks"]} == {data}
    assert [s["approximateBacklogCount"] for s in found["info"]["subqueues"]] == ["25", "25"]
    assert temporal.take(queue)["range_id"] == 2
    assert temporal.complete(queue, below_pass=2, below_id=0, range_id=2) == 13
    assert fair.rows(queue, name) == sorted(t for t in own if t.subqueue == 0 and t.pass_ > 1)


# ---- Both ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tables", ["classic", "fair"])
def test_both_engines_list_the_same_queues(tables, temporal, classic, fair):
    for shape in (CLASSIC_SHAPES if tables == "classic" else FAIR_SHAPES):
        temporal.create(SHAPES[shape](tables))
    types = {"TASK_QUEUE_TYPE_WORKFLOW": 1, "TASK_QUEUE_TYPE_ACTIVITY": 2, "TASK_QUEUE_TYPE_NEXUS": 3}
    theirs = {(q["info"]["namespaceId"], q["name"], types[q["info"]["taskType"]]): q["range_id"]
              for q in temporal.list(tables)}
    assert len(theirs) >= len(FAIR_SHAPES)
    assert (classic if tables == "classic" else fair).list() == theirs


def pytest_generate_tests(metafunc):
    if "shape" in metafunc.fixturenames:
        is_fair = "fair" in metafunc.fixturenames
        metafunc.parametrize("shape", FAIR_SHAPES if is_fair else CLASSIC_SHAPES)
