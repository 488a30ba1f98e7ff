"""Every metric with its interval, or the reason why the evidence does not suffice for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.arrays import Float
from evenhand.fairlib.catalogue import MIN_DRAWS
from evenhand.fairlib.evaluation.bootstrap import Codes
from evenhand.fairlib.evaluation.measuring import measure
from evenhand.fairlib.evaluation.metric_intervals import Interval, metric_intervals
from evenhand.fairlib.evaluation.metrics import GROUP_METRICS
from evenhand.fairlib.evaluation.outcomes import (
    Outcomes,
    encode_groups,
    list_cells,
    with_intersections,
)
from evenhand.fairlib.evaluation.probabilities import OVERALL
from evenhand.fairlib.execution import Progress, generator
from evenhand.fairlib.parameters import check_sample_weight

Status = Literal["ok", "insufficient_evidence"]


@dataclass(frozen=True)
class MetricValue:
    """A metric with its interval, or the reason why there is none.

    ValueError if a number is not finite, an "ok" metric has no value, or an insufficient one has a
    number.
    """

    value: float | None  # point estimate; None exactly where the evidence is insufficient
    # low, high: ends of the interval; None without one
    low: float | None = None
    high: float | None = None
    status: Status = "ok"  # whether the value may be used
    reason: str = ""  # why the evidence does not suffice; empty if it does

    def __post_init__(self) -> None:
        """Refuse values that a reader could mistake for a measured number."""
        numbers = [x for x in (self.value, self.low, self.high) if x is not None]
        if not all(math.isfinite(x) for x in numbers):
            raise ValueError(
                "MetricValue: got NaN or infinity, expected a finite number; use insufficient()"
            )
        if self.status not in ("ok", "insufficient_evidence"):
            raise ValueError(
                f"status: got {self.status!r}, expected 'ok' or 'insufficient_evidence'"
            )
        if self.status == "ok" and self.value is None:
            raise ValueError("MetricValue: got no value with status 'ok'; use insufficient()")
        if self.status != "ok" and numbers:
            raise ValueError(
                "MetricValue: got a number with status 'insufficient_evidence'; leave it None"
            )
        if (self.low is None) != (self.high is None):
            raise ValueError("MetricValue: got one bound of the interval, expected both or none")

    @classmethod
    def insufficient(cls, reason: str) -> MetricValue:
        """Metric without a number, because of ``reason``.

        Parameters
        ----------
        reason : str
            Why the evidence does not suffice.

        Returns
        -------
        MetricValue
            Without a number.
        """
        return cls(None, None, None, "insufficient_evidence", reason)


@dataclass(frozen=True)
class Evaluation:
    """Result of an evaluation of n rows."""

    metrics: Mapping[str, MetricValue]  # flat metric name to value, in reading order
    # per sensitive attribute, the rows of :func:`evenhand.fairlib.evaluation.outcomes.list_cells`
    counts: Mapping[str, list[dict[str, Any]]]
    n: int
    # ``draws``, ``level``, ``min_cell``, ``seed`` and ``intersections`` that were used;
    # ``favourable``: which of two labels, 1 or 0, is the good outcome for a person; ``classes``:
    # names of more than two labels; ``unit``: "people" where these are counted in place of rows
    settings: Mapping[str, Any] = field(default_factory=dict)
    # per metric that compares groups: ``measured``, the groups that it is of, and ``left_out``, as
    # :meth:`evenhand.fairlib.evaluation.group_selection.GroupSelection.left_out` lists them
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Give the evaluation as plain JSON types, without NaN; ``from_json`` reads it."""
        whole = asdict(self)
        return {key: whole[key] for key in ("n", "settings", "metrics", "counts", "groups")}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Evaluation:
        """Read the result of ``to_json``.
        ValueError if a part is missing or a metric is malformed.

        Parameters
        ----------
        data : mapping
            Result of :meth:`to_json`.

        Returns
        -------
        Evaluation
            An equal evaluation.

        Raises
        ------
        ValueError
            If a part is missing or a metric is malformed.
        """
        with reading_json("evaluation"):
            metrics = {name: MetricValue(**metric) for name, metric in data["metrics"].items()}
            settings = dict(data.get("settings", {}))
            # evaluations of older versions do not have the groups
            groups = dict(data.get("groups", {}))
            return cls(metrics, dict(data["counts"].items()), int(data["n"]), settings, groups)


