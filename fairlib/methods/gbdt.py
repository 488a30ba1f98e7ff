"""Gradient boosted decision trees (XGBoost): the unmitigated baseline, and the base of all tree
methods.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.execution import DEVICES, available_cores, derive_seed
from evenhand.fairlib.mapped import is_paged, row_blocks
from evenhand.fairlib.methods.method_base import Callback, Method, Validation
from evenhand.fairlib.methods.one_hot import SPLIT_BY_ONE, OneHotRuns
from evenhand.fairlib.methods.thresholds import between_values
from evenhand.fairlib.methods.tree_rows import TreeRows
from evenhand.fairlib.numerics import logistic_losses, softmax_losses
from evenhand.fairlib.preprocessing.input_tables import InputTable, with_columns_of
from evenhand.fairlib.splits import hold_out, persons
from evenhand.fairlib.tuning.space import Choice, Real, Space

if TYPE_CHECKING:
    import xgboost as xgb

BOOSTER_FILE = "booster.ubj"
TREE_PARAMETERS = ("eta", "reg_lambda", "min_child_weight", "colsample_bytree")
# Numbers of leaves that are tried where no depth is given.
LEAVES = (8, 31)
# With fewer rows, or fewer held-out rows of a class, the steps are chosen by cross-validation.
LARGE_TABLE = 5000
HELD_OUT = 0.15
FOLDS = 5
# Limits of a share of label 1 that training starts from: XGBoost refuses 0 and 1.
LEAST_SHARE = 1e-6
# With fewer rows starting threads takes longer than they save.
SMALL_TABLE = 2500
# The same for trees alone. Where another process needs the cores, each step waits for its slowest
# thread.
TREES_ALONE = 20_000
Fold: TypeAlias = tuple[Int, Int]


class _Choice(NamedTuple):
    """How the trees of all rows are grown."""

    growth: dict[str, Any]  # XGBoost's parameters of the growth of a tree
    steps: int
    validation: Validation | None  # None if no row is held out
    # of the rows that were not held out; None unless a share of the rows was held out
    booster: xgb.Booster | None


@dataclass(kw_only=True, repr=False, eq=False)
class GBDTClassifier(Method):
    """Gradient boosted trees on the logistic loss, for any number of classes.

    The base of all methods whose model is one XGBoost booster. Subclasses are dataclasses too:
    their fields are the keyword arguments of the constructor.

    The number of steps is chosen on rows that are held out: a share of a large table, and by
    cross-validation five times a fifth of a small one (below 5,000 rows, or with fewer than 50
    held-out rows of a class). All rows then train so many steps. Missing numbers (NaN) are allowed,
    and columns of pandas' categorical dtype are split by sets of categories; one not seen in
    training counts as missing.

    Parameters
    ----------
    n_steps : int
        Boosting steps, at most.
    max_depth : int or None
        Depth of a tree. None: leaf-wise growth up to 8 or 31 leaves, whichever has the lower
        validation loss (31 without validation).
    eta, reg_lambda, min_child_weight
        As XGBoost names them: learning rate, l2 penalty of leaf weights, least sum of hessians in a
        child, where a row of an even chance counts 1/4.
    colsample_bytree : float
        As XGBoost names it: share of the columns that are drawn for each tree, above 0; where
        one-hot columns are joined (below), their run counts as one. On few rows trees of drawn
        columns err less alike.
    base_score : float or None
        Probability of label 1 before the first step. None: its weighted share of the training rows.
        With more than two classes all start equal.
    balance_classes : bool
        Weight label 1 by n0 / n1 of the training labels; with more classes, label k by n / (K n_k).
    scale_pos_weight : float or None
        Weight of label 1, instead of the one that `balance_classes` gives; for two classes.
    n_iter_no_change : int or None
        Stop after this many steps without a lower log loss of the held-out rows, corrected for the
        class weights. None takes `n_steps` steps, and so does a table with a single row of a class.
    validation_fraction : float or None
        Share of the rows that is held out, stratified by label. None: 0.15 of a large table, and
        cross-validation of a small one.
    refit : bool
        Whether all rows train again after a share was held out. False keeps the model of the other
        rows, in about half of the time.
    monotone_constraints : mapping of str to {-1, 0, 1}, sequence of them, or None
        Whether the probability of the second class may only rise (1) or only fall (-1) with a
        column. A mapping has the names of columns, or their positions where X has no names; a
        sequence has one sign for each column. For two classes.
    random_state : int or None
        Draws the held-out rows.
    n_jobs : int or None
        Threads; None for all, or one on a table below 2,500 rows, where more are slower. Negative
        counts from all, as in scikit-learn: -1 is all of them.
    device : {"cpu", "cuda", "auto"}
        Where XGBoost trains. ``"auto"``: a GPU, if its build has CUDA. Models of other devices
        differ in rounding.

    Notes
    -----
    On the CPU neighbouring one-hot columns become one column of codes for XGBoost, which finds the
    same trees in less time (:class:`evenhand.fairlib.methods.one_hot.OneHotRuns`); the model splits
    the columns of X.

    Rows in a memory-mapped file (:func:`evenhand.fairlib.mapped.new_matrix`) are binned block by
    block, and never in memory as numbers. XGBoost merges quantile sketches of the blocks, of two
    million numbers: with more of them its bins may differ slightly from those of the same rows in
    memory. Of more than 262,144 rows 131,072 are drawn, and the bins are those of these. The bins
    of ``paged`` rows are in XGBoost's external memory; trees without a depth then grow level by
    level up to their number of leaves, because leaf-wise growth would read all rows for every
    split.

    Attributes
    ----------
    booster_ : xgboost.Booster
    best_step_ : int
        Steps in the model.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat([0, 1], 100)
    >>> merit = rng.normal(size=200)
    >>> X = np.column_stack([sex, merit + sex])
    >>> y = (merit + rng.normal(scale=0.3, size=200) > 0).astype(int)
    >>> model = GBDTClassifier(n_steps=20, max_depth=2, random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape
    (200, 2)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    multiclass: ClassVar[bool] = True
    takes_missing: ClassVar[bool] = True
    # whether columns of pandas' categorical dtype are split by sets of categories
    takes_categories: ClassVar[bool] = True
    space: ClassVar[Space] = {
        "eta": Real(0.02, 0.3, log=True),
        "max_depth": Choice((None, 2, 3, 4, 6, 8)),
        "reg_lambda": Real(0.1, 1000.0, log=True),
        "min_child_weight": Real(0.5, 100.0, log=True),
        "colsample_bytree": Real(0.4, 1.0),
    }
    cautious: ClassVar[Mapping[str, Any]] = {"max_depth": 3, "colsample_bytree": 0.5}
    # held-out rows of each class, without which a large table is cross-validated
    _least_held_out: ClassVar[int] = 50

    n_steps: int = 1000
    max_depth: int | None = None
    eta: float = 0.05
    reg_lambda: float = 5.0
    min_child_weight: float = 5.0
    colsample_bytree: float = 1.0
    base_score: float | None = None
    balance_classes: bool = False
    scale_pos_weight: float | None = None
    n_iter_no_change: int | None = 30
    validation_fraction: float | None = None
    refit: bool = True
    monotone_constraints: Any = None
    random_state: int | None = None
    n_jobs: int | None = None
    device: str = "cpu"

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Train; as in :class:`evenhand.fairlib.methods.method_base.Method`.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n, d)
            Training rows; missing numbers are NaN.
        y : array-like, shape (n,)
            Labels.
        sensitive_features : mapping, DataFrame, Series or array of n rows, or names of columns of X
            Ignored without mitigation.
        sample_weight : array-like, shape (n,), or None
            Weight of every row, at least 0; None: all count the same.
        callback : callable or None
            Called after every step of the search for the number of steps, which may end early, with
            (step, steps, progress). Without a search it is called after every step of the training.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        ValueError
            For a parameter out of its range; categorical columns, where the method takes none; no
            sensitive features, where the method needs them.
        """
        people, runs, parameters, importance = self._begin_boosting(
            X, y, sensitive_features, sample_weight
        )
        folds = [] if self.n_iter_no_change is None else self._folds(people.codes)
        choice = self._choose_steps(people, parameters, importance, folds, callback)
        self.validation_ = choice.validation
        self.best_step_ = choice.steps
        booster = choice.booster
        if booster is None or self.refit:
            # steps are reported once: in the search for their number, or here without one
            reported = callback if choice.validation is None else None
            booster = self._boost(people, parameters | choice.growth, choice.steps, reported)
            self.best_step_ = booster.num_boosted_rounds()
        self.booster_ = between_values(booster, people.data, runs)
        if self.categories_:
            self.booster_.set_attr(categories=json.dumps(self.categories_))
        self.prior_shift_ = prior_shift(importance)
        return self

    def may_fit_folds(self, y: ArrayLike) -> bool:
        """Return whether `fit_folds` trains as `fit` does, which cross-validates then.

        Parameters
        ----------
        y : array-like, shape (n,)
            Labels of the training rows.

        Returns
        -------
        bool
            True for small tables, unless a share of the rows or no search is asked for.
        """
        if self.n_iter_no_change is None or self.validation_fraction is not None:
            return False
        counts = np.unique(np.asarray(y), return_counts=True)[1]
        return bool(counts.min() > 1) and not self._holds_out(counts)

    def fit_folds(
        self,
        X: ArrayLike,
        y: ArrayLike,
        fold: ArrayLike,
        *,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> list[Self]:
        """Train one model for each fold, on the rows of all other folds.

        All of them have the same number of steps and the same growth of trees: those with which the
        folds together have the lowest loss. So each training row is boosted once for each other
        fold, and not once more in a cross-validation within them. This is what `fit` does to choose
        the number of steps where it cross-validates.

        Parameters
        ----------
        X : array-like, shape (n, d)
            Training rows.
        y : array-like, shape (n,)
            Labels.
        fold : array-like of int, shape (n,)
            Number of each row's fold, from 0 on.
        sensitive_features : mapping, DataFrame, Series or array of n rows
            As in `fit`.
        sample_weight : array-like, shape (n,), or None
            As in `fit`.

        Returns
        -------
        list of Self
            Fitted estimators, one for each fold in their order; this one stays as it is.

        Raises
        ------
        ValueError
            As `fit`; and without a search for the number of steps.

        Examples
        --------
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 2))
        >>> y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
        >>> fold = np.arange(200) % 4
        >>> models = GBDTClassifier(random_state=0).fit_folds(X, y, fold)
        >>> len(models), len({model.best_step_ for model in models})
        (4, 1)
        """
        if self.n_iter_no_change is None:
            self._refuse("n_iter_no_change", "a whole number, as folds share the number of steps")
        numbers = np.asarray(fold, dtype=np.int64)
        fitted = copy.copy(self)
        people, runs, parameters, importance = fitted._begin_boosting(
            X, y, sensitive_features, sample_weight
        )
        folds: list[Fold] = []
        for number in range(int(numbers.max()) + 1):
            folds.append((np.flatnonzero(numbers != number), np.flatnonzero(numbers == number)))
        search = fitted._search_steps(people, parameters, importance, folds, None).best
        fitted.prior_shift_ = prior_shift(importance)
        fitted.validation_ = None
        fitted.best_step_ = search.steps
        models = []
        for booster, (trained, _) in zip(search.boosters, folds, strict=True):
            model = copy.copy(fitted)
            model.booster_ = between_values(booster[: search.steps], people.data[trained], runs)
            if model.categories_:
                model.booster_.set_attr(categories=json.dumps(model.categories_))
            models.append(model)
        return models

    def _begin_boosting(
        self, X: ArrayLike, y: ArrayLike, sensitive_features: Any, sample_weight: ArrayLike | None
    ) -> tuple[TreeRows, OneHotRuns | None, dict[str, Any], Float]:
        """Check the input, and return the rows of the trees, their joined columns, XGBoost's
        parameters, and the weights of the classes.
        """
        data, codes, weights = self._begin_fit(X, y, sample_weight)
        sensitive_features = with_columns_of(X, sensitive_features)
        rows, weights = self._prepare(data, codes, sensitive_features, weights)
        importance = self._class_weights(codes, weights)
        parameters = self._booster_parameters(codes, weights, importance)
        if len(importance) > 2 and self.balance_classes:
            weights = importance[codes] * (1.0 if weights is None else weights)
        people, runs = self._tree_rows(rows, codes, weights)
        return people, runs, parameters, importance

    def _boost(
        self, people: TreeRows, parameters: dict[str, Any], steps: int, callback: Callback | None
    ) -> xgb.Booster:
        """Train all rows, at most so many steps; the callback may end it earlier."""
        import xgboost as xgb

        # the booster starts with the matrix, so that its cached margins are updated with every tree
        matrix = people.matrix(parameters["nthread"])
        booster = xgb.Booster(parameters, [matrix])
        for step in range(steps):
            booster.update(matrix, step)
            if callback is not None and callback(step + 1, self.n_steps, {}):
                break
        return booster

    def _check_parameters(self) -> None:
        self._check_counts("n_steps")
        self._check_counts("max_depth", "n_iter_no_change", optional=True)
        self._check_interval("[0, inf)", "eta", "reg_lambda", "min_child_weight")
        self._check_interval("(0, 1]", "colsample_bytree")
        self._check_interval("(0, 1)", "base_score", optional=True)
        self._check_interval("(0, inf)", "scale_pos_weight", optional=True)
        self._check_flags("balance_classes", "refit")
        self._check_whole_numbers("random_state", "n_jobs")
        self._check_choice("device", DEVICES)
        self._check_interval("(0, 1)", "validation_fraction", optional=True)
        constraints = self.monotone_constraints
        if constraints is not None and not isinstance(constraints, Mapping | Sequence | np.ndarray):
            self._refuse("monotone_constraints", "a mapping or a sequence of signs", optional=True)

    def _needs_encoder(self, table: InputTable) -> bool:
        """Trees that split categories by sets need no encoder: dates become numbers."""
        return not self.takes_categories and super()._needs_encoder(table)

    def _numbers_of(self, X: Any, *, reset: bool, template: Any = None) -> Any:
        if reset:
            self.categories_: dict[str, list[Any]] = {}
        return super()._numbers_of(X, reset=reset, template=template)

    def _plain_numbers(self, table: InputTable, *, reset: bool) -> Any:
        """Replace the categories of a table by numbers; one not seen in training by NaN."""
        import pandas as pd

        if reset:
            self._learn_categories(table)
        frame = table.days()
        if not self.categories_:
            return frame
        frame = frame.copy(deep=False)
        for column, categories in self.categories_.items():
            values = frame.iloc[:, int(column)].astype(object)
            codes = pd.Index(categories, dtype=object).get_indexer(values)
            frame.isetitem(int(column), np.where(codes < 0, np.nan, codes))
        return frame

    def _learn_categories(self, table: InputTable) -> None:
        """Take over the categories of all columns of categories and text."""
        import pandas as pd

        for j, kind in enumerate(table.kinds):
            column = table.frame.iloc[:, j]
            if isinstance(column.dtype, pd.CategoricalDtype):
                self.categories_[str(j)] = column.dtype.categories.tolist()
            elif kind == "category":
                self.categories_[str(j)] = sorted(column.dropna().unique().tolist(), key=str)

    def _prepare(
        self, X: Float32, codes: Int, sensitive_features: Any, weights: Float | None
    ) -> tuple[Float32, Float | None]:
        """Rows and weights that the trees are trained on."""
        return X, weights

    def _class_weights(self, codes: Int, weights: Float | None = None) -> Float:
        """Relative weight of a row of each class in the loss, shape (K,)."""
        counts = np.bincount(codes, weights)
        classes = len(counts)
        if classes > 2:
            if self.scale_pos_weight is not None:
                raise ValueError("scale_pos_weight is for two classes: leave it None.")
            if self.balance_classes:
                return counts.sum() / (classes * counts)
            return np.ones(classes)
        weight = self.scale_pos_weight
        if weight is None:
            weight = counts[0] / counts[1] if self.balance_classes else 1.0
        if not (np.isfinite(weight) and weight > 0):
            raise ValueError(f"scale_pos_weight must be positive and finite, got {weight!r}.")
        return np.array([1.0, weight])

    def _signs(self) -> tuple[int, ...]:
        """Sign of every column's effect, 0 where any is allowed; none if nothing is constrained."""
        width = self._width
        constraints = self.monotone_constraints
        if isinstance(constraints, Mapping):
            constraints = self._signs_by_name(constraints)
        elif isinstance(constraints, np.ndarray):
            # XGBoost reads Python's numbers only
            constraints = constraints.tolist()
        signs = tuple(constraints or [0] * width)
        if len(signs) != width or any(sign not in (-1, 0, 1) for sign in signs):
            raise ValueError(
                f"monotone_constraints must be -1, 0 or 1 for each of {width} columns."
            )
        # a method may train on other columns than those of X
        if not any(signs):
            return ()
        if len(self.classes_) > 2:
            raise ValueError("monotone_constraints are for two classes: leave them None.")
        return signs

    def _signs_by_name(self, constraints: Mapping[Any, int]) -> list[int]:
        """Sign of every column from a mapping by name, or by position where X has no names."""
        columns = self._columns_by_name()
        if not columns:
            columns = {str(j): [j] for j in range(self.n_features_in_)}
        by_column = [0] * self._width
        for name, sign in constraints.items():
            if str(name) not in columns:
                raise ValueError(f"monotone_constraints names {name!r}, which is no column of X.")
            for position in self._ranked(columns[str(name)], str(name)):
                by_column[position] = sign
        return by_column

    def _ranked(self, positions: list[int], name: str) -> list[int]:
        """The matrix column with the numbers of a table column; ValueError for categories."""
        if self.encoder_ is None:
            return positions
        kind = self.encoder_.kinds_[self.encoder_.feature_names_[positions[0]]]
        (item,) = [item for item in self.encoder_.fitted_ if item.name == name]
        if kind not in ("standard", "unit") or item.kind == "calendar":
            raise ValueError(
                f"monotone_constraints names {name!r}, which is no column of numbers or of ordered "
                "categories."
            )
        return positions[:1]

    def _device(self) -> str:
        """Device of XGBoost's training."""
        import xgboost as xgb

        built = bool(xgb.build_info().get("USE_CUDA"))
        if self.device == "cuda" and not built:
            raise ValueError(
                "device 'cuda' needs a build of XGBoost with CUDA: the package xgboost."
            )
        return "cuda" if built and self.device != "cpu" else "cpu"

    def _growths(self, rows: Float32) -> list[dict[str, Any]]:
        """XGBoost's parameters of the growth of a tree: those to choose from, the largest trees
        last.
        """
        if self.max_depth is not None:
            return [{"max_depth": self.max_depth}]
        # leaf-wise: where the loss falls most; of paged rows all would be read for every split
        policy = "depthwise" if is_paged(rows) else "lossguide"
        return [{"grow_policy": policy, "max_depth": 0, "max_leaves": leaves} for leaves in LEAVES]

    def _booster_parameters(
        self, codes: Int, weights: Float | None, importance: Float
    ) -> dict[str, Any]:
        """XGBoost's parameters but the growth of a tree.

        A given ``base_score`` keeps it from fitting an intercept of its own.
        """
        parameters: dict[str, Any] = {"tree_method": "hist", "device": self._device()}
        signs = self._signs()
        if signs:
            parameters["monotone_constraints"] = signs
        if not self.categories_:
            parameters |= SPLIT_BY_ONE
        parameters |= self._objective(codes, weights, importance)
        for name in TREE_PARAMETERS:
            parameters[name] = getattr(self, name)
        parameters["seed"] = self._seed_number()
        parameters["nthread"] = self.n_jobs or 0
        if self.n_iter_no_change is not None:
            parameters["nthread"] = thread_count(self.n_jobs, len(codes), TREES_ALONE)
        return parameters

    def _objective(self, codes: Int, weights: Float | None, importance: Float) -> dict[str, Any]:
        """XGBoost's parameters of the loss."""
        if len(importance) > 2:
            return {
                "objective": "multi:softprob",
                "num_class": len(importance),
                "base_score": 0.5,
            }
        score = self.base_score
        if score is None:
            counts = np.bincount(codes, weights) * importance
            score = float(np.clip(counts[1] / counts.sum(), LEAST_SHARE, 1.0 - LEAST_SHARE))
        return {
            "objective": "binary:logistic",
            "base_score": score,
            "scale_pos_weight": importance[1],
        }

    def _tree_rows(
        self, rows: Float32, codes: Int, weights: Float | None
    ) -> tuple[TreeRows, OneHotRuns | None]:
        """Rows with each run of one-hot columns joined, and the runs; None where that saves too
        little.
        """
        types: list[str] | None = None
        joined_runs = None
        # categories of the caller are split by sets; signs are those of single columns
        if self.categories_:
            types = ["c" if str(j) in self.categories_ else "q" for j in range(rows.shape[1])]
        elif not self._signs() and self._device() == "cpu":
            runs = OneHotRuns.of(rows)
            # a copy of more than half of the matrix would need more memory than the joined columns
            # save
            if 2 * len(runs.members) <= rows.shape[1]:
                rows = runs.join(rows)
                types = runs.types
                joined_runs = runs
        return TreeRows(rows, codes, weights, types, self.random_state), joined_runs

    def _choose_steps(
        self,
        people: TreeRows,
        parameters: dict[str, Any],
        importance: Float,
        folds: Sequence[Fold],
        callback: Callback | None,
    ) -> _Choice:
        """Choose the growth of a tree and the number of steps on held-out rows, if any."""
        if not folds:
            return _Choice(self._growths(people.data)[-1], self.n_steps, None, None)
        growth, best = self._search_steps(people, parameters, importance, folds, callback)
        judged = np.concatenate([held_out for _, held_out in folds])
        order = np.argsort(judged)
        booster = best.boosters[0][: best.steps] if len(folds) == 1 else None
        validation = validation_of(judged[order], best.margins[order])
        return _Choice(growth, best.steps, validation, booster)

    def _search_steps(
        self,
        people: TreeRows,
        parameters: dict[str, Any],
        importance: Float,
        folds: Sequence[Fold],
        callback: Callback | None,
    ) -> _Searched:
        """Boost the folds with each growth of a tree, and return the best growth and its search."""
        growths = self._growths(people.data)
        threads = parameters["nthread"]
        matrices = []
        for train_rows, held_out in folds:
            training = people.matrix(threads, train_rows)
            validation = people.matrix(threads, held_out, bins=training)
            matrices.append((training, validation, len(held_out)))
        judged = np.concatenate([held_out for _, held_out in folds])
        codes = people.codes[judged]
        weights = None if people.weights is None else people.weights[judged]
        # the weights of the class are taken out again: the loss is that of probabilities
        if weights is not None and len(importance) > 2:
            weights = weights / importance[codes]
        searches: list[_Search] = []
        enough = False
        total = len(growths) * self.n_steps
        for number, growth in enumerate(growths):
            search = _Search(matrices, parameters | growth, codes, weights, importance)
            searches.append(search)
            done = number * self.n_steps
            while not enough and not self._is_finished(search):
                search.advance()
                enough = callback is not None and bool(callback(done + search.step, total, {}))
        number = min(range(len(searches)), key=lambda k: searches[k].loss)
        return _Searched(growths[number], searches[number])

    def _is_finished(self, search: _Search) -> bool:
        """Whether all steps are taken, or too many without a better one."""
        assert self.n_iter_no_change is not None
        return search.step >= min(self.n_steps, search.steps + self.n_iter_no_change)

    def _folds(self, codes: Int) -> list[Fold]:
        """Training and held-out rows; none if a class has a single row and no share is given."""
        counts = np.bincount(codes)
        share = self.validation_fraction
        if share is None and self._holds_out(counts):
            share = HELD_OUT
        if share is None:
            return self._cross_validation(codes, len(counts))
        try:
            return [hold_out(codes, share, self.random_state, self.people)]
        except ValueError:
            raise ValueError(
                f"validation_fraction {share!r} of {len(codes)} rows cannot hold every class "
                "on both sides."
            ) from None

    def _holds_out(self, counts: Int) -> bool:
        """Whether a share of the rows is held out, of a table with so many rows of each class."""
        enough_held_out = counts.min() * HELD_OUT >= self._least_held_out
        return bool(counts.sum() >= LARGE_TABLE and enough_held_out)

    def _cross_validation(self, codes: Int, classes: int) -> list[Fold]:
        """Folds with all classes, of whole people; none if a class has a single person."""
        from sklearn.model_selection import StratifiedKFold

        labels = codes
        person_of_row = None
        if self.people is not None:
            first, person_of_row = persons(self.people)
            labels = codes[first]
        least = int(np.bincount(labels, minlength=classes).min())
        if least < 2:
            return []
        seed = derive_seed(self.random_state, "validation")
        splitter = StratifiedKFold(min(FOLDS, least), shuffle=True, random_state=seed)
        folds: list[Fold] = list(splitter.split(labels, labels))
        if person_of_row is None:
            return folds
        by_row = []
        for _, chosen in folds:
            held_out = np.isin(person_of_row, chosen)
            by_row.append((np.flatnonzero(~held_out), np.flatnonzero(held_out)))
        return by_row

    def _probabilities(self, X: Float32) -> Float:
        parts = [self.booster_.inplace_predict(X[block]) for block in row_blocks(X)]
        probability: Float = np.concatenate(parts).astype(np.float64)
        if probability.ndim == 1:
            return np.stack([1.0 - probability, probability], axis=1)
        return probability

    def log_odds_by_column(self, X: Float32) -> Float32:
        """Contributions of matrix columns to the log-odds (TreeSHAP).

        Parameters
        ----------
        X : ndarray of float32, shape (n, d)

        Returns
        -------
        ndarray of float32, shape (n, d + 1)
            Of each column, and at last their mean. With K > 2 classes, shape (n, K, d + 1).

        References
        ----------
        Lundberg et al., "From local explanations to global understanding with explainable AI for
        trees", Nature Machine Intelligence 2020.
        """
        import xgboost as xgb

        contributions = self.booster_.predict(xgb.DMatrix(X), pred_contribs=True)
        return np.asarray(contributions, dtype=np.float32)

    def _write(self, folder: Path) -> None:
        self.booster_.save_model(folder / BOOSTER_FILE)

    def _read(self, folder: Path) -> None:
        import xgboost as xgb

        self.booster_ = xgb.Booster(model_file=folder / BOOSTER_FILE)
        self.categories_ = json.loads(self.booster_.attr("categories") or "{}")


