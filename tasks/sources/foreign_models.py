"""Models that others have trained and saved: MLflow models of any kind, and ONNX files."""

from __future__ import annotations

import contextlib
import importlib
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.inference import match_value
from evenhand.tasks.errors import EvenhandError, InputError, input_errors
from evenhand.tasks.written_input import nearest

if TYPE_CHECKING:
    import pandas as pd

    from evenhand.data_contracts.column import Column

Predictor = Callable[["pd.DataFrame"], Any]
PROBABILITY = "probability"
DECISION = "prediction"
# Their own objects give probabilities where MLflow's general interface gives classes.
LIBRARIES = ("sklearn", "xgboost", "lightgbm", "catboost")
TENSORS = {
    "float": np.float32,
    "double": np.float64,
    "int64": np.int64,
    "int32": np.int32,
    "bool": np.bool_,
}


class Decided(NamedTuple):
    """Answers of a model that decides by itself, and not by the half of its probabilities."""

    probability: NDArray[Any]  # of both values, shape (n, 2)
    is_positive: NDArray[np.bool_]  # its decisions, shape (n,)

    def threshold(self) -> float | None:
        """The roundest probability from which on the positive value is decided; None where no
        threshold gives all decisions.
        """
        score = self.probability[:, 1]
        least = float(score[self.is_positive].min(initial=1.0))
        most = float(score[~self.is_positive].max(initial=0.0))
        if not self.is_positive.any():
            # above all probabilities of these rows
            least = min(np.nextafter(most, 2.0), 1.0)
        if self.is_positive.all():
            most = -1.0
        if most >= least:
            return None
        for digits in range(1, 17):
            rounded = math.floor(least * 10**digits) / 10**digits
            if most < rounded <= least:
                return rounded
        return least


