"""Boosted trees on preprocessed rows: Kamiran-Calders weights, or the sensitive subspace projected
out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.distances.metric_base import Metric
from evenhand.fairlib.distances.metric_kinds import fitted_metric, load_metric
from evenhand.fairlib.execution import generator
from evenhand.fairlib.mapped import mapped_file
from evenhand.fairlib.methods.adapted_inputs import AdaptedInputs, adapts
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.methods.method_base import Callback
from evenhand.fairlib.methods.one_hot import OneHotRuns
from evenhand.fairlib.methods.row_groups import read_groups
from evenhand.fairlib.methods.tree_rows import TreeRows

if TYPE_CHECKING:
    import xgboost as xgb

# Default of `blur`, up to so many rows; with more of them counterparts have a smaller error.
BLUR = 0.3
BLURRED_ROWS = 2500
# Copies of every training row with different errors: as many as give so many rows, within limits.
MOST_COPIED_ROWS = 30_000
LEAST_COPIES = 4
MOST_COPIES = 12


def kamiran_calders_weights(
    groups: ArrayLike, codes: ArrayLike, weights: Float | None = None
) -> Float:
    r"""Weights that make group and label independent.

    .. math:: w(g, y) = \frac{P(g) P(y)}{P(g, y)}

    (Kamiran and Calders 2012). The weighted share of every label is then the same in every group,
    and :math:`\sum_i w_i = n` if every cell has a row.

    Parameters
    ----------
    groups, codes : array-like, shape (n,)
        Group and label of every row.
    weights : ndarray of float, shape (n,), or None
        Weights of the rows: they count in all shares, and multiply the result.

    Returns
    -------
    ndarray of float, shape (n,)

    References
    ----------
    Kamiran and Calders, "Data preprocessing techniques for classification without discrimination",
    Knowledge and Information Systems 33 (2012).

    Examples
    --------
    >>> weights = kamiran_calders_weights([0, 0, 0, 1], [1, 1, 0, 0])
    >>> weights.tolist()
    [0.75, 0.75, 1.5, 0.5]
    >>> float(weights.sum())
    3.5
    """
    group_codes = np.unique(np.asarray(groups), return_inverse=True)[1]
    label_codes = np.unique(np.asarray(codes), return_inverse=True)[1]
    joint = np.zeros((group_codes.max() + 1, label_codes.max() + 1))
    np.add.at(joint, (group_codes, label_codes), 1.0 if weights is None else weights)
    expected = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True) / joint.sum()
    ratio = expected / np.where(joint > 0, joint, 1.0)
    balanced: Float = ratio[group_codes, label_codes]
    if weights is None:
        return balanced
    return balanced * weights


def blurred(people: TreeRows, errors: Float, rng: np.random.Generator) -> TreeRows:
    """Every training row several times, with random errors, with its weight divided among them.

    An error is one of the normal score of a value's rank, so that a skewed column keeps its
    distribution and all values are between the smallest and the largest.

    Parameters
    ----------
    people : TreeRows
    errors : ndarray of float, shape (d,)
        Standard deviation of the errors of each column's normal scores; 0 for none.
    rng : numpy.random.Generator

    Returns
    -------
    TreeRows
        12 times as many, 4 times from 7,500 rows on, of the same total weight.
    """
    copies = MOST_COPIED_ROWS // max(len(people.codes), 1)
    copies = min(max(copies, LEAST_COPIES), MOST_COPIES)
    weights = np.ones(len(people.codes)) if people.weights is None else people.weights
    data = np.tile(people.data, (copies, 1))
    for column in np.flatnonzero(errors):
        data[:, column] = blurred_ranks(people.data[:, column], errors[column], copies, rng)
    return replace(
        people,
        data=data,
        codes=np.tile(people.codes, copies),
        weights=np.tile(weights / copies, copies),
    )


def blurred_ranks(values: Float32, error: float, copies: int, rng: np.random.Generator) -> Float32:
    """Several copies of a column with normal errors of the ranks' normal scores.

    Parameters
    ----------
    values : ndarray of float32, shape (n,)
    error : float
        Standard deviation.
    copies : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of float32, shape (copies * n,)
        Copy after copy.
    """
    from scipy.special import ndtr, ndtri

    count = len(values)
    ordered = np.sort(values)
    below = np.searchsorted(ordered, values, "left")
    up_to = np.searchsorted(ordered, values, "right")
    # the middle rank of people with the same value
    scores = ndtri((below + up_to) / 2 / count)
    moved = np.tile(scores, copies) + error * rng.standard_normal(copies * count)
    places = ndtr(moved) * count - 0.5
    return np.interp(places, np.arange(count), ordered).astype(np.float32)


@dataclass(kw_only=True, repr=False, eq=False)
class ReweighedGBDTClassifier(GBDTClassifier):
    """Gradient boosted trees on rows weighted so that group and label are independent.

    Parameters
    ----------
    attributes : sequence of str or None
        The sensitive features that form the groups (their intersection). None: all.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat([0, 1], 100)
    >>> merit = rng.normal(size=200)
    >>> X = np.column_stack([sex, merit + sex])
    >>> y = (merit + rng.normal(scale=0.3, size=200) > 0).astype(int)
    >>> model = ReweighedGBDTClassifier(n_steps=20, max_depth=2, random_state=0)
    >>> model = model.fit(X, y, sensitive_features={"sex": sex})
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    attributes: Sequence[str] | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_names("attributes")

    def _prepare(
        self, X: Float32, codes: Int, sensitive_features: Any, weights: Float | None
    ) -> tuple[Float32, Float | None]:
        groups = read_groups(sensitive_features, self.attributes, len(codes), least=1)
        return X, kamiran_calders_weights(groups.codes, codes, weights)


