"""Figure 4 of the proxies, one difference at a time.

``python -m benchmarks.reproductions.proxies_differences`` says why our tree on Adult has more than
the printed three proxy groups at a disclosivity of .82, and no proxy group of one race alone at
.97. The paper leaves open which of the allowed splits is taken and how small a leaf may be. Every
variant is fitted on the training people of five splits. Results:
``benchmarks/results/papers_proxies_differences.json``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.common import code_state, log, provenance, read_result, rounded, write_result
from benchmarks.reproductions.proxies_paper import SETTINGS, Split
from evenhand.fairlib.arrays import Float, Float32
from evenhand.fairlib.methods.method_base import Callback
from evenhand.fairlib.proxies.graph import SplittingGraph
from evenhand.fairlib.proxies.splitting import Limits
from evenhand.fairlib.proxies.tree import ProxyTree
from evenhand.fairlib.proxies.tree_builder import Candidate, TreeBuilder, Vertex
from tests.oracles.proxy_game import GameTree

RESULT = "papers_proxies_differences"
SPLITS = 5
# The limits of figure 4 at which ours differs.
MIDDLE = 0.82
LARGE = 0.97
# A proxy group counts as large with this share of the people.
LARGE_SHARE = 0.01


class NearestBuilder(TreeBuilder):
    """Takes the split after which the target is nearest, in place of that which keeps most rows."""

    def _best_split(self, distance: float, direction: Float, limits: Limits) -> Candidate | None:
        enough = (1.0 - self.config.progress) * distance
        best: Candidate | None = None
        for leaf in self.leaves:
            if leaf.depth >= self.config.max_height or leaf.tally[-1] < 2 * limits.least_rows:
                continue
            for candidate in self._splits_of(leaf, limits, direction):
                if candidate.distance > enough:
                    continue
                if best is None or candidate.distance < best.distance:
                    best = candidate
        return best

    def _splits_of(self, leaf: Vertex, limits: Limits, direction: Float) -> list[Candidate]:
        """Splits of a leaf from the one that moves most rows to the one that moves fewest."""
        pool = self._pool(leaf, direction)
        if len(pool.cuts) == 0:
            return []
        shares = pool.tallies[:, :-1] @ direction / pool.tallies[:, -1]
        largest = float((shares - direction @ leaf.composition).max(initial=0.0))
        found = []
        for offset in np.linspace(0.0, largest, 6):
            candidate = self._candidate(leaf, pool, limits, direction, float(offset))
            if candidate is not None:
                found.append(candidate)
        return found


class NearestTree(ProxyTree):
    """A proxy tree of that builder."""

    def _fit_graph(
        self, rows: Float32, indicators: Float, callback: Callback | None
    ) -> SplittingGraph:
        builder = NearestBuilder(rows, indicators, self.target_, self)
        builder.grow(callback)
        self.distances_, self.least_alpha_ = builder.distances, None
        return builder.graph()


@dataclass(frozen=True)
class Variant:
    """A difference from our tree at the printed settings.

    Attributes
    ----------
    make : callable
        Makes the tree of some settings.
    changes : mapping of str to any
        Settings that differ.
    """

    make: Callable[..., ProxyTree] = ProxyTree
    changes: Mapping[str, Any] | None = None

    def tree(self, alpha: float) -> ProxyTree:
        """The tree of a limit on the disclosivity."""
        return self.make(alpha=alpha, **{**SETTINGS["paper"], **(self.changes or {})})


VARIANTS: dict[str, Variant] = {
    "ours at the printed settings": Variant(),
    "leaves of at least 50 people": Variant(changes={"min_leaf": 50}),
    "leaves of at least 300 people": Variant(changes={"min_leaf": 300}),
    "the split nearest to the target": Variant(NearestTree),
    "the same, leaves of at least 50 people": Variant(NearestTree, {"min_leaf": 50}),
    "distance to the cone (relaxed)": Variant(changes={"relaxed": True}),
    "progress of .01": Variant(changes={"progress": 0.01}),
    "progress of .3": Variant(changes={"progress": 0.3}),
    "split until the target is in the hull": Variant(changes={"tolerance": 1e-6}),
    "the paper's game, 50 rounds": Variant(GameTree, {"rounds": 50}),
    "the paper's game, 200 rounds": Variant(GameTree, {"rounds": 200}),
}


def measure(split: Split, variant: Variant) -> dict[str, Any]:
    """Fit a variant at both limits.

    Returns
    -------
    dict
        ``groups`` and ``large``: numbers of proxy groups at .82. ``share``: by race its largest
        share in a proxy group at .97.
    """
    started = time.process_time()
    middle = split.fitted(variant.tree(MIDDLE))
    late = split.fitted(variant.tree(LARGE))
    names = late.group_names_[split.attribute]
    largest = late.compositions_.max(axis=0)
    return {
        "groups": len(middle.masses_),
        "large": int((middle.masses_ >= LARGE_SHARE).sum()),
        "share": {name: float(share) for name, share in zip(names, largest, strict=True)},
        "seconds": time.process_time() - started,
    }


def main(minutes: float = math.inf) -> None:
    """Measure the splits that the results lack; begin none after so many minutes."""
    code_state()
    end = time.monotonic() + 60 * minutes
    rows: dict[str, list[dict[str, Any]]] = read_result(RESULT).get("rows", {})
    for seed in range(SPLITS):
        split = Split("adult", seed)
        for name, variant in VARIANTS.items():
            found = rows.setdefault(name, [])
            if len(found) > seed:
                continue
            if time.monotonic() > end:
                return
            log(f"proxies, figure 4: {name}: split {seed + 1} of {SPLITS}")
            with threadpool_limits(1):
                found.append(rounded(measure(split, variant), 3))
            document = provenance("python -m benchmarks.reproductions.proxies_differences")
            document["rows"] = rows
            document["whole"] = all(len(rows.get(other, ())) >= SPLITS for other in VARIANTS)
            write_result(RESULT, document)


if __name__ == "__main__":
    main()
