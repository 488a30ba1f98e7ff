"""Gradient boosted decision trees (XGBoost): the unmitigated baseline, and the base of all tree
methods.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

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
from evenhand.fairlib.splits import hold_out, persons
from evenhand.fairlib.tuning.space import Choice, Real, Space

if TYPE_CHECKING:
    import xgboost as xgb

BOOSTER_FILE = "booster.ubj"
TREE_PARAMETERS = ("eta", "reg_lambda", "min_child_weight")
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
    }
    # held-out rows of each class, without which a large table is cross-validated
    _least_held_out: ClassVar[int] = 50

    n_steps: int = 1000
    max_depth: int | None = None
    eta: float = 0.05
    reg_lambda: float = 5.0
    min_child_weight: float = 5.0
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
        """Train; arguments as in :class:`evenhand.fairlib.methods.method_base.Method`.

        ``sensitive_features`` are ignored without mitigation; ValueError without them where the
        method needs them. The callback is called after every step of the search for the number of
        steps, which may end early. ValueError: categorical columns, where the method takes none.
        """
        data, codes, weights = self._checked_input(X, y, sample_weight)
        rows, weights = self._prepare(data, codes, sensitive_features, weights)
        importance = self._class_weights(codes, weights)
        parameters = self._booster_parameters(codes, weights, importance)
        if len(importance) > 2 and self.balance_classes:
            weights = importance[codes] * (1.0 if weights is None else weights)
        people, runs = self._tree_rows(rows, codes, weights)
        chosen = self._choose_steps(people, parameters, importance, callback)
        growth, self.best_step_, self.validation_, once = chosen
        if once is not None and not self.refit:
            booster = once
        else:
            # the booster starts with the matrix, so that its cached margins are updated with every
            # tree
            import xgboost as xgb

            matrix = people.matrix(parameters["nthread"])
            booster = xgb.Booster(parameters | growth, [matrix])
            for step in range(self.best_step_):
                booster.update(matrix, step)
                if (
                    self.validation_ is None
                    and callback is not None
                    and callback(step + 1, self.n_steps, {})
                ):
                    break
            self.best_step_ = booster.num_boosted_rounds()
        self.booster_ = between_values(booster, people.data, runs)
        if self.categories_:
            self.booster_.set_attr(categories=json.dumps(self.categories_))
        self.prior_shift_ = prior_shift(importance)
        return self

    def _check_parameters(self) -> None:
        self._check_counts("n_steps")
        self._check_counts("max_depth", "n_iter_no_change", optional=True)
        self._check_interval("(0, 1)", "base_score", optional=True)
        self._check_choice("device", DEVICES)
        if self.n_iter_no_change is not None:
            self._check_interval("(0, 1)", "validation_fraction", optional=True)

    def _coded(self, X: Any, *, reset: bool) -> Any:
        """Replace the categorical columns of a table by numbers; a category not seen in training by
        NaN.
        """
        import pandas as pd

        if reset:
            self.categories_: dict[str, list[Any]] = {}
        if hasattr(X, "to_pandas"):
            X = X.to_pandas()
        if not isinstance(X, pd.DataFrame):
            return X
        if reset:
            for j, (name, dtype) in enumerate(X.dtypes.items()):
                if isinstance(dtype, pd.CategoricalDtype):
                    if not self.takes_categories:
                        raise ValueError(
                            f"column {name!r} of X is categorical: {type(self).__name__} measures "
                            "distances "
                            "between rows, and categories have none. One-hot encode it."
                        )
                    self.categories_[str(j)] = dtype.categories.tolist()
        X = X.copy(deep=False)
        for column, known in self.categories_.items():
            codes = pd.Index(known, dtype=object).get_indexer(X.iloc[:, int(column)].astype(object))
            X.isetitem(int(column), np.where(codes < 0, np.nan, codes))
        return X

    def _prepare(
        self, X: Float32, codes: Int, sensitive_features: Any, weights: Float | None
    ) -> tuple[Float32, Float | None]:
        """Rows and weights that the trees are trained on."""
        return X, weights

    def _class_weights(self, codes: Int, weights: Float | None = None) -> Float:
        """Relative weight of a row of each class in the loss, shape (K,)."""
        counts = np.bincount(codes, weights)
        if len(counts) > 2:
            if self.scale_pos_weight is not None:
                raise ValueError("scale_pos_weight is for two classes: leave it None.")
            return (
                counts.sum() / (len(counts) * counts)
                if self.balance_classes
                else np.ones(len(counts))
            )
        weight = self.scale_pos_weight
        if weight is None:
            weight = counts[0] / counts[1] if self.balance_classes else 1.0
        if not (np.isfinite(weight) and weight > 0):
            raise ValueError(f"scale_pos_weight must be positive and finite, got {weight!r}.")
        return np.array([1.0, weight])

    def _signs(self) -> tuple[int, ...]:
        """Sign of every column's effect, 0 where any is allowed; none if nothing is constrained."""
        given = self.monotone_constraints
        width = self.n_features_in_
        if isinstance(given, Mapping):
            names = [str(name) for name in getattr(self, "feature_names_in_", range(width))]
            wanted = {str(name): sign for name, sign in given.items()}
            if unknown := sorted({*wanted} - {*names}):
                raise ValueError(
                    f"monotone_constraints names {unknown[0]!r}, which is no column of X."
                )
            given = [wanted.get(name, 0) for name in names]
        signs = tuple(given or [0] * width)
        if len(signs) != width or any(sign not in (-1, 0, 1) for sign in signs):
            raise ValueError(
                f"monotone_constraints must be -1, 0 or 1 for each of {width} columns."
            )
        if any(signs) and len(self.classes_) > 2:
            raise ValueError("monotone_constraints are for two classes: leave them None.")
        # a method may train on other columns than those of X
        return signs if any(signs) else ()

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
        classes = len(importance)
        score = self.base_score
        kind: dict[str, Any] = {
            "objective": "multi:softprob",
            "num_class": classes,
            "base_score": 0.5,
        }
        if classes == 2:
            if score is None:
                counts = np.bincount(codes, weights) * importance
                score = float(np.clip(counts[1] / counts.sum(), LEAST_SHARE, 1.0 - LEAST_SHARE))
            kind = {
                "objective": "binary:logistic",
                "base_score": score,
                "scale_pos_weight": importance[1],
            }
        threads = self.n_jobs or 0
        if self.n_iter_no_change is not None:
            threads = thread_count(self.n_jobs, len(codes), TREES_ALONE)
        return {
            "tree_method": "hist",
            "device": self._device(),
            **({"monotone_constraints": signs} if (signs := self._signs()) else {}),
            **({} if self.categories_ else SPLIT_BY_ONE),
            **kind,
            **{name: getattr(self, name) for name in TREE_PARAMETERS},
            "seed": 0 if self.random_state is None else int(self.random_state),
            "nthread": threads,
        }

    def _tree_rows(
        self, rows: Float32, codes: Int, weights: Float | None
    ) -> tuple[TreeRows, OneHotRuns | None]:
        """Rows with each run of one-hot columns joined, and the runs; None where that saves too
        little.
        """
        types = None
        found = None
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
                found = runs
        return TreeRows(rows, codes, weights, types, self.random_state), found

    def _choose_steps(
        self,
        people: TreeRows,
        parameters: dict[str, Any],
        importance: Float,
        callback: Callback | None,
    ) -> tuple[dict[str, Any], int, Validation | None, xgb.Booster | None]:
        """Best growth of a tree, number of steps and their validation, which is None if no row is
        held out.

        Also the booster of the rows that were not held out, or None unless a share was.
        """
        codes = people.codes
        weights = people.weights
        growths = self._growths(people.data)
        folds = [] if self.n_iter_no_change is None else self._folds(codes)
        if not folds:
            return growths[-1], self.n_steps, None, None
        threads = parameters["nthread"]
        matrices = []
        for kept, held in folds:
            training = people.matrix(threads, kept)
            matrices.append((training, people.matrix(threads, held, bins=training), len(held)))
        judged = np.concatenate([held for _, held in folds])
        own = None if weights is None else weights[judged]
        # the weights of the class are taken out again: the loss is that of probabilities
        if own is not None and len(importance) > 2:
            own = own / importance[codes[judged]]
        found = []
        enough = False
        for number, growth in enumerate(growths):
            search = _Search(matrices, parameters | growth, codes[judged], own, importance)
            done = number * self.n_steps
            total = len(growths) * self.n_steps
            assert self.n_iter_no_change is not None
            while not enough and search.step < min(
                self.n_steps, search.steps + self.n_iter_no_change
            ):
                search.advance()
                enough = callback is not None and bool(callback(done + search.step, total, {}))
            found.append(search)
        number = min(range(len(found)), key=lambda k: found[k].loss)
        best = found[number]
        order = np.argsort(judged)
        booster = best.boosters[0][: best.steps] if len(folds) == 1 else None
        return (
            growths[number],
            best.steps,
            validation_of(judged[order], best.margins[order]),
            booster,
        )

    def _folds(self, codes: Int) -> list[Fold]:
        """Training and held-out rows; none if a class has a single row and no share is given."""
        from sklearn.model_selection import StratifiedKFold

        counts = np.bincount(codes)
        share = self.validation_fraction
        if (
            share is None
            and len(codes) >= LARGE_TABLE
            and counts.min() * HELD_OUT >= self._least_held_out
        ):
            share = HELD_OUT
        if share is not None:
            try:
                return [hold_out(codes, share, self.random_state, self.people)]
            except ValueError:
                raise ValueError(
                    f"validation_fraction {share!r} of {len(codes)} rows cannot hold every class "
                    "on both "
                    "sides."
                ) from None
        first, own = (slice(None), None) if self.people is None else persons(self.people)
        counts = np.bincount(codes[first], minlength=len(counts))
        if counts.min() < 2:
            return []
        seed = derive_seed(self.random_state, "validation")
        folds = StratifiedKFold(min(FOLDS, int(counts.min())), shuffle=True, random_state=seed)
        parts = list(folds.split(codes[first], codes[first]))
        if own is None:
            return parts
        held = [np.isin(own, chosen) for _, chosen in parts]
        return [(np.flatnonzero(~rows), np.flatnonzero(rows)) for rows in held]

    def _probabilities(self, X: Float32) -> Float:
        parts = [self.booster_.inplace_predict(X[block]) for block in row_blocks(X)]
        found: Float = np.concatenate(parts).astype(np.float64)
        return np.stack([1.0 - found, found], axis=1) if found.ndim == 1 else found

    def log_odds_by_column(self, X: Float32) -> Float32:
        """Contributions of matrix columns to the log-odds, and at last their mean, shape (n, d +
        1).
        """
        import xgboost as xgb

        return np.asarray(
            self.booster_.predict(xgb.DMatrix(X), pred_contribs=True), dtype=np.float32
        )

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
        self.boosters = [xgb.Booster(parameters, [*pair]) for *pair, _ in matrices]
        self.step = 0
        self.steps = 0
        self.loss = np.inf
        self.margins = np.empty(0)

    def advance(self) -> None:
        """One step of every fold."""
        from evenhand.fairlib.methods.shares import of_all

        margins = []
        for booster, (training, held, count) in zip(self.boosters, self.matrices, strict=True):
            booster.update(training, self.step)
            margins.append(of_all(booster.predict(held, output_margin=True), count))
        self.step += 1
        joined = np.concatenate(margins)
        losses = corrected_losses(joined, self.importance)
        loss = np.average(losses[self.codes, np.arange(len(self.codes))], weights=self.weights)
        if loss < self.loss:
            self.loss = loss
            self.steps = self.step
            self.margins = joined


