"""Time and memory of every step of a run against the number of rows, beside reading and training
alone.

Run ``python -m benchmarks.speed.run_scale [--rows N ...] [--method METHOD] [--memory 4GB] [--steps N [--depth
D]]``, or with ``--contract ROWS`` or ``--evaluate ROWS`` for one step alone, ``--appended ROWS``
for a table that grows by a file, ``--workers ROWS`` for steps and a filter on one Dask worker and
on two, each on its own core (``--together ROWS``: for a training, with ``--steps`` and
``--depth``); it needs no data. `--memory` is the job's key, and `--steps` the method's ``n_steps``;
with `--depth` nothing is searched: so many trees of this depth. It generates Parquet files of 30
columns (18 numbers, 10 columns of strings, a sensitive column and the label), writes a job by
``evenhand init`` and runs it in a process of its own, in a store of its own. Linux only: the peak
of the resident memory is reset before each step. "Alone" is one read of the same columns and one
XGBoost training with 100 trees, in another process; with `--depth` it is the same number of trees
of that depth by XGBoost's external memory, which gets the table in blocks. Results:
``results/scale.json``, one entry a method and size.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from benchmarks.common import log, provenance, read_whole, rounded, write_result
from evenhand.data_contracts.checking import check_table
from evenhand.data_contracts.inference import infer_contract
from evenhand.fairlib.execution import available_cores
from evenhand.flows import file_runs
from evenhand.flows.engine import CacheMiss, DirectEngine
from evenhand.flows.filter import plan_filter
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.flows.run import execute
from evenhand.flows.workers import _run_step, cores
from evenhand.tasks.execution.dataset import StoredTable
from evenhand.tasks.execution.step import STEPS, ExecutionContext, StepContext, listen
from evenhand.tasks.execution.store import Store

NAME = "scale"
ROWS = (100_000, 300_000, 1_000_000)
NUMBERS, CODES = 18, 10
CHUNK = 1 << 18
TREES = 100


def main() -> None:
    """Measure every size and write the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", nargs="*", type=int, default=list(ROWS))
    parser.add_argument("--method", default="gbdt")
    parser.add_argument("--memory")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--depth", type=int, help="of all trees: nothing is searched")
    parser.add_argument(
        "--contract", type=int, metavar="ROWS", help="the check of the contract alone"
    )
    parser.add_argument(
        "--appended", type=int, metavar="ROWS", help="an eighth more, in one more file"
    )
    parser.add_argument(
        "--evaluate", type=int, metavar="ROWS", help="the step on so many test rows alone"
    )
    parser.add_argument(
        "--cluster", action="store_true", help="asking two Dask workers, before a run"
    )
    parser.add_argument("--workers", type=int, metavar="ROWS", help="two Dask workers against one")
    parser.add_argument(
        "--together", type=int, metavar="ROWS", help="a training on two against one"
    )
    parser.add_argument("--step", metavar="FOLDER", help="one evaluation, for the benchmark")
    parser.add_argument(
        "--run", nargs=2, metavar=("STORE", "JOB"), help="one run, for the benchmark"
    )
    parser.add_argument("--alone", metavar="FILE", help="read and train, for the benchmark")
    parser.add_argument(
        "--external", nargs=3, metavar=("FILE", "STEPS", "DEPTH"), help="likewise in blocks"
    )
    chosen = parser.parse_args()
    if chosen.run or chosen.alone:
        print(json.dumps(one_run(*map(Path, chosen.run)) if chosen.run else alone(chosen.alone)))
        return
    if chosen.external:
        file, steps, depth = chosen.external
        print(json.dumps(alone_in_blocks(file, int(steps), int(depth))))
        return
    if chosen.step:
        print(json.dumps(one_evaluation(Path(chosen.step))))
        return
    results = read_whole(NAME, {"results": {}})["results"]
    name = chosen.method + (f", memory {chosen.memory}" if chosen.memory else "")
    name += f", {chosen.steps} steps" if chosen.steps else ""
    name += f" of depth {chosen.depth}" if chosen.depth else ""
    method = {"name": chosen.method} | ({"n_steps": chosen.steps} if chosen.steps else {})
    if chosen.depth:
        # rows are held out, which the calibration needs, but nothing is chosen on them
        method |= {"max_depth": chosen.depth, "n_iter_no_change": chosen.steps, "refit": False}
    parts = {
        "cluster": chosen.cluster and cluster_cost,
        "contract": chosen.contract and partial(contract_cost, chosen.contract),
        "evaluate": chosen.evaluate and partial(evaluate_cost, chosen.evaluate),
        "appended": chosen.appended and partial(appended_cost, chosen.appended),
        "workers": chosen.workers
        and partial(
            worker_speeds, chosen.workers, (*SHARED, "filter"), {"name": "gbdt", "n_steps": 10}
        ),
        "together": chosen.together and partial(worker_speeds, chosen.together, ("train",), method),
    }
    for part in (part for part, work in parts.items() if work):
        key = f"{name}, {chosen.together} rows" if chosen.together else str(getattr(chosen, part))
        results.setdefault(part, {})[key] = found = parts[part]()
        save(results)
        log(part, json.dumps(found, indent=1))
    if any(parts.values()):
        return
    keys = {"method": method} | ({"memory": chosen.memory} if chosen.memory else {})
    for rows in chosen.rows:
        log(name, rows)
        with tempfile.TemporaryDirectory() as scratch:
            found = measure(Path(scratch), rows, keys)
        log(f"  {found['seconds']} s, {found['peak_mib']} MiB; alone {found['alone']}")
        results.setdefault(name, {})[str(rows)] = found
        save(results)
    for method, sizes in results.items():
        if method not in parts:
            seconds = {int(n): found["seconds"] for n, found in sizes.items()}
            log(method, "slope of log seconds:", slope(seconds))


