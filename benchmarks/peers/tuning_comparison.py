"""`evenhand tune` beside searches with other tools: what each hands over at a limit, after equal
time.

    python -m benchmarks.peers.tuning_comparison --environments FOLDER [--tables T ...] [--splits N ...] [--systems S
    ...]

writes ``results/tuning.json``: one entry a table, split and system. What is in the file is not run
again. With another ``--result`` the file keeps what was handed over in each cell, so that a fresh
checkout goes on from it. The environments of the peers are made below FOLDER with the pins of
``peers/requirements-NAME.txt``, and the rows are kept there while the benchmark runs. The systems
run one after another. Seconds are of the CPU, and every system has one process with one thread;
with ``--clock wall`` they are of the wall clock, `tune` has a worker on each core and the others'
libraries as many threads. An idle machine is needed then. What is imported does not count.

Rows. Five splits of each table (the job's own, 80/20, its seed 0 to 4), encoded by our steps. Peers
get the encoded rows and split the training rows 60/20/20: to train on, to choose thresholds on, to
validate on. Our search validates on folds of all training rows. Nobody sees the test rows before
the end.

Choice. For each criterion and limit, the candidate with the best balanced accuracy among those
within the limit on validation rows; if none is within it, the nearest. The rule is the same for all
(`confidence: 0.5`). With ``--chances``, and in ``results/tuning.json``, a second and a third choice
of ours ask for a chance of .8 and of .975 that unseen rows keep it (before 0.3: the interval's end,
and the end of what test rows may show). A fourth is the default of `tune`. A model's chances for
all criteria take several times as long as those for one limit, so short searches go without.

Last training. The winner of `tune` is trained on all training rows. So the chosen candidates of a
peer are trained again too, on their rows to train and to validate on, and then measured on the test
rows. FairGBM's and Aequitas' are not: FairGBM's training is not stable, and the model that was
validated is better. Neither takes part in the time. A candidate that is being trained when the
time is up may end; a peer's is stopped at twice the time.

A flip overwrites the columns of the model, not the recorded group: thresholds by group stay those
of the person's own group. So consistency, ours and the peers', is that of the model's inputs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pandas as pd
import yaml

from benchmarks.common import (
    log,
    provenance,
    read_result,
    read_whole,
    rounded,
    whole_path,
    write_result,
)
from benchmarks.page_generators.short_tuning import compact, whole_of
from benchmarks.page_generators.tuning_page import summarise
from benchmarks.peers.exchange import CRITERIA, cell_name, cells, cpu_seconds, write_rows
from benchmarks.peers.exchange import Rows as ExchangedRows
from benchmarks.studies import untuned_tables
from benchmarks.studies.tune_under_load import ODD_TABLES, odd_table
from evenhand.fairlib.datasets.generated import make_loans
from evenhand.fairlib.execution import derive_seed
from evenhand.fairlib.methods.row_groups import fold_of_rows
from evenhand.fairlib.preprocessing.counterfactuals import encoded_copies
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.fairlib.tuning.budget import Budget
from evenhand.fairlib.tuning.study import Aim, Limit, Trial, best, nearest
from evenhand.flows.commands.init_command import init
from evenhand.flows.engine import DirectEngine, Steps
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.flows.run import prepare
from evenhand.flows.tune_plan import CONFIDENCE_OF_BOUND, TunePlan, make_plan
from evenhand.flows.tune_search import JUDGING, STUDIES, Rows, judging, search
from evenhand.flows.workers import Pool, cores, make_pool
from evenhand.tasks.classifier_training import HeldOut
from evenhand.tasks.execution.dataset import Dataset, read_dataset
from evenhand.tasks.execution.store import Store
from evenhand.tasks.tuning import judge
from evenhand.tasks.tuning.folds import cells_of
from evenhand.tasks.tuning.trial_search import Candidate, Study

NAME = "tuning"
ROOT = Path(__file__).resolve().parents[2]
PEERS = ("fairgbm", "error_parity", "fairlearn", "aequitas", "aif360")
OURS = "evenhand"
SPLITS = 5
SECONDS = 300.0
# A process that takes so many times its CPU time, and five minutes, is stopped: on a busy machine
# it gets a part of a core.
PATIENCE = 20
# The shortest search of `tune`.
LEAST_MINUTES = 0.5
BALANCED_ACCURACY = "balanced_accuracy"
CLOCKS = ("cpu", "wall")
THREAD_LIMITS = tuple(
    f"{name}_NUM_THREADS" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA")
)


@dataclass(frozen=True)
class Table:
    """A table, its binary sensitive attribute, and whether this is a model input."""

    attribute: str
    source: dict[str, Any] = field(default_factory=dict)
    is_input: bool = True


# Each contract's binary attribute, of Adult the one whose groups differ more. The ages of german
# and bank are numbers, and have no other group's value to flip to: german-sex and bank-age have the
# same rows.
TABLES = {
    "adult": Table("sex", {"table": "adult"}),
    "german": Table("sex", {"table": "german-sex"}),
    "compas": Table("sex", {"table": "compas"}),
    "bank": Table("age_group", {"table": "bank-age"}),
    "census": Table("sex", {"table": "census"}, is_input=False),
    "hiring": Table("gender", {"table": "hiring"}),
    # `init` writes the contracts of these
    "benefits": Table("sex"),
    "repayments": Table("group"),
    "mostly-positive": Table("group"),
    "rare-positive": Table("group"),
    "few-rows": Table("group"),
    "many-columns": Table("group"),
    "two-attributes": Table("group"),
}


def _repayments(store: Store) -> pd.DataFrame:
    """The generated loans of 10,000 people."""
    return make_loans(10_000, seed=3)


def _odd(name: str) -> untuned_tables.Untuned:
    """A generated table by its rows, columns, shares of groups and of positives."""
    rows, columns, shares, positives = ODD_TABLES.get(name, (20_000, 10, (0.8, 0.2), 0.05))

    def read(store: Store) -> pd.DataFrame:
        return odd_table(name, rows, columns, shares, positives)

    return untuned_tables.Untuned(read, "label", "yes", ("group",))


# What `init` gets of the generated tables.
GENERATED = {
    "benefits": untuned_tables.TABLES["benefits"],
    "repayments": untuned_tables.Untuned(_repayments, "repaid", "1", ("group",)),
    **{
        name: _odd(name)
        for name in (
            "mostly-positive",
            "rare-positive",
            "few-rows",
            "many-columns",
            "two-attributes",
        )
    },
}


def main() -> None:
    """Run what the file of results lacks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--splits", nargs="*", type=int, default=list(range(SPLITS)))
    parser.add_argument("--systems", nargs="*", default=[OURS, *PEERS], choices=[OURS, *PEERS])
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--clock", choices=CLOCKS, default="cpu", help="what the seconds are of")
    parser.add_argument("--environments", type=Path, required=True)
    parser.add_argument("--result", default=NAME, help="name of the file of results")
    parser.add_argument(
        "--one", nargs=2, metavar=("TABLE", "SPLIT"), help="our search alone, for the benchmark"
    )
    parser.add_argument(
        "--chances", action="store_true", help="choose ours by the chance of keeping a limit, too"
    )
    given = parser.parse_args()
    work = given.environments.resolve()
    if given.one:
        table, number = given.one
        found = ours(table, int(number), given.seconds, work, given.clock, chances=given.chances)
        print(json.dumps(found))
        return
    keep: Callable[[Mapping[str, Any]], dict[str, Any]] = compact
    empty: dict[str, Any] = {"seconds": given.seconds, "clock": given.clock, "results": {}}
    if given.result == NAME:
        keep = summarise
    elif "cells" in read_result(given.result):
        # what an earlier checkout measured
        empty = whole_of(read_result(given.result))
    content = read_whole(given.result, empty)
    if content["seconds"] != given.seconds:
        sys.exit(
            f"{whole_path(given.result)} has searches of {content['seconds']:g} s: give --seconds or another --result."
        )
    if content.get("clock", "cpu") != given.clock:
        sys.exit(
            f"{whole_path(given.result)} has seconds of another clock: give --clock or another --result."
        )
    for table in given.tables:
        for split in map(str, given.splits):
            entries = content["results"].setdefault(table, {}).setdefault(split, {})
            for system in given.systems:
                if "cells" in entries.get(system, {}):
                    continue
                log(table, split, system)
                found = measured(
                    system, table, int(split), given.seconds, work,
                    clock=given.clock, chances=given.chances or given.result == NAME,
                )  # fmt: skip
                entries[system] = rounded(found)
                log(
                    " ",
                    *(
                        f"{key}={entries[system].get(key)}"
                        for key in ("error", "candidates", "cpu_seconds")
                    ),
                )
                content |= provenance("python -m benchmarks.peers.tuning_comparison") | {
                    "peers": versions(work)
                }
                commits = {*content.get("commits", ()), str(content["git_commit"])[:8]}
                content["commits"] = sorted(commits)
                write_result(given.result, content, keep)


