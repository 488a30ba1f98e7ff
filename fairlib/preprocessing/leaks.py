"""Columns that determine the label or predict a sensitive attribute: leaks, derived columns and
proxy features.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Bool, Float, Int, Str
from evenhand.fairlib.evaluation.group_selection import MISSING
from evenhand.fairlib.evaluation.metrics import auc
from evenhand.fairlib.execution import generator, sample_rows
from evenhand.fairlib.preprocessing.combinations import (
    Combination,
    find_combination,
    find_source,
    is_computed,
)

LEAK_AUC = 0.98
STAND_IN_AUC = 0.7
MAX_ROWS = 20_000
MIN_ROWS = 20
"""Fewest rows of each label, and of a group, for an AUC to mean anything."""
# Fewer rows of another level, or of a value, show no rule by which a column is computed.
LEAST_OF_LEVEL = 5
MAX_BINS = 256
MAX_GROUPS = 20
FOLDS = 5
DEPTH = 3
LARGEST = 1e38  # within single precision
# AUC against a sensitive group from which on columns that are combined count as the attribute
# itself.
SAME_AUC = 0.995
MAX_COMBINATIONS = 8
COMPARED_GROUPS = 5
# Share of a tree's decrease of impurity below which a column does not count as used by the tree.
IMPORTANCE = 0.05

Columns = Mapping[str, NDArray[Any]]
"""By name: numbers as float64, NaN where missing; or codes of categories as int64, negative where
missing.
"""


@dataclass(frozen=True)
class Suspect:
    """A column that is probably no honest input.

    Parameters
    ----------
    name : str
        Name of the column.
    kind : {"label", "alone", "joint", "combined", "sensitive", "sensitive_combined"}
        ``label``: it determines the label exactly; ``alone``: it predicts the label almost
        perfectly; ``joint``: it does so with the other columns of this kind, in a tree of depth
        three; ``combined``: it does so with its partners, as a sum, ratio or pair;
        ``sensitive``: it is computed from the sensitive column `attribute`, or from several;
        ``sensitive_combined``: with its partners it determines `attribute`.
    auc : float or None, default None
        Cross-validated AUC of the column, or of the tree or combination, against the label.
    attribute : str or None, default None
        The sensitive column, or several, joined by "and".
    partners : tuple of str, default ()
        The other columns of a combination.
    form : str or None, default None
        Form of a combination (:class:`evenhand.fairlib.preprocessing.combinations.Combination`).
    """

    name: str
    kind: str
    auc: float | None = None
    attribute: str | None = None
    partners: tuple[str, ...] = ()
    form: str | None = None


@dataclass(frozen=True)
class StandIn:
    """A column that predicts a sensitive attribute: a proxy feature.

    Parameters
    ----------
    name : str
        Name of the column.
    group : str
        The group that it predicts best.
    auc : float
        Cross-validated AUC against that group, from 0 to 1.
    """

    name: str
    group: str
    auc: float


def sampled_rows(n: int, most: int = MAX_ROWS) -> Int:
    """Positions of some of n rows; the same at every call.

    Parameters
    ----------
    n : int
        Number of rows.
    most : int, default 20,000
        Largest number of positions.

    Returns
    -------
    ndarray of int, shape (min(n, most),)
        Sorted.
    """
    return sample_rows(n, most, generator(0, "leaks"))


def binned(values: NDArray[Any], most: int = MAX_BINS) -> Int:
    """Codes of a column from 0: its categories, its values, or quantile bins.

    Parameters
    ----------
    values : ndarray of shape (n,)
        As in :data:`Columns`.
    most : int, default 256
        Largest number of bins of numbers.

    Returns
    -------
    ndarray of int64, shape (n,)
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

    A share is smoothed by one row at the base rate, and bins of equal shares are ties.

    Parameters
    ----------
    codes : ndarray of int, shape (n,)
        Bins of a column, from :func:`binned`.
    positive : ndarray of bool, shape (n,)
        The label.
    folds : ndarray of int, shape (n,)
        Fold of each row, from 0 to ``FOLDS - 1``.

    Returns
    -------
    float
        Mean over the folds that have both classes; .5 if none has.
    """
    bins = int(codes.max()) + 1
    # rows by fold, bin and label
    cells = np.bincount((folds * bins + codes) * 2 + positive, minlength=FOLDS * bins * 2)
    counts = cells.reshape(FOLDS, bins, 2).astype(np.float64)
    # of each fold, the rows of all others
    learned = counts.sum(axis=0) - counts
    base = learned[..., 1].sum(axis=1) / np.maximum(learned.sum(axis=(1, 2)), 1.0)
    shares = (learned[..., 1] + base[:, None]) / (learned.sum(axis=2) + 1.0)
    aucs = []
    for fold in range(FOLDS):
        levels, place = np.unique(shares[fold], return_inverse=True)
        negatives = np.bincount(place, weights=counts[fold, :, 0], minlength=len(levels))
        positives = np.bincount(place, weights=counts[fold, :, 1], minlength=len(levels))
        fold_auc = float(auc(positives, negatives))
        if not np.isnan(fold_auc):
            aucs.append(fold_auc)
    if aucs:
        return float(np.mean(aucs))
    return 0.5


def rank_auc(values: Float, positive: Bool) -> float:
    """AUC of the numbers themselves, in the better direction; missing ones are at either end.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        NaN where missing.
    positive : ndarray of bool, shape (n,)
        The label.

    Returns
    -------
    float
        From .5 to 1.

    Examples
    --------
    >>> rank_auc(np.array([1.0, 2.0, 3.0, 4.0]), np.array([False, False, True, True]))
    1.0
    """
    best = 0.5
    for end in (-np.inf, np.inf):
        _, place = np.unique(np.where(np.isnan(values), end, values), return_inverse=True)
        levels = place.max() + 1
        negatives = np.bincount(place[~positive], minlength=levels)
        positives = np.bincount(place[positive], minlength=levels)
        direct = float(auc(positives, negatives))
        if not np.isnan(direct):
            best = max(best, direct, 1.0 - direct)
    return best


def label_auc(values: NDArray[Any], positive: Bool) -> float:
    """How well one column predicts, whatever the shape of the relation.

    The larger one of the numbers' AUC as they are, which fits nothing but the direction, and of the
    cross-validated AUC of the bins.

    Parameters
    ----------
    values : ndarray of shape (n,)
        As in :data:`Columns`.
    positive : ndarray of bool, shape (n,)
        The label.

    Returns
    -------
    float
        An AUC from .5 to 1.
    """
    folds = _folds(len(positive))
    fine = cross_validated_auc(binned(values), positive, folds)
    if values.dtype.kind != "f":
        return fine
    # Of bins with few rows the shares are noise; coarser ones are learned better.
    coarse = cross_validated_auc(binned(values, 16), positive, folds)
    return max(fine, coarse, rank_auc(values, positive))


def _folds(n: int) -> Int:
    return generator(0, "leak-folds").permutation(n) % FOLDS


def joint_tree(columns: Columns, positive: Bool) -> tuple[float, list[str]]:
    """Cross-validated AUC of a decision tree of depth three, and the columns that it mainly splits
    on.

    A category enters as the share of positives that it has in the other folds.

    Parameters
    ----------
    columns : Columns
        At least one, of shape (n,) each.
    positive : ndarray of bool, shape (n,)
        The label.

    Returns
    -------
    auc : float
        Mean over the folds; .5 if no fold has both classes.
    used : list of str
        Columns with at least a twentieth of a tree's decrease of impurity, on average over the
        folds.
    """
    from sklearn.metrics import roc_auc_score
    from sklearn.tree import DecisionTreeClassifier

    folds = _folds(len(positive))
    codes = {name: binned(values) for name, values in columns.items() if values.dtype.kind != "f"}
    scores = []
    importances = []
    for fold in range(FOLDS):
        held_out = folds == fold
        is_learnable = len(np.unique(positive[~held_out])) > 1
        if len(np.unique(positive[held_out])) < 2 or not is_learnable:
            continue
        parts = []
        for name, values in columns.items():
            if name in codes:
                values = _shares_of_codes(codes[name], positive, ~held_out)
            parts.append(values)
        # the tree reads single precision; its splits depend on the order alone
        X = np.clip(np.stack(parts, axis=1), -LARGEST, LARGEST).astype(np.float32)
        tree = DecisionTreeClassifier(max_depth=DEPTH, min_samples_leaf=5, random_state=0)
        tree.fit(X[~held_out], positive[~held_out])
        scores.append(roc_auc_score(positive[held_out], tree.predict_proba(X[held_out])[:, 1]))
        importances.append(tree.feature_importances_)
    if not scores:
        return 0.5, []
    mean = np.mean(importances, axis=0)
    used = [name for name, part in zip(columns, mean, strict=True) if part >= IMPORTANCE]
    return float(np.mean(scores)), used


def _shares_of_codes(codes: Int, positive: Bool, learned: Bool) -> Float:
    """Share of positives of each row's code among the learned rows, smoothed by one row."""
    size = int(codes.max()) + 1
    sums = np.bincount(codes[learned], weights=positive[learned], minlength=size)
    counts = np.bincount(codes[learned], minlength=size)
    shares: Float = (sums + positive[learned].mean()) / (counts + 1.0)
    return shares[codes]