@contextmanager
def reading_json(what: str) -> Iterator[None]:
    """Turn the faults of reading malformed JSON into a ``ValueError`` that names it.

    Parameters
    ----------
    what : str
        Name of the object that is read.

    Raises
    ------
    ValueError
        If reading in the block fails for a missing or malformed part.
    """
    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{what}: got malformed JSON ({type(error).__name__}: {error}); expected the result of "
            "to_json"
        ) from error


def evaluate(
    outcomes: Outcomes,
    *,
    sample_weight: ArrayLike | None = None,
    draws: int = 1000,
    level: float = 0.95,
    min_cell: int = 5,
    seed: int = 0,
    intersections: bool = False,
    score_intervals: bool = True,
    callback: Progress | None = None,
) -> Evaluation:
    """Measure performance, calibration, group differences and consistency, each with an interval.

    Every metric is listed, with a number or with the reason why there is none. The interval
    reflects sampling of the evaluated rows only, or of people with all their rows, not of the
    training. Rates and what is computed from them have intervals in closed form
    (:mod:`evenhand.fairlib.evaluation.closed_intervals`), the others those of a bootstrap. None has
    the width 0, however equal the rows are. The interval of a largest difference between groups
    contains 0 where all groups may be equal.

    A metric that compares groups is of the groups with enough rows, without that of missing values:
    the result's ``groups`` names those measured and those left out.

    Parameters
    ----------
    outcomes : Outcomes
        Labels, predictions, scores and groups of n rows.
    sample_weight : array-like, shape (n,), optional
        Weights of the rows, at least 0: every metric is what it would be with a row of weight 2
        there twice, and one of weight 0 left out (its group stays known). A drawn row brings its
        weight. Numbers of rows stay numbers of rows: in `counts`, and where `min_cell` decides.
        Only ``ece``, which takes off the part of chance, depends on the sum of the weights: let it
        be the number of rows that the evidence is worth.
    draws : int, default 1000
        Bootstrap draws; 0 for none (no intervals).
    level : float, default 0.95
        Coverage of the intervals, in (0, 1).
    min_cell : int, default 5
        A cell (group and true label; for demographic parity the group) with fewer rows, or fewer
        people where the outcomes number them, leaves its group out of every metric that needs it;
        with fewer than two groups left the metric is insufficient. The table as a whole counts as
        one group for the metrics without a sensitive attribute.
    seed : int, default 0
        Seed of the bootstrap. The result does not depend on the order of the rows.
    intersections : bool, default False
        Whether to add the intersection of every pair of sensitive attributes, as attribute
        ``"a&b"``.
    score_intervals : bool, default True
        Whether metrics of scores (AUC, and those of probabilities) get intervals too, which takes
        longest.
    callback : callable, optional
        ``callback(done, total)``, in bootstrap draws: those of the counts, then those of the AUC.
        The draws of the probabilities take a fraction of a second and are not counted.

    Returns
    -------
    Evaluation
        Every metric, with a number or with the reason why there is none.

    Raises
    ------
    ValueError
        For an argument out of its range, a negative or infinite weight, only weights of 0, or an
        ambiguous intersection.

    Examples
    --------
    >>> y = np.array([0, 1] * 20)
    >>> sex = {"sex": np.array(["f"] * 20 + ["m"] * 20, dtype=object)}
    >>> evaluation = evaluate(Outcomes(y, y, y * 0.8 + 0.1, sex), draws=200)
    >>> accuracy = evaluation.metrics["accuracy"]
    >>> accuracy.value, round(accuracy.low, 3)
    (1.0, 0.912)
    """
    check_settings(draws, level, min_cell)
    names, codes = encode_sensitive(outcomes.sensitive, outcomes.groups, intersections)
    weights = check_sample_weight(sample_weight, outcomes.n)
    random = partial(generator, seed, "bootstrap")
    measured = measure(
        [outcomes],
        codes,
        names,
        weights=weights,
        draws=draws,
        score_intervals=score_intervals,
        min_cell=min_cell,
        random=random,
        callback=callback,
    )
    point = measured.point[0]
    intervals: dict[str, Interval] = {}
    if draws:
        intervals = metric_intervals(outcomes, codes, measured, weights, level, random("theil"))
    settings: dict[str, Any] = {
        "draws": draws,
        "level": level,
        "min_cell": min_cell,
        "seed": seed,
        "intersections": intersections,
    }
    if outcomes.classes:
        settings["classes"] = list(outcomes.classes)
    else:
        settings["favourable"] = outcomes.favourable
    if outcomes.people is not None and outcomes.counts_people:
        settings["unit"] = "people"
    counts = {}
    for name, groups in names.items():
        rows = measured.people.groups[name]
        counts[name] = list_cells(groups, rows, min_cell, outcomes.classes)
    compared = {}
    for name in point:
        if name in measured.selections:
            compared[name] = measured.selections[name].to_json()
    return Evaluation(
        metrics=estimates(point, measured.shortages, intervals),
        counts=counts,
        n=outcomes.n,
        settings=settings,
        groups=compared,
    )