def measured(
    system: str,
    table: str,
    split: int,
    seconds: float,
    work: Path,
    *,
    clock: str,
    chances: bool,
) -> dict[str, Any]:
    """Run one system in a process of its own; an entry of the file of results."""
    if system == OURS:
        command = [
            sys.executable,
            "-m",
            "benchmarks.peers.tuning_comparison",
            "--one",
            table,
            str(split),
        ]
        command += ["--seconds", str(seconds), "--environments", str(work)]
        if chances:
            command.append("--chances")
    else:
        out = work / "out" / f"{system}-{table}-{split}.json"
        out.parent.mkdir(parents=True, exist_ok=True)
        command = [str(environment(work, system)), "-m", f"benchmarks.peers.{system}"]
        command += [str(exchanged(table, split, work)), "--seconds", str(seconds)]
        command += ["--seed", str(split), "--out", str(out)]
    command += ["--clock", clock]
    environ = dict(os.environ)
    for name in THREAD_LIMITS:
        environ.pop(name, None)
    if clock == "cpu":
        environ |= dict.fromkeys(THREAD_LIMITS, "1")
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False,
            timeout=PATIENCE * seconds + 300,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:  # code of a library that catches the signal
        return {"error": f"did not end within {error.timeout:.0f} seconds"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}
    if system == OURS:
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found
    found = json.loads(out.read_text())
    kept = {key: found[key] for key in ("cpu_seconds", "drawn", "failed", "errors", "cells")}
    return {"candidates": len(found["candidates"]), **kept}