def save(results: Mapping[str, Any]) -> None:
    """Write all results."""
    content = {"results": results, **provenance("python -m benchmarks.speed.run_scale")}
    write_result(NAME, content, summarise)


def summarise(content: Mapping[str, Any]) -> dict[str, Any]:
    """Every run and step, rounded."""
    return rounded(dict(content), 4)


def measure(folder: Path, rows: int, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds and peak memory of one run of a job with these keys, in total and by step."""
    table = folder / "people.parquet"
    write_people(table, rows)
    write_job(folder, keys)
    found = json.loads(
        call(
            folder,
            "-m",
            "benchmarks.speed.run_scale",
            "--run",
            str(folder / "store"),
            "people.yaml",
        )
    )
    method = keys["method"]
    begin = ["--alone", str(table)]
    if "max_depth" in method:
        begin = ["--external", str(table), str(method["n_steps"]), str(method["max_depth"])]
    return found | {"alone": json.loads(call(folder, "-m", "benchmarks.speed.run_scale", *begin))}


def write_job(folder: Path, keys: Mapping[str, Any]) -> None:
    """Write a job for the table in a folder."""
    begin = ["-c", "from evenhand.flows.cli import main; main()"]
    call(folder, *begin, "init", "people.parquet", "--label", "approved", "--sensitive", "group")
    job = yaml.safe_load((folder / "people.yaml").read_text())
    job |= keys
    job["publish"] = {**job.get("publish", {}), "without_policy": True}
    (folder / "people.yaml").write_text(yaml.safe_dump(job, sort_keys=False))


def call(folder: Path, *arguments: str) -> str:
    """Last line of the output of Python with these arguments in a folder."""
    path = os.pathsep.join(
        [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    )
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stdout[-500:]}")
    return (done.stdout.strip().splitlines() or [""])[-1]


def contract_cost(rows: int) -> dict[str, Any]:
    """CPU seconds of reading 20 columns in blocks, of a plain Arrow pass over them, and of the
    check.
    """
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "people.parquet"
        write_people(path, rows)
        names = [f"number_{j}" for j in range(NUMBERS - 8)] + [f"place_{j}" for j in range(8)]
        names += ["group", "approved"]
        head = next(StoredTable(path).blocks(names))
        contract = infer_contract(head, "people", "approved", ["group"])
        free = [
            replace(c, minimum=None, maximum=None) if c.is_numeric else c for c in contract.columns
        ]
        contract = replace(contract, columns=tuple(free), max_rows=None)
        check_table(head, contract)  # imports Great Expectations

        def read(columns: Sequence[str] | None) -> Iterator[pa.Table]:
            return StoredTable(path).blocks(columns or names)

        def plain() -> None:
            for table in read(None):
                for values in table.columns:
                    _ = pc.unique(values) if pa.types.is_string(values.type) else pc.min_max(values)
                    _ = values.null_count

        def check() -> None:
            if not check_table(read, contract).success:
                raise SystemExit("the table breaks its contract")

        found = {}
        for name, work in (
            ("read", lambda: list(map(len, read(None)))),
            ("plain", plain),
            ("check", check),
        ):
            started = time.process_time()
            work()
            found[name] = round(time.process_time() - started, 2)
    return {
        "columns": len(names),
        "cpu_seconds": found,
        "rows_per_second": round(rows / found["check"]),
    }


ASK = """
import json, sys, time
from evenhand.tasks.execution.store import Store
store, started, cpu = Store("store"), time.perf_counter(), time.process_time()
from evenhand.flows.workers import DaskPool
with DaskPool(sys.argv[1], None) as pool:
    pool.check(store)
found = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}
print(json.dumps({name: round(value, 2) for name, value in found.items()}))
"""


def cluster_cost() -> dict[str, float]:
    """Seconds until a process has asked two workers what they have, which a run on them takes
    first.
    """
    from distributed import LocalCluster

    quiet = {"dashboard_address": "127.0.0.1:0", "scheduler_kwargs": {"dashboard": False}}
    with (
        tempfile.TemporaryDirectory() as scratch,
        LocalCluster(n_workers=2, threads_per_worker=1, **quiet) as cluster,
    ):
        found: dict[str, float] = json.loads(
            call(Path(scratch), "-c", ASK, cluster.scheduler_address)
        )
    return found


@dataclass
class Recorder(DirectEngine):
    """Remembers what each step got; with `end` a run ends before that step, by a CacheMiss."""

    end: str = ""
    given: dict[str, Any] = field(default_factory=dict)

    def run(self, name: str, key: str, parameters: Any, inputs: Any, *, refresh: bool) -> Any:
        """Run a step."""
        self.given[name] = parameters, inputs
        if name == self.end:
            raise CacheMiss
        return super().run(name, key, parameters, inputs, refresh=refresh)


def appended_cost(rows: int) -> dict[str, Any]:
    """CPU seconds of the first steps on eight files of so many rows, on nine after it, and on nine
    alone.
    """
    found = {}
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        write_people(Path("people.parquet"), rows // 8 * 9)
        write_job(Path(), {"split": {"hash": "row"}})
        whole, folder = pq.ParquetFile("people.parquet"), Path("people")
        folder.mkdir()
        groups = np.array_split(np.arange(whole.num_row_groups), 9)
        for name, files, store in (
            ("eight", 8, "store"),
            ("nine", 9, "store"),
            ("nine, new", 9, "other"),
        ):
            for file in range(files):
                with pq.ParquetWriter(folder / f"{file}.parquet", whole.schema_arrow) as writer:
                    for group in groups[file]:
                        writer.write_table(whole.read_row_group(group))
            meter, engine = StepMeter(), Recorder(Store(store), end="preprocess")
            with listen(meter), contextlib.suppress(CacheMiss):
                job = load_job("people.yaml", ["table.path=people"])
                execute(resolve(*job), engine.store, "scale", engine)
            found[name] = meter.steps
    return found


def evaluate_cost(rows: int) -> dict[str, Any]:
    """Seconds and peak of ``evaluate`` in a process of its own, on a run's test rows, repeated."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_people(folder / "people.parquet", CHUNK)
        write_job(folder, {"method": {"name": "gbdt", "n_steps": 10}})
        store = Store(str(folder / "store"))
        engine = Recorder(store)
        with contextlib.chdir(folder):
            execute(resolve(*load_job("people.yaml", [])), store, "scale", engine)
        parameters, inputs = engine.given["evaluate"]
        paths = {name: str(store.fetch(artifact)) for name, artifact in inputs.items()}
        repeat(Path(paths["test"]), folder / "test", rows)
        paths["test"] = str(folder / "test")
        given = {"parameters": {**parameters, "on_disk": "rows"}, "inputs": paths}
        (folder / "given.json").write_text(json.dumps(given))
        return json.loads(call(folder, "-m", "benchmarks.speed.run_scale", "--step", scratch))  # type: ignore[no-any-return]


