"""Every classifier by ``init`` and ``run`` with nothing edited, on raw and on generated tables.

``python -m benchmarks.studies.untuned_tables`` writes ``results/untuned.json``; ``--tables`` and ``--methods``
choose some; results of others stay. Nothing of the shipped jobs and contracts is used: ``init``
sees a CSV file with column names, the label and the sensitive columns. Beside the run's own numbers
each row has AUC, log loss and expected calibration error of scikit-learn's
HistGradientBoostingClassifier with its defaults.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from benchmarks.common import log, provenance, read_whole, rounded, write_result
from benchmarks.summaries import only
from evenhand.fairlib.datasets.generated import make_hiring
from evenhand.fairlib.datasets.recipes import RECIPES
from evenhand.fairlib.evaluation.evaluate import evaluate
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.methods.registry import METHODS, installed
from evenhand.tasks.execution.dataset import Dataset, read_dataset
from evenhand.tasks.execution.store import Store
from evenhand.tasks.sources.fetching import fetch_source

NAME = "untuned"
KEPT = (
    "accuracy",
    "balanced_accuracy",
    "auc",
    "log_loss",
    "log_loss_gain",
    "ece",
    "probability_spread",
    "certificate.drf",
    "certificate.drf_relative",
    "certificate.flips",
)
LIMIT_S = 900


@dataclass(frozen=True)
class Untuned:
    """A table that ``init`` gets: its rows, label, positive value and sensitive columns."""

    read: Callable[[Store], pd.DataFrame]
    label: str
    positive: str
    sensitive: tuple[str, ...]


def main() -> None:
    """Run the chosen methods on the chosen tables, one after another."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=list(TABLES))
    methods = [name for name, spec in METHODS.items() if installed(spec)]
    parser.add_argument("--methods", nargs="*", default=methods, choices=methods)
    chosen = parser.parse_args()
    results = read_whole(NAME, {"results": {}})["results"]
    with tempfile.TemporaryDirectory() as scratch:
        for table in chosen.tables:
            for method in chosen.methods:
                log(table, method)
                found = measure(table, method, Path(scratch))
                log(
                    " ",
                    {key: round(v, 4) for key, v in found.items() if isinstance(v, float)},
                    found["status"],
                )
                results.setdefault(table, {})[method] = found
                content = {
                    **provenance("python -m benchmarks.studies.untuned_tables"),
                    "results": results,
                }
                write_result(NAME, content, summarise)


# What the summary has of a row, of a control and of the reference.
SHOWN = (
    *("status", "exit_code", "seconds", "rows", "accuracy", "balanced_accuracy", "auc", "ece"),
    *("log_loss_gain", "certificate.flips", "certificate.drf_relative"),
)
OF_BLIND = ("balanced_accuracy", "auc", "certificate.flips", "same_as")
OF_REFERENCE = ("auc", "ece")


def summarise(content: Mapping[str, Any]) -> dict[str, Any]:
    """What the page shows of every table and method; other controls and notes are left out."""
    results = {
        table: {method: shown(row) for method, row in methods.items()}
        for table, methods in content["results"].items()
    }
    return {**content, "results": rounded(results, 7)}


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the summary has of one run."""
    entries = only(row, SHOWN)
    if "steps" in row:
        entries["steps"] = only(row["steps"], ["train"])
    if "blind" in row:
        entries["blind"] = only(row["blind"], OF_BLIND)
    if "reference" in row:
        entries["reference"] = only(row["reference"], OF_REFERENCE)
    return entries


def measure(table: str, method: str, scratch: Path) -> dict[str, Any]:
    """Exit code, seconds and metrics of ``init`` and ``run`` with one method."""
    source, store = TABLES[table], scratch / "store"
    folder = scratch / table / method
    folder.mkdir(parents=True, exist_ok=True)
    file = scratch / f"{table}.csv"
    if not file.is_file():
        source.read(Store(str(store))).to_csv(file, index=False)
    words = [
        "init",
        str(file),
        "--label",
        source.label,
        "--positive",
        source.positive,
        "--method",
        method,
    ]
    words += [word for name in source.sensitive for word in ("--sensitive", name)]
    begun = _evenhand([*words, "--name", table, "--into", str(folder)], store)
    if begun.returncode:
        return {
            "status": f"init: {begun.stderr.strip().splitlines()[-1]}",
            "exit_code": begun.returncode,
        }
    started = time.perf_counter()
    try:
        done = _evenhand(["run", str(folder / f"{table}.yaml"), "--direct", "--json"], store)
    except subprocess.TimeoutExpired:
        return {"status": f"no end after {LIMIT_S} s", "exit_code": None}
    seconds = time.perf_counter() - started
    verdict = json.loads(done.stdout)
    found = {"status": verdict["status"], "exit_code": verdict["exit_code"], "seconds": seconds}
    if verdict.get("error"):
        return found | {"status": verdict["error"]}
    found |= {"steps": verdict["seconds"], "notes": verdict["notes"]}
    found |= {name: verdict["metrics"][name] for name in KEPT if name in verdict["metrics"]}
    for control, measured in verdict["controls"].items():
        found[control] = {name: measured["metrics"].get(name) for name in KEPT}
        found[control]["same_as"] = measured["same_as"]
    parts = [
        read_dataset(Path(verdict["artifacts"][f"preprocess.{part}"])) for part in ("train", "test")
    ]
    found["job"] = yaml.safe_load((folder / f"{table}.yaml").read_text())["method"]
    return found | {"rows": len(parts[0].y) + len(parts[1].y)} | reference(*parts)


def reference(train: Dataset, test: Dataset) -> dict[str, Any]:
    """AUC, log loss and calibration error of scikit-learn's boosting with its defaults on the same
    rows.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(random_state=0).fit(train.X, train.y)
    score = model.predict_proba(test.X)[:, 1]
    outcomes = Outcomes(
        y_true=test.y, y_pred=(score > 0.5).astype(np.int64), score=score, sensitive={}
    )
    found = evaluate(outcomes, draws=0).metrics
    return {"reference": {name: found[name].value for name in ("auc", "log_loss", "ece")}}


