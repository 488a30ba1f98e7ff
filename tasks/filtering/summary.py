"""Summary of a run over files: counts; of a filter drift and the expected balance of the sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.evaluation.drift import FLOOR, stability_index
from evenhand.fairlib.execution import generator
from evenhand.tasks.filtering.filter_inputs import Inputs
from evenhand.tasks.filtering.output import UnitRecord

Float = NDArray[np.float64]
LEVEL = 0.95
DRAWS = 2000


@dataclass(frozen=True)
class FileOutcome:
    """Result of one file: ``done`` now, ``skipped`` as done before, or ``failed`` for a reason."""

    name: str
    status: str
    rows_in: int = 0
    rows_out: int = 0
    quarantined: int = 0
    dropped: int = 0
    outside: int = 0
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """Result of a run, and state of its output."""

    files: list[FileOutcome]  # of this run's input, by name
    ignored: list[str]  # files of the input's folder that are neither Parquet nor CSV
    others: int  # files that are in the output from earlier runs and not in this input
    rows_in: int  # this and the next four: of all files in the output
    rows_out: int
    quarantined: int
    dropped: int
    expected_out: float  # expected number of accepted rows, or number of positive predictions
    # sums of the rows' shares in proxy groups or bins of probability, of files judged by this model
    masses: list[float]
    left_out: list[str]  # sensitive columns that are not in the output
    # By digest of each model in the output, its `version` and its number of `files`.
    proxies: dict[str, dict[str, Any]]
    seconds: float
    waiting: Sequence[str] = ()  # files of a watched input that changed too recently
    outside: int = 0  # rows outside bounds that were only observed, used or set aside
    outside_columns: Mapping[str, int] = field(default_factory=dict)  # how many, by column
    read_rows: int = 0  # that this run read, of partitions that the database judged

    @property
    def failed(self) -> list[FileOutcome]:
        """Files that could not be read, or not be judged."""
        return [file for file in self.files if file.status == "failed"]


@dataclass(frozen=True, kw_only=True)
class FilterSummary(RunSummary):
    """Result of a filter run."""

    expected_by_group: list[float]  # expected accepted rows of each proxy group, of the same files
    drift: dict[str, Any] | None  # of `drift_of`
    balance: Mapping[str, Any] | None  # of `expected_shares`


def counts_of(records: Collection[UnitRecord]) -> dict[str, Any]:
    """Sums of the records' row counts."""
    counts = dict.fromkeys(("rows_in", "rows_out", "quarantined", "dropped", "outside"), 0)
    for record in records:
        for count in counts:
            counts[count] += getattr(record, count)
    return counts


def _outside_columns(records: Collection[UnitRecord]) -> dict[str, int]:
    """Rows outside the observed bounds of each column."""
    counts = Counter[str]()
    for record in records:
        counts.update(record.outside_columns)
    return dict(counts)


def common_fields(
    files: Sequence[FileOutcome],
    inputs: Inputs,
    records: Sequence[UnitRecord],
    model: tuple[str, int],
    seconds: float,
) -> dict[str, Any]:
    """Fields of `RunSummary` from the records of the whole output; `model` is a digest and its
    masses.
    """
    masses = np.zeros(model[1])
    files_of: dict[str, set[str]] = {}
    left_out: set[str] = set()
    for record in records:
        left_out.update(record.left_out)
        files_of.setdefault(record.proxy, set()).add(record.file)
        if record.proxy == model[0]:
            masses += record.masses
    versions = {record.proxy: record.proxy_version for record in records}
    return {
        "files": sorted(files, key=lambda file: file.name),
        "ignored": list(inputs.ignored),
        "others": len({record.file for record in records} - {file.name for file in files}),
        **counts_of(records),
        "outside_columns": _outside_columns(records),
        "expected_out": sum(record.expected for record in records),
        "masses": masses.tolist(),
        "left_out": sorted(left_out),
        "proxies": {
            proxy: {"version": versions[proxy], "files": len(names)}
            for proxy, names in files_of.items()
        },
        "seconds": seconds,
        "waiting": list(inputs.waiting),
    }


