r"""Lemma 3, theorem 2 and theorem 3 of the balancing proxies against measured trees.

``python -m benchmarks.reproductions.proxies_theory`` grows the exact tree of the limit that the
paper discusses on each table (Bank .2, Adult .6), at the paper's settings and with leaves of at
least 300 rows. Lemma 3 states which splits shorten the target's distance by the factor
:math:`1 - \gamma`, theorem 2 how many of them are needed, theorem 3 what holds out of sample.
Splits of the tables are kept one by one in ``benchmarks/results/papers_proxies_theory.json``.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.common import code_state, log, provenance, read_result, rounded, write_result
from benchmarks.reproductions.proxies_curves import measures_of
from benchmarks.reproductions.proxies_paper import POINTS, SEEDS, SETTINGS, Split
from evenhand.fairlib.arrays import Float, Float32
from evenhand.fairlib.methods.method_base import Callback
from evenhand.fairlib.proxies.graph import SplittingGraph
from evenhand.fairlib.proxies.proxy_groups import indicators_of
from evenhand.fairlib.proxies.tree import ProxyTree
from evenhand.fairlib.proxies.tree_builder import Candidate, TreeBuilder

COMMAND = "python -m benchmarks.reproductions.proxies_theory"
RESULT = "papers_proxies_theory"
FAMILIES = ("paper", "held-out")
# The probability with which theorem 3 may fail.
DELTA = 0.05
DIGITS = 4


# -------------------------------------------------------------------------------- what is printed


def least_shift(progress: float, apart: float) -> float:
    r"""Return :math:`f(\gamma)` of lemma 3: how far a child must move towards the target.

    .. math::

        f(\gamma) = \sqrt{2\gamma - \gamma^2}\,\sqrt{2 - a^2 + 2 a (1 - \gamma)
        \sqrt{(\gamma^2 - 2\gamma) a^2 + 2}}

    Parameters
    ----------
    progress : float
        :math:`\gamma`.
    apart : float
        a, the distance of the leaf's composition from the hull's point nearest to the target.

    Returns
    -------
    float
        NaN where a root is of a negative number.
    """
    inner = (progress**2 - 2 * progress) * apart**2 + 2
    if inner < 0:
        return math.nan
    outer = 2 - apart**2 + 2 * apart * (1 - progress) * math.sqrt(inner)
    if outer < 0:
        return math.nan
    return math.sqrt(2 * progress - progress**2) * math.sqrt(outer)


def least_length(progress: float, distance: float) -> float:
    """Return the second condition of lemma 3: how far a child must move at all.

    Parameters
    ----------
    progress : float
    distance : float
        Of the target from the hull, before the split.

    Returns
    -------
    float
    """
    return math.sqrt(2 * progress - progress**2) / (1 - progress) * distance


def most_splits(tolerance: float, progress: float) -> float:
    """Return theorem 2: after so many splits that each make progress, the tolerance is reached."""
    return (math.log(tolerance) - math.log(math.sqrt(2))) / math.log(1 - progress)


def slack(rows: float, columns: int, groups: int, splits: float) -> float:
    r"""Return the least :math:`\epsilon` for which theorem 3 covers proxy groups of so many rows.

    Parameters
    ----------
    rows : float
        Of the smallest proxy group.
    columns : int
        Of the encoded table. The class of the trees has at least the VC dimension of one halfspace,
        which is one more: with the unknown dimension itself the result would be larger.
    groups : int
        Sensitive groups.
    splits : float
        As :func:`most_splits` returns them.

    Returns
    -------
    float
    """
    return math.sqrt(math.log(8 * (columns + 1) * groups * splits / DELTA) / (2 * rows))


def bounds(
    limit: float, tolerance: float, epsilon: float, groups: int, splits: float
) -> tuple[float, float]:
    """Return the disclosivity and imbalance that theorem 3 promises out of sample."""
    return limit + 2 * epsilon, tolerance + groups * epsilon * math.sqrt(splits)


# ------------------------------------------------------------------------------------ what is measured


class WatchedBuilder(TreeBuilder):
    """A builder that keeps of every split what lemma 3 is about.

    Attributes
    ----------
    splits : list of dict
        ``shift`` towards the target and ``length`` of the move of the child that moves most towards
        it, ``apart`` (the leaf from the hull's nearest point), and ``distance`` of the target before.
    """

    splits: list[dict[str, float]]

    def _split(self, best: Candidate) -> None:
        compositions = np.array([leaf.composition for leaf in self.leaves])
        mixture, difference = self._nearest(compositions)
        distance = float(np.linalg.norm(difference))
        nearest = mixture @ compositions
        before = best.vertex.composition
        super()._split(best)
        moves = [child.composition - before for child in best.vertex.children]
        move = max(moves, key=lambda change: float(change @ difference))
        self.splits.append(
            {
                "shift": float(move @ difference) / distance,
                "length": float(np.linalg.norm(move)),
                "apart": float(np.linalg.norm(before - nearest)),
                "distance": distance,
            }
        )


class WatchedTree(ProxyTree):
    """A proxy tree of that builder."""

    def _fit_graph(
        self, rows: Float32, indicators: Float, callback: Callback | None
    ) -> SplittingGraph:
        builder = WatchedBuilder(rows, indicators, self.target_, self)
        builder.splits = []
        builder.grow(callback)
        self.distances_ = builder.distances
        self.least_alpha_ = None
        self.splits_ = builder.splits
        return builder.graph()


def meets_lemma(split: Mapping[str, float], progress: float) -> bool:
    """Whether a split meets the first two conditions of lemma 3; the third is a right angle."""
    is_far_enough = split["shift"] >= least_shift(progress, split["apart"])
    return is_far_enough and split["length"] >= least_length(progress, split["distance"])


def measure(split: Split, table: str, family: str) -> dict[str, float]:
    """Grow a tree on one split.

    Returns
    -------
    dict
        ``splits``, how many of them are ``meeting`` the lemma's conditions, ``progress`` (the least
        of all splits), ``rows`` of the smallest proxy group, and by part the disclosivity and
        imbalance.
    """
    settings = SETTINGS[family]
    tree = split.fitted(WatchedTree(alpha=POINTS[table], **settings))
    progresses = []
    for before, after in zip(tree.distances_, tree.distances_[1:], strict=False):
        progresses.append(1 - after / before)
    values = {
        "splits": len(tree.splits_),
        "meeting": sum(meets_lemma(item, settings["progress"]) for item in tree.splits_),
        "progress": min(progresses, default=math.nan),
        "rows": float(tree.masses_.min() * tree.training_rows_),
        "columns": split.X[0].shape[1],
        "groups": len(tree.target_),
    }
    for part, X, groups in zip(("train", "test"), split.X, split.groups, strict=True):
        indicators = indicators_of({split.attribute: groups}, tree.group_names_)
        measured = measures_of(tree, tree.shares(X).T @ indicators)
        for name in ("disclosivity", "imbalance"):
            values[f"{part} {name}"] = measured[name]
    return values


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the splits that the results lack."""
    parser = argparse.ArgumentParser(prog=COMMAND)
    parser.add_argument("--quick", action="store_true", help="measure a split and keep nothing")
    chosen = parser.parse_args(arguments)
    code_state()
    for seed in range(SEEDS):
        for table in POINTS:
            rows: dict[str, dict[str, dict[str, list[float]]]] = read_result(RESULT).get("rows", {})
            missing = [
                family
                for family in FAMILIES
                if len(rows.get(table, {}).get(family, {}).get("splits", [])) <= seed
            ]
            if not missing:
                continue
            log(f"proxies, theory: {table}: split {seed + 1} of {SEEDS}")
            with threadpool_limits(1):
                split = Split(table, seed)
                measured = {family: measure(split, table, family) for family in missing}
            if chosen.quick:
                log(measured)
                return
            for family, values in measured.items():
                columns = rows.setdefault(table, {}).setdefault(family, {})
                for name, value in rounded(values, DIGITS).items():
                    columns.setdefault(name, []).append(value)
            write_result(RESULT, {**provenance(COMMAND), "rows": rows})


