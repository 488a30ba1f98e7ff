"""AIF360's disparate impact remover and calibrated equalized odds, each with a logistic regression.

Run ``python -m benchmarks.peers.aif360_logistic METHOD ROWS OUT SEED``. ROWS is a file of
:func:`benchmarks.peers.exchange.write_rows`. OUT gets the labels of its test rows, shape (n,). A
quarter of the training rows chooses the repair level, or the mix rates and the threshold: of 0,
0.1, ..., 1 the level or threshold with the best balanced accuracy.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from aif360.algorithms.postprocessing import CalibratedEqOddsPostprocessing
from aif360.algorithms.preprocessing import DisparateImpactRemover
from aif360.datasets import BinaryLabelDataset
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split

from benchmarks.peers.exchange import Rows, read_rows

VALIDATION_SHARE = 0.25
CANDIDATES = tuple(step / 10 for step in range(11))

Labels = NDArray[np.int64]


def table(rows: Rows, privileged: int) -> BinaryLabelDataset:
    """The rows as AIF360 takes them, without the columns that state the group: 1 is the privileged
    one.
    """
    X = np.delete(rows.X, rows.flip_columns, axis=1).astype(np.float64)
    columns = {f"x{j}": column for j, column in enumerate(X.T)}
    frame = pd.DataFrame(
        {"group": (rows.group == privileged) * 1.0, **columns, "label": rows.y * 1.0}
    )
    return BinaryLabelDataset(df=frame, label_names=["label"], protected_attribute_names=["group"])


def regression(X: NDArray[Any], y: Labels) -> LogisticRegression:
    """The regression that our own comparators use."""
    return LogisticRegression(solver="newton-cholesky", tol=1e-6, max_iter=1000).fit(X, y)


def repaired(fit: Rows, held: Rows, test: Rows, privileged: int, seed: int) -> Labels:
    """Labels of the test rows on repaired features; of equally good repair levels the highest is
    taken.

    Each part is repaired as a table of its own: the library repairs whole tables. Nothing is drawn.
    """
    tables = [table(rows, privileged) for rows in (fit, held, test)]

    def repair(number: int, level: float) -> NDArray[np.float64]:
        remover = DisparateImpactRemover(repair_level=level, sensitive_attribute="group")
        return np.asarray(remover.fit_transform(tables[number]).features[:, 1:])

    best, chosen = -np.inf, 0.0
    model: Any = None
    for level in CANDIDATES:
        fitted = regression(repair(0, level), fit.y)
        score = balanced_accuracy_score(held.y, fitted.predict(repair(1, level)))
        if score >= best:
            best, chosen, model = score, level, fitted
    return np.asarray(model.predict(repair(2, chosen)))


def calibrated(fit: Rows, held: Rows, test: Rows, privileged: int, seed: int) -> Labels:
    """Labels of the test rows by mixed scores; of equally good thresholds the one nearest 1/2 is
    taken.
    """
    model = regression(fit.X.astype(np.float64), fit.y)
    tables = [table(rows, privileged) for rows in (held, test)]
    scored = [each.copy(deepcopy=True) for each in tables]
    for each, rows in zip(scored, (held, test), strict=True):
        each.scores = model.predict_proba(rows.X.astype(np.float64))[:, 1:]
    mixing = CalibratedEqOddsPostprocessing([{"group": 0}], [{"group": 1}], "weighted", seed=seed)
    mixing.fit(tables[0], scored[0])
    mixed = mixing.predict(scored[0]).scores[:, 0]
    threshold = max(
        sorted(CANDIDATES, key=lambda candidate: abs(candidate - 0.5)),
        key=lambda candidate: balanced_accuracy_score(held.y, mixed >= candidate),
    )
    labels: Labels = mixing.predict(scored[1], threshold=threshold).labels[:, 0].astype(np.int64)
    return labels


METHODS = {"disparate-impact-remover": repaired, "calibrated-equalized-odds": calibrated}


def main() -> None:
    """Read the rows and write the labels."""
    parser = argparse.ArgumentParser()
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("seed", type=int)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # of the library's own code
    train, test = read_rows(given.data)
    positions = train_test_split(
        np.arange(len(train.y)),
        test_size=VALIDATION_SHARE,
        stratify=2 * train.group + train.y,
        random_state=given.seed,
    )
    fit, held = (train.take(np.sort(part)) for part in positions)
    # the group with the larger share of positive labels
    privileged = int(
        np.argmax([train.y[train.group == code].mean() for code in range(train.group.max() + 1)])
    )
    labels = METHODS[given.method](fit, held, test, privileged, given.seed)
    np.save(given.out, labels.astype(np.int64), allow_pickle=False)


if __name__ == "__main__":
    main()