def load_predictor(path: Path, label: Column | None, positive: Any) -> Predictor:
    """Load a model that gives two probabilities a row, the positive one last, or one value of its
    label.

    `path` is a folder with ``MLmodel``, or an ONNX file. An MLflow model may run code that is saved
    in it, and may be a pickle: load only what you trust. The probability of the positive value is
    asked for where a model has it, else its prediction; of a model that gives both, such as a
    published one of ours, the predictor gives :class:`Decided`. `label` is the table's, None if it
    has none; `positive` is the value that the user gave, or None. Raises `InputError` if the model
    cannot be loaded, or its classes are not the label's; the predictor raises it if the rows do not
    fit the model.
    """

    def column(classes: Sequence[Any]) -> int:
        return positive_class(classes, label, positive)

    with _refused("the model cannot be loaded"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow warns of its own type hints
        if path.is_file():
            predict = _onnx(path, column, _label_words(label))
        else:
            predict = _mlflow(path, column)

    def call(rows: pd.DataFrame) -> Any:
        with _refused("the model cannot predict these rows"):
            return predict(rows)

    return call


def load_value_predictor(path: Path) -> Predictor:
    """Load a model that gives one of several classes a row, or a quantity.

    `path` is as that of :func:`load_predictor`. Of an MLflow model with a column ``prediction``,
    such as a published one of ours, that column is taken. Raises `InputError` if the model cannot
    be loaded; the predictor raises it if the rows do not fit the model, or it does not give one
    value a row.
    """
    with _refused("the model cannot be loaded"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow warns of its own type hints
        predict = _onnx_values(path) if path.is_file() else _mlflow_values(path)

    def call(rows: pd.DataFrame) -> NDArray[Any]:
        with _refused("the model cannot predict these rows"):
            values = np.asarray(predict(rows))
        if values.ndim == 2 and values.shape[1] == 1:
            values = values.ravel()
        if values.shape != (len(rows),):
            raise InputError(
                "the model does not give one value for each row: write its predictions into a "
                "column of the table, and name it with --prediction."
            )
        return values

    return call


def _label_words(label: Column | None) -> set[str]:
    """The label's values as text."""
    if label is None:
        return set()
    return set(map(str, label.allowed or ()))


@contextlib.contextmanager
def _refused(lead: str) -> Iterator[None]:
    """Name an error by its type alone: a library's message may quote a person's values."""
    try:
        yield
    except EvenhandError:
        raise
    except Exception as error:  # noqa: BLE001 - any library may be behind a model
        raise InputError(
            f"{lead} ({type(error).__name__}): check its file, its packages and the types of its "
            "columns."
        ) from error


def positive_class(classes: Sequence[Any], label: Column | None, positive: Any) -> int:
    """Position of the positive one of a model's two classes.

    Classes 0 and 1 of a model whose label has other values mean that 1 is the positive value.
    Raises `InputError` if there are not two classes, or none of them is the positive value.
    """
    names = np.asarray(classes).tolist()
    if len(names) != 2:
        raise InputError(
            f"the model has {len(names)} classes: name the column of true classes with --label, "
            "and leave --positive and --at-least out."
        )
    coded = set(names) == {0, 1}
    if label is None:
        allowed = {positive} - {None}
        positive_value = positive
    else:
        allowed = set(label.allowed or ())
        positive_value = label.positive
    if coded and not allowed <= {0, 1}:
        return names.index(1)
    if positive_value is None and not coded:
        quoted = " and ".join(map(repr, names))
        raise InputError(
            f"the model's classes are {quoted}: name the positive one with --positive."
        )
    if positive_value is None:
        positive_value = 1
    with input_errors("", ContractError):
        return names.index(match_value("positive", positive_value, names, "the model"))


def _chosen(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    columns = list(map(str, rows))
    for name in names:
        if name not in columns:
            near = nearest(name, columns)
            raise InputError(
                f"the model needs the column {name!r}{near}: the table has {', '.join(columns)}."
            )
    return rows[list(names)]


class Signature(NamedTuple):
    """Columns that an MLflow model says it reads; None where it names none."""

    columns: list[str] | None
    required: set[str]

    def select(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The columns of rows that the model reads, as far as they are there."""
        if self.columns is None:
            return rows
        return _chosen(
            rows, [name for name in self.columns if name in rows or name in self.required]
        )


def _open_mlflow(folder: Path) -> tuple[Any, Signature]:
    """An MLflow model's description, and the columns that it reads."""
    import mlflow

    if not (folder / "MLmodel").is_file():
        raise InputError("the folder is no MLflow model: it has no file MLmodel.")
    saved = mlflow.models.Model.load(str(folder))
    schema = saved.get_input_schema()
    if schema is None or not schema.has_input_names():
        return saved, Signature(None, set())
    return saved, Signature(schema.input_names(), set(schema.required_input_names()))


def _mlflow(folder: Path, column: Callable[[Sequence[Any]], int]) -> Predictor:
    """Probabilities of an MLflow model, where it has them, else its predictions."""
    import mlflow

    saved, signature = _open_mlflow(folder)
    for library in sorted(set(LIBRARIES) & set(saved.flavors)):
        model = importlib.import_module(f"mlflow.{library}").load_model(str(folder))
        if not hasattr(model, "predict_proba"):
            continue
        features = getattr(model, "feature_names_in_", signature.columns)
        return _probabilities_of(model, column(model.classes_), features)

    general = mlflow.pyfunc.load_model(str(folder))

    def predict(rows: pd.DataFrame) -> Any:
        predicted = general.predict(signature.select(rows))
        names = getattr(predicted, "columns", ())
        if PROBABILITY not in names:
            return predicted
        probability = _two(predicted[PROBABILITY])
        if DECISION not in names:
            return probability
        decisions = predicted[DECISION].astype(str).to_numpy()
        return Decided(probability, decisions == str(_positive_decision(probability, decisions)))

    return predict


def _mlflow_values(folder: Path) -> Predictor:
    """Predictions of an MLflow model, by its own object where a library has one."""
    import mlflow

    saved, signature = _open_mlflow(folder)
    for library in sorted(set(LIBRARIES) & set(saved.flavors)):
        model = importlib.import_module(f"mlflow.{library}").load_model(str(folder))
        features = getattr(model, "feature_names_in_", signature.columns)
        if hasattr(model, "predict") and features is not None:
            return lambda rows: model.predict(_chosen(rows, features))

    general = mlflow.pyfunc.load_model(str(folder))

    def predict(rows: pd.DataFrame) -> Any:
        predicted = general.predict(signature.select(rows))
        if DECISION in getattr(predicted, "columns", ()):
            return predicted[DECISION]
        return predicted

    return predict


def _positive_decision(probability: NDArray[Any], decisions: NDArray[Any]) -> str | None:
    """The decided value that the probabilities are of: its rows have the larger ones."""
    values = np.unique(decisions)
    means = {value: probability[decisions == value, 1].mean() for value in values}
    best = max(values, key=lambda value: float(means[value]))
    if len(values) == 1 and means[best] < 0.5:
        return None  # of one value alone, the negative one
    return str(best)


def _probabilities_of(model: Any, place: int, features: Sequence[str] | None) -> Predictor:
    """Predictor by ``predict_proba`` of a model, whose positive class has this place."""

    def predict(rows: pd.DataFrame) -> Any:
        if features is not None:
            rows = _chosen(rows, features)
        return _two(model.predict_proba(rows)[:, place])

    return predict


def _two(probability: Any) -> NDArray[Any]:
    """Probabilities of both values: one column of zeros and ones alone could be read as
    decisions.
    """
    positive = np.asarray(probability)
    return np.stack([1.0 - positive, positive], axis=1)


def _onnx_outputs(path: Path) -> Callable[[pd.DataFrame], dict[str, Any]]:
    """Run an ONNX file, with one input of all columns in their order, or one input a column; its
    outputs by name, in their order.
    """
    try:
        from onnxruntime import InferenceSession
    except ImportError:
        raise InputError(
            "an ONNX model needs onnxruntime: `pip install 'evenhand[onnx]'`."
        ) from None
    session = InferenceSession(path.read_bytes())
    inputs = session.get_inputs()

    def run(rows: pd.DataFrame) -> dict[str, Any]:
        if len(inputs) == 1 and inputs[0].name not in rows:
            tensors = {inputs[0].name: rows.to_numpy(dtype=_type(inputs[0].type))}
        else:
            chosen = _chosen(rows, [node.name for node in inputs])
            tensors = {node.name: _tensor(chosen[node.name], node) for node in inputs}
        outputs = session.run(None, tensors)
        output_names = [node.name for node in session.get_outputs()]
        return dict(zip(output_names, outputs, strict=True))

    return run


def _onnx_values(path: Path) -> Predictor:
    """The first output of an ONNX file, which has the predictions; ours has them by name."""
    run = _onnx_outputs(path)

    def predict(rows: pd.DataFrame) -> Any:
        by_name = run(rows)
        return by_name.get(DECISION, next(iter(by_name.values())))

    return predict


def _onnx(path: Path, column: Callable[[Sequence[Any]], int], words: set[str]) -> Predictor:
    """Probabilities where an ONNX file gives them, else its predictions.

    `words` are the label's values as text.
    """
    run = _onnx_outputs(path)

    def predict(rows: pd.DataFrame) -> Any:
        by_name = run(rows)
        outputs = list(by_name.values())
        values = by_name.get(PROBABILITY, outputs[-1])
        if isinstance(values, list):  # scikit-learn's converter gives one mapping of classes a row
            classes = list(values[0])
            return _two([row[classes[column(classes)]] for row in values])
        if np.ndim(values) < 2 or values.shape[1] == 1:
            single = np.ravel(values)
            if single.dtype.kind == "f":
                return _two(single)
            return single
        # the first output has the predicted classes; scikit-learn sorts those in words
        predicted = outputs[0]
        model_classes: Sequence[Any] = range(values.shape[1])
        if predicted.dtype.kind not in "biuf":
            model_classes = sorted({*predicted.tolist(), *words})
        return _two(values[:, column(model_classes)])

    return predict


def _tensor(values: pd.Series, wanted: Any) -> Any:
    """A column as an input of a model; a missing text is empty."""
    kind = _type(wanted.type)
    if kind is object:
        values = values.astype(object).where(values.notna(), "").astype(str)
    return values.to_numpy(dtype=kind).reshape(-1, *[1] * (len(wanted.shape) - 1))


def _type(name: str) -> Any:
    """Numpy's type of a tensor, such as ``tensor(float)``."""
    return TENSORS.get(name.removeprefix("tensor(").removesuffix(")"), object)
