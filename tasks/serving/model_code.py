"""MLflow models-from-code: this file is the code of a published model, whose parameters are in its bundle.

A published model contains a copy of :mod:`fairlib` and needs nothing else of this project.
"""

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow.pyfunc
import pandas as pd
from mlflow.models import set_model

from evenhand.fairlib.file_digests import check_bundle
from evenhand.fairlib.methods.decided import predictions_of
from evenhand.fairlib.methods.registry import load_model
from evenhand.fairlib.preprocessing.encoder import TRUTH, TableEncoder

Answer = Callable[[Any, pd.DataFrame], dict[str, Any]]


def _booleans(values: pd.Series) -> pd.Series:
    """Convert the spellings of raw tables (true, yes, 1); the encoder refuses all other values."""
    return pd.Series(
        [None if pd.isna(value) else TRUTH.get(str(value).strip().lower(), value) for value in values],
        index=values.index,
        dtype=object,
    )


def _classifier(folder: Path, labels: list[Any]) -> Answer:
    """Predictions and probabilities of encoded rows; the raw rows have the groups that a few models need."""
    model = load_model(folder)
    model_groups = model.rule.groups_of if getattr(model, "decides_by", None) is not None else None

    def answer(matrix: Any, rows: pd.DataFrame) -> dict[str, Any]:
        groups = None if model_groups is None else model_groups(rows)
        decided, probability, asked = predictions_of(model, matrix, groups)
        return {
            "prediction": [labels[int(label)] for label in decided],
            "probability": probability,
            **({} if asked is None else {"asked": asked}),
        }

    return answer


def _proxy(folder: Path) -> Answer:
    """Acceptance probabilities of encoded rows."""
    # Imported lazily: a classifier does not need it.
    from evenhand.fairlib.methods.registry import load_proxy

    proxy = load_proxy(folder)
    return lambda matrix, rows: {"acceptance_probability": proxy.acceptance(matrix)}


class PublishedModel(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    """Encoder and estimator or proxy, loaded from the bundle's parameter files."""

    def load_context(self, context: Any) -> None:
        """Load the bundle: JSON, safetensors and UBJSON only.

        Raises ValueError if a file of the model is not the one that was published: this finds damage, not an
        attacker, who could change this code too.
        """
        bundle = Path(context.artifacts["bundle"])
        faults = check_bundle(bundle)
        if faults:
            raise ValueError(f"the model is damaged: {faults[0]}. Fetch it again, or publish it again.")
        self.bundle = bundle
        self.inputs = json.loads((bundle / "inputs.json").read_text())
        self.encoder = TableEncoder.load(bundle / "encoder.json")
        labels = self.inputs.get("label_values")
        self.answer = _classifier(bundle / "model", labels) if labels else _proxy(bundle / "model")

    def predict(
        self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> pd.DataFrame:
        """Predict for raw rows.

        Parameters
        ----------
        model_input : DataFrame
            The contract's feature columns under their names, in any order; other columns are ignored, so
            sensitive columns that are no model input need not be there, unless decisions depend on them.

        Returns
        -------
        DataFrame
            Same index. A classifier gives ``prediction`` (a value of the label) and ``probability`` (of the
            positive value; of a label of more than two values that of the predicted one); one that asks for
            features also ``asked``, their names in order, joined by commas. A proxy gives
            ``acceptance_probability``.
        """
        if not isinstance(model_input, pd.DataFrame):
            raise ValueError(f"the model wants a DataFrame of raw columns, got {type(model_input).__name__}.")
        missing = [name for name in self.inputs["features"] if name not in model_input.columns]
        if missing:
            raise ValueError(f"the input lacks the columns {missing}: give every column of the contract.")
        rows = model_input.copy(deep=False)
        for name in self.inputs["booleans"]:
            if name in rows:
                rows[name] = _booleans(rows[name])
        return pd.DataFrame(self.answer(self.encoder.transform(rows), rows), index=model_input.index)

    def questionnaire(self) -> Any:
        """Return ``next_feature(known)`` and ``predict(known)`` for one person, of a model that asks."""
        # Imported by name, so that the code digest of other models does not include it.
        return importlib.import_module("evenhand.fairlib.methods.dadi.questionnaire").Questionnaire.load(
            self.bundle
        )


set_model(PublishedModel())
