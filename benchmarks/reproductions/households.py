"""Generated households in place of the survey in figure 2 of DADI, by the paper's description.

70,305 households, 99 columns that can be asked, 183 columns after encoding, 36 % poor; the sensitive
attribute is whether the head of the household is a senior. What the paper does not describe is made
up: which columns tell wealth, which tell age, and which both.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

HOUSEHOLDS = 70_305
POOR = 0.36
SENIORS = 0.2
NUMERIC, CATEGORICAL, CATEGORIES = 57, 42, 3
# Of every ten columns: three tell wealth, two wealth and age, two age, and three nothing.
KINDS = ("wealth",) * 3 + ("both",) * 2 + ("age",) * 2 + ("nothing",) * 3
# Seniors are a little less wealthy, in standard deviations.
SHIFT = 0.3
# Standard deviation of the chance in being poor.
CHANCE = 0.5

Floats = NDArray[np.float64]


def kind_of(position: int) -> str:
    """Return what a column tells, by its position among the 99."""
    return KINDS[position % len(KINDS)]


def make_households(n: int = HOUSEHOLDS, *, seed: int = 0) -> pd.DataFrame:
    """Generate the table.

    Parameters
    ----------
    n : int
        Households.
    seed : int

    Returns
    -------
    DataFrame, n rows
        ``q1`` to ``q99`` (57 numbers, 42 of three categories), ``senior`` and ``poor`` (int).
    """
    rng = np.random.default_rng(seed)
    senior = (rng.random(n) < SENIORS).astype(np.int64)
    wealth = rng.normal(size=n) - SHIFT * senior
    latent = wealth + CHANCE * rng.normal(size=n)
    # the poorest 36 %, as printed
    poor = np.zeros(n, dtype=np.int64)
    poor[np.argsort(latent, kind="stable")[: round(POOR * n)]] = 1
    columns: dict[str, object] = {}
    for position in range(NUMERIC + CATEGORICAL):
        signal = _signal(kind_of(position), wealth, senior)
        # later columns tell less
        strength = 1.0 / (1.0 + position / 20)
        value = strength * signal + rng.normal(size=n)
        name = f"q{position + 1}"
        columns[name] = value if position < NUMERIC else _categories(value)
    return pd.DataFrame({**columns, "senior": senior, "poor": poor})


def _signal(kind: str, wealth: Floats, senior: NDArray[np.int64]) -> Floats:
    age = 2.0 * senior
    if kind == "wealth":
        return wealth
    if kind == "both":
        return wealth + age
    if kind == "age":
        return age.astype(np.float64)
    return np.zeros(len(wealth))


def _categories(value: Floats) -> NDArray[np.str_]:
    """Three categories of equal size, by the value."""
    ends = np.quantile(value, [1 / 3, 2 / 3])
    names = np.array(["a", "b", "c"])
    return names[np.searchsorted(ends, value)]
