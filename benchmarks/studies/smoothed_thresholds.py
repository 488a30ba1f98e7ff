"""Thresholds by group on few rows, chosen by labels alone and with smoothing: how good they are on
test rows, and how large their gaps are there.

    python -m benchmarks.studies.smoothed_thresholds --work FOLDER [--draws N]

writes ``results/smoothed_thresholds.json``: a row for each table, number of training rows and
criterion. In each draw so many rows of a table are drawn for training, stratified by group and
label, and up to ten times as many others are test rows. A logistic regression predicts each
training row by a model of other folds; thresholds are chosen on these predictions, after a sigmoid
calibration, at tolerances of .02, .05 and .1, and decide about the test rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.common import log, provenance, rounded, write_result
from benchmarks.peers.exchange import Rows, group_metrics, join, read_rows
from benchmarks.peers.tuning_comparison import exchanged
from benchmarks.summaries import standard_error
from evenhand.fairlib.evaluation.group_thresholds import Criterion, fit_group_thresholds
from evenhand.fairlib.methods.calibration import fit_calibration

NAME = "smoothed_thresholds"
# Tables, and how many of their rows are for training; of German all but a fifth.
SIZES = {
    "german": (800,),
    "compas": (800, 2000, 4000),
    "hiring": (800, 2000),
    "benefits": (800, 2000),
    "adult": (800, 5000),
}
METRIC_OF: dict[Criterion, str] = {
    "equalized_odds": "gap_max",
    "equal_opportunity": "equal_opportunity_difference",
    "demographic_parity": "demographic_parity_difference",
}
TOLERANCES = (0.02, 0.05, 0.1)
TESTED = 10
# Regularisation of the logistic regression.
C = 0.02
# With and without: a value of `smoothing`.
PLAIN: float = 0.0
SMOOTHED: Literal["auto"] = "auto"


def main() -> None:
    """Measure all tables and sizes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, required=True, help="where rows are kept")
    parser.add_argument("--draws", type=int, default=20)
    given = parser.parse_args()
    rows = []
    content = provenance("python -m benchmarks.studies.smoothed_thresholds")
    for table, sizes in SIZES.items():
        everybody = join(*read_rows(exchanged(table, 0, given.work.resolve())))
        for size in sizes:
            log(table, size)
            rows += measured(table, everybody, size, given.draws)
    write_result(NAME, content | {"draws": given.draws, "rows": rounded(rows)})


def measured(table: str, everybody: Rows, size: int, draws: int) -> list[dict[str, Any]]:
    """Return a row for each criterion: means over the draws and tolerances."""
    found: dict[tuple[Criterion, Any], list[list[float]]] = {}
    for draw in range(draws):
        rng = np.random.default_rng([draw, 9])
        training, test = drawn(everybody, size, rng)
        for key, values in decided(training, test, rng).items():
            found.setdefault(key, []).append(values)
    rows = []
    for criterion in METRIC_OF:
        plain = found[criterion, PLAIN]
        smoothed = found[criterion, SMOOTHED]
        gains = [after[0] - before[0] for before, after in zip(plain, smoothed, strict=True)]
        row: dict[str, Any] = {"table": table, "training": size, "criterion": criterion}
        row["gain"] = fmean(gains)
        row["error"] = standard_error(gains)
        for name, of_draws in (("plain", plain), ("smoothed", smoothed)):
            row[name] = [fmean(draw[place] for draw in of_draws) for place in range(3)]
        rows.append(row)
    return rows


def drawn(everybody: Rows, size: int, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Training and test rows, stratified by group and label."""
    cell = 2 * everybody.group + everybody.y
    training = []
    test = []
    for number in np.unique(cell):
        index = rng.permutation(np.flatnonzero(cell == number))
        count = round(size * len(index) / len(cell))
        training.append(index[:count])
        test.append(index[count : (1 + TESTED) * count])
    return everybody.take(np.concatenate(training)), everybody.take(np.concatenate(test))


def decided(
    training: Rows, test: Rows, rng: np.random.Generator
) -> dict[tuple[Criterion, Any], list[float]]:
    """By criterion and smoothing, means over the tolerances on the test rows: balanced accuracy,
    the gap, and the share of tolerances that it is within.
    """
    model = make_pipeline(StandardScaler(), LogisticRegression(C=C, max_iter=500))
    folds = StratifiedKFold(5, shuffle=True, random_state=int(rng.integers(2**31)))
    predicted = cross_val_predict(model, training.X, training.y, cv=folds, method="predict_proba")[
        :, 1
    ]
    calibration, _ = fit_calibration(predicted, training.y, "sigmoid")
    on_test = calibration(model.fit(training.X, training.y).predict_proba(test.X)[:, 1])
    uniform = rng.uniform(size=len(test.y))
    share = float(training.y.mean())
    found = {}
    for criterion, metric in METRIC_OF.items():
        for smoothing in (PLAIN, SMOOTHED):
            values = []
            for tolerance in TOLERANCES:
                rule = fit_group_thresholds(
                    calibration(predicted),
                    training.y,
                    training.group.astype(str),
                    attribute="group",
                    criterion=criterion,
                    tolerance=tolerance,
                    false_positive=share,
                    false_negative=1.0 - share,
                    smoothing=smoothing,  # type: ignore[arg-type]
                )
                labels = rule.decide(on_test, test.group.astype(str), uniform)
                metrics = group_metrics(test.y, labels, test.group)
                gap = metrics[metric] or 0.0
                accuracy = metrics["balanced_accuracy"] or 0.0
                values.append([accuracy, gap, float(gap <= tolerance)])
            found[criterion, smoothing] = np.mean(values, axis=0).tolist()
    return found


HEAD = """\
## Thresholds by group on few rows

A search chooses thresholds by group with `smoothing: auto`: calibrated probabilities count in part in place of labels, the more
the fewer rows there are. Balanced accuracy and the gap on test rows, with thresholds that are chosen by labels alone and with
smoothing, means over tolerances of .02, .05 and .1; kept: share of them that the gap is within. Gain: mean difference of the
balanced accuracy and its standard error over the draws, which share rows.
"""


def sections(content: Mapping[str, Any], provenance: Callable[[Any], str]) -> list[str]:
    """The table; nothing without results."""
    if not content:
        return []
    lines = [
        HEAD,
        f"{content['draws']} draws of the training rows.\n",
        provenance(content),
        "| table | training rows | criterion | by labels | smoothed | gain | gap | kept |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in content["rows"]:
        lines.append(_line(row))
    return [*lines, ""]


def _line(row: Mapping[str, Any]) -> str:
    plain: Sequence[float] = row["plain"]
    smoothed: Sequence[float] = row["smoothed"]
    columns = [
        row["table"],
        f"{row['training']:,}",
        row["criterion"].replace("_", " "),
        f"{plain[0]:.4f}",
        f"{smoothed[0]:.4f}",
        f"{row['gain']:+.4f} ± {row['error']:.4f}".replace("-", "−"),
        f"{plain[1]:.3f} / {smoothed[1]:.3f}",
        f"{plain[2]:.0%} / {smoothed[2]:.0%}",
    ]
    return f"| {' | '.join(columns)} |"


if __name__ == "__main__":
    main()
