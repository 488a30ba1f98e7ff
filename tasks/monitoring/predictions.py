"""How often the model says yes to a batch, and how often it did to the test rows of its training run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenhand.data_contracts.arrow import decode
from evenhand.fairlib.evaluation.drift import share
from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.fairlib.methods.registry import load_model
from evenhand.fairlib.preprocessing.encoder import MISSING, NUMERIC_KINDS, TableEncoder, category_name
from evenhand.tasks.errors import InputError
from evenhand.tasks.evaluating.decisions import acquire, decide_rows
from evenhand.tasks.monitoring.compare import Settings, ShareThenNow, then_and_now
from evenhand.tasks.step import StepContext

__all__ = ["Predictions", "predictions"]

CHUNK_ROWS = 65_536


@dataclass(frozen=True)
class Predictions:
    """Rows that the model can answer, its positive rate on them, and how that has changed."""

    rows: int
    unanswered: int
    rate: MetricValue
    change: ShareThenNow

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "rows": self.rows,
            "unanswered": self.unanswered,
            "rate": asdict(self.rate),
            **self.change.to_json(),
        }


def predictions(
    context: StepContext,
    table: pa.Table,
    bundle: Path,
    encoder: TableEncoder,
    features: Sequence[str],
    settings: Settings,
) -> Predictions:
    """
    Predict what can be predicted.

    A row that the model would refuse, because of a category that training never saw or a number that is not
    finite, is left out and counted.

    Raises
    ------
    InputError
        The model cannot be loaded.
    """
    try:
        model = load_model(bundle / "model")
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise InputError(f"the model cannot be loaded ({type(error).__name__}): publish it again.") from error
    fit = _answerable(table, encoder)
    rows = table.select(list(features)).filter(pa.array(fit))
    positive = 0
    for start in range(0, rows.num_rows, CHUNK_ROWS):
        X = encoder.transform(rows.slice(start, CHUNK_ROWS).to_pandas())
        decided = decide_rows(model, encoder, X, {}, acquire(model, X))
        positive += int((decided.predicted == 1).sum())
        context.progress(min(start + CHUNK_ROWS, rows.num_rows), rows.num_rows, {})
    rate = share(positive, rows.num_rows, level=settings.level)
    before = context.parameters["predicted"]
    if before is None or rate.value is None:
        reason = rate.reason or "the metrics of its training run are not in this store"
        change = ShareThenNow(
            before and before["positive"] / before["rows"], rate.value, MetricValue.insufficient(reason)
        )
    else:
        change = then_and_now(positive, rows.num_rows, before["positive"], before["rows"], settings.level)
    return Predictions(rows.num_rows, table.num_rows - rows.num_rows, rate, change)


def _answerable(table: pa.Table, encoder: TableEncoder) -> NDArray[np.bool_]:
    """Rows that the encoder takes, shape (n,)."""
    fit = np.ones(table.num_rows, dtype=bool)
    for spec in encoder.columns:
        values = decode(table[spec.name])
        if spec.kind in NUMERIC_KINDS:
            if pa.types.is_floating(values.type):
                fit &= ~np.isinf(values.to_numpy())
        elif encoder.unseen == "error":
            known = encoder.categories_[spec.name]
            distinct = pc.unique(values.combine_chunks())
            strange = [value for value in distinct if (_name(value.as_py()) not in known)]
            if strange:
                among = pc.is_in(values, value_set=pa.array([v.as_py() for v in strange], type=values.type))
                fit &= ~np.asarray(among.to_numpy(), dtype=bool)
    return fit


def _name(value: Any) -> str:
    """A value's category, as the encoder names it."""
    return MISSING if value is None or value != value else category_name(value)
