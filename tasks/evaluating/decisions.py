"""Decisions of models about rows and about counterfactual copies of the rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Bool, Float, Float32, Int
from evenhand.fairlib.evaluation.acquisition import mean_of_people
from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.fairlib.evaluation.outcomes import groups_by
from evenhand.fairlib.execution import Progress, derive_seed
from evenhand.fairlib.mapped import release
from evenhand.fairlib.methods.decided import labels_of
from evenhand.fairlib.methods.method_base import Method
from evenhand.fairlib.methods.registry import load_model
from evenhand.fairlib.preprocessing.counterfactuals import Counterfactuals, encoded_copies
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.tasks.errors import InputError, input_errors, unusable
from evenhand.tasks.execution.dataset import block_file
from evenhand.tasks.execution.step import Report

if TYPE_CHECKING:
    from evenhand.fairlib.methods.dadi.dadi_classifier import Acquisition

# Copies of encoded rows with their sensitive groups, each of the rows' shape.
CopyMaker = Callable[[Float32, Mapping[str, NDArray[Any]]], list[Float32]]
# Rows that are encoded, copied and predicted at a time. It bounds the memory besides the table.
CHUNK_ROWS = 65_536


def asks(model: Any) -> bool:
    """Whether a model asks for features, as one of the method DADI does."""
    return hasattr(model, "acquire")


@dataclass(frozen=True, eq=False)
class Decisions:
    """Decisions of a model about n rows; all arrays have the shape (n,)."""

    score: Float  # probability of label 1; of more than two labels that of each, shape (n, L)
    predicted: Int
    consistent: dict[str, Bool]  # by set of copies: whether all copies of a row get one label
    asked: Int | None = None  # number of features asked; None for a model that does not ask

    @classmethod
    def concatenate(cls, parts: Sequence[Decisions]) -> Decisions:
        """Decisions about the rows of all parts, in their order."""
        asked_counts = [part.asked for part in parts if part.asked is not None]
        return cls(
            np.concatenate([part.score for part in parts]),
            np.concatenate([part.predicted for part in parts]),
            {
                name: np.concatenate([part.consistent[name] for part in parts])
                for name in parts[0].consistent
            },
            np.concatenate(asked_counts) if asked_counts else None,
        )

    def write(self, folder: Path, number: int) -> None:
        """Write the decisions about a block of rows, without the questions."""
        agree = {f"agree {name}": flags for name, flags in self.consistent.items()}
        with block_file(folder, f"{number:06d}") as path, path.open("wb") as file:
            np.savez(file, score=self.score, predicted=self.predicted, **agree)  # type: ignore[arg-type]

    @classmethod
    def read(cls, folder: Path) -> Decisions:
        """Read the decisions about all blocks."""
        parts = []
        for path in sorted(folder.iterdir()):
            with np.load(path) as file:
                agree = {name[6:]: file[name] for name in file if name.startswith("agree ")}
                parts.append(cls(file["score"], file["predicted"], agree))
        return cls.concatenate(parts)


def decide_rows(
    model: Any,
    encoder: TableEncoder,
    X: Float32,
    counterfactuals: Counterfactuals,
    acquired: Acquisition | None = None,
    *,
    sensitive: Mapping[str, NDArray[Any]] | None = None,
    callback: Progress | None = None,
    adapted: Mapping[str, CopyMaker] | None = None,
) -> Decisions:
    """Predict n rows `X`, shape (n, d), and their counterfactual copies.

    `counterfactuals` has, by name of a set of copies, the values that each changed column gets;
    `encoder` is the one that encoded `X`. The label of a model that asks for features follows from
    `acquired`, the answers of these rows. `adapted` has, by name, what makes further copies of
    rows. ``callback(done, total)`` counts the rows as one, and every set of copies as one.
    """
    report = callback or (lambda done, total: None)
    makers: dict[str, CopyMaker] = {}
    for name, changes in counterfactuals.items():
        makers[name] = _changed_copies(encoder, changes)
    makers |= adapted or {}
    total = 1 + len(makers)
    groups = groups_argument(model, sensitive)
    if acquired is None:
        # A model may have its own threshold.
        asked_counts = None
        score = _in_blocks(lambda part: _score(model.predict_proba(part)), X, {})
        predicted = _in_blocks(model.predict, X, groups)
    else:
        # The questions are asked once, so the label follows from the probability.
        score = acquired.probability
        asked_counts = (acquired.order >= 0).sum(axis=1)
        predicted = labels_of(model, score, X, **groups)
    report(1, total)
    consistent = {}
    for done, (name, make_copies) in enumerate(makers.items(), start=2):
        consistent[name] = _agreement(model, X, make_copies, groups, sensitive or {})
        report(done, total)
    return Decisions(score, predicted.astype(np.int64), consistent, asked_counts)


def _changed_copies(encoder: TableEncoder, changes: Mapping[str, Any]) -> CopyMaker:
    """Return what makes copies of rows with other values in some columns."""

    def make_copies(X: Float32, sensitive: Mapping[str, NDArray[Any]]) -> list[Float32]:
        return encoded_copies(encoder, X, changes)

    return make_copies


def _agreement(
    model: Any,
    X: Float32,
    make_copies: CopyMaker,
    groups: Mapping[str, NDArray[Any]],
    sensitive: Mapping[str, NDArray[Any]],
) -> Bool:
    """Whether all copies of each row get one label, for ``CHUNK_ROWS`` at a time."""
    parts = []
    for start in range(0, max(len(X), 1), CHUNK_ROWS):
        place = slice(start, start + CHUNK_ROWS)
        own_groups = {name: values[place] for name, values in groups.items()}
        people = {name: values[place] for name, values in sensitive.items()}
        copies = make_copies(X[place], people)
        labels = np.stack([model.predict(copy, **own_groups) for copy in copies])
        parts.append((labels == labels[0]).all(axis=0))
        release(X)
    return np.concatenate(parts)


def _score(probabilities: Float) -> Float:
    """Probability of label 1, shape (n,); of more than two labels that of each."""
    return probabilities[:, 1].copy() if probabilities.shape[1] == 2 else probabilities


def _in_blocks(
    function: Callable[..., NDArray[Any]], X: Float32, groups: Mapping[str, NDArray[Any]]
) -> NDArray[Any]:
    """Values of a function of rows and their groups, computed for ``CHUNK_ROWS`` at a time."""
    parts = []
    for start in range(0, max(len(X), 1), CHUNK_ROWS):
        place = slice(start, start + CHUNK_ROWS)
        parts.append(function(X[place], **{name: values[place] for name, values in groups.items()}))
        release(X)
    return np.concatenate(parts)


def groups_argument(model: Any, sensitive: Mapping[str, NDArray[Any]] | None) -> dict[str, Any]:
    """Argument `groups` of a model whose decisions depend on a sensitive attribute; empty for all
    others.
    """
    attribute = getattr(model, "decides_by", None)
    if attribute is None:
        return {}
    if sensitive is None or not set(model.rule.columns) <= set(sensitive):
        needed = "this column" if len(model.rule.columns) == 1 else "these columns"
        raise InputError(
            f"decisions of this model depend on {attribute!r}: the table must have {needed}."
        )
    with input_errors(end="."):
        groups = groups_by(sensitive, attribute)
    unknown = model.rule.unknown_groups(groups)
    if unknown:
        raise InputError(
            f"decisions of this model depend on {attribute!r}, and {len(unknown)} of its groups in "
            "the table had no training rows: leave their rows out, or train again with such rows."
        )
    return {"groups": groups}


def acquire(model: Any, X: Float32, *, callback: Progress | None = None) -> Acquisition | None:
    """Ask for features, if the model asks; `callback(done, total)` counts the rows."""
    return model.acquire(X, callback=callback) if asks(model) else None


@dataclass(frozen=True)
class LoadedModel:
    """A published model with its encoder; `encoder_file` holds the bytes of the encoder's file."""

    role: str
    model: Method
    encoder: TableEncoder
    encoder_file: bytes

    @classmethod
    def load(cls, role: str, bundle: Path) -> LoadedModel:
        """Read a bundle; an `InputError` if it cannot be read."""
        with unusable(f"the {role}", "loaded"):
            file = bundle / "encoder.json"
            return cls(
                role, load_model(bundle / "model"), TableEncoder.load(file), file.read_bytes()
            )