def environment(work: Path, peer: str) -> Path:
    """Python of a peer's environment, which is made if it is not there."""
    folder = work / "env" / peer
    python, ready = folder / "bin" / "python", folder / "ready"
    pins = ROOT / "benchmarks" / "peers" / f"requirements-{peer}.txt"
    if not ready.is_file() or ready.read_text() != pins.read_text():
        log(f"making the environment of {peer}")
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", pins], check=True)
        ready.write_text(pins.read_text())
    return python


def versions(work: Path) -> dict[str, list[str]]:
    """Pins of the environments that were made."""
    made = {peer: work / "env" / peer / "ready" for peer in PEERS}
    return {
        peer: [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
        for peer, file in made.items()
        if file.is_file()
    }


# the rows


def job_file(table: str, split: int, work: Path) -> Path:
    """Write the job of a table and split: boosting with its defaults."""
    spec, folder = TABLES[table], work / "jobs"
    folder.mkdir(parents=True, exist_ok=True)
    source = spec.source or _initialised(table, folder)
    content = {
        "name": f"tuning-{table}",
        **source,
        "seed": split,
        "sensitive": [spec.attribute],
        "method": "gbdt",
    }
    if spec.is_input:
        content["evaluate"] = {"counterfactuals": {spec.attribute: {spec.attribute: "all"}}}
    path = folder / f"{table}-{split}.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def _initialised(table: str, folder: Path) -> dict[str, Any]:
    """Keys of the job that `init` writes for a generated table."""
    path, source = folder / f"{table}.yaml", GENERATED[table]
    if not path.is_file():
        rows = folder / f"{table}.csv"
        source.read(Store(str(folder / "store"))).to_csv(rows, index=False)
        with contextlib.redirect_stdout(sys.stderr):
            init(
                str(rows), source.label, source.sensitive, positive=source.positive, favourable=None,
                identifier=None, name=table, method="gbdt", folder=folder, force=True,
                use_sensitive=True, sql=None, connection=None, as_json=False, text=None, terms=None,
                encoding=None, decimal=None, dates=None, ignore=None, sheet=None, join_spellings=False,
            )  # fmt: skip
    return {
        key: value
        for key, value in yaml.safe_load(path.read_text()).items()
        if key in ("table", "contract")
    }


def exchanged(table: str, split: int, work: Path) -> Path:
    """Rows of a table and split for the peers; they are made by our steps up to `preprocess`."""
    path = work / "rows" / f"{table}-{split}.npz"
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    store = Store(str(work / "store"))
    job, folder = load_job(str(job_file(table, split, work)))
    steps = Steps(store, DirectEngine(store))
    prepare(resolve(job, folder), steps)
    encoder = TableEncoder.load(store.fetch(steps.output("preprocess", "encoder")))
    parts = [
        read_dataset(store.fetch(steps.output("preprocess", part))) for part in ("train", "test")
    ]
    write_rows(path, *(rows_of(data, TABLES[table], encoder) for data in parts))
    return path


def rows_of(data: Dataset, table: Table, encoder: TableEncoder) -> ExchangedRows:
    """A dataset as the peers read it; groups are numbered in the order of their names."""
    import numpy as np

    values = data.sensitive[table.attribute].astype(str)
    columns = np.asarray(encoder.groups_[table.attribute] if table.is_input else [], dtype=np.int64)
    copies = encoded_copies(encoder, data.X[:1], {table.attribute: "all"}) if table.is_input else []
    flips = np.asarray([copy[0, columns] for copy in copies], dtype=np.float32).reshape(
        len(copies), len(columns)
    )
    group = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return ExchangedRows(data.X.astype(np.float32), data.y, group, columns, flips)


# our search


class Spent(Exception):
    """The CPU time of a search is spent."""


class SearchBudget(Budget):
    """Time of the search alone: nothing is kept for the last training, as of the peers."""

    @property
    def reserve(self) -> float:  # type: ignore[override]
        """Seconds that are kept at the end."""
        return 0.0

    @reserve.setter
    def reserve(self, seconds: float) -> None:
        """Keep nothing, whatever the search asks for."""


@contextlib.contextmanager
def ready_workers(plan: TunePlan) -> Iterator[Pool]:
    """Start a worker on each core, and wait until all have imported what they need."""
    count = len(cores())
    with make_pool(plan.tune, count, JUDGING, count) as pool:
        with ThreadPoolExecutor(count) as threads:
            # as many calls at a time as there are workers
            list(threads.map(lambda _: pool.run(os.getpid), range(count)))
        yield pool


def ours(
    table: str, split: int, seconds: float, work: Path, clock: str, *, chances: bool
) -> dict[str, Any]:
    """Search with `tune`, and measure the trials chosen for each cell by their values, and with
    `chances` also by each bound, on the test rows.
    """
    attribute = TABLES[table].attribute
    folder = work / "ours" / f"{table}-{split}"
    shutil.rmtree(folder, ignore_errors=True)  # a cached trial would cost nothing
    store = Store(str(folder))
    criteria = criteria_of(table)
    aims: dict[str, Any] = {
        "maximize": [
            BALANCED_ACCURACY,
            *(f"{name}.{attribute}" for name in criteria if name == "consistency"),
        ],
        "minimize": [f"{name}.{attribute}" for name in criteria if name != "consistency"],
        "confidence": 0.975,
    }
    if chances:
        # every model keeps them: only metrics with a limit get the chance that unseen rows keep one
        aims["where"] = [_kept_by_all(f"{name}.{attribute}") for name in criteria]
    # what is searched in a short time is not what is searched in hours
    minutes = max(seconds / 60.0, LEAST_MINUTES)
    if clock == "wall":
        aims |= {"workers": len(cores()), "minutes": minutes}
    else:
        aims |= {"workers": 1, "cpu_minutes": minutes}
    path = job_file(table, split, work)
    plan = make_plan(
        str(path), [f"tune.{key}={json.dumps(value)}" for key, value in aims.items()], force=True
    )
    steps = Steps(store, DirectEngine(store))
    prepare(plan.resolved, steps)  # the peers get prepared rows, too
    rows = Rows.read(plan, steps)
    study = Study(Path(store.local, STUDIES, NAME))
    with study.held(), contextlib.ExitStack() as stack:
        study.create(rows.plan, rows.identity)
        pool = stack.enter_context(ready_workers(plan)) if clock == "wall" else None
        now = time.monotonic if clock == "wall" else cpu_seconds
        begun = now()
        # in seconds of the same clock, also what models are expected to take
        if clock == "wall":
            budget = SearchBudget(seconds, started=begun, workers=len(cores()))
        else:
            budget = SearchBudget(cpu_seconds=seconds, cpu_clock=lambda: cpu_seconds() - begun)

        def spend(*given: Any) -> None:
            if budget.left <= 0:
                raise Spent

        with contextlib.suppress(Spent):
            search(plan, rows, study, store, spend, pool=pool, budget=budget)
        spent = now() - begun
        if pool is not None:
            pool.close(kill=True)
        trials = study.trials()
    test = read_dataset(store.fetch(steps.output("preprocess", "test")))
    tested = Tested(plan, rows, store, test, attribute)
    found = {
        "candidates": sum(trial.state == "judged" for trial in trials),
        "drawn": len({trial.model for trial in trials}),
        "failed": sum(trial.state == "failed" for trial in trials),
        "cpu_seconds": spent,
        "cells": chosen(tested, trials, criteria, BY_VALUE),
    }
    if chances:
        for bound in BOUNDS:
            found[f"cells_{bound}"] = chosen(tested, trials, criteria, bound)
    return found


def _kept_by_all(metric: str) -> str:
    """A limit on a criterion that no value misses."""
    if metric.startswith("consistency."):
        return f"{metric} >= 0"
    return f"{metric} <= 1"


@dataclass
class Tested:
    """Trials trained on all training rows and measured on the test rows, each model once."""

    plan: TunePlan
    rows: Rows
    store: Store
    test: Dataset
    attribute: str
    known: dict[int, list[Any]] = field(default_factory=dict)

    def __call__(self, trial: Trial) -> dict[str, float | None]:
        """Metrics on the test rows by the names that the peers use."""
        if trial.model not in self.known:
            candidate = Candidate(trial.kind, trial.method, trial.arguments)
            rules = self.rows.plan.rules(candidate)
            parameters, inputs = judging(self.plan, self.rows, candidate, rules, part=1)
            given: Any = SimpleNamespace(
                parameters=parameters,
                inputs={name: self.store.fetch(item) for name, item in inputs.items()},
            )
            self.known[trial.model] = self._measured(given)
        return metrics_of(self.known[trial.model][trial.rule].get("metrics", {}), self.attribute)

    def _measured(self, given: Any) -> list[dict[str, Any]]:
        """Metrics on the test rows by rule; rules are chosen out of fold, as in a tuned job."""
        import numpy as np

        train, folds = read_dataset(given.inputs["train"]), self.rows.folds
        fold = fold_of_rows(
            cells_of(train), folds, derive_seed(self.plan.resolved.job.seed, "last")
        )
        parts = [
            (np.flatnonzero(fold != number), np.flatnonzero(fold == number))
            for number in range(folds)
        ]
        found = [
            judge.predictions(given, train.take(kept), train.take(out), as_run=True)
            for kept, out in parts
        ]
        whole, places = (
            judge.Predictions.concatenate(found),
            np.concatenate([out for _, out in parts]),
        )
        held = HeldOut(places, train.y[places], whole.answers.score[0], whole.shift)
        model = judge.predictions(given, train, self.test, as_run=True)
        everybody = np.zeros(len(self.test.y), dtype=np.int64)
        decided = judge.decided(given.parameters, train, self.test, model, everybody, [held])
        return judge.measured({**given.parameters, "first": True}, self.test, decided)


Bound = Literal["point", "interval", "prediction", "auto"]
BY_VALUE: Bound = "point"
BOUNDS: tuple[Bound, ...] = ("interval", "prediction", "auto")


def criteria_of(table: str) -> tuple[str, ...]:
    """Criteria of a table: consistency only where the attribute is a model input."""
    return CRITERIA if TABLES[table].is_input else CRITERIA[:-1]


def chosen(
    tested: Tested, trials: list[Trial], criteria: tuple[str, ...], bound: Bound
) -> dict[str, Any]:
    """By cell the chosen trial, and its test metrics after the last training."""
    found = {}
    for criterion, limit in cells(criteria):
        trial, is_within = choose_trial(trials, f"{criterion}.{tested.attribute}", limit, bound)
        if trial is not None:
            found[cell_name(criterion, limit)] = {
                "candidate": trial.number,
                "within": is_within,
                "method": trial.method or trial.kind,
                "decision": trial.decision,
                "tolerance": trial.tolerance,
                "validation": metrics_of(trial.metrics, tested.attribute),
                "test": tested(trial),
            }
    return found


def choose_trial(
    trials: list[Trial], metric: str, limit: float, bound: Bound
) -> tuple[Trial | None, bool]:
    """The best trial within a limit, or the nearest, and whether it is within."""
    at_least = metric.startswith("consistency.")
    wanted = Limit(metric, ">=" if at_least else "<=", 1.0 - limit if at_least else limit)
    aim = Aim((BALANCED_ACCURACY,), (wanted,), CONFIDENCE_OF_BOUND[bound])
    found = best(aim, trials)
    return found or nearest(aim, trials), found is not None


def metrics_of(metrics: Mapping[str, Mapping[str, Any]], attribute: str) -> dict[str, float | None]:
    """Values by the names that the peers use."""
    names = {BALANCED_ACCURACY: BALANCED_ACCURACY} | {
        name: f"{name}.{attribute}" for name in CRITERIA
    }
    return {name: metrics.get(key, {}).get("value") for name, key in names.items()}


if __name__ == "__main__":
    main()
