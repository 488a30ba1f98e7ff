"""One-hot columns as one column of codes: XGBoost finds the same trees, in a fraction of
the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.fairlib.arrays import Bool, Float, Float32
from evenhand.fairlib.execution import generator
from evenhand.fairlib.mapped import BLOCK_ROWS, mapped_file, new_like, release

# XGBoost then splits a column of codes by one code against all others, whatever their number.
SPLIT_BY_ONE = {"max_cat_to_onehot": 1 << 30}
# Random weights of a row, below 2 ** WEIGHT_BITS: sums over all rows are exact in float64.
WEIGHTS = 3
WEIGHT_BITS = 20
HALF = 0.5
# Of mapped rows, the last code is one of at least this share of them: any sample for the bins has
# it.
COMMON = 0.001


@dataclass(frozen=True)
class OneHotRuns:
    """Neighbouring columns of a matrix of which each row has a 1 in exactly one, and 0 in the
    others.

    A split of such a column at one half is the split of the codes by one code against all others:
    with the same sums of gradients on both sides, and the same order among equal gains.

    Attributes
    ----------
    members : tuple of tuples of int
        Columns of the matrix behind each column of joined rows. Of several the code is the position
        here.
    """

    members: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, rows: Float32) -> OneHotRuns:
        """Find the runs of all rows.

        The columns of a run add up to 1 in every row. With random weights r of the rows, sums over
        a run of the r'x of 0/1 columns x then are the sum of r; other columns pass by a chance of
        about 2 ** -60.

        Parameters
        ----------
        rows : ndarray of float32, shape (n, d)

        Returns
        -------
        OneHotRuns
        """
        draw = generator(0, "one-hot")
        width = rows.shape[1]
        # the first weight of each row is 1, which counts
        whole = np.zeros((WEIGHTS + 1, 1))
        sums = np.zeros((WEIGHTS + 1, width))
        binary = np.ones(width, dtype=bool)
        for start in range(0, len(rows), BLOCK_ROWS):
            block = rows[start : start + BLOCK_ROWS]
            binary &= ((block == 0) | (block == 1)).all(axis=0)
            if not binary.any():
                break
            weights = np.ones((WEIGHTS + 1, len(block)))
            weights[1:] = draw.integers(1 << WEIGHT_BITS, size=(WEIGHTS, len(block)))
            sums[:, binary] += weights @ block[:, binary].astype(np.float64)
            whole += weights.sum(axis=1, keepdims=True)
            release(rows)
        members: list[tuple[int, ...]] = []
        column = 0
        for start, stop in _runs(binary, sums, whole):
            members += [(single,) for single in range(column, start)]
            columns = list(range(start, stop))
            counts = sums[0, start:stop]
            if mapped_file(rows) is not None and counts[-1] < COMMON * len(rows):
                columns.append(columns.pop(int(counts.argmax())))
            members.append(tuple(columns))
            column = stop
        members += [(single,) for single in range(column, width)]
        return cls(tuple(members))

    @property
    def types(self) -> list[str]:
        """XGBoost's types of the columns of joined rows."""
        return ["q" if len(columns) == 1 else "c" for columns in self.members]

    def join(self, rows: Float32) -> Float32:
        """Put a code in place of each run.

        Parameters
        ----------
        rows : ndarray of float32, shape (n, d)

        Returns
        -------
        ndarray of float32, shape (n, len(members))
            In the same kind of place: in memory, or in a mapped file.
        """
        joined = new_like(rows, columns=len(self.members))
        for start in range(0, len(rows), BLOCK_ROWS):
            place = slice(start, start + BLOCK_ROWS)
            for column, columns in enumerate(self.members):
                first = min(columns)
                part = rows[place, first : first + len(columns)]
                if len(columns) == 1:
                    joined[place, column] = part[:, 0]
                else:
                    joined[place, column] = part @ np.argsort(columns).astype(np.float32)
            release(rows)
            release(joined)
        return joined

    def separate(self, model: dict[str, Any]) -> None:
        """Let trees that were trained on joined rows split the matrix's columns.

        Parameters
        ----------
        model : dict
            XGBoost's JSON document, changed in place.
        """
        learner = model["learner"]
        width = str(sum(len(columns) for columns in self.members))
        learner["learner_model_param"]["num_feature"] = width
        learner["feature_types"] = []
        for tree in learner["gradient_booster"]["model"]["trees"]:
            tree["tree_param"]["num_feature"] = width
            codes = dict(zip(tree["categories_nodes"], tree["categories"], strict=True))
            features = []
            for node, column in enumerate(tree["split_indices"]):
                features.append(self.members[column][codes.get(node, 0)])
            tree["split_indices"] = features
            for node in codes:
                # rows of this code go right, as those with a 1 do, and a missing number
                tree["split_conditions"][node] = HALF
                tree["default_left"][node] = 0
            tree["split_type"] = [0] * len(tree["split_type"])
            for name in (
                "categories",
                "categories_nodes",
                "categories_segments",
                "categories_sizes",
            ):
                tree[name] = []


def _runs(binary: Bool, sums: Float, whole: Float) -> list[tuple[int, int]]:
    """Shortest runs of two columns or more whose sums add up to those of all rows, from left to
    right.

    Each is its first column, and the first after it.
    """
    runs: list[tuple[int, int]] = []
    before = np.cumsum(np.concatenate([np.zeros_like(whole), sums], axis=1), axis=1)
    starts: dict[Sequence[float], int] = {}  # columns by the sums of all before
    for column in range(len(binary)):
        if not binary[column]:
            starts = {}
            continue
        starts[tuple(before[:, column])] = column
        start = starts.get(tuple(before[:, column + 1] - whole[:, 0]))
        if start is not None:
            starts = {}
            if column > start:
                runs.append((start, column + 1))
    return runs
