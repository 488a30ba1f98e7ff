"""The base of all methods: input checks, prediction from probabilities, and saving of parameters
alone.
"""

from __future__ import annotations

import json
import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import (
    assert_all_finite,
    check_array,
    check_is_fitted,
    check_X_y,
    validate_data,
)

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.mapped import mapped_file, row_blocks
from evenhand.fairlib.methods.checkpoint import FILE, Checkpoint, fingerprint
from evenhand.fairlib.methods.registry import MODEL_FILE, method_class, spec_of_class
from evenhand.fairlib.parameters import ParameterChecks, check_sample_weight
from evenhand.fairlib.preprocessing.input_tables import (
    InputTable,
    TakesTables,
    positions_of,
    read_encoder,
)
from evenhand.fairlib.row_order import check_row_order
from evenhand.fairlib.tuning.space import Space

logger = logging.getLogger(__name__)

FORMAT = 1
Progress: TypeAlias = Mapping[str, float]
Callback: TypeAlias = Callable[[int, int, Progress], bool | None]


@dataclass(frozen=True, eq=False)
class Validation:
    """Predictions for m training rows by a model that was not trained on them.

    Attributes
    ----------
    rows : ndarray of int, shape (m,)
        Positions among the training rows, each once.
    probability : ndarray of float, shape (m, K)
        Probabilities of ``classes_``, as ``predict_proba`` gives them.
    """

    rows: Int
    probability: Float


class TrainingInput(NamedTuple):
    """Checked input of ``fit``: n rows, with their labels and weights."""

    rows: Float32  # shape (n, d)
    codes: Int  # shape (n,): positions of the labels in ``classes_``
    weights: Float | None  # shape (n,); None: all rows count the same


class Judge(Protocol):
    """Decides at every evaluation on validation rows whether a training is given up.

    Its ``losses`` are saved in checkpoints, so that an interrupted training ends as another one.
    """

    losses: list[list[float]]

    def __call__(self, step: int, rows: Int, probability: Float) -> bool:
        """Whether to end the training.

        Parameters
        ----------
        step : int
            Mini-batches so far.
        rows : ndarray of int, shape (m,)
            Positions of the validation rows.
        probability : ndarray of float64, shape (m, K)
            Their probabilities.

        Returns
        -------
        bool
        """


