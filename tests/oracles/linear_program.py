"""The reference of BuDRO's solver: the transport problem as one linear program, by HiGHS."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack


def largest_loss(costs: ArrayLike, gains: ArrayLike, budget: float) -> float:
    """Optimum of (2.8) of Vargo et al. 2021 in all n² variables, for at most a few hundred rows.

    `costs`, shape (n, n), are squared distances. `gains`, shape (n, n), have in row i and column j
    the loss of person j's label at row i.
    """
    n = len(np.asarray(costs))
    # variable i * n + j is the share of person j that moves to row i: its sum over i is 1
    found = linprog(
        -np.asarray(gains, dtype=np.float64).ravel() / n,
        A_ub=csr_array(np.asarray(costs, dtype=np.float64).reshape(1, -1) / n),
        b_ub=[budget],
        A_eq=hstack([eye_array(n)] * n, format="csr"),
        b_eq=np.ones(n),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if found.status != 0:
        raise FloatingPointError(f"HiGHS ended with: {found.message}")
    return -float(found.fun)