def splits_done() -> int:
    """Return how many splits all tables and families have."""
    rows = read_result(RESULT).get("rows", {})
    if len(rows) < len(POINTS):
        return 0
    return min(
        len(columns["splits"]) for families in rows.values() for columns in families.values()
    )


def trees_of(table: str, family: str) -> dict[str, list[float]]:
    """Return what is measured of the trees of a family, one entry a split.

    Raises
    ------
    KeyError
        If nothing is measured.
    """
    columns: dict[str, list[float]] = read_result(RESULT)["rows"][table][family]
    return columns


@dataclass(frozen=True)
class Promise:
    """What theorem 3 promises of a family of trees out of sample.

    Parameters
    ----------
    epsilon : float
        The slack that the smallest proxy group of all trees allows, at least.
    disclosivity, imbalance : float
    """

    epsilon: float
    disclosivity: float
    imbalance: float


def promises(table: str, family: str) -> Promise:
    """Return theorem 3 for the smallest proxy group of a family's trees.

    Parameters
    ----------
    table, family : str

    Returns
    -------
    Promise
        Its imbalance in sample is the largest of the trees, where that is above the tolerance.
    """
    trees = trees_of(table, family)
    settings = SETTINGS[family]
    tolerance = max([settings["tolerance"], *trees["train imbalance"]])
    splits = most_splits(tolerance, settings["progress"])
    groups = int(trees["groups"][0])
    epsilon = slack(min(trees["rows"]), int(min(trees["columns"])), groups, splits)
    disclosivity, imbalance = bounds(POINTS[table], tolerance, epsilon, groups, splits)
    return Promise(epsilon, disclosivity, imbalance)


if __name__ == "__main__":
    main(sys.argv[1:])
