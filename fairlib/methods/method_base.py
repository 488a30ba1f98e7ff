"""The base of all methods: input checks, prediction from probabilities, and saving of parameters
alone.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import assert_all_finite, check_is_fitted, validate_data

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.mapped import mapped_file, row_blocks
from evenhand.fairlib.methods.checkpoint import FILE, Checkpoint, fingerprint
from evenhand.fairlib.methods.registry import MODEL_FILE, method_class, spec_of_class
from evenhand.fairlib.parameters import ParameterChecks, check_sample_weight
from evenhand.fairlib.tuning.space import Space

FORMAT = 1
Progress: TypeAlias = Mapping[str, float]
Callback: TypeAlias = Callable[[int, int, Progress], bool | None]


@dataclass(frozen=True, eq=False)
class Validation:
    """Predictions for m training rows by a model that was not trained on them."""

    rows: Int  # shape (m,): positions among the training rows, each once
    probability: (
        Float  # shape (m, K): probabilities of ``classes_``, as ``predict_proba`` gives them
    )


class Method(ParameterChecks, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""Base of the classifiers.

    A method implements ``fit``, ``_probabilities``, and ``_write`` and ``_read`` for its fitted
    parameters. A saved model holds only the parameters of prediction: no training row, label or
    sensitive value, so that its size does not grow with the number of training rows.

    Attributes
    ----------
    classes_ : ndarray, shape (K,)
    n_features_in_ : int
    people : ndarray of int, shape (n,), or None
        Numbers of the people that the training rows are of, to set before ``fit`` where one has
        several rows: rows that are held out are then those of whole people. It is not saved.
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
    people: Int | None = None
    validation_: Validation | None = None
    prior_shift_: float = 0.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.multiclass
        tags.input_tags.allow_nan = self.takes_missing
        return tags

    @abstractmethod
    def _check_parameters(self) -> None:
        """ValueError for a parameter out of its range."""

    def _checked_input(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[Float32, Int, Float | None]:
        """Check parameters and input of ``fit``: rows as float32, class positions, and weights of
        rows.
        """
        data, codes = self._check_training(X, y)
        self._check_parameters()
        return data, codes, check_sample_weight(sample_weight, len(codes))

    def _check_training(self, X: ArrayLike, y: ArrayLike) -> tuple[Float32, Int]:
        """Validate and give X as float32 and y as class positions."""
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
        """An estimator of the same learner without mitigation, not fitted: the method's baseline.

        It has the constructor arguments that both share. A method without mitigation gives one like
        itself.

        `n_rows` is the number of training rows, for a method whose arguments have other units than
        those of its baseline.
        """
        cls = method_class(spec_of_class(type(self)).plain)
        shared = sorted({*cls._get_param_names()} & {*self._get_param_names()})
        return cls(**{name: getattr(self, name) for name in shared})

    def _validated(self, X: Any, **options: Any) -> Any:
        """Rows as float32, and the labels if there are any; ``reset=False`` checks rows to
        predict.
        """
        finite: bool | str = "allow-nan" if self.takes_missing else True
        table = self._coded(X, reset=options.get("reset", True))
        # scikit-learn would hold all values of a mapped matrix at once
        mapped = isinstance(table, np.ndarray) and mapped_file(table) is not None
        options |= {
            "dtype": np.float32,
            "order": "C",
            "ensure_all_finite": False if mapped else finite,
        }
        try:
            for block in row_blocks(table) if mapped else ():
                assert_all_finite(table[block], allow_nan=self.takes_missing, input_name="X")
            return validate_data(self, table, **options)
        except ValueError as error:
            if not str(error).startswith("Input X contains NaN"):
                raise
            raise ValueError(
                f"Input X contains NaN: {type(self).__name__} takes no missing values. Fill them "
                "in, or use "
                "a method that takes them, such as gbdt."
            ) from None

    def _coded(self, X: Any, *, reset: bool) -> Any:
        """Rows before the check, for a method that takes more than numbers."""
        return X

    def _checkpoint(self, folder: str | Path | None, *parts: Any, name: str = FILE) -> Checkpoint:
        """Checkpoint of a training that depends on `parts`, and on all parameters but a metric's
        object.

        `parts` have the library's version: another one may round differently.
        """
        # threads change no result
        ignored = {"metric", "n_jobs"}
        named = [
            item for item in sorted(self.get_params(deep=False).items()) if item[0] not in ignored
        ]
        drawn = () if self.people is None else (self.people,)
        return Checkpoint(
            folder, fingerprint(type(self).__name__, named, *parts, *drawn), name=name
        )

    @abstractmethod
    def _probabilities(self, X: Float32) -> Float:
        """Probabilities of all classes, shape (n, K)."""

    def predict_proba(self, X: ArrayLike) -> Float:
        """Class probabilities, shape (n, K), of rows, shape (n, d)."""
        check_is_fitted(self)
        return self._probabilities(self._validated(X, reset=False))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Label of the likeliest class, the first of equally likely ones. Deterministic."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def save(self, folder: str | Path) -> None:
        """Write ``model.json`` and the method's own parameter files into `folder`."""
        check_is_fitted(self)
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        description = {
            "format": FORMAT,
            "class": type(self).__name__,
            **({"classes": self.classes_.tolist()} if hasattr(self, "classes_") else {}),
            "n_features_in": int(self.n_features_in_),
            "prior_shift": float(self.prior_shift_),
            **(
                {"features": self.feature_names_in_.tolist()}
                if hasattr(self, "feature_names_in_")
                else {}
            ),
            "parameters": {
                name: _plain(value) for name, value in self.get_params(deep=False).items()
            },
        }
        (target / MODEL_FILE).write_text(json.dumps(description, sort_keys=True))
        self._write(target)

    @classmethod
    def load(cls, folder: str | Path, **given: Any) -> Self:
        """Read a model written by :meth:`save`: it predicts the same.

        A parameter that no file can hold, such as a network of your own, is `given` again.
        """
        source = Path(folder)
        description = json.loads((source / MODEL_FILE).read_text())
        if description.get("format") != FORMAT or description.get("class") != cls.__name__:
            raise ValueError(f"{source} holds no {cls.__name__} of format {FORMAT}.")
        known = set(cls._get_param_names())
        stored = {name: value for name, value in description["parameters"].items() if name in known}
        model = cls(**{**stored, **given})
        if "classes" in description:
            model.classes_ = np.array(description["classes"])
        model.n_features_in_ = description["n_features_in"]
        model.prior_shift_ = description.get("prior_shift", 0.0)
        if "features" in description:
            model.feature_names_in_ = np.array(description["features"], dtype=object)
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
    return value if isinstance(value, str | int | float | bool) else None


def read_tensors(path: Path, library: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Metadata and tensors of a safetensors file; `library` is ``"numpy"`` or ``"pt"`` (torch)."""
    from safetensors import safe_open

    with safe_open(str(path), library) as stored:
        return stored.metadata(), {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118


def check_feature_groups(
    groups: Mapping[str, Sequence[int]] | None, n_columns: int
) -> dict[str, list[int]]:
    """Groups of matrix columns, one for each table column; None makes each matrix column a group of
    its own. ValueError: a column that is missing, in two groups or beyond the matrix, or a group
    without a column.
    """
    if groups is None:
        return {f"x{j}": [j] for j in range(n_columns)}
    named = {str(name): [int(j) for j in columns] for name, columns in groups.items()}
    for name, columns in named.items():
        if not columns:
            raise ValueError(f"feature_groups: the group {name!r} has no column.")
    listed = [j for columns in named.values() for j in columns]
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
    return named
