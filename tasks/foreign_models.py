"""Models that others have trained and saved: MLflow models of any kind, and ONNX files."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.tasks.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Predictor = Callable[["pd.DataFrame"], Any]
PROBABILITY = "probability"


def load_predictor(path: Path) -> Predictor:
    """Load a model that gives one number in [0, 1] a row: a folder with ``MLmodel``, or an ONNX file.

    An MLflow model may run code that is saved in it, and may be a pickle: load only what you trust.
    The probability of the positive label is asked for where a model has it, else its prediction. Raises
    `InputError` if the model cannot be loaded; the predictor raises it if the rows do not fit the model.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # MLflow warns of its own type hints
            predict = _onnx(path) if path.is_file() else _mlflow(path)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 - any library may be behind a model
        raise InputError(f"the model cannot be loaded ({_reason(error)}).") from error

    def call(rows: pd.DataFrame) -> Any:
        try:
            return predict(rows)
        except Exception as error:  # noqa: BLE001 - as above
            raise InputError(f"the model cannot predict these rows ({_reason(error)}).") from error

    return call


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"


def _mlflow(folder: Path) -> Predictor:
    import mlflow

    if not (folder / "MLmodel").is_file():
        raise InputError("the folder is no MLflow model: it has no file MLmodel.")
    model = mlflow.pyfunc.load_model(str(folder))
    if "sklearn" in model.metadata.flavors:
        model = mlflow.sklearn.load_model(str(folder))
        names = getattr(model, "feature_names_in_", None)
        ask = getattr(model, "predict_proba", model.predict)
        return lambda rows: ask(rows if names is None else rows[list(names)])
    inputs = model.metadata.get_input_schema()
    names = inputs.input_names() if inputs is not None and inputs.has_input_names() else None

    def predict(rows: pd.DataFrame) -> Any:
        found = model.predict(rows if names is None else rows[[name for name in names if name in rows]])
        return found[PROBABILITY] if PROBABILITY in getattr(found, "columns", ()) else found

    return predict


def _onnx(path: Path) -> Predictor:
    """One input of all columns in their order, or one input a column; probabilities where it gives them."""
    try:
        from onnxruntime import InferenceSession
    except ImportError:
        raise InputError("an ONNX model needs onnxruntime: `pip install 'evenhand[onnx]'`.") from None
    session = InferenceSession(path.read_bytes())
    inputs = session.get_inputs()

    def predict(rows: pd.DataFrame) -> Any:
        if len(inputs) == 1 and inputs[0].name not in rows:
            given = {inputs[0].name: rows.to_numpy(dtype=_type(inputs[0].type))}
        else:
            given = {one.name: _column(rows[one.name], one) for one in inputs}
        found = session.run(None, given)
        named = dict(zip((one.name for one in session.get_outputs()), found, strict=True))
        chosen = named.get(PROBABILITY, found[-1])
        if isinstance(chosen, list):  # scikit-learn's converter gives one mapping of classes a row
            chosen = np.array([list(row.values())[-1] for row in chosen])
        return chosen[:, -1] if np.ndim(chosen) == 2 else chosen

    return predict


def _column(values: pd.Series, wanted: Any) -> Any:
    """A column as an input of a model; a missing text is empty."""
    kind = _type(wanted.type)
    if kind is object:
        values = values.astype(object).where(values.notna(), "").astype(str)
    return values.to_numpy(dtype=kind).reshape(-1, *[1] * (len(wanted.shape) - 1))


def _type(name: str) -> Any:
    """Numpy's type of a tensor, such as ``tensor(float)``."""
    kinds = {
        "float": np.float32,
        "double": np.float64,
        "int64": np.int64,
        "int32": np.int32,
        "bool": np.bool_,
    }
    return kinds.get(name.removeprefix("tensor(").removesuffix(")"), object)