def check_settings(draws: int, level: float, min_cell: int = 1) -> None:
    """Refuse, with ``ValueError``, settings of a bootstrap that are out of their range.

    Parameters
    ----------
    draws : int
        Bootstrap draws; 0 for none.
    level : float
        Coverage of the intervals, in (0, 1).
    min_cell : int, default 1
        Fewest rows, or people, of a cell.

    Raises
    ------
    ValueError
        For settings out of their range.
    """
    if draws != 0 and draws < MIN_DRAWS:
        raise ValueError(f"draws: got {draws}, expected 0 or at least {MIN_DRAWS}; 1000 is usual")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level: got {level}, expected a share between 0 and 1 such as 0.95")
    if min_cell < 1:
        raise ValueError(
            f"min_cell: got {min_cell}, expected at least 1; an empty cell is no evidence"
        )


def encode_sensitive(
    sensitive: Mapping[str, NDArray[np.object_]],
    groups: Mapping[str, Iterable[str]],
    intersections: bool,
) -> tuple[dict[str, tuple[str, ...]], Codes]:
    """Give sorted group labels per attribute, and codes as :class:`JointTable` takes them.

    Parameters
    ----------
    sensitive : mapping
        Group labels by attribute, each of shape (n,).
    groups : mapping
        Groups that are known to exist, even if no row has them.
    intersections : bool
        Whether to add the intersection of every pair of attributes.

    Returns
    -------
    tuple of two dicts
        Sorted names, and codes with the number of groups, by attribute.
    """
    names: dict[str, tuple[str, ...]] = {}
    codes = {}
    columns = with_intersections(sensitive) if intersections else sensitive
    for attribute, column in columns.items():
        names[attribute], code = encode_groups(column, groups.get(attribute, ()))
        codes[attribute] = (code, len(names[attribute]))
    return names, codes


def estimates(
    point: Mapping[str, Float], shortages: Mapping[str, str], intervals: Mapping[str, Interval]
) -> dict[str, MetricValue]:
    """Metrics with their intervals: performance, consistency, each attribute's differences, Theil
    index.

    Parameters
    ----------
    point : mapping
        Values by metric.
    shortages : mapping
        Reasons by metric; empty where the rows suffice.
    intervals : mapping
        Intervals, or reasons, by metric.

    Returns
    -------
    dict
        In reading order.
    """
    first = ["accuracy", "balanced_accuracy", "auc", *OVERALL]
    names = list(first)
    last_gap = list(GROUP_METRICS)[-1]
    for name in point:
        stem, _, subject = name.partition(".")
        if name not in (*first, "theil_index") and stem != "calibration_gap":
            names.append(name)
        # the last of an attribute's differences of decisions
        if stem == last_gap:
            names.append(f"calibration_gap.{subject}")
    names.append("theil_index")
    values = {}
    for name in names:
        if name in point:
            values[name] = _estimate(float(point[name]), shortages[name], intervals.get(name))
    return values


def _estimate(value: float, shortage: str, interval: Interval | None) -> MetricValue:
    """Insufficient if rows are short, the value is undefined (NaN), or too few draws are
    defined.
    """
    if shortage:
        return MetricValue.insufficient(shortage)
    if math.isnan(value):
        return MetricValue.insufficient("undefined on these rows: it would divide by zero")
    if interval is None:
        return MetricValue(value)
    if isinstance(interval, str):
        return MetricValue.insufficient(interval)
    # a closed form may leave its own estimate outside by rounding
    return MetricValue(value, min(interval[0], value), max(interval[1], value))
