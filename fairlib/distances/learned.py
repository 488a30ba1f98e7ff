"""A fair metric that evidence chooses: columns that tell a sensitive attribute are removed or
adapted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from evenhand.fairlib.arrays import Float, Float32, Index
from evenhand.fairlib.distances.adaptation import (
    DRAWN,
    LEAST_GROUP,
    Adaptation,
    grid_of_uniforms,
    is_binary,
    levels_of,
)
from evenhand.fairlib.distances.attribute_leak import AttributeLeak, attribute_leak
from evenhand.fairlib.distances.face import FACE
from evenhand.fairlib.distances.metric_base import Metric, sensitive_columns
from evenhand.fairlib.execution import generator, sample_rows
from evenhand.fairlib.preprocessing.input_tables import positions_of

ADAPTATION_FILE = "adaptation.json"
# Rows from which the evidence is taken at most.
EVIDENCE_ROWS = 6000
# Deterministic draws of the adapted categories, over which a model's outputs are averaged.
DRAWS = 8
# Least share of training rows whose group must follow from the columns of X.
READABLE = 0.999
# Trees that judge how much a column tells about the label.
LABEL_TREES = {"n_estimators": 80, "max_depth": 3, "learning_rate": 0.08, "tree_method": "hist"}
LABEL_FOLDS = 4
# Names of the group of people without a value: they have no counterparts.
MISSING_GROUPS = ("", "nan", "None", "missing", "(missing)")


@dataclass
class GroupReader:
    """How the group of an attribute is read from the columns of X.

    Parameters
    ----------
    positions : list of int
        Columns of the matrix.
    level_groups : list of int
        Group of each level of a category; empty for a number.
    cuts : list of float
        Of a number: the limits between neighbouring groups.
    cut_groups : list of int
        Of a number: the group of each interval.
    values : list of list of float
        The columns' values in each group: those of its most frequent level, or its mean.
    """

    positions: list[int]
    level_groups: list[int]
    cuts: list[float]
    cut_groups: list[int]
    values: list[list[float]]

    def read(self, rows: Float) -> Index:
        """Group of every row, -1 where it is unknown.

        Parameters
        ----------
        rows : ndarray of float, shape (n, d)

        Returns
        -------
        ndarray of int, shape (n,)
        """
        if self.level_groups:
            return np.array(self.level_groups)[levels_of(rows, self.positions)]
        interval = np.searchsorted(np.array(self.cuts), rows[:, self.positions[0]])
        return np.array(self.cut_groups)[interval]


@dataclass
class Stage:
    """The adaptation to one attribute, or to all combinations of several.

    Parameters
    ----------
    attributes : list of str
    groups : list of list of str
        Names of each attribute's groups.
    readers : list of GroupReader or None
        One for each attribute; None where its group cannot be read from X.
    adaptation : Adaptation
    """

    attributes: list[str]
    groups: list[list[str]]
    readers: list[GroupReader | None]
    adaptation: Adaptation

    @property
    def readable(self) -> bool:
        """Whether the groups can be read from X."""
        return all(reader is not None for reader in self.readers)

    def read(self, rows: Float) -> Index:
        """Combined group of every row, -1 where an attribute's group is unknown.

        Parameters
        ----------
        rows : ndarray of float, shape (n, d)

        Returns
        -------
        ndarray of int, shape (n,)
        """
        codes = [reader.read(rows) for reader in self.readers if reader is not None]
        return combined_codes(codes, [len(names) for names in self.groups])

    def write(self, rows: Float, target: int) -> None:
        """Write a combined group into the columns of its attributes, in place.

        Parameters
        ----------
        rows : ndarray of float, shape (n, d)
        target : int
        """
        code = target
        for names, reader in zip(reversed(self.groups), reversed(self.readers), strict=True):
            group = code % len(names)
            code //= len(names)
            if reader is not None:
                rows[:, reader.positions] = reader.values[group]


class ColumnVerdict(NamedTuple):
    """What the metric does with a column of the table, and why.

    `auc` is the attribute's AUC from this column alone, `signal` the rise of the label's log loss
    without it (nats), or None where it was not measured.
    """

    column: str
    verdict: str
    auc: float
    signal: float | None


class MetricReport(NamedTuple):
    """What was found when a metric was learned; aggregates only.

    `before` and `after` are the attribute's AUC by attribute from the columns of X without the
    sensitive ones, and from what the metric leaves of rows that its evidence did not use.
    `label_auc` are the label's cross-validated AUC before and after, None without labels.
    """

    columns: list[ColumnVerdict]
    before: dict[str, AttributeLeak]
    after: dict[str, AttributeLeak]
    label_auc: tuple[float, float] | None
    sequential: bool


class _Evidence(NamedTuple):
    """The rows from which choices are made: one half adapts, the other half is judged."""

    rows: Float
    labels: Index | None
    codes: list[Index]
    sizes: list[int]
    half: Index


@dataclass(repr=False, eq=False)
class LearnedMetric(Metric):
    r"""Euclidean distance without the columns and directions that evidence shows to be proxies.

    For each column that differs between groups, given the legitimate columns, counterparts of all
    people in the other groups are learned (see :mod:`evenhand.fairlib.distances.adaptation`). A
    column whose adapted values tell nothing about the label is removed. Of the others the
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

    sensitive: Mapping[str, Sequence[int | str]] = field(default_factory=dict)
    legitimate: Sequence[int | str] = ()
    feature_groups: Mapping[str, Sequence[int | str]] | None = None
    explained_variance: float = 0.99
    random_state: int = 0

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, *, sensitive_features: Any = None
    ) -> Self:
        """Learn from training rows, shape (n, d).

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : array-like, shape (n,), optional
            Labels: columns that tell nothing about them are removed. Without labels none is.
        sensitive_features : mapping, DataFrame, Series or array-like
            Attributes, as in :func:`evenhand.fairlib.distances.metric_base.sensitive_columns`.

        Returns
        -------
        Self

        Raises
        ------
        ValueError
            Without attributes; for an attribute with one group, or a group of fewer than 30 rows; a
            legitimate column that is sensitive; columns outside X; nothing that is left.
        """
        self._check_parameters()
        data = self._fit_rows(X)
        attributes = sensitive_columns(sensitive_features)
        if not attributes:
            raise ValueError("sensitive_features are needed: the metric learns from groups.")
        columns = self._read_columns(data.shape[1])
        self._check_columns(data.shape[1], attributes)
        labels = None
        if y is not None:
            labels = np.unique(np.asarray(y), return_inverse=True)[1]
        coded = {name: group_codes_of(name, values) for name, values in attributes.items()}
        blocked = sorted({j for positions in self._sensitive.values() for j in positions})
        free = [j for j in range(data.shape[1]) if j not in blocked]
        units = units_of(data, [columns[name] for name in columns], blocked, self._legitimate)
        evidence = self._evidence(data, labels, coded)
        choice = _Choice(evidence, units, self._legitimate, free, self.random_state)
        choice.decide()
        self.stages_ = self._stages(data, coded, choice)
        self.removed_ = sorted(choice.removed)
        basis = self._basis(data, coded)
        if basis.shape[1] >= data.shape[1]:
            raise ValueError(
                "every column tells a sensitive attribute and nothing else: all people are "
                "comparable."
            )
        self._remember(data, basis)
        self.report_ = choice.report(columns, list(coded))
        return self

    def _check_parameters(self) -> None:
        """ValueError for a parameter out of its range."""
        self._check_interval("(0, 1]", "explained_variance")
        self._check_columns_named("legitimate")
        self._check_seed("random_state")

    def _read_columns(self, width: int) -> dict[str, list[int]]:
        """Columns of the matrix by table column; sets those that are sensitive and legitimate."""
        columns_by_name = self._columns_by_name()
        self._sensitive = {}
        for name, items in self.sensitive.items():
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
            shared = sorted({*positions} & {*self._legitimate})
            if shared:
                raise ValueError(
                    f"legitimate has column {shared[0]}, which holds the sensitive attribute "
                    f"{name!r}: leave it out of one."
                )
        if any(not 0 <= j < width for j in self._legitimate):
            raise ValueError(f"legitimate must be columns of X, 0 to {width - 1}.")

    def _evidence(
        self, data: Float, labels: Index | None, coded: Mapping[str, tuple[list[str], Index]]
    ) -> _Evidence:
        """Rows of a random order, of which the first half adapts."""
        rng = generator(self.random_state, "evidence")
        chosen = np.arange(len(data))
        if len(data) > EVIDENCE_ROWS:
            chosen = sample_rows(len(data), EVIDENCE_ROWS, rng)
        codes = []
        sizes = []
        for names, attribute_codes in coded.values():
            codes.append(attribute_codes[chosen])
            sizes.append(len(names))
        half = np.zeros(len(chosen), dtype=bool)
        half[rng.permutation(len(chosen))[: len(chosen) // 2]] = True
        return _Evidence(
            data[chosen], None if labels is None else labels[chosen], codes, sizes, half
        )

    def _stages(
        self, data: Float, coded: Mapping[str, tuple[list[str], Index]], choice: _Choice
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
            adaptation = choice.adaptation()
            cells = int(np.prod([len(group) for group in groups]))
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
        kept_columns = [j for j in range(width) if j not in self.removed_]
        copies = self._training_copies(data, coded)
        differences = [copy[:, kept_columns] for copy in copies]
        part = data[:, kept_columns]
        if not kept_columns or not any((copy != part).any() for copy in differences):
            return units
        face = FACE(explained_variance=self.explained_variance)
        face.fit(part, counterfactuals=differences)
        directions = np.zeros((width, face.basis_.shape[1]))
        directions[kept_columns] = face.basis_
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
        return DRAWS if any(stage.adaptation.n_drawn_ for stage in self.stages_) else 1

    def counterfactuals(self, X: ArrayLike) -> list[Float32]:
        """Counterparts of each row in every group, with the sensitive columns of that group.

        Parameters
        ----------
        X : array-like, shape (n, d)

        Returns
        -------
        list of ndarray of float32, shape (n, d)
            Of each stage, one for each of its groups; a row's counterpart in its own group is the
            row.

        Raises
        ------
        ValueError
            If an attribute cannot be read from X.
        """
        rows = self._readable_rows(X)
        copies = []
        for stage in self.stages_:
            for copy in self._copies_of(rows, stage, stage.read(rows)):
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
        hidden = [reader.positions for stage in self.stages_ for reader in stage.readers if reader]
        for positions in hidden:
            rows[:, positions] = 0.0
        rows[:, self.removed_] = 0.0
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
        if not len(self.legitimate):
            return rows
        return without_explained(rows, list(self.legitimate))

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
            "legitimate": [int(j) for j in self.legitimate],
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
        metric.random_state = content["random_state"]
        metric.stages_ = []
        for stage in content["stages"]:
            readers = [None if item is None else GroupReader(**item) for item in stage["readers"]]
            adaptation = Adaptation.from_dict(stage["adaptation"])
            metric.stages_.append(Stage(stage["attributes"], stage["groups"], readers, adaptation))
        return metric


class _Choice:
    """Which columns are adapted or removed, by evidence on training rows."""

    def __init__(
        self,
        evidence: _Evidence,
        units: list[list[int]],
        given: list[int],
        free: list[int],
        seed: int,
    ) -> None:
        self.evidence = evidence
        self.units = units
        self.given = given
        self.free = free
        self.seed = seed
        self.sequential = False
        self.removed: set[int] = set()
        self.signals: dict[int, float] = {}
        self.kinds: dict[int, str] = {}

    def decide(self) -> None:
        """Adapt columns, condition on earlier ones if that leaves less, and remove columns."""
        adapted = self.adapted_rows()
        self._remove_without_signal(adapted, self._differing())
        for _ in range(len(self.units) + 1):
            leak = self._leak(self.adapted_halves())
            if not is_clear(leak):
                return
            if not self.sequential:
                self.sequential = True
                if self._leak(self.adapted_halves()).auc < leak.auc - 0.01:
                    self._remove_without_signal(self.adapted_rows(), self._differing())
                    continue
                self.sequential = False
            if not self._remove_most_telling():
                return

    def partition(self, names: list[str], codes: list[Index]) -> list[list[str]]:
        """All attributes together if each combination has enough rows, else one by one."""
        sizes = self.evidence.sizes
        joint = combined_codes(codes, sizes)
        counts = np.bincount(joint[joint >= 0], minlength=int(np.prod(sizes)))
        if counts.min() >= LEAST_GROUP:
            return [names]
        return [[name] for name in names]

    def adaptation(self) -> Adaptation:
        """An adaptation, not fitted, of the columns that stay."""
        units = [unit for unit in self.units if not self.removed.issuperset(unit)]
        return Adaptation(units, self.given, sequential=self.sequential)

    def _chain(self, learn: Index, use: Index) -> Float:
        """Rows of `use` adapted by what rows of `learn` show."""
        evidence = self.evidence
        sources = evidence.rows[learn]
        rows = evidence.rows[use]
        names = [str(number) for number in range(len(evidence.codes))]
        learned = [codes[learn] for codes in evidence.codes]
        self.kinds = {}
        for part in self.partition(names, learned):
            numbers = [int(name) for name in part]
            sizes = [evidence.sizes[number] for number in numbers]
            source_codes = combined_codes([learned[number] for number in numbers], sizes)
            codes = combined_codes([evidence.codes[number][use] for number in numbers], sizes)
            adaptation = self.adaptation()
            has_group = source_codes >= 0
            adaptation.fit(sources[has_group], source_codes[has_group], int(np.prod(sizes)))
            for column in adaptation.columns_:
                if column.kind != "keep":
                    self.kinds[column.positions[0]] = column.kind
            rng = generator(self.seed, "evidence levels")
            reference = adaptation.reference_
            uniforms = rng.random((len(rows), adaptation.n_drawn_))
            rows = adaptation.counterparts(rows, codes, reference, uniforms)
            uniforms = rng.random((len(sources), adaptation.n_drawn_))
            sources = adaptation.counterparts(sources, source_codes, reference, uniforms)
        return rows

    def adapted_rows(self) -> Float:
        """All evidence rows, adapted by themselves."""
        everybody = np.arange(len(self.evidence.rows))
        return self._chain(everybody, everybody)

    def adapted_halves(self) -> Float:
        """The judged half of the rows, adapted by the other half."""
        return self._chain(np.flatnonzero(self.evidence.half), np.flatnonzero(~self.evidence.half))

    def _kept_columns(self) -> list[int]:
        return [j for j in self.free if j not in self.removed]

    def _leak(self, judged: Float) -> AttributeLeak:
        """The largest leak of all attributes from the columns that stay, of the judged half."""
        leaks = self.leaks(judged[:, self._kept_columns()], np.flatnonzero(~self.evidence.half))
        return max(leaks, key=lambda leak: leak.low)

    def leaks(self, rows: Float, use: Index) -> list[AttributeLeak]:
        """Leak of each attribute given rows at some positions of the evidence."""
        result = []
        legitimate = [j for j in self.given if j in self._kept_columns()]
        positions = self._kept_columns() if rows.shape[1] == len(self._kept_columns()) else []
        for codes in self.evidence.codes:
            has_group = codes[use] >= 0
            part = rows[has_group]
            if legitimate and positions:
                part = without_explained(part, [positions.index(j) for j in legitimate])
            result.append(attribute_leak(part, codes[use][has_group], seed=self.seed))
        return result

    def _differing(self) -> list[list[int]]:
        """Units that the last adaptation changed."""
        return [unit for unit in self.units if unit[0] in self.kinds]

    def _remove_without_signal(self, adapted: Float, candidates: list[list[int]]) -> None:
        """Remove candidates, the clearest proxy first, whose loss is not measurable."""
        labels = self.evidence.labels
        if labels is None or not candidates:
            return
        ordered = sorted(candidates, key=lambda unit: -self._unit_auc(unit))
        reference = label_losses(adapted[:, self._kept_columns()], labels, self.seed)
        for unit in ordered:
            other_columns = [j for j in self._kept_columns() if j not in unit]
            if not other_columns:
                continue
            rise = label_losses(adapted[:, other_columns], labels, self.seed) - reference
            self.signals[unit[0]] = float(rise.mean())
            error = float(rise.std()) / np.sqrt(len(rise))
            if rise.mean() <= error:
                self.removed.update(unit)

    def _unit_auc(self, unit: list[int]) -> float:
        everybody = np.arange(len(self.evidence.rows))
        leaks = self.leaks(self.evidence.rows[:, unit], everybody)
        return max(leak.auc for leak in leaks)

    def _remove_most_telling(self) -> bool:
        """Remove the unit by which trees tell the attribute most, if it tells nothing of the
        label.
        """
        labels = self.evidence.labels
        candidates = [
            unit
            for unit in self.units
            if not self.removed.issuperset(unit) and not {*unit} & {*self.given}
        ]
        kept_columns = self._kept_columns()
        if labels is None or not candidates:
            return False
        judged = self.adapted_halves()
        adapted = self.adapted_rows()
        whole = self._leak(judged).auc
        gains = []
        for unit in candidates:
            other_columns = [kept_columns.index(j) for j in kept_columns if j not in unit]
            use = np.flatnonzero(~self.evidence.half)
            leaks = self.leaks(judged[:, [kept_columns[j] for j in other_columns]], use)
            gains.append(whole - max(leak.auc for leak in leaks))
        reference = label_losses(adapted[:, kept_columns], labels, self.seed)
        for number in np.argsort(-np.array(gains), kind="stable"):
            unit = candidates[number]
            other_columns = [j for j in kept_columns if j not in unit]
            if gains[number] <= 0 or not other_columns:
                return False
            rise = label_losses(adapted[:, other_columns], labels, self.seed) - reference
            error = float(rise.std()) / np.sqrt(len(rise))
            self.signals[unit[0]] = float(rise.mean())
            if rise.mean() <= error:
                self.removed.update(unit)
                return True
        return False

    def report(self, columns: Mapping[str, list[int]], attributes: list[str]) -> MetricReport:
        """What was found, by column of the table."""
        everybody = np.arange(len(self.evidence.rows))
        judged = self.adapted_halves()
        kinds = dict(self.kinds)
        verdicts = []
        for name, positions in columns.items():
            if not {*positions} <= {*self.free}:
                verdicts.append(ColumnVerdict(name, "sensitive", 1.0, None))
                continue
            verdict = "kept"
            if {*positions} & {*self.given}:
                verdict = "legitimate"
            elif self.removed.issuperset(positions):
                verdict = "removed"
            elif any(j in kinds for j in positions):
                verdict = next(kinds[j] for j in positions if j in kinds)
            signals = [self.signals[j] for j in positions if j in self.signals]
            signal = signals[0] if signals else None
            verdicts.append(ColumnVerdict(name, verdict, self._unit_auc(positions), signal))
        before = self.leaks(self.evidence.rows[:, self.free], everybody)
        kept_columns = self._kept_columns()
        after = self.leaks(judged[:, kept_columns], np.flatnonzero(~self.evidence.half))
        labels = self.evidence.labels
        label_auc = None
        if labels is not None and labels.max() == 1:
            adapted = self.adapted_rows()
            label_auc = (
                attribute_leak(self.evidence.rows[:, self.free], labels, seed=self.seed).auc,
                attribute_leak(adapted[:, kept_columns], labels, seed=self.seed).auc,
            )
        return MetricReport(
            verdicts,
            dict(zip(attributes, before, strict=True)),
            dict(zip(attributes, after, strict=True)),
            label_auc,
            self.sequential,
        )


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


def is_clear(leak: AttributeLeak) -> bool:
    """Whether a leak is almost three standard errors above chance.

    Several groups and predictors are tried, so that one of them is above chance more often than an
    interval of one says.

    Parameters
    ----------
    leak : AttributeLeak

    Returns
    -------
    bool
    """
    return leak.auc - 0.5 > 1.5 * (leak.auc - leak.low)


def combined_codes(codes: Sequence[Index], sizes: Sequence[int]) -> Index:
    """Codes of the combinations of groups; -1 where one is unknown.

    Parameters
    ----------
    codes : sequence of ndarray of int, shape (n,)
    sizes : sequence of int
        Number of groups of each attribute.

    Returns
    -------
    ndarray of int, shape (n,)
    """
    total = np.zeros_like(codes[0])
    unknown = np.zeros(len(codes[0]), dtype=bool)
    for attribute_codes, size in zip(codes, sizes, strict=True):
        total = total * size + attribute_codes
        unknown |= attribute_codes < 0
    return np.where(unknown, -1, total)


def group_codes_of(name: str, values: ArrayLike) -> tuple[list[str], Index]:
    """Names of an attribute's groups, and the group of every row; -1 for a missing value.

    Parameters
    ----------
    name : str
        Name of the attribute, for messages.
    values : array-like, shape (n,)

    Returns
    -------
    tuple of list of str and ndarray of int, shape (n,)

    Raises
    ------
    ValueError
        If there is one group, or a group has fewer than 30 rows.
    """
    texts = np.asarray(values).astype(str)
    groups, codes, counts = np.unique(texts, return_inverse=True, return_counts=True)
    names: list[str] = []
    numbers = np.full(len(groups), -1)
    for number, group in enumerate(groups.tolist()):
        if group in MISSING_GROUPS:
            continue
        if counts[number] < LEAST_GROUP:
            raise ValueError(
                f"the group {group!r} of {name!r} has {int(counts[number])} training rows: a "
                f"learned metric needs at least {LEAST_GROUP}. Merge it with another group."
            )
        numbers[number] = len(names)
        names.append(group)
    if len(names) < 2:
        raise ValueError(f"the attribute {name!r} has one group: nothing can be learned from it.")
    return names, numbers[codes]


def group_reader(
    rows: Float, positions: Sequence[int], names: list[str], codes: Index
) -> GroupReader | None:
    """How groups are read from columns of X; None if they do not follow from them.

    Parameters
    ----------
    rows : ndarray of float, shape (n, d)
    positions : sequence of int
        Columns of the attribute; there may be none.
    names : list of str
        Names of the groups.
    codes : ndarray of int, shape (n,)
        Group of every row, -1 for unknown.

    Returns
    -------
    GroupReader or None
    """
    if not len(positions):
        return None
    columns = list(positions)
    has_group = codes >= 0
    values = [rows[codes == group][:, columns].mean(axis=0).tolist() for group in range(len(names))]
    if all(is_binary(rows[:, j]) for j in columns):
        levels = levels_of(rows, columns)
        counts = np.zeros((len(columns) + 1, len(names)))
        np.add.at(counts, (levels[has_group], codes[has_group]), 1)
        level_groups = np.where(counts.sum(axis=1) > 0, counts.argmax(axis=1), -1)
        reader = GroupReader(columns, level_groups.tolist(), [], [], values)
        encodings = np.concatenate([np.eye(len(columns)), np.zeros((1, len(columns)))])
        for group in range(len(names)):
            reader.values[group] = encodings[counts[:, group].argmax()].tolist()
    else:
        first = rows[has_group, columns[0]]
        order = np.argsort([value[0] for value in values])
        cuts = []
        for lower, upper in zip(order[:-1], order[1:], strict=True):
            below = first[codes[has_group] == lower].max()
            above = first[codes[has_group] == upper].min()
            cuts.append(float((below + above) / 2))
        reader = GroupReader(columns, [], sorted(cuts), order.tolist(), values)
    if np.mean(reader.read(rows)[has_group] == codes[has_group]) < READABLE:
        return None
    return reader


def units_of(
    rows: Float, groups: Sequence[Sequence[int]], blocked: Sequence[int], given: Sequence[int]
) -> list[list[int]]:
    """Columns that are adapted together: the 0/1 columns of a category, or one number.

    Parameters
    ----------
    rows : ndarray of float, shape (n, d)
    groups : sequence of sequence of int
        Columns of X of each column of the table.
    blocked, given : sequence of int
        Sensitive and legitimate columns, which are not adapted.

    Returns
    -------
    list of list of int
    """
    units = []
    for columns in groups:
        part = [j for j in columns if j not in blocked and j not in given]
        if not part:
            continue
        one_hot = all(is_binary(rows[:, j]) for j in part)
        if one_hot and rows[:, part].sum(axis=1).max() <= 1.0:
            units.append(part)
        else:
            units += [[j] for j in part]
    return units


def without_explained(rows: Float, given: list[int]) -> Float:
    """Rows less what a linear regression on legitimate columns explains, without these.

    Parameters
    ----------
    rows : ndarray of float, shape (n, d)
    given : list of int
        Legitimate columns.

    Returns
    -------
    ndarray of float, shape (n, d - len(given))
    """
    inputs = np.concatenate([np.ones((len(rows), 1)), rows[:, given]], axis=1)
    outcomes = np.delete(rows, given, axis=1)
    fitted, *_ = np.linalg.lstsq(inputs, outcomes, rcond=None)
    return np.asarray(outcomes - inputs @ fitted)


def label_losses(rows: Float, labels: Index, seed: int) -> Float:
    """Cross-validated log loss of trees for every row (nats).

    Parameters
    ----------
    rows : ndarray of float, shape (n, d)
    labels : ndarray of int, shape (n,)
    seed : int
        Of the folds.

    Returns
    -------
    ndarray of float, shape (n,)
    """
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from xgboost import XGBClassifier

    folds = StratifiedKFold(LABEL_FOLDS, shuffle=True, random_state=seed)
    model = XGBClassifier(**LABEL_TREES, n_jobs=1, random_state=0)
    predicted = cross_val_predict(
        model, rows.astype(np.float32), labels, cv=folds, method="predict_proba"
    )
    chosen = predicted[np.arange(len(labels)), labels].astype(np.float64)
    return -np.log(np.maximum(chosen, 1e-12))
