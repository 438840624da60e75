"""Measures the queue service on a PostgreSQL server of its own: full cycles (enqueue, lease, complete), single, in batches
and spread over queues. CPU is that of all of PostgreSQL's processes and of ours, per task.

scripts/bench-postgres builds what this needs and calls it. Several binaries can be compared: they take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "system"))

import postgres  # noqa: E402

# Name, flags, and tasks measured at a scale of 1.
SCENARIOS = {
    "single": (["--callers=64", "--batch=1"], 20_000),
    "batch of 64": (["--callers=64", "--batch=64"], 200_000),
    "single, 16 queues": (["--callers=64", "--batch=1", "--queues=16"], 15_000),
    "single, 256 callers": (["--callers=256", "--batch=1"], 40_000),
}
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(database: postgres.Postgres) -> float:
    """Of the server's processes, those that ended included."""
    postmaster = int((database.folder / "data" / "postmaster.pid").read_text().split()[0])
    total = 0
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # It ended meanwhile.
        if int(entry.name) == postmaster:
            total += sum(int(value) for value in fields[11:15])
        elif int(fields[1]) == postmaster:
            total += sum(int(value) for value in fields[11:13])
    return total / _TICKS


def run_once(database: postgres.Postgres, binary: str, flags: list[str], tasks: int) -> dict:
    binary, *server_flags = binary.split(",")
    name = database.new_database()
    url = database.url(name)
    subprocess.run([binary, "store", "migrate", "--postgres-url", url], check=True, stdout=subprocess.DEVNULL)
    before = cpu_seconds(database)
    done = subprocess.run(
        [binary, "bench", "cycle", *flags, f"--tasks={tasks}", "-o", "json", "--spawn",
         "--server-flag=--store-kind=postgres", f"--server-flag=--postgres-url={url}",
         *(f"--server-flag={flag}" for flag in server_flags)],
        check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    used = cpu_seconds(database) - before
    report = json.loads(done.stdout)
    database.sql(f"DROP DATABASE {name}")
    return {
        "tasks_per_second": report["tasks_per_second"],
        "database_cpu_us": used * 1e6 / report["tasks"],
        "server_cpu_us": report["server"]["cpu_us_per_task"],
        "round_p50_ms": report["latency_us"]["round"]["p50"] / 1e3,
        "round_p99_ms": report["latency_us"]["round"]["p99"] / 1e3,
        **{key: report["database"][key] for key in
           ("statements_per_task", "round_trips_per_task", "commits_per_task", "commits_per_batch")},
    }  # fmt: skip


def measure(arguments: argparse.Namespace) -> list[dict]:
    binaries = dict(entry.partition("=")[::2] for entry in arguments.binary)
    results = []
    for scenario in arguments.scenario or SCENARIOS:
        flags, tasks = SCENARIOS[scenario]
        runs: dict[str, list[dict]] = {name: [] for name in binaries}
        for _ in range(arguments.repeats):
            for name, path in binaries.items():
                database = postgres.Postgres()
                try:
                    for setting in arguments.setting:
                        database.sql("ALTER SYSTEM SET " + setting.replace("=", " = ", 1))
                    if arguments.setting:
                        database.sql("SELECT pg_reload_conf()")
                    run = run_once(database, path, flags, int(tasks * arguments.scale))
                finally:
                    database.close()
                runs[name].append(run)
                print(f"{scenario}: {name}: {run['tasks_per_second']:.0f}/s, CPU {run['database_cpu_us']:.0f} + "
                      f"{run['server_cpu_us']:.0f} us", file=sys.stderr)  # fmt: skip
        for name, taken in runs.items():
            # Rate: the best, CPU: the least; whatever else the machine does makes both worse.
            row = {key: statistics.median(run[key] for run in taken) for key in taken[0]}
            row["tasks_per_second"] = max(run["tasks_per_second"] for run in taken)
            for key in ("database_cpu_us", "server_cpu_us"):
                row[key] = min(run[key] for run in taken)
            results.append({"scenario": scenario, "binary": name, **row})
    return results


def table(results: list[dict]) -> str:
    several = len({row["binary"] for row in results}) > 1
    lines = ["| full cycles | tasks/s | CPU PostgreSQL | CPU Millrace | round p50 / p99 | statements | round trips | commits "
             "| commits a batch |", "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for row in results:
        name = row["scenario"] + (f", {row['binary']}" if several else "")
        lines.append(
            f"| {name} | {row['tasks_per_second']:,.0f} | {row['database_cpu_us']:.0f} us | {row['server_cpu_us']:.0f} us "
            f"| {row['round_p50_ms']:.1f} / {row['round_p99_ms']:.1f} ms | {row['statements_per_task']:.4f} "
            f"| {row['round_trips_per_task']:.4f} | {row['commits_per_task']:.4f} | {row['commits_per_batch']:.3f} |")  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", action="append", metavar="NAME=PATH[,FLAG...]",
                        help="to measure, with flags for its server; several are compared")
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, help="only this one; may be repeated")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of tasks")
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE", help="of PostgreSQL")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    arguments = parser.parse_args()
    arguments.binary = arguments.binary or [f"millrace={ROOT / 'build/release/bin/millrace'}"]
    results = measure(arguments)
    print(json.dumps(results, indent=2) if arguments.output == "json" else table(results))


if __name__ == "__main__":
    main()