def _evenhand(words: list[str], store: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "evenhand"), *words]
    environment = os.environ | {"EVENHAND_STORE": str(store)}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=environment
    )


# tables


def _raw(name: str) -> Callable[[Store], pd.DataFrame]:
    """The publisher's raw files with column names, as the recipe of a known table reads them."""

    def read(store: Store) -> pd.DataFrame:
        source = {
            "name": name,
            "path": None,
            "sql": None,
            "rows": None,
            "sha256": None,
            "connection": None,
        }
        files = fetch_source(store, source)
        return RECIPES[name].read({key: store.fetch(file) for key, file in files.items()})

    return read


def _benefits(store: Store) -> pd.DataFrame:
    """Claims for a benefit: rare positives, codes, missing values, and a group with another base
    rate.
    """
    rng = np.random.default_rng(11)
    n = 20_000
    sex, region = rng.choice(["f", "m"], n), rng.integers(101, 117, n)
    income = np.exp(rng.normal(10, 0.6, n))
    children = rng.poisson(1.1, n)
    kind = rng.choice([1, 2, 3, 5, 9], n)
    effect = dict(zip((1, 2, 3, 5, 9), (0.3, -0.6, 0.9, 0.0, -0.2), strict=True))
    z = -2.6 - 0.9 * (np.log(income) - 10) + 0.5 * children + 0.5 * (sex == "f")
    z += np.array([effect[value] for value in kind]) + 0.8 * ((region % 5 == 0) & (children > 1))
    granted = rng.random(n) < 1 / (1 + np.exp(-z))
    table = {
        "sex": sex,
        "region_code": region,
        "income": income.round(),
        "children": children,
        "claim_kind": kind,
    }
    frame = pd.DataFrame(table | {"granted": np.where(granted, "yes", "no")})
    frame.loc[rng.random(n) < 0.08, "income"] = np.nan
    return frame


def _admissions(store: Store) -> pd.DataFrame:
    """Admissions: nine of ten positive, ordered grades, interactions, two sensitive attributes."""
    rng = np.random.default_rng(12)
    n = 12_000
    gender, age = (
        rng.choice(["woman", "man", "other"], n, p=[0.52, 0.45, 0.03]),
        rng.integers(17, 60, n),
    )
    grade = rng.choice(["low", "medium", "high"], n, p=[0.2, 0.5, 0.3])
    points, essay = rng.normal(60, 15, n), rng.normal(0, 1, n)
    level = pd.Series(grade).map({"low": -0.8, "medium": 0.0, "high": 0.9}).to_numpy()
    z = 2.3 + level + 0.03 * (points - 60) + 0.7 * essay * (level > 0) - 0.02 * (age - 30)
    admitted = rng.random(n) < 1 / (1 + np.exp(-z))
    return pd.DataFrame(
        {
            "gender": gender,
            "age": age,
            "grade": grade,
            "points": points.round(1),
            "essay": essay.round(2),
        }
        | {"admitted": admitted.astype(int)}
    )


TABLES = {
    "adult": Untuned(_raw("adult"), "income", ">50K", ("sex", "race")),
    "german": Untuned(_raw("german"), "credit", "good", ("age",)),
    "compas": Untuned(_raw("compas"), "two_year_recid", "1", ("sex", "race")),
    "bank": Untuned(_raw("bank"), "y", "yes", ("age",)),
    "hiring": Untuned(lambda store: make_hiring(8_000, seed=5), "hired", "1", ("gender",)),
    "benefits": Untuned(_benefits, "granted", "yes", ("sex",)),
    "admissions": Untuned(_admissions, "admitted", "1", ("gender", "age")),
}


if __name__ == "__main__":
    main()