class _Search:
    """Boosting of all folds step by step, and the best step so far by the loss of their held-out
    rows.
    """

    def __init__(
        self,
        matrices: Sequence[tuple[xgb.DMatrix, xgb.DMatrix, int]],
        parameters: dict[str, Any],
        codes: Int,
        weights: Float | None,
        importance: Float,
    ) -> None:
        import xgboost as xgb

        self.matrices = matrices
        self.importance = importance
        # of the held-out rows, fold after fold
        self.codes = codes
        self.weights = weights
        self.boosters = [
            xgb.Booster(parameters, [training, validation]) for training, validation, _ in matrices
        ]
        self.step = 0
        self.steps = 0
        self.loss = np.inf
        self.margins = np.empty(0)

    def advance(self) -> None:
        """One step of every fold."""
        from evenhand.fairlib.methods.shares import of_all

        margins = []
        for booster, matrices in zip(self.boosters, self.matrices, strict=True):
            training, validation, count = matrices
            booster.update(training, self.step)
            margins.append(of_all(booster.predict(validation, output_margin=True), count))
        self.step += 1
        joined = np.concatenate(margins)
        losses = corrected_losses(joined, self.importance)
        loss = np.average(losses[self.codes, np.arange(len(self.codes))], weights=self.weights)
        if loss < self.loss:
            self.loss = loss
            self.steps = self.step
            self.margins = joined


