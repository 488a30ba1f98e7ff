"""Tables 5, 7 and 9 of Vargo et al. 2021: our shipped jobs on ten splits, beside the printed rows.

Run ``python -m benchmarks.reproductions.printed_tables [JOB ...]`` with ``EVENHAND_DATA`` set. Every number is computed
by the same steps as in ``evenhand run``, with the job's seed set to 0..9.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, log, provenance, run_unpublished, write_result
from benchmarks.reproductions.printed_values import Measured, compare
from evenhand.fairlib.methods.preprocessed_gbdt import ProjectedGBDTClassifier
from evenhand.fairlib.methods.registry import load_model
from evenhand.fairlib.preprocessing.counterfactuals import encoded_copies
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.flows.engine import Steps
from evenhand.tasks.execution.dataset import read_dataset
from evenhand.tasks.execution.store import Store

SPLITS = 10
JOBS = (
    # the others have settings from elsewhere: benchmarks.studies.judged_methods
    *("german-gbdt", "german-project", "adult-gbdt", "adult-reweigh"),
    *("compas-gbdt", "compas-project", "compas-reweigh"),
)


def main(names: list[str]) -> None:
    """Measure the named jobs (default: all) and print each beside the paper's row."""
    store = Store()
    path = RESULTS / "tables.json"
    results: dict[str, Any] = json.loads(path.read_text())["rows"] if path.exists() else {}
    for name in names or JOBS:
        results[name] = measure(store, name)
        show(name, results[name])
        content = provenance("python -m benchmarks.reproductions.printed_tables") | {
            "splits": SPLITS,
            "rows": results,
        }
        write_result("tables", content)


def measure(store: Store, name: str) -> dict[str, Any]:
    """Mean and standard deviation over the splits of every metric that the paper prints."""
    values: dict[str, list[float]] = {}
    seconds = []
    for seed in range(SPLITS):
        log(f"{name}: split {seed + 1} of {SPLITS}")
        resolved, run = run_unpublished(store, name, [f"seed={seed}", "evaluate.draws=0"])
        metrics = json.loads(store.fetch(run.output("evaluate", "metrics")).read_text())["metrics"]
        seconds.append(run.finished["train"].record.seconds)
        assert resolved.job.paper is not None
        for metric in resolved.job.paper.row:
            values.setdefault(metric, []).append(metrics[metric]["value"])
        if resolved.method == "project":
            for metric, value in consistency_after_projection(store, run, resolved).items():
                values.setdefault(metric, []).append(value)
    paper = resolved.job.paper
    assert paper is not None
    return {
        "source": paper.source,
        "ours": {
            metric: [float(np.mean(found)), float(np.std(found))]
            for metric, found in values.items()
        },
        "paper": {metric: list(row) for metric, row in paper.row.items()},
        "train_seconds_median": float(np.median(seconds)),
    }


def consistency_after_projection(store: Store, run: Steps, resolved: Any) -> dict[str, float]:
    """Consistency with the copies made after the projection, as the paper's numbers for "project"
    suggest.

    A person whose raw row changes is encoded, then projected: what `consistency.NAME` measures.
    Here the columns of the projected matrix are overwritten instead, so that the projection never
    sees the change.
    """
    model = load_model(store.fetch(run.output("train", "model")))
    assert isinstance(model, ProjectedGBDTClassifier)
    encoder = TableEncoder.load(store.fetch(run.output("preprocess", "encoder")))
    data = read_dataset(store.fetch(run.output("preprocess", "test")))
    projected = model.metric_.project(data.X).astype(np.float32)
    result = {}
    for name, changes in resolved.job.evaluate.counterfactuals.items():
        changed = [column for key in changes for column in encoder.groups_[key]]
        predictions = []
        for copy in encoded_copies(encoder, data.X, changes):
            matrix = projected.copy()
            matrix[:, changed] = copy[:, changed]
            predictions.append(model.booster_.inplace_predict(matrix) > 0.5)
        stacked = np.stack(predictions)
        result[f"consistency_after_projection.{name}"] = float(
            (stacked == stacked[0]).all(axis=0).mean()
        )
    return result


def show(name: str, row: dict[str, Any]) -> None:
    """Print one job's row, with the distance to the printed one in printed standard deviations."""
    print(f"\n{name}  ({row['source']}; training {row['train_seconds_median']:.2f} s a split)")
    for metric, (mean, deviation) in row["ours"].items():
        line = f"  {metric:38} {mean:.3f} ± {deviation:.3f}"
        printed = row["paper"].get(metric)
        print(
            line
            if printed is None
            else f"{line}   paper {format_row(printed)}   {verdict(metric, (mean, deviation), printed)}"
        )


def format_row(printed: list[Any]) -> str:
    """Mean and, where printed, standard deviation."""
    return f"{printed[0]:.3f}" if printed[1] is None else f"{printed[0]:.3f} ± {printed[1]:.3f}"


def verdict(metric: str, ours: Sequence[float], printed: Sequence[float | None]) -> str:
    """How far our mean of a baseline is from the printed one, in standard errors of the difference.

    Closeness is what counts of a baseline, so lower gaps are not better here.
    """
    mean, deviation = ours
    value, printed_deviation = printed
    assert value is not None
    spread = deviation * math.sqrt(SPLITS / (SPLITS - 1))
    measured = Measured(mean, spread, SPLITS)
    return compare(metric, value, printed_deviation, SPLITS, measured, is_method=False).words


if __name__ == "__main__":
    main(sys.argv[1:])
