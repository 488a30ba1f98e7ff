"""MLflow models-from-code: this file is the published model's code; its parameters lie beside it.

A published model carries a copy of :mod:`fairlib`, and needs nothing else of this project.
"""

import json
from pathlib import Path
from typing import Any

import mlflow.pyfunc
import pandas as pd
from mlflow.models import set_model

from fairlib.methods.registry import load_model
from fairlib.preprocessing.encoder import TableEncoder

TRUTH = {"true": True, "yes": True, "1": True, "1.0": True} | {
    "false": False,
    "no": False,
    "0": False,
    "0.0": False,
}


def _booleans(values: pd.Series) -> pd.Series:
    """Truth as raw tables write it (true, yes, 1); what is none of these stays for the encoder to refuse."""
    return pd.Series(
        [None if pd.isna(value) else TRUTH.get(str(value).strip().lower(), value) for value in values],
        index=values.index,
        dtype=object,
    )


class PublishedModel(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    """Encoder and estimator, loaded from the bundle's parameter files."""

    def load_context(self, context: Any) -> None:
        """Load the bundle: JSON, safetensors and UBJSON only."""
        bundle = Path(context.artifacts["bundle"])
        self.inputs = json.loads((bundle / "inputs.json").read_text())
        self.encoder = TableEncoder.load(bundle / "encoder.json")
        self.model = load_model(bundle / "model")

    def predict(
        self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> pd.DataFrame:
        """
        Predict for raw rows.

        Parameters
        ----------
        model_input : DataFrame
            The contract's feature columns under their names, in any order; other columns are ignored, so
            sensitive columns that are no model input need not be there.

        Returns
        -------
        DataFrame
            ``prediction`` (the label's own values) and ``probability`` of the positive one, same index.
        """
        if not isinstance(model_input, pd.DataFrame):
            raise ValueError(f"the model wants a DataFrame of raw columns, got {type(model_input).__name__}.")
        missing = [name for name in self.inputs["features"] if name not in model_input.columns]
        if missing:
            raise ValueError(f"the input lacks the columns {missing}: give every column of the contract.")
        rows = model_input.copy(deep=False)
        for name in self.inputs["booleans"]:
            rows[name] = _booleans(rows[name])
        probability = self.model.predict_proba(self.encoder.transform(rows))[:, 1]
        negative, positive = self.inputs["label_values"]
        return pd.DataFrame(
            {
                "prediction": [positive if p > 0.5 else negative for p in probability],
                "probability": probability,
            },
            index=model_input.index,
        )


set_model(PublishedModel())
