"""Columns that tell the label or a sensitive attribute: leaks, derived columns and stand-ins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Bool, Float, Int, Str
from evenhand.fairlib.evaluation.metrics import auc
from evenhand.fairlib.execution import generator, sample_rows

LEAK_AUC = 0.98
STAND_IN_AUC = 0.7
MAX_ROWS = 20_000
MIN_ROWS = 20
"""Fewest rows of each label, and of a group, for an AUC to mean anything."""
MAX_BINS = 256
MAX_GROUPS = 20
FOLDS = 5
DEPTH = 3
LARGEST = 1e38  # within single precision
# Share of a tree's decrease of impurity below which a column is no part of what the tree found.
IMPORTANCE = 0.05

Columns = Mapping[str, NDArray[Any]]
"""By name: numbers as float64, NaN where missing; or codes of categories as int64, negative where
missing.
"""


@dataclass(frozen=True)
class Suspect:
    """A column that is probably no honest input."""

    name: str
    # label: it determines the label exactly; alone: it predicts the label almost perfectly; joint:
    # it does so with the other columns of this kind, in a tree of depth three; sensitive: it is
    # computed from the sensitive column `attribute`
    kind: str
    auc: float | None = None  # cross-validated AUC of the column, or of the tree, against the label
    attribute: str | None = None


@dataclass(frozen=True)
class StandIn:
    """A column that tells a sensitive attribute: the largest cross-validated AUC against
    one group.
    """

    name: str
    group: str
    auc: float


def sampled_rows(n: int, most: int = MAX_ROWS) -> Int:
    """Positions, sorted, of at most `most` of n rows; the same at every call."""
    return sample_rows(n, most, generator(0, "leaks"))


def binned(values: NDArray[Any], most: int = MAX_BINS) -> Int:
    """Codes of a column from 0, shape (n,): its categories, its values, or at most `most` quantile
    bins.

    Missing values have a code of their own.
    """
    if values.dtype.kind != "f":
        return np.unique(np.maximum(values, -1), return_inverse=True)[1].astype(np.int64)
    missing = np.isnan(values)
    present = values[~missing]
    codes = np.zeros(len(values), dtype=np.int64)
    if present.size:
        edges = np.unique(present)
        if len(edges) > most:
            edges = np.unique(
                np.quantile(present, np.linspace(0, 1, most + 1)[:-1], method="lower")
            )
        codes[~missing] = np.searchsorted(edges, present, side="right")
    return codes


def cross_validated_auc(codes: Int, positive: Bool, folds: Int) -> float:
    """AUC of the share of positives of each row's bin, learned on the other folds.

    `codes` are those of :func:`binned`, and `folds` run from 0 to ``FOLDS - 1``; all have the shape
    (n,). The result is the mean over the folds that have both classes; .5 if none has. A share is
    smoothed by one row at the base rate, and bins of equal shares are ties.
    """
    bins = int(codes.max()) + 1
    cells = np.bincount((folds * bins + codes) * 2 + positive, minlength=FOLDS * bins * 2)
    counts = cells.reshape(FOLDS, bins, 2).astype(np.float64)
    learned = counts.sum(axis=0) - counts
    base = learned[..., 1].sum(axis=1) / np.maximum(learned.sum(axis=(1, 2)), 1.0)
    shares = (learned[..., 1] + base[:, None]) / (learned.sum(axis=2) + 1.0)
    found = []
    for fold in range(FOLDS):
        levels, place = np.unique(shares[fold], return_inverse=True)
        negatives, positives = (
            np.bincount(place, weights=counts[fold, :, side], minlength=len(levels))
            for side in (0, 1)
        )
        found.append(float(auc(positives, negatives)))
    known = [one for one in found if not np.isnan(one)]
    return float(np.mean(known)) if known else 0.5


def rank_auc(values: Float, positive: Bool) -> float:
    """AUC of the numbers themselves, in the better direction; missing ones are at either end."""
    best = 0.5
    for end in (-np.inf, np.inf):
        _, place = np.unique(np.where(np.isnan(values), end, values), return_inverse=True)
        negatives, positives = (
            np.bincount(place[positive == side], minlength=place.max() + 1)
            for side in (False, True)
        )
        found = float(auc(positives, negatives))
        best = max(best, found, 1.0 - found) if found == found else best
    return best


def label_auc(values: NDArray[Any], positive: Bool) -> float:
    """How well one column predicts, whatever the shape of the relation: an AUC from .5 to 1.

    The larger one of the numbers' AUC as they are, which fits nothing but the direction, and of the
    cross-validated AUC of the bins.
    """
    folds = _folds(len(positive))
    found = cross_validated_auc(binned(values), positive, folds)
    if values.dtype.kind == "f":
        # Of bins with few rows the shares are noise; coarser ones are learned better.
        found = max(
            found,
            cross_validated_auc(binned(values, 16), positive, folds),
            rank_auc(values, positive),
        )
    return found


def _folds(n: int) -> Int:
    return generator(0, "leak-folds").permutation(n) % FOLDS


def joint_tree(columns: Columns, positive: Bool) -> tuple[float, list[str]]:
    """Cross-validated AUC of a decision tree of depth three, and the columns that it mainly splits
    on.

    A category enters as the share of positives that it has in the other folds.

    `columns` are at least one, each of shape (n,) as `positive` is. The columns that are returned
    have at least a twentieth of a tree's decrease of impurity, on average over the folds.
    """
    from sklearn.metrics import roc_auc_score
    from sklearn.tree import DecisionTreeClassifier

    folds = _folds(len(positive))
    names = list(columns)
    codes = {name: binned(values) for name, values in columns.items() if values.dtype.kind != "f"}
    scores = []
    importances = []
    for fold in range(FOLDS):
        held = folds == fold
        if positive[held].all() or not positive[held].any() or len(np.unique(positive[~held])) < 2:
            continue
        parts = []
        for name, values in columns.items():
            if name not in codes:
                parts.append(values)
                continue
            size = int(codes[name].max()) + 1
            sums = np.bincount(codes[name][~held], weights=positive[~held], minlength=size)
            counts = np.bincount(codes[name][~held], minlength=size)
            parts.append(((sums + positive[~held].mean()) / (counts + 1.0))[codes[name]])
        # the tree reads single precision; its splits depend on the order alone
        X = np.clip(np.stack(parts, axis=1), -LARGEST, LARGEST).astype(np.float32)
        tree = DecisionTreeClassifier(max_depth=DEPTH, min_samples_leaf=5, random_state=0)
        tree.fit(X[~held], positive[~held])
        scores.append(roc_auc_score(positive[held], tree.predict_proba(X[held])[:, 1]))
        importances.append(tree.feature_importances_)
    if not scores:
        return 0.5, []
    mean = np.mean(importances, axis=0)
    return float(np.mean(scores)), [
        name for name, part in zip(names, mean, strict=True) if part >= IMPORTANCE
    ]


def is_derived(values: NDArray[Any], attribute: NDArray[Any]) -> bool:
    """Whether a column is computed from another one: a recoding, or cuts of its numbers.

    Both columns, shape (n,), are as in :data:`Columns`. It is if each category of `attribute` (five
    rows or more) has one value in the column, or if along the sorted numbers of `attribute` the
    column changes only between its values, or if both are numbers in the same or the opposite
    order. At least five rows must differ from the column's commonest value.
    """
    coded, source = (_levels(item) for item in (values, attribute))
    levels = int(coded.max()) + 1
    sizes = np.bincount(coded)
    if levels < 2 or len(values) - sizes.max() < 5:
        return False
    distinct = int(source.max()) + 1
    pairs = len(np.unique(coded * distinct + source))
    numeric = attribute.dtype.kind == "f"
    if not numeric:
        return pairs == distinct and int(np.bincount(source).min()) >= 5
    if len(values) < 2 * min(levels, distinct) and levels != distinct:
        return False
    order = np.argsort(source, kind="stable")
    if values.dtype.kind == "f":
        # the levels of numbers are their ranks
        moves = np.sign(np.diff(coded[order]))
        ties = np.diff(source[order]) == 0
        if (moves[ties] != 0).any():
            return False
        return bool((moves >= 0).all() or (moves <= 0).all())
    if pairs != distinct:
        return False
    return int((np.diff(coded[order]) != 0).sum()) == levels - 1


def _levels(values: NDArray[Any]) -> Int:
    """Ranks of the distinct values; missing ones, which are equal, have the highest."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def find_leaks(
    columns: Columns, positive: Bool, sensitive: Columns
) -> tuple[list[Suspect], float | None]:
    """Find columns that are probably no honest inputs.

    `columns` are the model inputs without the sensitive ones, `positive` is the label, and
    `sensitive` are the sensitive columns, numbers uncut; all have the shape (n,). Suspects are in
    the order of the columns, each once. The number is the AUC of the tree on the others, None
    without any. Without ``MIN_ROWS`` rows of each label no column is suspected.
    """
    found: dict[str, Suspect] = {}
    joint: float | None = None
    if min(positive.sum(), (~positive).sum()) < MIN_ROWS:
        return [], None
    for name, values in columns.items():
        auc = label_auc(values, positive)
        if auc >= LEAK_AUC:
            codes = binned(values)
            pure = len(np.unique(codes * 2 + positive)) == len(np.unique(codes)) <= MAX_BINS // 4
            found[name] = Suspect(name, "label" if pure else "alone", auc)
            continue
        for attribute, source in sensitive.items():
            numbers = values.dtype.kind == source.dtype.kind == "f"
            if is_derived(values, source) or (numbers and is_derived(source, values)):
                found[name] = Suspect(name, "sensitive", None, attribute)
                break
    rest = {name: values for name, values in columns.items() if name not in found}
    while rest:
        joint, used = joint_tree(rest, positive)
        if joint < LEAK_AUC or not used:
            break
        found |= {name: Suspect(name, "joint", joint) for name in used}
        rest = {name: values for name, values in rest.items() if name not in used}
    return [found[name] for name in columns if name in found], joint if rest else None


