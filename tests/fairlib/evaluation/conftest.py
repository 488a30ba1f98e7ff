from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from evenhand.fairlib.evaluation.outcomes import Outcomes

Cells = Mapping[tuple[str, int, int], int]


@pytest.fixture(scope="session")
def from_cells() -> Callable[..., Outcomes]:
    """Outcomes with a given number of rows per (group, label, prediction) of one attribute
    `sex`.
    """

    def build(cells: Cells, **extra: Any) -> Outcomes:
        rows = [cell for cell, n in cells.items() for _ in range(n)]
        group, label, prediction = (list(part) for part in zip(*rows, strict=True))
        score = np.where(np.array(prediction) == 1, 0.75, 0.25)
        return Outcomes(
            np.array(label), np.array(prediction), score, {"sex": np.array(group)}, **extra
        )

    return build


@pytest.fixture(scope="session")
def random_outcomes() -> Callable[..., Outcomes]:
    """Outcomes with real differences between groups, of two attributes with 2 and 3 groups."""

    def build(n: int, seed: int, sizes: Sequence[float] = (0.5, 0.3, 0.2)) -> Outcomes:
        rng = np.random.default_rng(seed)
        sex, race = rng.integers(0, 2, n), rng.choice(3, n, p=sizes)
        y_true = (rng.random(n) < 0.3 + 0.15 * sex + 0.05 * race).astype(int)
        score = np.round(
            np.clip(0.5 * rng.random(n) + 0.3 * y_true + 0.08 * sex - 0.06 * race + 0.1, 0, 1), 3
        )
        return Outcomes(
            y_true,
            (score >= 0.5).astype(int),
            score,
            {"sex": np.array(["F", "M"])[sex], "race": np.array(["A", "B", "C"])[race]},
            {"spouse": rng.random(n) < 0.9, "status": rng.random(n) < 0.97},
        )

    return build
