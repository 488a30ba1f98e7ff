r"""Whether a comparable person would be decided otherwise: proved, found, or not known.

Two people are comparable if their fair distance is at most a radius. Without a fair metric they
are comparable if they differ in sensitive columns alone: all their values are tried, so that the
answer is a proof for every kind of model.

With a fair metric the model is first asked about other sensitive values. Then branch and bound over
the values that real people have (:mod:`.real_people`) finds somebody within the radius who is
decided otherwise, or proves that there is nobody. Where that is not possible, or ends early, the
bounds of :mod:`evenhand.fairlib.certificates` say whether anybody within the radius can be decided
otherwise. Their points also have values between categories, so a person may be neither found nor
excluded: that is not known.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from evenhand.fairlib.arrays import Bool, Float, Float32
from evenhand.fairlib.certificates import measures
from evenhand.fairlib.certificates.branching import MARGIN, network_rings
from evenhand.fairlib.certificates.networks import NotProvedError
from evenhand.fairlib.certificates.proof import margin_threshold
from evenhand.fairlib.distances.metric_base import Metric
from evenhand.fairlib.explanations.choices import frame_of
from evenhand.fairlib.explanations.real_people import (
    RealPeopleSearch,
    RealValues,
    decided_rows,
)
from evenhand.fairlib.methods.decided import predictions_of
from evenhand.fairlib.preprocessing.encoder import TableEncoder, category_name

Status = Literal["none", "found", "unknown", "refused"]
# Combinations of sensitive values that are tried.
MOST_TRIED = 5000
# Fair distances as shares of the radius at which the margin is bounded.
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
# Effort for one person: rounds of the trees' branch and bound, and parts of a network's.
TREE_ROUNDS = (1, 64, 1024)
NETWORK_PARTS = 1000
TOLERANCE = 1e-9
BY_REAL_PEOPLE = "branch and bound over all real people within the radius"
BY_BOUNDS = "bounds of the margin over all people within the radius (docs/certificates.md)"


@dataclass(frozen=True)
class Comparables:
    """What is known about people who are comparable to one person.

    Parameters
    ----------
    status : {"none", "found", "unknown", "refused"}
        ``"none"``: it is proved that nobody comparable is decided otherwise; ``"found"``: somebody
        is; ``"unknown"``: neither was found; ``"refused"``: no proof exists for this model.
    radius : float
        Fair distance up to which people are comparable.
    method : str
        How it is known, in words.
    proved_radius : float or None, default None
        Fair distance within which the decision provably stays; None where nothing is proved.
    differs : mapping of str to value, default empty
        Columns in which the nearest person found differs, with that person's values.
    distance : float or None, default None
        Fair distance of that person.
    reason : str, default ""
        Why it is not known, or refused.
    tried : int, default 0
        People whose decision the model was asked for.
    """

    status: Status
    radius: float
    method: str
    proved_radius: float | None = None
    differs: Mapping[str, Any] = field(default_factory=dict)
    distance: float | None = None
    reason: str = ""
    tried: int = 0


class ComparablePeople:
    """Looks for comparable people of many people of one model.

    Parameters
    ----------
    model : Method or DecidedModel
        Fitted, for two labels.
    encoder : TableEncoder
        Fitted encoder of its rows.
    sensitive : mapping of str to sequence
        The values that each sensitive column may have; columns that the model does not read have
        no effect.
    metric : Metric or None, default None
        Fitted fair metric; None: people differ in sensitive columns alone.
    radius : float, default 0
        Fair distance up to which people are comparable.
    values : mapping of str to RealValues, default empty
        The values that real people may have in other columns.
    groups_of : callable, or None, default None
        ``groups_of(rows)`` is the group of each row, where decisions depend on it; then `sensitive`
        may have columns that only the group depends on.
    """

    def __init__(
        self,
        model: Any,
        encoder: TableEncoder,
        sensitive: Mapping[str, Sequence[Any]],
        metric: Metric | None = None,
        radius: float = 0.0,
        values: Mapping[str, RealValues] | None = None,
        groups_of: Callable[[Sequence[Mapping[str, Any]]], Any] | None = None,
    ) -> None:
        self.model = model
        self.encoder = encoder
        self.groups_of = groups_of
        self.sensitive = {}
        for name, listed in sensitive.items():
            if name in encoder.groups_ or groups_of is not None:
                self.sensitive[name] = list(listed)
        self.metric = metric
        self.radius = radius
        self.values = dict(values or {})
        self.prover: Any = None
        self._search: RealPeopleSearch | None = None
        # why there is no search among real people
        self._no_search = ""

    def find(self, row: Mapping[str, Any], groups: Any = None) -> Comparables:
        """Look for people who are comparable to one person.

        Parameters
        ----------
        row : mapping of str to value
            Values of the columns that the encoder reads; None where one is missing.
        groups : str or None, default None
            The person's group, where decisions depend on it.

        Returns
        -------
        Comparables
        """
        if groups is not None and self.groups_of is None:
            reason = "decisions depend on the group, so that comparable people of two groups differ"
            return Comparables("refused", self.radius, "", reason=reason)
        encoded = self.encoder.transform(frame_of([row], self.encoder))
        is_positive = bool(self._decisions(encoded, [row])[0])
        nearest, tried, is_complete = self._nearest(row, encoded, is_positive=is_positive)
        if self.metric is None:
            return self._by_values(nearest, tried, is_complete=is_complete)
        if nearest is not None:
            method = "the model was asked about people with other sensitive values"
            return Comparables(
                "found", self.radius, method, None, nearest[1], nearest[0], tried=tried
            )
        return self._with_metric(row, encoded, tried, is_positive=is_positive)

    def _with_metric(
        self, row: Mapping[str, Any], encoded: Float32, tried: int, *, is_positive: bool
    ) -> Comparables:
        """Search real people, or else bound the margin over all points within the radius."""
        search = self._real_people()
        if search is None:
            return self._proved(encoded, tried, self._no_search)
        result = search.search(row, encoded[0], is_positive=is_positive)
        if result.status == "found":
            return Comparables(
                "found",
                self.radius,
                BY_REAL_PEOPLE,
                differs=result.differs,
                distance=result.distance,
                tried=tried,
            )
        if result.status == "none":
            return Comparables("none", self.radius, BY_REAL_PEOPLE, self.radius, tried=tried)
        return self._proved(encoded, tried, result.reason)

    def _real_people(self) -> RealPeopleSearch | None:
        """The search among real people, or None for a model without bounds."""
        if self._search is None and not self._no_search:
            assert self.metric is not None
            try:
                self._search = RealPeopleSearch(
                    self.model,
                    self.encoder,
                    self.metric,
                    self.radius,
                    self.values,
                    groups_of=self.groups_of,
                )
            except NotProvedError as error:
                self._no_search = str(error).rstrip(".")
        return self._search

    def _decisions(self, encoded: Float32, rows: Sequence[Mapping[str, Any]]) -> Bool:
        groups = None
        if self.groups_of is not None:
            groups = self.groups_of(rows)
        positive, _, _ = predictions_of(self.model, encoded, groups)
        return positive

    def _nearest(
        self, row: Mapping[str, Any], encoded: Float32, *, is_positive: bool
    ) -> tuple[tuple[float, dict[str, Any]] | None, int, bool]:
        """The nearest person with other sensitive values who is decided otherwise, how many were
        tried, and whether these are all.
        """
        names = list(self.sensitive)
        sizes = [len(values) for values in self.sensitive.values()]
        count = int(np.prod(np.array(sizes, dtype=np.float64))) if names else 0
        combinations = list(
            itertools.islice(itertools.product(*self.sensitive.values()), min(count, MOST_TRIED))
        )
        rows = [{**row, **dict(zip(names, values, strict=True))} for values in combinations]
        if self.groups_of is not None:
            rows = decided_rows(self.model, rows, self.groups_of)
        if not rows:
            return None, 0, True
        encoded_others = self.encoder.transform(frame_of(rows, self.encoder))
        is_other = self._decisions(encoded_others, rows) != is_positive
        distances = np.zeros(len(rows))
        if self.metric is not None:
            first = np.repeat(encoded.astype(np.float64), len(rows), axis=0)
            distances = np.asarray(self.metric.distance(first, encoded_others.astype(np.float64)))
            is_other &= distances <= self.radius * (1.0 + TOLERANCE) + TOLERANCE
        if not is_other.any():
            return None, len(rows), count <= MOST_TRIED
        changes = [_differences(row, candidate) for candidate in rows]
        # the nearest, and of these the one that differs in the fewest columns
        order = sorted(
            np.flatnonzero(is_other).tolist(),
            key=lambda place: (distances[place], len(changes[place])),
        )
        best = order[0]
        return (float(distances[best]), changes[best]), len(rows), count <= MOST_TRIED

    def _by_values(
        self, nearest: tuple[float, dict[str, Any]] | None, tried: int, *, is_complete: bool
    ) -> Comparables:
        """Without a metric: people who differ in sensitive columns alone."""
        if not self.sensitive:
            method = "the model reads no sensitive column"
            return Comparables("none", 0.0, method, proved_radius=0.0)
        method = "the model was asked about every combination of sensitive values"
        if nearest is not None:
            return Comparables("found", 0.0, method, None, nearest[1], nearest[0], tried=tried)
        if not is_complete:
            reason = f"more than {MOST_TRIED:,} combinations of sensitive values are possible"
            return Comparables("unknown", 0.0, method, reason=reason, tried=tried)
        return Comparables("none", 0.0, method, proved_radius=0.0, tried=tried)

    def _proved(self, encoded: Float32, tried: int, no_search: str) -> Comparables:
        """With a metric: bounds of the margin within the radius."""
        method = BY_BOUNDS
        try:
            threshold = margin_threshold(self.model)
            rings = self._rings(encoded)
        except NotProvedError as error:
            return Comparables("refused", self.radius, method, reason=str(error), tried=tried)
        proved, broken_at = measures.decision_radii(rings, threshold)
        proved_radius = float(proved[0])
        if proved_radius >= self.radius * (1.0 - TOLERANCE):
            return Comparables("none", self.radius, method, self.radius, tried=tried)
        if np.isfinite(broken_at[0]):
            reason = (
                "a point within the radius is decided otherwise, but it has values between those "
                "of real people"
            )
        else:
            reason = "the bounds are not tight enough with this effort"
        if no_search:
            reason += f"; real people were not all looked at: {no_search}"
        return Comparables(
            "unknown", self.radius, method, proved_radius, reason=reason, tried=tried
        )

    def _rings(self, encoded: Float32) -> list[measures.Ring]:
        """Bounds of the margin and of minus the margin at rising fair distances."""
        radii = sorted({share * self.radius for share in SHARES})
        metric = self.metric
        assert metric is not None
        base = getattr(self.model, "base", self.model)
        if getattr(base, "adapts_inputs", False):
            raise NotProvedError(
                "the model reads adapted columns, each person's counterpart in the largest group"
            )
        if hasattr(base, "network_"):
            rings = network_rings(base.network_, metric, encoded, radii, parts=NETWORK_PARTS)
            return [ring.columns(MARGIN, np.sqrt(2.0)) for ring in rings]
        if not hasattr(base, "booster_"):
            raise NotProvedError("no bounds are known for this kind of model.")
        return self._tree_rings(base, metric, encoded, radii)

    def _tree_rings(
        self, base: Any, metric: Metric, encoded: Float32, radii: Sequence[float]
    ) -> list[measures.Ring]:
        # compiles kernels
        from evenhand.fairlib.certificates.trees import TreeProver

        if self.prover is None:
            self.prover = TreeProver(base, metric)
        leaf_sums = self.prover.sums(self.prover.read(encoded)).astype(np.float64)
        rings = []
        inner = 0.0
        for radius in radii:
            bounds = self.prover.margins(encoded, radius, rounds=TREE_ROUNDS)
            ends = _columns(bounds.found_high, bounds.found_low)
            proved = _columns(bounds.high, bounds.low)
            rings.append(
                measures.Ring(inner, radius, _columns(leaf_sums, leaf_sums), ends, proved, proved)
            )
            inner = radius
        return rings


def _columns(high: Float, low: Float) -> Float:
    """The margin and minus the margin side by side."""
    return np.stack([high, -low], axis=1)


def _differences(row: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Columns in which another person differs."""
    changed = {}
    for name, value in other.items():
        person_value = row.get(name)
        is_same = person_value is not None and category_name(person_value) == category_name(value)
        if not is_same:
            changed[name] = value
    return {name: value for name, value in changed.items() if row.get(name) != value}