def is_derived(values: NDArray[Any], attribute: NDArray[Any]) -> bool:
    """Whether a column is computed from another one: a recoding, or cuts of its numbers.

    It is if each category of `attribute` (five rows or more) has one value in the column, or if
    along the sorted numbers of `attribute` the column changes only between its values, or if both
    are numbers in the same or the opposite order. At least five rows must differ from the column's
    most frequent value.

    Parameters
    ----------
    values, attribute : ndarray of shape (n,)
        As in :data:`Columns`.

    Returns
    -------
    bool
    """
    coded = _levels(values)
    source = _levels(attribute)
    levels = int(coded.max()) + 1
    if levels < 2 or len(values) - np.bincount(coded).max() < LEAST_OF_LEVEL:
        return False
    distinct = int(source.max()) + 1
    has_one_value = len(np.unique(coded * distinct + source)) == distinct
    if attribute.dtype.kind != "f":
        return has_one_value and int(np.bincount(source).min()) >= LEAST_OF_LEVEL
    if len(values) < 2 * min(levels, distinct) and levels != distinct:
        return False
    order = np.argsort(source, kind="stable")
    if values.dtype.kind == "f":
        return _is_monotone(coded[order], source[order])
    if not has_one_value:
        return False
    return int((np.diff(coded[order]) != 0).sum()) == levels - 1