def stand_ins(columns: Columns, groups: Mapping[str, Str]) -> dict[str, list[StandIn]]:
    """Find, by attribute, the columns that tell its groups, the highest AUC first.

    These have an AUC of ``STAND_IN_AUC`` or more against some group of at least ``MIN_ROWS`` rows
    (of the largest twenty). `columns` and `groups`, by attribute the group of each row, have the
    shape (n,). A column of an attribute's own name is left out.
    """
    codes = {name: binned(values, 32) for name, values in columns.items()}
    return {
        attribute: sorted(
            (item for item in told if item.name != attribute and item.auc >= STAND_IN_AUC),
            key=lambda item: (-item.auc, item.name),
        )
        for attribute, told in told_groups(codes, groups).items()
    }


def told_groups(
    codes: Mapping[str, Int], groups: Mapping[str, Str], least: int = MIN_ROWS
) -> dict[str, list[StandIn]]:
    """Find by attribute the group that each of some columns tells best, in the order of the
    columns.

    `codes` and `groups` have the shape (n,); codes are as of :func:`binned`. Of the largest twenty
    groups those count that have, and leave, at least `least` rows; an attribute without any has an
    empty list.
    """
    found: dict[str, list[StandIn]] = {}
    for attribute, values in groups.items():
        names, counts = np.unique(values, return_counts=True)
        folds = _folds(len(values))
        large = np.argsort(-counts, kind="stable")[:MAX_GROUPS]
        members = [
            (str(names[k]), values == names[k])
            for k in sorted(large)
            if least <= counts[k] <= len(values) - least
        ]
        found[attribute] = [
            max(
                (
                    StandIn(name, group, cross_validated_auc(coded, row, folds))
                    for group, row in members
                ),
                key=lambda item: item.auc,
            )
            for name, coded in codes.items()
            if members
        ]
    return found