class _Searched(NamedTuple):
    """The growth of a tree with the lowest loss, and the boosting of the folds with it."""

    growth: dict[str, Any]
    best: _Search


def validation_of(rows: Int, margins: NDArray[Any]) -> Validation:
    """Validation rows with the probabilities of their margins.

    Parameters
    ----------
    rows : ndarray of int, shape (m,)
        Positions among the training rows.
    margins : ndarray of float, shape (m,) or (m, K)
        Log-odds of the second class, or logits of K classes.

    Returns
    -------
    Validation
    """
    margins = margins.astype(np.float64)
    if margins.ndim == 1:
        positive = expit(margins)
        return Validation(rows, np.stack([1.0 - positive, positive], axis=1))
    return Validation(rows, softmax(margins, axis=1))


def corrected_losses(margins: NDArray[Any], importance: Float) -> Float:
    """Losses of margins without the effect of the class weights.

    Parameters
    ----------
    margins : ndarray of float, shape (m,) or (m, K)
        Log-odds of the second class, or logits of K classes.
    importance : ndarray of float, shape (K,)
        Weight of a row of each class in the training loss: it raises the log-odds by its logarithm.

    Returns
    -------
    ndarray of float, shape (K, m)
        Loss under every label (nats).
    """
    if margins.ndim == 1:
        return logistic_losses(margins - prior_shift(importance))
    return softmax_losses(margins - np.log(importance))


def prior_shift(importance: Float) -> float:
    """Log of the ratio of two class weights.

    Parameters
    ----------
    importance : ndarray of float, shape (K,)
        Weight of a row of each class in the training loss.

    Returns
    -------
    float
        0 for more than two classes.
    """
    if len(importance) != 2:
        return 0.0
    return float(np.log(importance[1] / importance[0]))


def thread_count(n_jobs: int | None, n: int, small: int = SMALL_TABLE) -> int:
    """Threads for a table: on a small one starting them takes longer than they save.

    Parameters
    ----------
    n_jobs : int or None
        As in scikit-learn; None and 0: one thread on a small table, else all.
    n : int
        Rows of the table.
    small : int, default 2500
        Tables of fewer rows are small.

    Returns
    -------
    int
        At least 1.
    """
    available = available_cores()
    if n_jobs is not None and n_jobs < 0:
        return max(1, available + 1 + n_jobs)
    if n_jobs:
        return n_jobs
    return 1 if n < small else available
