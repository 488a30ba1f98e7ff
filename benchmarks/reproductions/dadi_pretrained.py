"""DADI's pretrained networks: ``python -m benchmarks.reproductions.dadi_pretrained``.

The top of the paper's figure 3 has the AUC of the pretrained classifier and adversary from all
features and from each alone; the squares of its figure 2 are that classifier with all features.
Six folds of Adult and five samples of the loans, at the printed 2,000 iterations, and one fold with
fewer: up to 20 seconds of one core each. They are kept one by one in
``benchmarks/results/papers_dadi_pretrained.json``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.common import code_state, log, provenance, read_result, rounded, write_result
from benchmarks.reproductions.dadi_curve import PRINTED
from benchmarks.reproductions.dadi_paper import (
    FOLDS,
    LOANS,
    SEEDS,
    Table,
    adult,
    loans,
    measured,
    split,
)
from evenhand.fairlib.methods.dadi import DADIClassifier
from evenhand.fairlib.methods.dadi.agent_training import pretrain
from evenhand.fairlib.methods.dadi.decision_problem import HeldOut, prepare
from evenhand.fairlib.methods.dadi.network import probabilities
from evenhand.fairlib.methods.row_groups import read_groups

COMMAND = "python -m benchmarks.reproductions.dadi_pretrained"
RESULT = "papers_dadi_pretrained"
# By table: its printed settings, how many splits, and the table and fold of a split. The agents of
# the pages have the same networks before joint training: they are of the same folds and seeds.
SETTINGS: dict[str, dict[str, Any]] = {
    "adult": PRINTED,
    "loans": {**PRINTED, "hidden": LOANS["hidden"], "memory_size": LOANS["memory_size"]},
    "adult, 1,000 iterations": {**PRINTED, "pretrain_iterations": 1000},
    "adult, 500 iterations": {**PRINTED, "pretrain_iterations": 500},
}
SPLITS = {"adult": FOLDS, "loans": SEEDS, "adult, 1,000 iterations": 1, "adult, 500 iterations": 1}
DIGITS = 4


def table_of(name: str, number: int) -> tuple[Table, int]:
    """Return the table and the fold of a split.

    Parameters
    ----------
    name : str
        A key of ``SETTINGS``.
    number : int
        Of Adult the fold; of the loans the sample, of which the first fold is measured.

    Returns
    -------
    Table, int
    """
    if name == "loans":
        return loans(number), 0
    return adult(), number


def measure(table: Table, fold: int, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Train classifier and adversary, and measure them on the fold's test people.

    Parameters
    ----------
    table : Table
    fold : int
    seed : int
        Of the networks.
    settings : dict
        Parameters of the method.

    Returns
    -------
    dict
        ``all``: both AUCs from all features; ``auc``, ``accuracy`` and ``disparity`` of the
        decisions that they allow, at one half. ``alone``: both AUCs from each feature.
    """
    test, train = split(table, 0)[fold]
    model = DADIClassifier(**settings, random_state=seed)
    groups = read_groups({"group": table.group[train]}, model.attributes, len(train))
    problem, _ = prepare(model, table.X[train], table.label[train], groups, table.groups)
    classifier, adversary = pretrain(problem, model)
    people = HeldOut(
        test,
        table.X[test],
        table.label[test],
        table.group[test],
        problem.attribute.classes,
        np.ones(len(test), bool),
    )
    names = list(table.groups)

    def both(known: Any) -> tuple[Any, dict[str, float | None]]:
        predicted = probabilities(classifier.outputs("classify", people.X, known))
        return predicted[:, 1], people.aucs(predicted, adversary, known)

    chance, aucs = both(np.tile(problem.allowed, (len(test), 1)))
    alone: dict[str, Any] = {}
    values = {"all": aucs, **measured(chance, people.label, people.group), "alone": alone}
    for place, name in enumerate(names):
        known = np.zeros((len(test), len(names)), bool)
        known[:, place] = True
        alone[name] = both(known)[1]
    return values


def splits_of(name: str) -> list[dict[str, Any]]:
    """Return the measured splits of a table, in their order."""
    found: list[dict[str, Any]] = read_result(RESULT).get("rows", {}).get(name, [])
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the splits that the results lack."""
    parser = argparse.ArgumentParser(prog=COMMAND)
    parser.add_argument("--quick", action="store_true", help="measure a split and keep nothing")
    chosen = parser.parse_args(arguments)
    code_state()
    rows = {name: splits_of(name) for name in SPLITS}
    for name, count in SPLITS.items():
        for number in range(len(rows[name]), count):
            log(f"dadi, pretrained networks: {name}: split {number + 1} of {count}")
            table, fold = table_of(name, number)
            with threadpool_limits(1):
                values = measure(table, fold, number, SETTINGS[name])
            if chosen.quick:
                log(values)
                return
            rows[name].append(rounded(values, DIGITS))
            write_result(RESULT, {**provenance(COMMAND), "settings": SETTINGS, "rows": rows})


if __name__ == "__main__":
    main(sys.argv[1:])