def repeat(source: Path, target: Path, rows: int) -> None:
    """Write a dataset of so many rows, which are those of another, repeated."""
    target.mkdir()
    for file in source.iterdir():
        part, written = pq.read_table(file), 0
        with pq.ParquetWriter(target / file.name, part.schema) as writer:
            while written < rows:
                writer.write_table(part[: rows - written])
                written += len(part)


def one_evaluation(folder: Path) -> dict[str, Any]:
    """Evaluate the model of :func:`evaluate_cost`."""
    given, meter = json.loads((folder / "given.json").read_text()), StepMeter()
    inputs = {name: Path(path) for name, path in given["inputs"].items()}
    with meter.working("evaluate"):
        STEPS["evaluate"].run(
            StepContext(given["parameters"], inputs, folder, lambda *progress: None)
        )
    return meter.steps["evaluate"]


SHARED, REPEATS = ("contract", "preprocess", "profile", "evaluate"), 3


def worker_speeds(rows: int, names: Sequence[str], method: Mapping[str, Any]) -> dict[str, Any]:
    """Medians of the seconds that steps and a filter take on one worker and on two, in turns.

    Each worker has its own core, and a training its rows in a file. `cpu_seconds` and `peak_mib`
    (of the last turn) are those of each worker; without other work on the machine the ratio of the
    seconds is at most that of the sum on one worker to the largest on two.
    """
    from distributed import Client, LocalCluster

    quiet = {"dashboard_address": "127.0.0.1:0", "scheduler_kwargs": {"dashboard": False}}
    seconds: dict[tuple[str, int], list[float]] = defaultdict(list)
    used: dict[tuple[str, int], list[list[float]]] = defaultdict(list)
    peaks: dict[tuple[str, int], list[int]] = {}
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        folder = Path(scratch)
        store = Store(str(folder / "store"))
        given: dict[str, Any] = {}
        # the model is that of a smaller table, whose test rows are repeated
        for size, end in ((min(rows, CHUNK), ""), (rows, "controls")):
            (folder / f"of-{size}").mkdir(exist_ok=True)
            stack.enter_context(contextlib.chdir(folder / f"of-{size}"))
            write_people(Path("people.parquet"), size)
            if not Path("people.yaml").exists():
                write_job(Path(), {"method": method, "memory": "4GB"})
            engine = Recorder(store, end=end)
            with contextlib.suppress(CacheMiss):
                execute(resolve(*load_job("people.yaml", [])), store, f"scale-{size}", engine)
            given |= engine.given
        parameters, inputs = given["evaluate"]
        repeat(store.fetch(inputs["test"]), folder / "test", rows // 5)
        given["evaluate"] = parameters, {**inputs, "test": store.put(folder / "test", "dataset")}
        job = yaml.safe_load(Path("people.yaml").read_text())
        job = {key: job[key] for key in ("name", "contract", "table", "publish")}
        job |= {"method": {"name": "proxy", "alpha": 0.2}, "sensitive": ["group"]}
        Path("proxy.yaml").write_text(yaml.safe_dump(job))
        execute(
            resolve(*load_job("proxy.yaml", ["table.rows=50000"])),
            store,
            "proxy",
            DirectEngine(store),
        )
        given["train"] = {**given["train"][0], "on_disk": "rows"}, given["controls"][1]
        units = {
            name: unit_seconds(
                name, given[name][0], {k: store.fetch(a) for k, a in given[name][1].items()}
            )
            for name in {*names} & {*SHARED}
        }
        clients = {}
        for count in (1, 2):
            cluster = LocalCluster(n_workers=count, threads_per_worker=1, **quiet)
            clients[count] = stack.enter_context(Client(stack.enter_context(cluster)))
            for core, address in zip(
                cores(), clients[count].scheduler_info()["workers"], strict=False
            ):
                clients[count].run(pin, core, workers=[address])
            clients[count].run(exec, "import great_expectations, xgboost, sklearn.model_selection")
        for turn in range(REPEATS + 1):
            for count, client in clients.items():
                for name in names:
                    client.run(clear_peak)
                    before, started = client.run(time.process_time), time.perf_counter()
                    if name == "filter":
                        section = [
                            f"filter.address={client.scheduler.address}",
                            "filter.engine=dask",
                        ]
                        section += ["filter.rows_per_unit=262144", "table.rows=50000"]
                        out = str(folder / f"out-{count}-{turn}")
                        plan = plan_filter("proxy.yaml", section, "people.parquet", out)
                        file_runs.execute(
                            plan, store, f"filter-{count}-{turn}", lambda *progress: None
                        )
                    else:
                        work = (str(store.local), name, f"{count}-{turn}", *given[name])
                        together = count if name == "train" else 1
                        client.submit(_run_step, *work, together, pure=False).result()
                    peaks[name, count] = sorted(client.run(peak_mib).values())
                    if turn:  # the first imports libraries
                        seconds[name, count].append(time.perf_counter() - started)
                        after = client.run(time.process_time)
                        used[name, count].append(
                            [after[worker] - before[worker] for worker in before]
                        )
    found = {}
    for name in names:
        one, two = (float(np.median(seconds[name, count])) for count in (1, 2))
        cpu = {
            count: np.median([sorted(item) for item in used[name, count]], axis=0).round(2).tolist()
            for count in (1, 2)
        }
        found[name] = {
            "seconds": {1: round(one, 2), 2: round(two, 2)},
            "ratio": round(one / two, 2),
            "least": round(min(seconds[name, 1]) / min(seconds[name, 2]), 2),
            "cpu_seconds": cpu,
            "cpu_ratio": round(cpu[1][0] / cpu[2][-1], 2),
            "peak_mib": {count: peaks[name, count] for count in (1, 2)},
        }
        if name in SHARED:
            found[name]["units"] = units[name]
    return found


def unit_seconds(name: str, parameters: Any, inputs: Mapping[str, Path]) -> dict[str, Any]:
    """CPU seconds of a step in this process, those outside its units, and the least time of two
    workers.
    """
    calls: list[list[float]] = []

    def timed(function: Any, units: Sequence[Any]) -> Iterator[Any]:
        calls.append([])
        for unit in units:
            started = time.process_time()
            result = function(unit)
            calls[-1].append(time.process_time() - started)
            yield result

    execution = ExecutionContext(divide=timed)
    with tempfile.TemporaryDirectory() as scratch:
        context = StepContext(
            parameters, inputs, Path(scratch), lambda *progress: None, execution=execution
        )
        started = time.process_time()
        STEPS[name].run(context)
        total = time.process_time() - started
    outside = total - sum(map(sum, calls))
    least = outside
    for units in calls:
        ends = [0.0, 0.0]
        for seconds in units:  # each goes to the worker that is free first
            heapq.heapreplace(ends, ends[0] + seconds)
        least += max(ends)
    figures = {
        "cpu_seconds": total,
        "outside": outside,
        "two_workers": least,
        "ratio": total / least,
    }
    return {key: round(value, 2) for key, value in figures.items()}


class StepMeter:
    """Seconds and peak memory of every step, as a listener of progress."""

    def __init__(self) -> None:
        self.steps: dict[str, dict[str, float]] = {}

    def __call__(self, step: str, done: int, total: int, values: Mapping[str, float]) -> None:
        """Progress is not recorded."""

    @contextlib.contextmanager
    def working(self, step: str) -> Iterator[None]:
        """Measure the step that runs within."""
        clear_peak()
        started, cpu = time.perf_counter(), time.process_time()
        yield
        self.steps[step] = {
            "seconds": round(time.perf_counter() - started, 2),
            "cpu_seconds": round(time.process_time() - cpu, 2),
            "peak_mib": peak_mib(),
        }


def one_run(store: Path, job: Path) -> dict[str, Any]:
    """Run a job in this process."""
    meter, opened = StepMeter(), Store(str(store))
    resolved = resolve(*load_job(str(job), []))
    started, cpu = time.perf_counter(), time.process_time()
    with listen(meter):
        verdict = execute(resolved, opened, "scale", DirectEngine(opened))
    total, used = time.perf_counter() - started, time.process_time() - cpu
    auc = verdict.metrics.get("auc")
    return {
        "status": verdict.status,
        "auc": auc["value"] if isinstance(auc, Mapping) else auc,
        "notes": [note for note in verdict.notes if "training rows" in note],
        "seconds": round(total, 2),
        "cpu_seconds": round(used, 2),
        "peak_mib": max(step["peak_mib"] for step in meter.steps.values()),
        "steps": meter.steps,
    }


def alone(file: str) -> dict[str, Any]:
    """Read the table once, and train XGBoost on its numbers and codes with its own categories."""
    import xgboost

    started, cpu = time.perf_counter(), time.process_time()
    frame = pq.read_table(file).to_pandas(strings_to_categorical=True)
    read = time.perf_counter() - started
    label = frame.pop("approved").cat.codes.to_numpy()
    threads = available_cores()
    data = xgboost.QuantileDMatrix(frame, label, enable_categorical=True, nthread=threads)
    options = {"tree_method": "hist", "objective": "binary:logistic", "nthread": threads}
    xgboost.train(options, data, TREES)
    return {
        "read_seconds": round(read, 2),
        "seconds": round(time.perf_counter() - started, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "peak_mib": peak_mib(),
        "trees": TREES,
    }


def alone_in_blocks(file: str, steps: int, depth: int) -> dict[str, Any]:
    """Read the table once in blocks, and train XGBoost in its external memory, with its own
    categories.
    """
    import xgboost

    started, cpu = time.perf_counter(), time.process_time()
    blocks = [(file, group) for group in range(pq.ParquetFile(file).num_row_groups)]
    levels = [set() for _ in range(CODES)]  # type: list[set[str]]
    for _, group in blocks:
        table = pq.ParquetFile(file).read_row_group(group)
        for j in range(CODES):
            levels[j].update(pc.unique(table[f"place_{j}"]).to_pylist())
    read, read_cpu = time.perf_counter() - started, time.process_time() - cpu

    class Blocks(xgboost.DataIter):
        """Row groups of the file."""

        def __init__(self) -> None:
            super().__init__(cache_prefix=str(Path(file).with_suffix(".bins")), on_host=False)
            self.at = 0

        def reset(self) -> None:
            """Start again."""
            self.at = 0

        def next(self, input_data: Any) -> bool:
            """Give the next row group."""
            if self.at == len(blocks):
                return False
            frame = pq.ParquetFile(file).read_row_group(blocks[self.at][1]).to_pandas()
            label = (frame.pop("approved") == "yes").to_numpy()
            del frame["group"]
            for j in range(CODES):
                frame[f"place_{j}"] = frame[f"place_{j}"].astype(
                    pd.CategoricalDtype(sorted(levels[j]))
                )
            input_data(data=frame, label=label)
            self.at += 1
            return True

    threads = available_cores()
    data = xgboost.ExtMemQuantileDMatrix(
        Blocks(), enable_categorical=True, nthread=threads, max_bin=256
    )
    binned = time.process_time() - cpu
    options = {
        "tree_method": "hist",
        "objective": "binary:logistic",
        "nthread": threads,
        "max_depth": depth,
    }
    xgboost.train(options, data, steps)
    return {
        "read_seconds": round(read, 2),
        "read_cpu_seconds": round(read_cpu, 2),
        "binned_cpu_seconds": round(binned, 2),
        "seconds": round(time.perf_counter() - started, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "peak_mib": peak_mib(),
        "trees": steps,
    }


def pin(core: int) -> None:
    """Keep all threads of this process on one core."""
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


def clear_peak() -> None:
    """Count the peak of the resident memory from now on."""
    with contextlib.suppress(PermissionError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_mib() -> int:
    """Peak of the resident memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


def slope(seconds: Mapping[int, float]) -> float | None:
    """Slope of the logarithm of the time against that of the number of rows; None for one size."""
    if len(seconds) < 2:
        return None
    return round(float(np.polyfit(np.log(list(seconds)), np.log(list(seconds.values())), 1)[0]), 3)


def write_people(path: Path, rows: int) -> None:
    """Write people in blocks: two groups, numbers and codes that tell the label and a little of the
    group.
    """
    rng = np.random.default_rng(0)
    weights = rng.normal(0, 0.4, NUMBERS)
    with contextlib.ExitStack() as stack:
        writer = None
        for start in range(0, rows, CHUNK):
            n = min(CHUNK, rows - start)
            group = rng.integers(0, 2, n)
            numbers = rng.standard_normal((n, NUMBERS)) + 0.2 * group[:, None]
            codes = rng.integers(0, 4 + np.arange(CODES) * 2, (n, CODES))
            score = numbers @ weights + 0.3 * (codes[:, 0] == 1) - 0.4 * group
            label = rng.random(n) < 1 / (1 + np.exp(-score))
            columns: dict[str, Any] = {
                f"number_{j}": numbers[:, j].round(4) for j in range(NUMBERS)
            }
            for j in range(CODES):
                names = pa.array([f"code_{value:02d}" for value in range(4 + 2 * j)])
                columns[f"place_{j}"] = names.take(pa.array(codes[:, j]))
            columns["group"] = pa.array(["a", "b"]).take(pa.array(group))
            columns["approved"] = pa.array(["no", "yes"]).take(pa.array(label.astype(np.int64)))
            block = pa.table(columns)
            writer = writer or stack.enter_context(pq.ParquetWriter(path, block.schema))
            writer.write_table(block)


if __name__ == "__main__":
    main()
