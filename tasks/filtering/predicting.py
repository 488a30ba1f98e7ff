"""Predictions for the rows of files by a published classifier."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenhand.fairlib.methods.decided import predictions_of
from evenhand.fairlib.methods.reasons import contributions, mean_row
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.tasks.bundle import Bundle, read_bundle
from evenhand.tasks.errors import InputError, input_errors, unusable
from evenhand.tasks.filtering.bundle import FileModel, FileSettings
from evenhand.tasks.filtering.checks import Judge
from evenhand.tasks.filtering.reasons import reason_texts

BINS = 10
COLUMNS = ("prediction", "probability", "model_version")


@dataclass(frozen=True, kw_only=True)
class PredictSettings(FileSettings):
    """Settings of a prediction run."""

    section: ClassVar[str] = "predict"

    sensitive: str = "keep"
    reasons: int = 0  # the number of reasons for each prediction
    adverse: bool = False  # reasons only of negative decisions, as principal reasons
    value_names: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()  # by column and value, for reasons


@dataclass(frozen=True, kw_only=True)
class Classifier(FileModel):
    """A published classifier, loaded."""

    model: Any
    labels: tuple[Any, Any]  # the label's negative and positive value
    groups_by: str | None  # sensitive column that decisions depend on
    asks: bool  # whether it asks for features
    reference: NDArray[np.float64] | None  # mean encoded row, where reasons are given

    @classmethod
    def load(cls, bundle: Bundle, *, reasons: bool = False) -> Classifier:
        """Load a bundle's encoder and model.

        Raises `InputError` for a proxy, an unknown method, or one without the wanted reasons.
        """
        if bundle.is_proxy:
            raise InputError(
                f"{bundle.uri} is a balancing proxy, which predicts no label: use `evenhand filter`."
            )
        bundle.require_known_method()
        from evenhand.fairlib.methods.registry import load_model

        with unusable(f"the model {bundle.uri}", "loaded"):
            encoder, model = (
                TableEncoder.load(bundle.folder / "encoder.json"),
                load_model(bundle.folder / "model"),
            )
        groups_by, reference = getattr(model, "decides_by", None), None
        if reasons:
            try:
                counts = json.loads((bundle.folder / "reference.json").read_text())["columns"]
                reference = mean_row(encoder, counts)
            except (OSError, KeyError):
                raise InputError(f"{bundle.uri} lacks counts of training rows: publish it again.") from None
            with input_errors(f"{bundle.uri}: "):
                width = len(encoder.feature_names_)
                contributions(model, np.zeros((1, width), dtype=np.float32), encoder, reference)
        content = [bundle.digest, bundle.name, bundle.version]
        return cls(
            contract=bundle.contract,
            features=(*bundle.inputs["features"], *([groups_by] if groups_by else [])),
            sensitive=frozenset(column.name for column in bundle.contract.sensitive),
            encoder=encoder,
            digest=hashlib.sha256(json.dumps(content).encode()).hexdigest(),
            version=f"{bundle.name}/{bundle.version or bundle.digest[:12]}",
            model=model,
            labels=tuple(bundle.inputs["label_values"]),
            groups_by=groups_by,
            asks=bundle.asks_features,
            reference=reference,
        )


class RowPredictor(Judge):
    """Adds prediction, probability of the positive label and model version to every row."""

    weights = np.append(np.zeros(BINS), 1.0)  # masses: rows by probability, and the positive predictions

    def __init__(self, model: Classifier, settings: PredictSettings) -> None:
        self.classifier = model
        super().__init__(model, settings)
        self._labels = pa.array(model.labels)
        self.added = dict(zip(COLUMNS, (self._labels.type, pa.float64(), pa.string()), strict=True))
        self.added |= {"asked": pa.string()} if model.asks else {}
        self.added |= {"reasons": pa.string()} if settings.reasons else {}
        self._names = {column: dict(names) for column, names in settings.value_names}
        self._reasons, self._adverse = settings.reasons, settings.adverse

    @classmethod
    def load(cls, folder: str | Path, settings: PredictSettings, version: str = "") -> Self:
        """Read a bundle's folder; `version` is its name and version in the registry, such as ``people/3``."""
        name, _, number = version.partition("/")
        bundle = read_bundle(Path(folder), name or None, number or None, version or str(folder))
        return cls(Classifier.load(bundle, reasons=settings.reasons > 0), settings)

    def decide(self, batch: pa.RecordBatch, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Any]:
        """All rows with the added columns, and the number of rows by probability and prediction."""
        found = self.classifier
        frame = rows.to_pandas(date_as_object=False)
        matrix = found.encoder.transform(frame)
        groups = found.model.rule.groups_of(frame) if found.groups_by else None
        positive, probability, asked = predictions_of(found.model, matrix, groups)
        codes = pa.array(positive.astype(np.int8))
        prediction: pa.Array = self._labels.take(codes)
        if self._labels.type == pa.string():
            prediction = pa.DictionaryArray.from_arrays(codes, self._labels)
        version = pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(len(matrix), dtype=np.int8)), pa.array([found.version])
        )
        columns = [prediction, pa.array(probability), version, *([] if asked is None else [pa.array(asked)])]
        if found.reference is not None:
            moved = contributions(found.model, matrix, found.encoder, found.reference)
            negative = ~positive if self._adverse else None
            inputs = list(found.encoder.groups_)
            columns.append(reason_texts(moved, rows, inputs, self._names, self._reasons, negative))
        for name, values in zip(self.added, columns, strict=True):
            batch = batch.append_column(name, values)
        bins = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
        return batch, np.append(np.bincount(bins, minlength=BINS), positive.sum())
