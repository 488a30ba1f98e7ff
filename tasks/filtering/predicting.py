"""Predictions for the rows of files by a published classifier."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenhand.data_contracts.column import value_text
from evenhand.fairlib.catalogue import spoken
from evenhand.fairlib.methods.registry import load_model
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.tasks.errors import InputError, input_errors, unusable
from evenhand.tasks.filtering.checks import Judge
from evenhand.tasks.filtering.filter_bundle import FileModel, FileSettings
from evenhand.tasks.filtering.prediction_columns import BINS, COLUMNS
from evenhand.tasks.registry.bundle import Bundle, read_bundle


@dataclass(frozen=True, kw_only=True)
class PredictSettings(FileSettings):
    """Settings of a prediction run."""

    section: ClassVar[str] = "predict"

    sensitive: str = "keep"
    reasons: int = 0  # the number of reasons for each prediction
    in_database: bool = False  # whether the database of the input computes the predictions
    adverse: bool = False  # reasons only of unfavourable decisions, as principal reasons
    value_names: tuple[
        tuple[str, tuple[tuple[str, str], ...]], ...
    ] = ()  # by column and value, for reasons


class RowPredictor(Judge):
    """Adds prediction, probability of the positive label and model version to every row.

    Of more than two labels the probability is that of the predicted one. Raises `InputError` for a
    proxy, an unknown method, or one that does not give the wanted reasons.

    With `to_look` the model is not loaded, which takes longer than everything else where no file
    is new: then the predictor says which files are done, and judges none.
    """

    weights = np.append(
        np.zeros(BINS), 1.0
    )  # masses: rows by probability, and the positive predictions

    def __init__(self, bundle: Bundle, settings: PredictSettings, *, to_look: bool = False) -> None:
        if bundle.is_proxy:
            raise InputError(
                f"{bundle.uri} is a balancing proxy and predicts no label: use `evenhand filter`."
            )
        bundle.require_known_method()
        self.classifier: Any = None
        self.in_database = settings.in_database
        with unusable(f"the model {bundle.uri}", "loaded"):
            encoder = TableEncoder.load(bundle.folder / "encoder.json")
            if not to_look:
                self.classifier = load_model(bundle.folder / "model")
        # sensitive columns that decisions depend on
        self.groups_by: tuple[str, ...] = ()
        if getattr(self.classifier, "decides_by", None) is not None:
            self.groups_by = self.classifier.rule.columns
        features = [*bundle.inputs["features"], *self.groups_by]
        content = [bundle.digest, bundle.name, bundle.version]
        model = FileModel(
            contract=bundle.contract,
            features=tuple(features),
            sensitive=frozenset(column.name for column in bundle.contract.sensitive),
            encoder=encoder,
            digest=hashlib.sha256(json.dumps(content).encode()).hexdigest(),
            version=f"{bundle.name}/{bundle.version or bundle.digest[:12]}",
        )
        super().__init__(model, settings)
        self.bundle = bundle
        self.wanted = settings
        self.labels = pa.array(bundle.inputs["label_values"])
        if settings.reasons:
            bundle.require_two_labels("--reasons")
        self.added = dict(zip(COLUMNS, (self.labels.type, pa.float64(), pa.string()), strict=True))
        if bundle.asks_features:
            self.added["asked"] = pa.string()
        if settings.reasons:
            self.added["reasons"] = pa.string()
        self.names = {column: dict(names) for column, names in settings.value_names}
        if settings.reasons and not to_look:
            self.reference = self._reference()
        if settings.in_database and not to_look:
            # imported lazily: most runs need no export
            from evenhand.tasks.filtering.in_database import exported

            self.exported = exported(bundle)

    def _reference(self) -> NDArray[np.float64]:
        """Mean encoded row; an `InputError` if it is not known, or the method gives no reasons."""
        # imported lazily, here and below: a look for new files needs no scikit-learn
        from evenhand.fairlib.methods.reasons import contributions, mean_row

        encoder = self.model.encoder
        uri = self.bundle.uri
        try:
            counts = json.loads((self.bundle.folder / "reference.json").read_text())["columns"]
            reference = mean_row(encoder, counts)
        except (OSError, KeyError):
            raise InputError(
                f"{uri} lacks the counts of its training rows: publish it again."
            ) from None
        with input_errors(f"{uri}: "):
            contributions(self.classifier, reference[None].astype(np.float32), encoder, reference)
        return reference

    @classmethod
    def load(cls, folder: str | Path, settings: PredictSettings, version: str = "") -> Self:
        """Read a bundle's folder; `version` is its name and version in the registry, such as
        ``people/3``.
        """
        name, _, number = version.partition("/")
        return cls(
            read_bundle(Path(folder), name or None, number or None, version or str(folder)),
            settings,
        )

    def decide(self, batch: pa.RecordBatch, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Any]:
        """All rows with the added columns, and the number of rows by probability and prediction."""
        from evenhand.fairlib.methods.decided import predictions_of

        model = self.classifier
        encoder = self.model.encoder
        frame = rows.to_pandas(date_as_object=False)
        matrix = encoder.transform(frame)
        groups = None
        if self.groups_by:
            groups = model.rule.groups_of(frame)
        positive, probability, questions = predictions_of(model, matrix, groups)
        columns = [self._predictions(positive), pa.array(probability), self._versions(len(matrix))]
        if questions is not None:
            columns.append(pa.array(questions))
        if self.wanted.reasons:
            columns.append(self._reasons(matrix, rows, positive))
        for name, values in zip(self.added, columns, strict=True):
            batch = batch.append_column(name, values)
        bins = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
        positives = 0
        if len(self.labels) == 2:
            positives = positive.sum()
        return batch, np.append(np.bincount(bins, minlength=BINS), positives)

    def _predictions(self, positive: NDArray[Any]) -> pa.Array:
        """The predicted labels; those of text as a dictionary."""
        codes = pa.array(positive.astype(np.int8))
        if self.labels.type == pa.string():
            return pa.DictionaryArray.from_arrays(codes, self.labels)
        return self.labels.take(codes)

    def _versions(self, rows: int) -> pa.Array:
        """The model's version for so many rows."""
        same = pa.array(np.zeros(rows, dtype=np.int8))
        return pa.DictionaryArray.from_arrays(same, pa.array([self.model.version]))

    def _reasons(
        self, matrix: NDArray[np.float32], rows: pa.RecordBatch, positive: NDArray[Any]
    ) -> pa.Array:
        """The reasons of each prediction as text."""
        from evenhand.fairlib.methods.reasons import contributions

        encoder = self.model.encoder
        settings = self.wanted
        parts = contributions(self.classifier, matrix, encoder, self.reference)
        inputs = list(encoder.groups_)
        if not settings.adverse:
            return reason_texts(parts, rows, inputs, self.names, settings.reasons)
        unfavourable = ~positive
        if self.bundle.contract.label.favourable_code == 0:
            unfavourable = positive
            parts = -parts
        return reason_texts(parts, rows, inputs, self.names, settings.reasons, unfavourable)