def comparable_people(
    model: Any,
    encoder: TableEncoder,
    row: Mapping[str, Any],
    sensitive: Mapping[str, Sequence[Any]],
    *,
    metric: Metric | None = None,
    radius: float = 0.0,
    values: Mapping[str, RealValues] | None = None,
) -> Comparables:
    """Say whether anybody comparable to a person would be decided otherwise.

    Parameters
    ----------
    model : Method or DecidedModel
        Fitted, for two labels.
    encoder : TableEncoder
        Fitted encoder of its rows.
    row : mapping of str to value
        The person's values as in the table; None where one is missing.
    sensitive : mapping of str to sequence
        The values that each sensitive column may have.
    metric : Metric or None, default None
        Fitted fair metric; None: people differ in sensitive columns alone.
    radius : float, default 0
        Fair distance up to which people are comparable.
    values : mapping of str to RealValues, optional
        The values that real people may have in other columns; default: the categories of the
        training rows, and numbers in their range.

    Returns
    -------
    Comparables

    Examples
    --------
    >>> import pandas as pd
    >>> from evenhand.fairlib.methods.gbdt import GBDTClassifier
    >>> from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder
    >>> years = np.arange(200) % 20
    >>> frame = pd.DataFrame({"years": years, "sex": np.where(years % 2, "f", "m")})
    >>> encoder = TableEncoder([ColumnSpec("years", "standard"), ColumnSpec("sex", "onehot")])
    >>> X = encoder.fit(frame).transform(frame)
    >>> model = GBDTClassifier(n_steps=20, max_depth=2, random_state=0).fit(X, years >= 10)
    >>> row = {"years": 4, "sex": "f"}
    >>> comparable_people(model, encoder, row, {"sex": ["f", "m"]}).status
    'none'
    """
    people = ComparablePeople(model, encoder, sensitive, metric, radius, values)
    return people.find(row)
