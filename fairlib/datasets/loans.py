"""Synthetic loan applications."""

from __future__ import annotations

import numpy as np
import pandas as pd

__all__ = ["make_loans"]


def make_loans(n: int = 100_000, *, seed: int = 0) -> pd.DataFrame:
    r"""
    Loan applications whose features range from fair to unfair (DADI, appendix D).

    A group :math:`b \in \{0, 1\}` with equal shares; :math:`X_1..X_4 \sim N(0, 1)`;
    :math:`X_5..X_8 \sim N(b - 1/2, 1)`; :math:`X_9` uniform on {0, 1, 2};
    :math:`X_{10} \sim N(\pm X_9 / 2, 1)` with the sign of the group. The label follows
    :math:`P(Y = 1) = \sigma(\beta^\top X / 10)` with :math:`\beta` alternating 1 and -1. :math:`X_4` and
    :math:`X_8` influence the label but are not observed.

    Parameters
    ----------
    n : int
        Number of people, at least 1.
    seed : int

    Returns
    -------
    DataFrame, shape (n, 10)
        ``X1, X2, X3, X5, X6, X7, X10`` (float), ``X9`` (str), ``group`` (str, a or b) and ``repaid`` (int).

    Raises
    ------
    ValueError
        `n` is below 1.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}.")
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    sign = 2 * group - 1
    features = rng.standard_normal((n, 10))
    features[:, 4:8] += sign[:, None] / 2
    category = rng.integers(0, 3, n)
    features[:, 8] = category
    features[:, 9] += sign * category / 2
    beta = np.where(np.arange(10) % 2 == 0, 1.0, -1.0)
    repaid = rng.random(n) < 1.0 / (1.0 + np.exp(-(features @ beta) / 10.0))
    observed = {f"X{j}": features[:, j - 1] for j in (1, 2, 3, 5, 6, 7)}
    return pd.DataFrame(
        observed
        | {
            "X9": category.astype(str),
            "X10": features[:, 9],
            "group": np.where(group == 1, "b", "a"),
            "repaid": repaid.astype(np.int64),
        }
    )
