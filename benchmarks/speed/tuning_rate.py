"""How fast ``evenhand tune`` is on Adult: models a minute, the first trial, and the page of a large
study.

Run ``python -m benchmarks.speed.tuning_rate [--minutes M] [--trials N]`` on an idle machine. The job is
the one that ``init`` writes for Adult; the search is ``tune`` as a process of its own, with its
defaults. The page is that of ``tune --status`` for a study of N trials, whose results are drawn at
random: its process is timed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import log, provenance, write_result
from benchmarks.studies import untuned_tables
from evenhand.flows.commands.init_command import init
from evenhand.flows.engine import DirectEngine, Steps
from evenhand.flows.run import prepare
from evenhand.flows.tune_plan import make_plan
from evenhand.flows.tune_search import STUDIES, Rows
from evenhand.tasks.execution.store import Store
from evenhand.tasks.tuning.trial_search import Candidate, Judgement, Rule, Study

START = "from evenhand.flows.cli import main; main()"
LIMIT = "gap_max.sex <= 0.1"
REPEATS = 5


def main() -> None:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--trials", type=int, default=2000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job(folder)
        content = {"minutes": given.minutes, **searched(folder, given.minutes)}
        content["page"] = opened(folder, given.trials)
    log(content)
    write_result("tuning_rate", provenance("python -m benchmarks.speed.tuning_rate") | content)


def job(folder: Path) -> None:
    """Write Adult as a CSV file, and its job by ``init``."""
    source = untuned_tables.TABLES["adult"]
    source.read(Store(str(folder / "tables"))).to_csv(folder / "adult.csv", index=False)
    with contextlib.redirect_stdout(sys.stderr):
        init(
            str(folder / "adult.csv"), source.label, source.sensitive, positive=source.positive,
            favourable=None, identifier=None, name="adult", method="gbdt", folder=folder, force=True,
            use_sensitive=True, sql=None, connection=None, as_json=False, text=None, terms=None,
            encoding=None, decimal=None, dates=None, ignore=None, sheet=None, join_spellings=False,
        )  # fmt: skip


def tune(folder: Path, *arguments: str) -> float:
    """Run the command in a process of its own; seconds."""
    command = [
        sys.executable,
        "-c",
        START,
        "tune",
        "adult.yaml",
        "--force",
        "--store",
        "store",
        *arguments,
    ]
    begun = time.perf_counter()
    subprocess.run(command, cwd=folder, env=os.environ, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def searched(folder: Path, minutes: float) -> dict[str, Any]:
    """Search for so many minutes; counts of models and trials, and when the first trial was
    finished.
    """
    begun = time.time()
    seconds = tune(
        folder, "--minutes", str(minutes), "--maximize", "balanced_accuracy", "--where", LIMIT
    )
    (study,) = (folder / "store" / STUDIES).iterdir()
    opened = Study(study)
    trials = opened.trials()
    models = {trial.model: trial for trial in trials if trial.rule == 0}
    first = min(item.datetime_complete.timestamp() for item in opened.finished())
    states = [trial.state for trial in models.values()]
    return {
        "models": len(models),
        "judged_on_all_folds": states.count("judged"),
        "trials": len(trials),
        "first_trial_seconds": round(first - begun, 2),
        "whole_seconds": round(seconds, 1),
    }


def opened(folder: Path, trials: int) -> dict[str, Any]:
    """Seconds of ``--status`` for a study of so many trials."""
    store = Store(str(folder / "large"))
    limits = [f"tune.where=[{json.dumps(LIMIT)}]"]
    plan = make_plan(str(folder / "adult.yaml"), limits, force=True)
    steps = Steps(store, DirectEngine(store))
    prepare(plan.resolved, steps)
    rows = Rows.read(plan, steps)
    study, random = Study(Path(store.local, STUDIES, "large")), np.random.default_rng(0)
    names = plan.resolved.known_metrics

    def judge(candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        drawn = random.uniform(0.3, 0.6, (len(rules), len(names), 3))
        results = []
        for row in drawn.tolist():
            metrics = {}
            for name, ends in zip(names, row, strict=True):
                metrics[name] = dict(zip(("low", "value", "high"), sorted(ends), strict=True))
            results.append({"metrics": metrics})
        return Judgement(results)

    with study.held():
        study.create(rows.plan, rows.identity)
        study.search(
            rows.plan, judge, until=float("inf"), most=-(-trials // len(rows.plan.judged_under))
        )
    seconds = [tune(folder, "--status", "--store", "large") for _ in range(REPEATS)]
    page = next((folder / "large" / STUDIES).rglob("report.html"))
    return {
        "trials": len(study.trials()),
        "seconds": round(statistics.median(seconds), 2),
        "megabytes": round(page.stat().st_size / 1e6, 2),
    }


if __name__ == "__main__":
    main()
