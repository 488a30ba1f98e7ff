"""A fair metric that evidence chooses: columns that predict a sensitive attribute are removed
or adapted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from evenhand.fairlib.arrays import Bool, Float, Float32, Index
from evenhand.fairlib.distances.adaptation import DRAWN, Adaptation, grid_of_uniforms
from evenhand.fairlib.distances.face import FACE
from evenhand.fairlib.distances.group_readers import (
    GroupReader,
    Stage,
    combined_codes,
    group_codes_of,
    group_reader,
    least_training,
)
from evenhand.fairlib.distances.metric_base import Metric, sensitive_columns
from evenhand.fairlib.distances.metric_evidence import (
    Choice,
    Evidence,
    units_of,
    without_explained,
)
from evenhand.fairlib.distances.number_fits import LEAST_PER_KNOT
from evenhand.fairlib.execution import generator, sample_rows
from evenhand.fairlib.preprocessing.input_tables import positions_of, with_columns_of
from evenhand.fairlib.row_order import check_row_order

ADAPTATION_FILE = "adaptation.json"
# Rows from which the evidence is taken at most.
EVIDENCE_ROWS = 6000
# Rows of each group among them at least, if there are so many.
LEAST_EVIDENCE = 200
# Deterministic draws of the adapted categories, over which a model's outputs are averaged.
DRAWS = 8


@dataclass(repr=False, eq=False)
class LearnedMetric(Metric):
    r"""Euclidean distance without the columns and directions that evidence shows to be proxies.

    For each column that differs between groups, given the legitimate columns, counterparts of all
    people in the other groups are learned (see :mod:`evenhand.fairlib.distances.adaptation`). A
    column whose adapted values do not predict the label is removed. Of the others the
    directions of the differences between people and counterparts are free
    (:class:`evenhand.fairlib.distances.face.FACE`):

    .. math:: \Sigma = I - B B^\top

    where B spans the removed columns and these directions, in which sensitive columns take part.
    Methods may also use the counterparts themselves: :meth:`adapted` maps everybody to the largest
    group.

    Parameters
    ----------
    sensitive : mapping of str to sequence of int or str
        By attribute, the columns of X that hold it, by position or by a table column's name;
        attributes without one are left out. Other attributes must come with ``sensitive_features``.
    legitimate : sequence of int or str
        Columns whose differences between groups stay, and on which the others are conditioned.
    feature_groups : mapping of str to sequence of int or str, or None
        Columns of X by table column. None: those of the table, or of an array each on its own,
        named x0, x1, ...
    explained_variance : float
        Share of the squared differences between people and counterparts that becomes free.
    random_state : int
        Of the rows that the evidence is taken from, and of drawn levels.
    min_cell : int
        Least people behind each number in the metric's files: levels of a category that fewer
        people of a group have are taken together, and quantiles are means of so many.

    Attributes
    ----------
    stages_ : list of Stage
        One for all attributes, if each combination of groups has 30 rows, else one for each.
    removed_ : list of int
        Columns of X that are removed, without the sensitive ones.
    report_ : MetricReport
        Not saved.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat([0, 1], 300)
    >>> merit = rng.normal(size=600)
    >>> X = np.column_stack([sex, merit + 2 * sex, rng.normal(size=600)])
    >>> y = (merit + rng.normal(size=600) > 0).astype(int)
    >>> metric = LearnedMetric(sensitive={"sex": [0]}).fit(X, y, sensitive_features={"sex": sex})
    >>> adapted = metric.adapted(X)
    >>> bool(abs(adapted[sex == 0, 1].mean() - adapted[sex == 1, 1].mean()) < 0.2)
    True

    References
    ----------
    D. Plečko and N. Meinshausen, "Fair Data Adaptation with Quantile Preservation", JMLR 21 (2020).
    """

    kind: ClassVar[str] = "learned"
    title: ClassVar[str] = "learned metric"

    sensitive: Mapping[str, Sequence[int | str]] | None = None
    legitimate: Sequence[int | str] = ()
    feature_groups: Mapping[str, Sequence[int | str]] | None = None
    explained_variance: float = 0.99
    random_state: int = 0
    min_cell: int = LEAST_PER_KNOT

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, *, sensitive_features: Any = None
    ) -> Self:
        """Learn from training rows, shape (n, d).

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : array-like, shape (n,), optional
            Labels: columns that do not predict them are removed. Without labels none is.
        sensitive_features : mapping, DataFrame, Series or array-like
            Attributes, as in :func:`evenhand.fairlib.distances.metric_base.sensitive_columns`.

        Returns
        -------
        Self

        Raises
        ------
        ValueError
            Without attributes; for an attribute with one group, or a group of fewer than 70 rows,
            or of 10 more than twice `min_cell`; a legitimate column that is sensitive; columns
            outside X; nothing that is left.
        """
        self._check_parameters()
        check_row_order(X=X, y=y)
        data = self._fit_rows(X)
        attributes = sensitive_columns(with_columns_of(X, sensitive_features))
        if not attributes:
            raise ValueError("sensitive_features are needed: the metric learns from groups.")
        columns = self._read_columns(data.shape[1])
        self._check_columns(data.shape[1], attributes)
        labels = None
        if y is not None:
            labels = np.unique(np.asarray(y), return_inverse=True)[1]
        least = least_training(self.min_cell)
        coded = {name: group_codes_of(name, values, least) for name, values in attributes.items()}
        blocked = sorted({j for positions in self._sensitive.values() for j in positions})
        free = [j for j in range(data.shape[1]) if j not in blocked]
        units = units_of(data, [columns[name] for name in columns], blocked, self._legitimate)
        evidence = self._evidence(data, labels, coded)
        choice = Choice(evidence, units, self._legitimate, free, self.random_state, self.min_cell)
        choice.decide()
        self.stages_ = self._stages(data, coded, choice)
        self.removed_ = sorted(choice.removed)
        basis = self._basis(data, coded)
        if basis.shape[1] >= data.shape[1]:
            raise ValueError(
                "every column predicts a sensitive attribute and nothing else, so that all people "
                "would be comparable: list columns whose differences may count as legitimate."
            )
        self._remember(data, basis)
        projected = None
        if not self.adapts:
            projected = np.asarray(self.project(evidence.rows), dtype=np.float64)
        self.report_ = choice.report(columns, list(coded), projected)
        return self

    def _check_parameters(self) -> None:
        """ValueError for a parameter out of its range."""
        self._check_interval("(0, 1]", "explained_variance")
        self._check_columns_of_names("sensitive")
        self._check_columns_of_names("feature_groups")
        self._check_columns_named("legitimate")
        self._check_seed("random_state")
        self._check_counts("min_cell")

    def _read_columns(self, width: int) -> dict[str, list[int]]:
        """Columns of the matrix by table column; sets those that are sensitive and legitimate."""
        columns_by_name = self._columns_by_name()
        self._sensitive = {}
        for name, items in (self.sensitive or {}).items():
            self._sensitive[name] = positions_of(items, columns_by_name, "sensitive")
        self._legitimate = positions_of(self.legitimate, columns_by_name, "legitimate")
        if self.feature_groups is None and columns_by_name:
            return dict(columns_by_name)
        groups = None
        if self.feature_groups is not None:
            groups = {}
            for name, items in self.feature_groups.items():
                groups[name] = positions_of(items, columns_by_name, "feature_groups")
        return table_columns(groups, width)

    def _check_columns(self, width: int, attributes: Mapping[str, Any]) -> None:
        """ValueError for columns outside X, and for legitimate ones that are sensitive."""
        for name, positions in self._sensitive.items():
            if name not in attributes:
                raise ValueError(
                    f"sensitive names the attribute {name!r}, which sensitive_features lacks; it "
                    f"has {sorted(attributes)}."
                )
            if any(not 0 <= j < width for j in positions):
                raise ValueError(f"sensitive must hold columns of X, 0 to {width - 1}.")
            in_both = sorted({*positions} & {*self._legitimate})
            if in_both:
                raise ValueError(
                    f"legitimate has column {in_both[0]}, which holds the sensitive attribute "
                    f"{name!r}: leave it out of one."
                )
        if any(not 0 <= j < width for j in self._legitimate):
            raise ValueError(f"legitimate must be columns of X, 0 to {width - 1}.")

    def _evidence(
        self, data: Float, labels: Index | None, coded: Mapping[str, tuple[list[str], Index]]
    ) -> Evidence:
        """Rows of a random order, of which the first half adapts."""
        rng = generator(self.random_state, "evidence")
        everybody = [attribute_codes for _, attribute_codes in coded.values()]
        chosen = rows_of_groups(everybody, EVIDENCE_ROWS, LEAST_EVIDENCE, rng)
        codes = []
        sizes = []
        for names, attribute_codes in coded.values():
            codes.append(attribute_codes[chosen])
            sizes.append(len(names))
        half = halves_of_groups(codes, rng)
        return Evidence(
            data[chosen], None if labels is None else labels[chosen], codes, sizes, half
        )

    def _stages(
        self, data: Float, coded: Mapping[str, tuple[list[str], Index]], choice: Choice
    ) -> list[Stage]:
        """Adaptations of all rows, one after another."""
        stages = []
        rows = data
        for names in choice.partition(list(coded), [codes for _, codes in coded.values()]):
            groups = [coded[name][0] for name in names]
            codes = combined_codes([coded[name][1] for name in names], [len(g) for g in groups])
            readers = []
            for name in names:
                readers.append(group_reader(data, self._sensitive.get(name, ()), *coded[name]))
            # copies of people also have the counterparts of removed columns
            sizes = [len(group) for group in groups]
            adaptation = choice.adaptation(sizes, with_removed=True)
            cells = int(np.prod(sizes))
            has_group = codes >= 0
            adaptation.fit(rows[has_group], codes[has_group], cells)
            stages.append(Stage(names, groups, readers, adaptation))
            uniforms = self._uniforms(len(rows), adaptation)
            rows = adaptation.counterparts(rows, codes, adaptation.reference_, uniforms)
        return stages

    def _uniforms(self, n: int, adaptation: Adaptation) -> Float:
        """Random numbers by which categories of training rows move."""
        rng = generator(self.random_state, "levels")
        return rng.random((n, adaptation.n_drawn_))

    def _basis(self, data: Float, coded: Mapping[str, tuple[list[str], Index]]) -> Float:
        """Unit vectors of removed columns, and directions of the counterparts.

        Sensitive columns move together with the adapted ones: a column less its group's shift is
        orthogonal to that direction, and so it still counts.
        """
        width = data.shape[1]
        units = np.eye(width)[:, self.removed_]
        remaining = [j for j in range(width) if j not in self.removed_]
        copies = self._training_copies(data, coded)
        differences = [copy[:, remaining] for copy in copies]
        part = data[:, remaining]
        if not remaining or not any((copy != part).any() for copy in differences):
            return units
        face = FACE(explained_variance=self.explained_variance)
        face.fit(part, counterfactuals=differences)
        directions = np.zeros((width, face.basis_.shape[1]))
        directions[remaining] = face.basis_
        return np.concatenate([units, directions], axis=1)

    def _training_copies(
        self, data: Float, coded: Mapping[str, tuple[list[str], Index]]
    ) -> list[Float]:
        """Counterparts of the training rows in every group, whose codes are given."""
        copies = []
        for stage in self.stages_:
            codes = combined_codes(
                [coded[name][1] for name in stage.attributes], [len(g) for g in stage.groups]
            )
            copies += self._copies_of(data, stage, codes)
        return copies

    def _copies_of(self, rows: Float, stage: Stage, codes: Index) -> list[Float]:
        copies = []
        uniforms = self._uniforms(len(rows), stage.adaptation)
        for target in range(stage.adaptation.n_groups_):
            copy = stage.adaptation.counterparts(rows, codes, target, uniforms)
            stage.write(copy, target)
            unknown = codes < 0
            copy[unknown] = rows[unknown]
            copies.append(copy)
        return copies

    @property
    def adapts(self) -> bool:
        """Whether every attribute's group can be read from X, which :meth:`adapted` needs."""
        check_is_fitted(self)
        return bool(self.stages_) and all(stage.readable for stage in self.stages_)

    @property
    def n_draws(self) -> int:
        """Number of different :meth:`adapted` rows: 1 without adapted categories."""
        for stage in self.stages_:
            for column in stage.adaptation.columns_:
                if column.kind in DRAWN and not {*column.positions} <= {*self.removed_}:
                    return DRAWS
        return 1

    @property
    def hidden(self) -> Bool:
        """Mask of the sensitive and the removed columns of X, which :meth:`adapted` sets to 0."""
        mask = np.zeros(self.n_features_in_, dtype=bool)
        mask[self.removed_] = True
        for stage in self.stages_:
            for reader in stage.readers:
                if reader is not None:
                    mask[reader.positions] = True
        return mask

    @property
    def adapted_numbers(self) -> list[int]:
        """Columns of X with numbers that :meth:`adapted` changes, without those removed."""
        positions: set[int] = set()
        for stage in self.stages_:
            for column in stage.adaptation.columns_:
                if column.kind not in ("keep", "levels"):
                    positions.update(column.positions)
        return sorted(positions.difference(self.removed_))

    def counterfactuals(self, X: ArrayLike, *, sensitive_features: Any = None) -> list[Float32]:
        """Counterparts of each row in every group, with the sensitive columns of that group.

        Parameters
        ----------
        X : array-like, shape (n, d)
        sensitive_features : mapping, DataFrame, Series or array-like, optional
            The rows' groups, as at ``fit``; default: they are read from X. A row of another group
            has no counterparts and stays as it is.

        Returns
        -------
        list of ndarray of float32, shape (n, d)
            Of each stage, one for each of its groups; a row's counterpart in its own group is the
            row.

        Raises
        ------
        ValueError
            If an attribute cannot be read from X and is not among the sensitive features.
        """
        if sensitive_features is None:
            rows = self._readable_rows(X)
            codes = [stage.read(rows) for stage in self.stages_]
        else:
            check_row_order(X=X, sensitive_features=sensitive_features)
            rows = np.array(self._checked(np.asarray(self._rows_of(X), dtype=np.float64)))
            attributes = sensitive_columns(sensitive_features)
            codes = [stage.codes_of(attributes) for stage in self.stages_]
        copies = []
        for stage, stage_codes in zip(self.stages_, codes, strict=True):
            for copy in self._copies_of(rows, stage, stage_codes):
                copies.append(copy.astype(np.float32))
        return copies

    def adapted(self, X: ArrayLike, draw: int | None = None, strength: float = 1.0) -> Float32:
        """Each row's counterpart in the largest group, without sensitive and removed columns.

        Parameters
        ----------
        X : array-like, shape (n, d)
        draw : int, optional
            Draw of the adapted categories, below ``n_draws``, the same for equal rows; default:
            each row has random numbers of its own, as training rows need.
        strength : float, default 1
            Share of each number's way to its counterpart, and probability that a category moves
            there. At 0 only sensitive and removed columns change.

        Returns
        -------
        ndarray of float32, shape (n, d)
            Sensitive and removed columns are 0.

        Raises
        ------
        ValueError
            If an attribute cannot be read from X, or the strength is outside [0, 1].
        """
        if not 0.0 <= strength <= 1.0:
            raise ValueError(f"strength must be in [0, 1], got {strength!r}.")
        rows = self._readable_rows(X)
        for stage in self.stages_:
            adaptation = stage.adaptation
            uniforms = self._uniforms(len(rows), adaptation)
            if draw is not None:
                uniforms = grid_of_uniforms(self.n_draws, adaptation.n_drawn_)[[draw]]
            mapped = adaptation.counterparts(
                rows, stage.read(rows), adaptation.reference_, uniforms
            )
            rows = partial(rows, mapped, adaptation, strength, draw, self.n_draws)
        rows[:, self.hidden] = 0.0
        return rows.astype(np.float32)

    def what_is_left(self, X: ArrayLike, *, adapted: bool) -> Float:
        """What the metric leaves of rows beyond the legitimate columns: the input of its leak.

        Parameters
        ----------
        X : array-like, shape (n, d)
        adapted : bool
            Whether a model reads :meth:`adapted` rows; else the rows are projected.

        Returns
        -------
        ndarray of float64, shape (n, d - len(legitimate))
            Less what a linear regression on the legitimate columns explains.
        """
        if adapted:
            rows = self.adapted(X).astype(np.float64)
        else:
            rows = np.asarray(self.project(X))
        if not self._legitimate:
            return rows
        return without_explained(rows, self._legitimate)

    def _readable_rows(self, X: ArrayLike) -> Float:
        if not self.adapts:
            names = [
                name
                for stage in self.stages_
                for name, reader in zip(stage.attributes, stage.readers, strict=True)
                if reader is None
            ]
            raise ValueError(
                f"the group of {', '.join(map(repr, names))} cannot be read from X: make it a "
                "model input."
            )
        return np.array(self._checked(np.asarray(self._rows_of(X), dtype=np.float64)))

    def save(self, folder: str | Path) -> None:
        """Write the metric's files and ``adaptation.json``.

        Parameters
        ----------
        folder : str or Path
        """
        super().save(folder)
        stages = []
        for stage in self.stages_:
            readers = [None if reader is None else asdict(reader) for reader in stage.readers]
            stages.append(
                {
                    "attributes": stage.attributes,
                    "groups": stage.groups,
                    "readers": readers,
                    "adaptation": stage.adaptation.to_dict(),
                }
            )
        content = {
            "removed": self.removed_,
            "legitimate": [int(j) for j in self._legitimate],
            "random_state": self.random_state,
            "stages": stages,
        }
        (Path(folder) / ADAPTATION_FILE).write_text(json.dumps(content, sort_keys=True))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a metric written by :meth:`save`.

        Parameters
        ----------
        folder : str or Path

        Returns
        -------
        Self
        """
        metric = super().load(folder)
        content = json.loads((Path(folder) / ADAPTATION_FILE).read_text())
        metric.removed_ = content["removed"]
        metric.legitimate = content["legitimate"]
        metric._legitimate = content["legitimate"]
        metric.random_state = content["random_state"]
        metric.stages_ = []
        for stage in content["stages"]:
            readers = [None if item is None else GroupReader(**item) for item in stage["readers"]]
            adaptation = Adaptation.from_dict(stage["adaptation"])
            metric.stages_.append(Stage(stage["attributes"], stage["groups"], readers, adaptation))
        return metric


def rows_of_groups(
    codes: Sequence[Index], most: int, least: int, rng: np.random.Generator
) -> Index:
    """Draw rows of which every group has some.

    Parameters
    ----------
    codes : sequence of ndarray of int, shape (n,)
        By attribute each row's group, -1 for unknown.
    most : int
        Rows that are drawn at random; all, if there are no more.
    least : int
        Of a group with fewer among these, further rows are added up to so many.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of int
        Sorted positions.
    """
    count = len(codes[0])
    if count <= most:
        return np.arange(count)
    is_drawn = np.zeros(count, dtype=bool)
    is_drawn[sample_rows(count, most, rng)] = True
    for groups in codes:
        for group in range(int(groups.max()) + 1):
            missing = least - int((is_drawn & (groups == group)).sum())
            not_drawn = np.flatnonzero(~is_drawn & (groups == group))
            if missing > 0:
                is_drawn[rng.permutation(not_drawn)[:missing]] = True
    return np.flatnonzero(is_drawn)


def halves_of_groups(codes: Sequence[Index], rng: np.random.Generator) -> Bool:
    """Divide rows at random into halves that have about half of each group.

    Parameters
    ----------
    codes : sequence of ndarray of int, shape (n,)
        By attribute each row's group.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of bool, shape (n,)
        Whether a row is in the first half.
    """
    order = rng.permutation(len(codes[0]))
    for groups in codes:
        order = order[np.argsort(groups[order], kind="stable")]
    half = np.zeros(len(order), dtype=bool)
    half[order[::2]] = True
    return half


def table_columns(groups: Mapping[str, Sequence[int]] | None, width: int) -> dict[str, list[int]]:
    """Columns of X by column of the table.

    Parameters
    ----------
    groups : mapping of str to sequence of int, or None
        None: each column on its own, named x0, x1, ...
    width : int
        Columns of X.

    Returns
    -------
    dict of str to list of int

    Raises
    ------
    ValueError
        Unless every column belongs to one group.
    """
    if groups is None:
        return {f"x{j}": [j] for j in range(width)}
    columns = {str(name): list(positions) for name, positions in groups.items()}
    listed = sorted(j for positions in columns.values() for j in positions)
    if listed != list(range(width)):
        raise ValueError(f"feature_groups must have each column of X, 0 to {width - 1}, once.")
    return columns


def partial(
    rows: Float,
    mapped: Float,
    adaptation: Adaptation,
    strength: float,
    draw: int | None,
    draws: int,
) -> Float:
    """Rows on their way to their counterparts.

    Parameters
    ----------
    rows, mapped : ndarray of float, shape (n, d)
        Rows and their counterparts.
    adaptation : Adaptation
    strength : float in [0, 1]
        Share of a number's way, and share of the people whose categories move.
    draw : int or None
        The draw, of `draws`; None takes a person's rank.
    draws : int

    Returns
    -------
    ndarray of float, shape (n, d)
    """
    if strength == 1.0:
        return mapped
    result = rows + strength * (mapped - rows)
    place = np.arange(len(rows)) * 0.6180339887498949 % 1.0
    if draw is not None:
        place = np.full(len(rows), (draw + 0.5) / draws)
    unmoved = np.flatnonzero(place >= strength)
    moves = np.flatnonzero(place < strength)
    for column in adaptation.columns_:
        if column.kind in DRAWN:
            positions = np.asarray(column.positions)
            result[unmoved[:, None], positions] = rows[unmoved[:, None], positions]
            result[moves[:, None], positions] = mapped[moves[:, None], positions]
    return result