# A smaller contribution would be shown as 0.00.
LEAST = 0.005
LEAD = "principal reasons: "


def reason_texts(
    found: NDArray[np.float64],
    rows: pa.RecordBatch,
    columns: list[str],
    names: Mapping[str, Mapping[str, str]],
    most: int,
    unfavourable: NDArray[np.bool_] | None = None,
) -> pa.Array:
    """Largest contributions of each of n rows as text, ``hours per week: 60 (+0.41); job: clerk
    (-0.20)``.

    `found`, shape (n, columns), are contributions to the log-odds, `names` the contract's names of
    values, and `most` is the number of reasons. With `unfavourable`, which rows have that decision,
    the log-odds are those of the favourable one, and only these rows have reasons, those that
    lowered it, without numbers: principal reasons of adverse action.
    """
    weight = -found
    if unfavourable is None:
        weight = np.abs(found)
    order = np.argsort(-weight, axis=1, kind="stable")[:, :most]
    used = np.take_along_axis(weight, order, axis=1) >= LEAST
    if unfavourable is not None:
        used &= unfavourable[:, None]
    texts = np.full(order.shape, "", dtype=object)
    for place, column in enumerate(columns):
        where = used & (order == place)
        at = np.nonzero(where)[0]
        values = _values(rows.column(column).take(pa.array(at)), names.get(column, {}))
        reasons = f"{spoken(column.replace('-', ' '))}: " + values
        if unfavourable is None:
            reasons = reasons + np.char.mod(" (%+.2f)", found[at, place]).astype(object)
        texts[where] = reasons
    joined = texts[:, 0].copy()
    for more in texts[:, 1:].T:
        joined = joined + np.where(more == "", "", "; ") + more
    lead = "" if unfavourable is None else LEAD
    return pa.array(lead + joined, pa.string(), mask=joined == "")


def _values(values: pa.Array, names: Mapping[str, str]) -> NDArray[np.object_]:
    """Text of each value; every distinct one is written once."""
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    texts = []
    for value in values.dictionary.to_pylist():
        if value is None:
            texts.append("missing")
        else:
            text = value_text(value)
            texts.append(names.get(text, text))
    missing = len(texts)
    texts.append("missing")
    places = values.indices.cast(pa.int64()).fill_null(missing).to_numpy()
    return np.array(texts, dtype=object)[places]