@dataclass(kw_only=True, repr=False, eq=False)
class ProjectedGBDTClassifier(AdaptedInputs, GBDTClassifier):
    r"""Gradient boosted trees on :math:`X (I - P)`, invariant along the sensitive subspace.

    The comparator "project" of Vargo et al. 2021 (appendix C.2). With a learned metric that can
    read all groups from X, the trees read adapted columns instead: everybody's counterpart in the
    largest group, without the columns that the metric removes.

    Parameters
    ----------
    metric : Metric or None
        The metric whose subspace is removed; one that is not fitted is cloned and fitted at
        ``fit``. None: the sensitive subspace, learned at ``fit`` from ``sensitive_features``, which
        are needed then.
    strength : float
        In [0, 1], of adapted columns: the share of each number's way to its counterpart, and of the
        people whose categories move. Another metric takes 1.
    blur : float or None
        Of adapted columns: standard deviation of a random error that the normal scores of a
        number's ranks have in the training. Counterparts have a sampling error, and a model that is
        trained with errors relies less on them. None: .3, and less with more than 2,500 rows. 0:
        none. Another metric takes no blur.

    Attributes
    ----------
    metric_ : Metric

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat([0, 1], 100)
    >>> merit = rng.normal(size=200)
    >>> X = np.column_stack([sex, merit + sex])
    >>> y = (merit + rng.normal(scale=0.3, size=200) > 0).astype(int)
    >>> from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace
    >>> metric = SensitiveSubspace(indicators=[0], learned=[])  # only the first column is free
    >>> model = ProjectedGBDTClassifier(metric, n_steps=20, max_depth=2, random_state=0).fit(X, y)
    >>> flipped = np.column_stack([1 - sex, X[:, 1]])
    >>> bool(np.array_equal(model.predict(X), model.predict(flipped)))
    True
    """

    # a projection needs all values of a person, as numbers
    takes_missing: ClassVar[bool] = False
    takes_categories: ClassVar[bool] = False

    metric: Metric | None = field(default=None, kw_only=False)
    strength: float = 1.0
    blur: float | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_has("metric", "project", "a fair metric")
        self._check_interval("[0, 1]", "strength")
        self._check_interval("[0, inf)", "blur", optional=True)

    def _prepare(
        self, X: Float32, codes: Int, sensitive_features: Any, weights: Float | None
    ) -> tuple[Float32, Float | None]:
        self.metric_ = fitted_metric(self.metric, self._named(X), sensitive_features)
        if self.adapts_inputs:
            return self._adapted_training_rows(X), weights
        if self.blur:
            raise ValueError(
                f"blur is {self.blur}: only the learned metric's adapted columns have one, where "
                "each group can be read from X. Leave it None."
            )
        if self.strength != 1.0:
            raise ValueError(
                f"strength is {self.strength}: only the learned metric has one, where each group "
                "can be read from X. Leave it at 1."
            )
        return self._project(X), weights

    def may_fit_folds(self, y: ArrayLike) -> bool:
        """Return whether `fit_folds` trains as `fit` does.

        Parameters
        ----------
        y : array-like, shape (n,)
            Labels of the training rows.

        Returns
        -------
        bool
            False with adapted columns: the search for the number of steps has no errors in them.
        """
        return super().may_fit_folds(y) and not adapts(self.metric)

    def _strength(self) -> float:
        return self.strength

    def _tree_rows(
        self, rows: Float32, codes: Int, weights: Float | None
    ) -> tuple[TreeRows, OneHotRuns | None]:
        people, runs = super()._tree_rows(rows, codes, weights)
        errors = np.zeros(rows.shape[1])
        if self.adapts_inputs and mapped_file(rows) is None:
            numbers = self.metric_.adapted_numbers
            errors[numbers] = self._blur_share(len(rows))
        if runs is not None:
            errors = np.array([errors[columns[0]] for columns in runs.members])
        self._errors = errors
        return people, runs

    def _blur_share(self, n_rows: int) -> float:
        """Standard deviation of the errors of normal scores."""
        if self.blur is not None:
            return self.blur
        return BLUR * min(1.0, float(np.sqrt(BLURRED_ROWS / n_rows)))

    def _boost(
        self, people: TreeRows, parameters: dict[str, Any], steps: int, callback: Callback | None
    ) -> xgb.Booster:
        if self._errors.any():
            rng = generator(self.random_state, "blur")
            people = blurred(people, self._errors, rng)
        return super()._boost(people, parameters, steps, callback)

    def _signs(self) -> tuple[int, ...]:
        if super()._signs():
            raise ValueError(
                "monotone_constraints would hold for projected columns only: leave them None."
            )
        return ()

    def _project(self, X: Float32) -> Float32:
        return self.metric_.project(X).astype(np.float32)

    def _probabilities(self, X: Float32) -> Float:
        if self.adapts_inputs:
            return super()._probabilities(X)
        return super()._probabilities(self._project(X))

    def log_odds_by_column(self, X: Float32) -> Float32:
        """As of trees, of the projected rows.

        Parameters
        ----------
        X : ndarray of float32, shape (n, d)
            Rows before the projection.

        Returns
        -------
        ndarray of float32, shape (n, d + 1)
            As :meth:`evenhand.fairlib.methods.gbdt.GBDTClassifier.log_odds_by_column`.
        """
        if self.adapts_inputs:
            return super().log_odds_by_column(X)
        return super().log_odds_by_column(self._project(X))

    def _write(self, folder: Path) -> None:
        super()._write(folder)
        self.metric_.save(folder / "metric")

    def _read(self, folder: Path) -> None:
        super()._read(folder)
        self.metric_ = load_metric(folder / "metric")