def _is_monotone(ranks: Int, source: Int) -> bool:
    """Whether ranks rise or fall along sorted numbers, and are equal where these are."""
    moves = np.sign(np.diff(ranks))
    ties = np.diff(source) == 0
    if (moves[ties] != 0).any():
        return False
    return bool((moves >= 0).all() or (moves <= 0).all())


def _levels(values: NDArray[Any]) -> Int:
    """Ranks of the distinct values; missing ones, which are equal, have the highest."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def find_leaks(
    columns: Columns, positive: Bool, sensitive: Columns
) -> tuple[list[Suspect], float | None]:
    """Find columns that are probably no honest inputs.

    Without ``MIN_ROWS`` rows of each label no column is suspected.

    Parameters
    ----------
    columns : Columns
        The model inputs without the sensitive ones, of shape (n,) each.
    positive : ndarray of bool, shape (n,)
        The label.
    sensitive : Columns
        The sensitive columns, numbers uncut.

    Returns
    -------
    suspects : list of Suspect
        In the order of the columns, each once.
    auc : float or None
        AUC of the tree on the other columns, None without any.
    """
    if min(positive.sum(), (~positive).sum()) < MIN_ROWS:
        return [], None
    suspects: dict[str, Suspect] = {}
    for name, values in columns.items():
        suspect = _suspect_alone(name, values, positive, sensitive)
        if suspect is not None:
            suspects[name] = suspect
    joint: float | None = None
    honest = {name: values for name, values in columns.items() if name not in suspects}
    while honest:
        joint, used = joint_tree(honest, positive)
        if joint < LEAK_AUC or not used:
            break
        for name in used:
            suspects[name] = Suspect(name, "joint", joint)
            del honest[name]
    for suspect in _combined_suspects(honest, positive, sensitive):
        suspects.setdefault(suspect.name, suspect)
        honest.pop(suspect.name, None)
    if not honest:
        joint = None
    return [suspects[name] for name in columns if name in suspects], joint


def _suspect_alone(
    name: str, values: NDArray[Any], positive: Bool, sensitive: Columns
) -> Suspect | None:
    """Suspect a column that predicts the label by itself, or is computed from a sensitive one."""
    column_auc = label_auc(values, positive)
    if column_auc >= LEAK_AUC:
        codes = binned(values)
        distinct = len(np.unique(codes))
        is_pure = len(np.unique(codes * 2 + positive)) == distinct
        determines_label = is_pure and distinct <= MAX_BINS // 4
        return Suspect(name, "label" if determines_label else "alone", column_auc)
    for attribute, source in sensitive.items():
        both_numeric = values.dtype.kind == source.dtype.kind == "f"
        if is_derived(values, source) or (both_numeric and is_derived(source, values)):
            return Suspect(name, "sensitive", None, attribute)
    return None


def _combined_suspects(honest: Columns, positive: Bool, sensitive: Columns) -> list[Suspect]:
    """Suspect columns that together determine the label, or a sensitive column."""
    remaining = dict(honest)
    suspects: list[Suspect] = []
    for _ in range(MAX_COMBINATIONS):
        combination = _label_combination(remaining, positive)
        if combination is None:
            break
        suspects.extend(_members(combination, "combined", None))
        for name in combination.columns:
            del remaining[name]
    for attribute, values in sensitive.items():
        for _ in range(MAX_COMBINATIONS):
            source = _source_of(remaining, values)
            if source is None:
                break
            suspects.extend(_members(source, "sensitive_combined", attribute))
            for name in source.columns:
                del remaining[name]
    for name, values in remaining.items():
        attributes = _computed_from(values, sensitive)
        if attributes:
            suspects.append(Suspect(name, "sensitive", None, " and ".join(attributes)))
    return suspects


def _label_combination(columns: Columns, positive: Bool) -> Combination | None:
    """Two or three columns that together predict the label."""

    def _single(name: str) -> float:
        return label_auc(columns[name], positive)

    return find_combination(columns, positive, LEAK_AUC, _single)


def _source_of(columns: Columns, attribute: NDArray[Any]) -> Combination | None:
    """Columns that together determine a sensitive column: its numbers, or one of its groups."""
    if attribute.dtype.kind == "f":
        return find_source(columns, attribute)
    codes, counts = np.unique(attribute, return_counts=True)
    if len(codes) == 2:
        codes = codes[:1]
        counts = counts[:1]
    largest = codes[np.argsort(-counts, kind="stable")[:COMPARED_GROUPS]]
    for code in largest:
        is_member = attribute == code

        def _single(name: str, is_member: Bool = is_member) -> float:
            return label_auc(columns[name], is_member)

        combination = find_combination(columns, is_member, SAME_AUC, _single)
        if combination is not None:
            return combination
    return None


def _members(combination: Combination, kind: str, attribute: str | None) -> list[Suspect]:
    """Suspect each column of a combination; one column alone is computed from the attribute."""
    auc = combination.score if kind == "combined" else None
    suspects = []
    for name in combination.columns:
        partners = tuple(column for column in combination.columns if column != name)
        member_kind = kind if partners else "sensitive"
        suspects.append(Suspect(name, member_kind, auc, attribute, partners, combination.form))
    return suspects


def _computed_from(values: NDArray[Any], sensitive: Columns) -> tuple[str, ...]:
    """Two or three sensitive columns that a column is computed from; none of other columns."""
    for size in (2, 3):
        for names in itertools.combinations(sensitive, size):
            if is_computed(values, {name: sensitive[name] for name in names}):
                return names
    return ()


def stand_ins(columns: Columns, groups: Mapping[str, Str]) -> dict[str, list[StandIn]]:
    """Find, by attribute, its proxy features, the highest AUC first.

    These have an AUC of ``STAND_IN_AUC`` or more against some group of at least ``MIN_ROWS`` rows
    (of the largest twenty). A column of an attribute's own name is left out.

    Parameters
    ----------
    columns : Columns
        Of shape (n,) each.
    groups : mapping of str to ndarray of str, shape (n,)
        By attribute the group of each row.

    Returns
    -------
    dict of str to list of StandIn
    """
    codes = {name: binned(values, 32) for name, values in columns.items()}
    proxies = {}
    for attribute, best_groups in told_groups(codes, groups).items():
        strong = [
            item for item in best_groups if item.name != attribute and item.auc >= STAND_IN_AUC
        ]
        proxies[attribute] = sorted(strong, key=lambda item: (-item.auc, item.name))
    return proxies


def told_groups(
    codes: Mapping[str, Int], groups: Mapping[str, Str], least: int = MIN_ROWS
) -> dict[str, list[StandIn]]:
    """Find by attribute the best-predicted group of each column.

    Of the largest twenty groups those count that have, and leave, at least `least` rows. Rows
    without a group are left out: whether an attribute is unknown is not the attribute.

    Parameters
    ----------
    codes : mapping of str to ndarray of int, shape (n,)
        By column its codes, from :func:`binned`.
    groups : mapping of str to ndarray of str, shape (n,)
        By attribute the group of each row.
    least : int, default 20
        Fewest rows of a group, and outside it.

    Returns
    -------
    dict of str to list of StandIn
        In the order of the columns; an attribute without large groups has an empty list.
    """
    best_groups: dict[str, list[StandIn]] = {}
    for attribute, values in groups.items():
        is_known = np.asarray(values != MISSING)
        members = _large_groups(values[is_known], least)
        folds = _folds(int(is_known.sum()))
        best_groups[attribute] = []
        for name, column_codes in codes.items():
            candidates = []
            for group, is_member in members:
                group_auc = cross_validated_auc(column_codes[is_known], is_member, folds)
                candidates.append(StandIn(name, group, group_auc))
            if candidates:
                best_groups[attribute].append(max(candidates, key=lambda item: item.auc))
    return best_groups


def _large_groups(values: Str, least: int) -> list[tuple[str, Bool]]:
    """Names and rows of the largest groups that have, and leave, at least `least` rows."""
    names, counts = np.unique(values, return_counts=True)
    largest = np.argsort(-counts, kind="stable")[:MAX_GROUPS]
    members = []
    for k in sorted(largest):
        if least <= counts[k] <= len(values) - least:
            members.append((str(names[k]), values == names[k]))
    return members