def validation_of(rows: Int, margins: NDArray[Any]) -> Validation:
    """Validation rows, shape (m,), with the probabilities of margins, shape (m,) or (m, K)."""
    margins = margins.astype(np.float64)
    if margins.ndim == 1:
        positive = expit(margins)
        return Validation(rows, np.stack([1.0 - positive, positive], axis=1))
    return Validation(rows, softmax(margins, axis=1))


def corrected_losses(margins: NDArray[Any], importance: Float) -> Float:
    """Loss (nats) under every label, shape (K, m), of margins without the effect of the class
    weights.

    `margins` have the shape (m,) or (m, K). `importance`, shape (K,), is the weight of a row of
    each class in the training loss: it raises the log-odds by its logarithm.
    """
    if margins.ndim == 1:
        return logistic_losses(margins - prior_shift(importance))
    return softmax_losses(margins - np.log(importance))


def prior_shift(importance: Float) -> float:
    """Log of the ratio of two class weights; 0 for more classes."""
    return float(np.log(importance[1] / importance[0])) if len(importance) == 2 else 0.0


def thread_count(n_jobs: int | None, n: int, small: int = SMALL_TABLE) -> int:
    """Threads for n rows: on a table of fewer than `small` rows starting them takes longer than
    they save.
    """
    available = available_cores()
    if n_jobs is not None and n_jobs < 0:
        return max(1, available + 1 + n_jobs)
    return n_jobs or (1 if n < small else available)