def drift_of(masses: ArrayLike, training: ArrayLike, limit: float) -> dict[str, Any] | None:
    r"""Compare sums of shares with the training rows' shares r of the proxy groups.

    With the batch's shares p, all at least 1e-6, the index is
    :func:`evenhand.fairlib.evaluation.drift.stability_index`, and

    .. math:: \chi^2 = n \sum_j \frac{(p_j - r_j)^2}{r_j}

    on l - 1 degrees of freedom. A row that is in several proxy groups by shares varies less than a
    row in a single group, so the p-value is too large rather than too small. With millions of rows
    it is small for differences that do not matter. The index, not the p-value, therefore decides
    about the warning.

    `masses` are sums of the batch's shares, shape (l,), and `training` the shares of the training
    rows. The result has ``psi``, ``chi_square``, ``p_value`` and ``warning``, whether the index is
    above the limit; a batch without rows gives None.
    """
    from scipy.special import chdtrc

    sums = np.asarray(masses, dtype=np.float64)
    reference = np.asarray(training, dtype=np.float64)
    rows = float(sums.sum())
    if rows <= 0:
        return None
    shares = np.maximum(sums / rows, FLOOR)
    reference = np.maximum(reference / reference.sum(), FLOOR)
    statistic = float(rows * ((shares - reference) ** 2 / reference).sum())
    freedom = len(sums) - 1
    psi = float(stability_index(shares, reference))
    p = float(chdtrc(freedom, statistic)) if freedom else 1.0
    return {"psi": psi, "chi_square": statistic, "p_value": p, "warning": psi > limit}


def expected_shares(
    masses: ArrayLike, acceptance: ArrayLike, balance: Mapping[str, Any], seed: int
) -> dict[str, Any] | None:
    r"""Shares of the groups among the accepted rows, by the proxy groups' held-out compositions A.

    .. math:: s_k = \frac{\sum_j m_j \rho_j A_{jk}}{\sum_j m_j \rho_j}

    The interval is a parametric bootstrap over the uncertainty of A: each attribute's part of row j
    is drawn from the Dirichlet distribution of :math:`n_j A_{jk} + 1/2`, where :math:`n_j` are the
    effective held-out rows of proxy group j. A proxy group with too few of them has its training
    composition (or, if that is null too, the target), with 0 rows. The interval of the imbalance, a
    norm, is its value plus and minus a quantile of the norm of the draws' differences, so it is
    wide rather than narrow. The shares assume that the proxy groups of this batch are composed like
    those of the held-out rows; drift indicates whether they are not.

    `masses` and `acceptance` have the shape (l,); `balance` is the content of balance.json. The
    result has lists with a number per group, ``shares``, ``low``, ``high`` and ``target``, next to
    ``groups``; the ``imbalance``, the distance of the shares from the target, with
    ``imbalance_low`` and ``imbalance_high``; and the ``level`` of the intervals. It is None if no
    row can be expected to be accepted.
    """
    accepted = np.asarray(masses, dtype=np.float64) * np.asarray(acceptance, dtype=np.float64)
    total = float(accepted.sum())
    if total <= 0:
        return None
    compositions, rows = _held_out(balance)
    draws = generator(seed, "filter", "expected shares").standard_gamma(
        rows[:, None] * compositions + 0.5, size=(DRAWS, *compositions.shape)
    )
    attributes = balance.get("attributes", {"": balance["groups"]})
    ends = np.cumsum([len(groups) for groups in attributes.values()])
    for block in np.split(np.arange(ends[-1]), ends[:-1]):
        draws[:, :, block] /= draws[:, :, block].sum(axis=2, keepdims=True)
    drawn = np.einsum("j,djk->dk", accepted / total, draws)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    shares = accepted @ compositions / total
    imbalance = float(np.linalg.norm(shares - np.asarray(balance["target"], dtype=np.float64)))
    margin = float(np.quantile(np.linalg.norm(drawn - drawn.mean(axis=0), axis=1), LEVEL))
    return {
        "groups": list(balance["groups"]),
        "shares": shares.tolist(),
        # the prior's half rows move the draws away from small shares
        "low": np.minimum(low, shares).tolist(),
        "high": np.maximum(high, shares).tolist(),
        "target": list(balance["target"]),
        "imbalance": imbalance,
        "imbalance_low": max(0.0, imbalance - margin),
        "imbalance_high": imbalance + margin,
        "level": LEVEL,
    }


def _held_out(balance: Mapping[str, Any]) -> tuple[Float, Float]:
    """Compositions and their effective rows; 0 rows where another composition is substituted."""
    rows = np.array(balance["rows"], dtype=np.float64)
    compositions = np.empty((len(rows), len(balance["groups"])))
    training = balance.get("compositions_train") or [None] * len(rows)
    for j, held_out in enumerate(balance["compositions"]):
        if _is_whole(held_out):
            compositions[j] = held_out
            continue
        rows[j] = 0.0
        compositions[j] = training[j] if _is_whole(training[j]) else balance["target"]
    return compositions, rows


def _is_whole(composition: Any) -> bool:
    """Whether a composition is there, and has every group's share."""
    return composition is not None and None not in list(composition)