def decide_table(
    models: Sequence[LoadedModel],
    table: pa.Table,
    counterfactuals: Counterfactuals,
    progress: Report,
    sensitive: Mapping[str, NDArray[Any]] | None = None,
    adapted: Sequence[Mapping[str, CopyMaker]] | None = None,
) -> list[Decisions]:
    """Decisions of each model about a table of model inputs with at least one row, by chunks of
    rows.

    `adapted` has, for each model, what makes further copies of rows, by name.

    Raises `InputError` if the table does not fit an encoder.
    """
    rows = table.num_rows
    parts: list[list[Decisions]] = [[] for _ in models]
    for start in range(0, rows, CHUNK_ROWS):
        chunk = table.slice(start, CHUNK_ROWS).to_pandas()
        encoded: dict[bytes, Float32] = {}
        for number, (one, part) in enumerate(zip(models, parts, strict=True)):
            # A model and its baseline often have the same encoder; then a chunk is encoded once.
            if one.encoder_file not in encoded:
                try:
                    encoded[one.encoder_file] = one.encoder.transform(chunk)
                except ValueError as error:  # its messages name columns and quote no value
                    raise InputError(f"the data does not fit the {one.role}: {error}") from None
            X = encoded[one.encoder_file]
            here = {
                name: values[start : start + CHUNK_ROWS]
                for name, values in (sensitive or {}).items()
            }
            acquired = acquire(one.model, X)
            makers = adapted[number] if adapted else {}
            part.append(
                decide_rows(
                    one.model,
                    one.encoder,
                    X,
                    counterfactuals,
                    acquired,
                    sensitive=here,
                    adapted=makers,
                )
            )
        progress(min(start + CHUNK_ROWS, rows), rows, {})
    return [Decisions.concatenate(part) for part in parts]


def bootstrap_settings(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of ``fairlib``'s ``evaluate`` and ``compare`` from a step's parameters."""
    settings = {
        key: parameters["evaluate"][key] for key in ("draws", "level", "min_cell", "intersections")
    }
    return settings | {"seed": derive_seed(parameters["seed"], "bootstrap")}


def person_mean(
    counts: Int | Float, parameters: Mapping[str, Any], *, most: float = math.inf
) -> MetricValue:
    """Mean of a number per person, with its interval, from a step's parameters."""
    settings = bootstrap_settings(parameters)
    chance = {key: settings[key] for key in ("draws", "level", "min_cell", "seed")}
    return mean_of_people(counts, **chance, most=most)
