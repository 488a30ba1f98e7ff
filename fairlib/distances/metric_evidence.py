"""Evidence on training rows: which columns a learned metric adapts, removes or keeps."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from evenhand.fairlib.arrays import Bool, Float, Index
from evenhand.fairlib.distances.adaptation import Adaptation, Kind, is_binary, least_group
from evenhand.fairlib.distances.attribute_leak import AttributeLeak, attribute_leak
from evenhand.fairlib.distances.group_readers import combined_codes
from evenhand.fairlib.execution import generator

# Trees that judge how well a column predicts the label.
LABEL_TREES = {"n_estimators": 80, "max_depth": 3, "learning_rate": 0.08, "tree_method": "hist"}
LABEL_FOLDS = 4
# Standard errors from which a column stays although it leaves a leak.
CLEAR_SIGNAL = 2.0


class ColumnVerdict(NamedTuple):
    """What the metric does with a column of the table, and why.

    `auc` is the attribute's AUC from this column alone, `signal` the rise of the label's log loss
    without it (nats) of the predictor that shows it most clearly, None where it was not measured.
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
    `adapts` says whether models read adapted columns; else directions are removed from the columns.
    """

    columns: list[ColumnVerdict]
    before: dict[str, AttributeLeak]
    after: dict[str, AttributeLeak]
    label_auc: tuple[float, float] | None
    sequential: bool
    adapts: bool = True


class Evidence(NamedTuple):
    """The rows from which choices are made: one half adapts, the other half is judged."""

    rows: Float
    labels: Index | None
    codes: list[Index]
    sizes: list[int]
    half: Bool


class Choice:
    """Which columns are adapted or removed, by evidence on training rows."""

    def __init__(
        self,
        evidence: Evidence,
        units: list[list[int]],
        given: list[int],
        free: list[int],
        seed: int,
        min_cell: int,
    ) -> None:
        self.evidence = evidence
        self.min_cell = min_cell
        self.units = units
        self.given = given
        self.free = free
        self.seed = seed
        self.sequential = False
        self.removed: set[int] = set()
        self.signals: dict[int, float] = {}
        self.kinds: dict[int, str] = {}
        # kinds that all evidence rows have shown, by the state and the attributes of a stage
        self.shown: dict[Any, dict[int, Kind]] = {}
        # what was computed already: an adaptation and a prediction take most of the time
        self._rows_by_state: dict[Any, tuple[Float, dict[int, str]]] = {}
        self._leaks_by_digest: dict[tuple[int, bytes], AttributeLeak] = {}

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
        if counts.min() >= least_group(self.min_cell):
            return [names]
        return [[name] for name in names]

    def adaptation(self, factors: Sequence[int], *, with_removed: bool = False) -> Adaptation:
        """An adaptation, not fitted, of the columns that stay, perhaps followed by the others.

        `factors` are the sizes of the attributes.
        """
        units = [unit for unit in self.units if not self.removed.issuperset(unit)]
        if with_removed:
            units += [unit for unit in self.units if self.removed.issuperset(unit)]
        return Adaptation(
            units,
            self.given,
            sequential=self.sequential,
            factors=factors,
            min_cell=self.min_cell,
        )

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
            adaptation = self.adaptation(sizes)
            has_group = source_codes >= 0
            cells = int(np.prod(sizes))
            adaptation.fit(
                sources[has_group],
                source_codes[has_group],
                cells,
                kinds=self._shown_kinds(part, learn),
            )
            if len(learn) == len(evidence.rows):
                self.shown[self._state(), tuple(part)] = adaptation.kinds_
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

    def _shown_kinds(self, part: list[str], learn: Index) -> dict[int, Kind] | None:
        """Kinds that all evidence rows show, for some of them; None for all of them.

        Half of the rows show fewer differences than all do. A column that they leave as it is
        would leak, and be removed, although all rows together adapt it well.
        """
        if len(learn) == len(self.evidence.rows):
            return None
        return self.shown.get((self._state(), tuple(part)))

    def _state(self) -> tuple[bool, frozenset[int]]:
        """On which an adaptation of the evidence rows depends."""
        return self.sequential, frozenset(self.removed)

    def _adapted(self, part: str, learn: Index, use: Index) -> Float:
        """Rows of a part of the evidence, which are adapted once in each state."""
        state = (part, self._state())
        if state not in self._rows_by_state:
            # a removed column does not come back
            for earlier in list(self._rows_by_state):
                if earlier[1][1] != state[1][1]:
                    del self._rows_by_state[earlier]
            rows = self._chain(learn, use)
            self._rows_by_state[state] = (rows, dict(self.kinds))
        rows, kinds = self._rows_by_state[state]
        self.kinds = dict(kinds)
        return rows

    def adapted_rows(self) -> Float:
        """All evidence rows, adapted by themselves."""
        everybody = np.arange(len(self.evidence.rows))
        return self._adapted("all", everybody, everybody)

    def adapted_halves(self) -> Float:
        """The judged half of the rows, adapted by the other half."""
        self.adapted_rows()
        learn = np.flatnonzero(self.evidence.half)
        return self._adapted("halves", learn, np.flatnonzero(~self.evidence.half))

    def _kept_columns(self) -> list[int]:
        return [j for j in self.free if j not in self.removed]

    def _leak(self, judged: Float) -> AttributeLeak:
        """The largest leak of all attributes from the columns that stay, of the judged half."""
        return self._judged_leak(judged, self._kept_columns())

    def _judged_leak(self, judged: Float, columns: list[int]) -> AttributeLeak:
        """The largest leak of all attributes from some columns, of the judged half."""
        leaks = self.leaks(judged, columns, np.flatnonzero(~self.evidence.half))
        return max(leaks, key=lambda leak: leak.low)

    def leaks(
        self, rows: Float, columns: list[int], use: Index, *, beyond_legitimate: bool = True
    ) -> list[AttributeLeak]:
        """Leak of each attribute from some columns of rows at some positions of the evidence.

        With `beyond_legitimate`, what the legitimate columns among them explain is not counted.
        """
        result = []
        legitimate = []
        if beyond_legitimate:
            legitimate = [columns.index(j) for j in self.given if j in columns]
        for number, codes in enumerate(self.evidence.codes):
            has_group = codes[use] >= 0
            part = rows[has_group][:, columns]
            if legitimate:
                part = without_explained(part, legitimate)
            result.append(self._measured_leak(number, part, codes[use][has_group]))
        return result

    def _measured_leak(self, number: int, rows: Float, codes: Index) -> AttributeLeak:
        """Leak of one attribute; of the same rows it is measured once."""
        digest = hashlib.sha256(str(rows.shape).encode())
        digest.update(rows.tobytes())
        digest.update(codes.tobytes())
        key = (number, digest.digest())
        if key not in self._leaks_by_digest:
            self._leaks_by_digest[key] = attribute_leak(rows, codes, seed=self.seed)
        return self._leaks_by_digest[key]

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
            without_unit = [j for j in self._kept_columns() if j not in unit]
            if not without_unit:
                continue
            rises = label_losses(adapted[:, without_unit], labels, self.seed) - reference
            if not self._has_signal(unit, rises):
                self.removed.update(unit)

    def _has_signal(self, unit: list[int], rises: Float, least: float = 1.0) -> bool:
        """Whether a predictor of the label loses more than `least` standard errors without a unit.

        A linear one shows many weak effects, of which trees find none for certain.
        """
        means = rises.mean(axis=1)
        errors = rises.std(axis=1) / np.sqrt(rises.shape[1])
        clearest = int(np.argmax(means / np.maximum(errors, 1e-12)))
        self.signals[unit[0]] = float(means[clearest])
        return bool(means[clearest] > least * errors[clearest])

    def _unit_auc(self, unit: list[int]) -> float:
        everybody = np.arange(len(self.evidence.rows))
        leaks = self.leaks(self.evidence.rows, unit, everybody, beyond_legitimate=False)
        return max(leak.auc for leak in leaks)

    def _remove_most_telling(self) -> bool:
        """Remove the unit from which trees predict the attribute best, if it does not predict
        the label.
        """
        labels = self.evidence.labels
        candidates = [
            unit
            for unit in self.units
            if not self.removed.issuperset(unit) and not {*unit} & {*self.given}
        ]
        columns = self._kept_columns()
        if labels is None or not candidates:
            return False
        judged = self.adapted_halves()
        adapted = self.adapted_rows()
        whole = self._leak(judged).auc
        gains = []
        for unit in candidates:
            without_unit = [j for j in columns if j not in unit]
            gains.append(whole - self._judged_leak(judged, without_unit).auc)
        reference = label_losses(adapted[:, columns], labels, self.seed)
        for number in np.argsort(-np.array(gains), kind="stable"):
            unit = candidates[number]
            without_unit = [j for j in columns if j not in unit]
            if gains[number] <= 0 or not without_unit:
                return False
            rises = label_losses(adapted[:, without_unit], labels, self.seed) - reference
            if not self._has_signal(unit, rises, CLEAR_SIGNAL):
                self.removed.update(unit)
                return True
        return False

    def report(
        self,
        columns: Mapping[str, list[int]],
        attributes: list[str],
        projected: Float | None = None,
    ) -> MetricReport:
        """What was found, by column of the table.

        `projected` are the evidence rows without the metric's directions, where models read these
        instead of adapted columns.
        """
        everybody = np.arange(len(self.evidence.rows))
        judged = self.adapted_halves()
        kinds = dict(self.kinds)
        adapted = self.adapted_rows()
        positions_left = self._kept_columns()
        if projected is not None:
            adapted = projected
            judged = projected[~self.evidence.half]
            positions_left = self.free
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
        before = self.leaks(self.evidence.rows, self.free, everybody)
        after = self.leaks(judged, positions_left, np.flatnonzero(~self.evidence.half))
        labels = self.evidence.labels
        label_auc = None
        if labels is not None and labels.max() == 1:
            label_auc = (
                attribute_leak(self.evidence.rows[:, self.free], labels, seed=self.seed).auc,
                attribute_leak(adapted[:, positions_left], labels, seed=self.seed).auc,
            )
        return MetricReport(
            verdicts,
            dict(zip(attributes, before, strict=True)),
            dict(zip(attributes, after, strict=True)),
            label_auc,
            self.sequential,
            adapts=projected is None,
        )


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
    remaining = np.delete(rows, given, axis=1)
    fitted, *_ = np.linalg.lstsq(inputs, remaining, rcond=None)
    return np.asarray(remaining - inputs @ fitted)


def label_losses(rows: Float, labels: Index, seed: int) -> Float:
    """Cross-validated log losses of a logistic regression and of trees for every row (nats).

    Parameters
    ----------
    rows : ndarray of float, shape (n, d)
    labels : ndarray of int, shape (n,)
    seed : int
        Of the folds.

    Returns
    -------
    ndarray of float, shape (2, n)
        First of the regression, then of the trees.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from xgboost import XGBClassifier

    folds = StratifiedKFold(LABEL_FOLDS, shuffle=True, random_state=seed)
    models = (
        LogisticRegression(max_iter=500),
        XGBClassifier(**LABEL_TREES, n_jobs=1, random_state=0),
    )
    losses = []
    for model in models:
        predicted = cross_val_predict(
            model, rows.astype(np.float32), labels, cv=folds, method="predict_proba"
        )
        chosen = predicted[np.arange(len(labels)), labels].astype(np.float64)
        losses.append(-np.log(np.maximum(chosen, 1e-12)))
    return np.stack(losses)