class Method(  # type: ignore[misc]
    TakesTables, ParameterChecks, ClassifierMixin, BaseEstimator
):
    r"""Base of the classifiers.

    A method implements ``fit``, ``_probabilities``, and ``_write`` and ``_read`` for its fitted
    parameters. A saved model holds only the parameters of prediction: no training row, label or
    sensitive value, so that its size does not grow with the number of training rows.

    Attributes
    ----------
    classes_ : ndarray, shape (K,)
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str, shape (d,)
        Names of the columns of X, where X is a table.
    encoder_ : TableEncoder or None
        What makes numbers of a table; None where X was an array, or a table of plain numbers.
    people : ndarray of int, shape (n,), or None
        Numbers of the people that the training rows are of, to set before ``fit`` where one has
        several rows: rows that are held out are then those of whole people. It is not saved.
    judge : Judge or None
        Decides whether a network's training goes on, to set before ``fit``. It is not saved.
    starts_from : Method or None
        For a training that begins where that of a similar model ended, to set before ``fit``:
        networks then begin with its weights. It is not saved.
    validation_ : Validation or None
        Predictions for rows that were held out of the training, or out of their fold; a calibration
        may use them. None if the method holds no rows out, and after :meth:`load`: they are never
        saved.
    prior_shift_ : float
        How much the training raised the log-odds of ``classes_[1]`` by class weights or balanced
        mini-batches: :math:`\log (w_1 / w_0)`, where :math:`w_k` is the relative weight of a row of
        class k in the training loss. 0 where all rows count the same, and with more than two
        classes.

    Notes
    -----
    Arguments of ``fit``, where a method takes them:

    X, y : array-like, shapes (n, d) and (n,)
        X may be a table of pandas, polars, Arrow or another library that Narwhals reads, or a
        sparse matrix. Columns of a table are found by their names. Text, categories, dates, and
        missing numbers where the method takes none, are encoded by ``encoder_``.
    sensitive_features : mapping of str to array-like, DataFrame, Series or array, of n rows
        Values of every row, by attribute. They are not needed to predict.
    sample_weight : array-like, shape (n,), or None
        Weight of every row, at least 0: a row of weight 2 counts as two rows. None: all count the
        same.
    feature_groups : mapping of str to sequence of int, or None
        Columns of X by table column; None: each column on its own, named x0, x1, ...
    callback : callable or None
        Called during the training with (step, steps, last entries of ``history_``). True ends the
        training with the best step so far, or without validation the last. Where rows were held out
        only to choose the number of steps, all rows then train without further calls. Methods
        without steps call it at the end.
    checkpoint : path or None
        Folder of a file from which a later call with the same data and parameters continues, to the
        same model, bit for bit. It is removed at the end.

    All raise ValueError for a parameter out of its range, and FloatingPointError, where a loss or
    weight becomes NaN or infinite; the message names the step, and the last checkpoint stays.
    """

    multiclass: ClassVar[bool] = False
    # whether NaN may stand for a missing value
    takes_missing: ClassVar[bool] = False
    # what `evenhand tune` tries, by parameter
    space: ClassVar[Space] = {}
    # parameters of a model that overfits less, which a search tries first on a small table
    cautious: ClassVar[Mapping[str, Any]] = {}
    people: Int | None = None
    judge: Judge | None = None
    starts_from: Method | None = None
    validation_: Validation | None = None
    prior_shift_: float = 0.0
    # the attribute that ``fit`` sets last, if a training that fails shall leave no fitted model,
    # not even an earlier one
    _fitted_part: ClassVar[str | None] = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.multiclass
        tags.input_tags.allow_nan = self.takes_missing
        return tags

    @abstractmethod
    def _check_parameters(self) -> None:
        """ValueError for a parameter out of its range."""

    def _begin_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> TrainingInput:
        """Check input and parameters: the beginning of every ``fit``.

        Sets ``classes_``, ``n_features_in_`` and, of a table, ``feature_names_in_``.
        """
        if self._fitted_part is not None:
            self.__dict__.pop(self._fitted_part, None)
        check_row_order(X=X, y=y, sample_weight=sample_weight)
        rows, codes = self._check_training(X, y)
        self._check_parameters()
        logger.info(
            "%s: training on %d rows of %d columns", type(self).__name__, len(rows), rows.shape[1]
        )
        return TrainingInput(rows, codes, check_sample_weight(sample_weight, len(codes)))

    def __sklearn_is_fitted__(self) -> bool:
        if self._fitted_part is not None:
            return getattr(self, self._fitted_part, None) is not None
        # as scikit-learn decides about estimators without this method
        return any(name.endswith("_") and not name.startswith("__") for name in vars(self))

    def _seed_number(self) -> int:
        """The seed for libraries that take a number: None counts as 0."""
        random_state = getattr(self, "random_state", None)
        return 0 if random_state is None else int(random_state)

    def _validation_of(self, rows: Float32, held_out: Int) -> Validation | None:
        """Predictions for the held-out rows of the training rows; None without any."""
        if not len(held_out):
            return None
        return Validation(held_out, self._probabilities(rows[held_out]))

    def _check_training(self, X: ArrayLike, y: ArrayLike) -> tuple[Float32, Int]:
        """Validate the training rows and labels: rows as float32, and positions in ``classes_``."""
        from sklearn.utils.multiclass import check_classification_targets

        data, labels = self._validated(X, y=y)
        check_classification_targets(labels)
        self.classes_ = np.unique(labels)
        if self.classes_.size > 2 and not self.multiclass:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"y has {self.classes_.size} classes."
            )
        if self.classes_.size < 2:
            raise ValueError(
                "y has one class only: a classifier needs both labels in the training rows."
            )
        # in less memory than the inverse of np.unique takes
        if labels.dtype == np.int64 and np.array_equal(self.classes_, range(self.classes_.size)):
            return data, labels
        return data, np.searchsorted(self.classes_, labels).astype(np.int64)

    def plain(self, n_rows: int) -> Method:
        """Make the baseline: an estimator of the same learner without mitigation, not fitted.

        It has the constructor arguments that both share. A method without mitigation gives one like
        itself.

        Parameters
        ----------
        n_rows : int
            Number of training rows, for a method whose arguments have other units than those of its
            baseline.

        Returns
        -------
        Method
        """
        cls = method_class(spec_of_class(type(self)).plain)
        shared = sorted({*cls._get_param_names()} & {*self._get_param_names()})
        return cls(**{name: getattr(self, name) for name in shared})

    def _validated(self, X: Any, **options: Any) -> Any:
        """Rows as float32, and the labels if there are any; ``reset=False`` checks rows to
        predict.
        """
        reset = options.get("reset", True)
        table = self._numbers_of(X, reset=reset, template=getattr(self, "metric", None))
        if self.encoder_ is not None:
            options.pop("reset", None)
            if "y" not in options:
                return check_array(table, dtype=np.float32, order="C")
            y = options.pop("y")
            return check_X_y(table, y, dtype=np.float32, order="C", estimator=self, **options)
        options["dtype"] = np.float32
        options["order"] = "C"
        options["ensure_all_finite"] = "allow-nan" if self.takes_missing else True
        try:
            # scikit-learn would hold all values of a mapped matrix at once
            if isinstance(table, np.ndarray) and mapped_file(table) is not None:
                options["ensure_all_finite"] = False
                for block in row_blocks(table):
                    assert_all_finite(table[block], allow_nan=self.takes_missing, input_name="X")
            return validate_data(self, table, **options)
        except ValueError as error:
            if not str(error).startswith("Input X contains NaN"):
                raise
            raise ValueError(
                f"Input X contains NaN: {type(self).__name__} takes no missing values. Fill them "
                "in, or use a method that takes them, such as gbdt."
            ) from None

    def _needs_encoder(self, table: InputTable) -> bool:
        """Whether the columns of a training table must be encoded."""
        return not table.is_plain or (table.has_missing and not self.takes_missing)

    @property
    def _width(self) -> int:
        """Number of columns of the matrix that the method trains on."""
        if self.encoder_ is not None:
            return len(self.encoder_.feature_names_)
        return int(self.n_features_in_)

    def _checkpoint(self, folder: str | Path | None, *parts: Any, name: str = FILE) -> Checkpoint:
        """Checkpoint of a training that depends on `parts`, and on all parameters but a metric's
        object.

        `parts` have the library's version: another one may round differently.
        """
        parameters = [
            (name, value)
            for name, value in sorted(self.get_params(deep=False).items())
            # threads change no result
            if name not in ("metric", "n_jobs")
        ]
        dependencies = list(parts)
        if self.people is not None:
            dependencies.append(self.people)
        digest = fingerprint(type(self).__name__, parameters, *dependencies)
        return Checkpoint(folder, digest, name=name)

    @abstractmethod
    def _probabilities(self, X: Float32) -> Float:
        """Probabilities of all classes, shape (n, K)."""

    def predict_proba(self, X: ArrayLike) -> Float:
        """Probabilities of all classes.

        Parameters
        ----------
        X : array-like, shape (n, d)

        Returns
        -------
        ndarray of float, shape (n, K)
            In the order of ``classes_``.
        """
        check_is_fitted(self)
        return self._probabilities(self._validated(X, reset=False))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Label of the most probable class, the first of equally probable ones. Deterministic.

        Parameters
        ----------
        X : array-like, shape (n, d)

        Returns
        -------
        ndarray, shape (n,)
            Labels as ``classes_`` has them.
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def save(self, folder: str | Path) -> None:
        """Write ``model.json`` and the method's own parameter files.

        Parameters
        ----------
        folder : str or Path
            Made if it does not exist.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the model is not fitted.
        """
        check_is_fitted(self)
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        parameters = {name: _plain(value) for name, value in self.get_params(deep=False).items()}
        description: dict[str, Any] = {
            "format": FORMAT,
            "class": type(self).__name__,
            "n_features_in": int(self.n_features_in_),
            "prior_shift": float(self.prior_shift_),
            "parameters": parameters,
        }
        if hasattr(self, "classes_"):
            description["classes"] = self.classes_.tolist()
        if hasattr(self, "feature_names_in_"):
            description["features"] = self.feature_names_in_.tolist()
        (target / MODEL_FILE).write_text(json.dumps(description, sort_keys=True))
        self._write_encoder(target)
        self._write(target)

    @classmethod
    def load(cls, folder: str | Path, **given: Any) -> Self:
        """Read a model written by :meth:`save`: it predicts the same.

        Parameters
        ----------
        folder : str or Path
        **given
            Parameters that no file can hold, such as a network of your own.

        Returns
        -------
        Method
            Fitted, without ``validation_``.

        Raises
        ------
        ValueError
            If the folder holds a model of another class or format.
        """
        source = Path(folder)
        description = json.loads((source / MODEL_FILE).read_text())
        if description.get("format") != FORMAT or description.get("class") != cls.__name__:
            raise ValueError(f"{source} holds no {cls.__name__} of format {FORMAT}.")
        # an earlier version may have had further parameters
        names = set(cls._get_param_names())
        parameters = {
            name: value for name, value in description["parameters"].items() if name in names
        }
        model = cls(**{**parameters, **given})
        if "classes" in description:
            model.classes_ = np.array(description["classes"])
        model.n_features_in_ = description["n_features_in"]
        model.prior_shift_ = description.get("prior_shift", 0.0)
        if "features" in description:
            model.feature_names_in_ = np.array(description["features"], dtype=object)
        model.encoder_ = read_encoder(source)
        model._read(source)
        return model

    @abstractmethod
    def _write(self, folder: Path) -> None:
        """Write the fitted parameters."""

    @abstractmethod
    def _read(self, folder: Path) -> None:
        """Read the files of ``_write``."""


