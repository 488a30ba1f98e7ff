"""Two methods on the same splits: the corrected resampled t-test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PairedTest:
    """Difference between two methods over splits on which both were measured."""

    n: int  # splits in which both have a number
    difference: float | None = (
        None  # mean of the value minus the reference; None without such a split
    )
    # t, p: statistic and two-sided p-value; None where no test can be made
    t: float | None = None
    p: float | None = None


def corrected_t_test(
    values: Sequence[float | None], reference: Sequence[float | None], *, ratio: float
) -> PairedTest:
    r"""Test whether two methods differ on average over J random splits of one table.

    With the differences :math:`d_j` of both methods, their mean :math:`\bar d` and sample variance
    :math:`s^2`,

    .. math:: t = \frac{\bar d}{\sqrt{\left(\frac1J + \frac{n_{test}}{n_{train}}\right) s^2}}

    has about Student's distribution with :math:`J - 1` degrees of freedom. The splits share rows,
    so the differences are correlated. The ordinary paired test, with :math:`1/J` alone, treats them
    as independent and finds far too many differences.

    Source: Nadeau and Bengio, "Inference for the Generalization Error", Machine Learning 52 (2003),
    the corrected resampled t-test.

    `values` and `reference`, of length J, are a metric of both methods by split, in the same order;
    None or NaN where the evidence did not suffice. Splits in which either has no number are left
    out, and there is no test for fewer than two. Where all differences are equal, their variance
    says nothing: t is 0 and p is 1 if all are zero, and there is no test otherwise. `ratio` is
    :math:`n_{test} / n_{train}`; 0 gives the ordinary paired test. ValueError if the sequences
    differ in length, a number is infinite, or `ratio` is no finite number of at least 0.

    >>> found = corrected_t_test([0.5, 0.75, None], [0.25, 0.25, 0.5], ratio=0.25)
    >>> found.n, found.difference, round(found.t, 4), round(found.p, 4)
    (2, 0.375, 2.4495, 0.2468)
    """
    from scipy.special import stdtr

    if len(values) != len(reference):
        raise ValueError(
            f"reference: got {len(reference)} numbers, expected {len(values)}, one a split as in "
            "values"
        )
    if not (math.isfinite(ratio) and ratio >= 0):
        raise ValueError(f"ratio: got {ratio}, expected test rows over training rows, at least 0")
    pairs = np.array([values, reference], dtype=np.float64)  # None becomes NaN
    if np.isinf(pairs).any():
        raise ValueError("values: got an infinite number, expected finite ones, or None")
    pairs = pairs[:, ~np.isnan(pairs).any(axis=0)]
    n = pairs.shape[1]
    if n == 0:
        return PairedTest(0)
    differences = pairs[0] - pairs[1]
    mean = float(differences.mean())
    if n == 1:
        return PairedTest(1, mean)
    # Equal differences of rounded numbers are not quite equal: the rest is no variance.
    rounding = 8 * np.finfo(np.float64).eps * float(np.abs(pairs).max())
    if np.ptp(differences) <= rounding:
        return PairedTest(n, mean, 0.0, 1.0) if abs(mean) <= rounding else PairedTest(n, mean)
    t = mean / math.sqrt((1 / n + ratio) * float(differences.var(ddof=1)))
    return PairedTest(n, mean, t, 2 * float(stdtr(n - 1, -abs(t))))