def _plain(value: Any) -> Any:
    """Numbers, text, lists and maps as JSON has them, also numpy's; null for an object such as a
    metric.
    """
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, str | int | float | bool):
        return value
    return None


def binary_shift(log_weights: Sequence[float]) -> float:
    """Difference of the log-odds that class weights add; 0 with more than two classes.

    Parameters
    ----------
    log_weights : sequence of float, length K
        Logarithm of the weight of a row of each class in the training loss.

    Returns
    -------
    float
        As in ``prior_shift_``.
    """
    if len(log_weights) != 2:
        return 0.0
    return log_weights[1] - log_weights[0]


def read_tensors(path: Path, library: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Read a safetensors file.

    Parameters
    ----------
    path : Path
    library : {"numpy", "pt"}
        Library of the tensors; ``"pt"`` is torch.

    Returns
    -------
    dict of str to str
        The file's metadata.
    dict of str to tensor
    """
    from safetensors import safe_open

    with safe_open(str(path), library) as stored:
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        return stored.metadata(), tensors


def check_feature_groups(
    groups: Mapping[str, Sequence[int | str]] | None,
    n_columns: int,
    columns: Mapping[str, list[int]] | None = None,
) -> dict[str, list[int]]:
    """Check the groups of matrix columns, one for each table column.

    Parameters
    ----------
    groups : mapping of str to sequence of int or str, or None
        Columns of each group, as positions in the matrix or names of table columns. None makes each
        table column a group, or each matrix column if there was no table.
    n_columns : int
        Columns of the matrix.
    columns : mapping of str to list of int, optional
        Matrix columns of every table column.

    Returns
    -------
    dict of str to list of int

    Raises
    ------
    ValueError
        A column that is missing, in two groups or beyond the matrix, or a group without a column.
    """
    named_columns = columns or {}
    if groups is None and named_columns:
        return {name: list(positions) for name, positions in named_columns.items()}
    if groups is None:
        return {f"x{j}": [j] for j in range(n_columns)}
    columns_of_group: dict[str, list[int]] = {}
    listed: list[int] = []
    for name, items in groups.items():
        positions = positions_of(items, named_columns, f"feature_groups[{name!r}]")
        if not positions:
            raise ValueError(f"feature_groups: the group {name!r} has no column.")
        columns_of_group[str(name)] = [int(j) for j in positions]
        listed += columns_of_group[str(name)]
    for j in sorted(set(listed)):
        if not 0 <= j < n_columns:
            raise ValueError(
                f"feature_groups names column {j}, and X has the columns 0 to {n_columns - 1}."
            )
        if listed.count(j) > 1:
            raise ValueError(
                f"feature_groups has column {j} twice: every column belongs to one group."
            )
    missing = sorted(set(range(n_columns)) - set(listed))
    if missing:
        raise ValueError(
            f"feature_groups misses column {missing[0]}: every column belongs to one group."
        )
    return columns_of_group
