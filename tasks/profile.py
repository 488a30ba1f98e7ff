"""Profile: what the training rows look like, in counts that tell nothing about single people."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.data_contracts.model import Column, Contract
from evenhand.fairlib.evaluation.binning import numeric_bins, pool_small
from evenhand.tasks.monitoring.columns import category_counts, group_codes, is_numeric, numbers_of
from evenhand.tasks.step import Step, StepContext, StepResult

__all__ = ["FORMAT", "STEP"]

FORMAT = 1


def profile(context: StepContext) -> StepResult:
    """
    Write ``reference.json``, which is published with the model.

    Per model input the counts of quantile bins or of categories, and of missing values; per sensitive
    attribute the counts of its groups and of the label within each; the label's counts. Categories and
    groups of fewer than `min_cell` rows are told only together, as ``other``, and bins have rows enough to
    hide in.
    """
    contract = Contract.from_dict(context.parameters["contract"])
    least = context.parameters["min_cell"]
    # of the dataset only the positions are needed, not its wide matrix
    rows = pq.read_table(context.inputs["train"] / "y.parquet", columns=["row"])["row"]
    features = [contract.column(name) for name in context.parameters["features"]]
    wanted = dict.fromkeys(column.name for column in (*features, *contract.sensitive, contract.label))
    table = pq.read_table(context.inputs["checked"], columns=list(wanted)).take(rows)
    label = contract.label
    positive = np.array([value == label.positive for value in table[label.name].to_pylist()], dtype=bool)
    reference = {
        "format": FORMAT,
        "rows": table.num_rows,
        "min_cell": least,
        "columns": {column.name: _column(table[column.name], column, least) for column in features},
        "groups": {
            column.name: _groups(table[column.name], column, positive, least) for column in contract.sensitive
        },
        "label": {"name": label.name, "positive": int(positive.sum())},
    }
    path = context.workdir / "reference.json"
    path.write_text(json.dumps(reference, indent=1, allow_nan=False))
    return StepResult({"reference": (path, "reference")}, {"rows": table.num_rows})


def _column(values: pa.ChunkedArray, column: Column, least: int) -> dict[str, Any]:
    if is_numeric(column):
        numbers = numbers_of(values, column)
        bins = numeric_bins(numbers)
        missing = int(np.isnan(numbers).sum())
        kind = "date" if column.logical_type == "date" else "number"
        return {
            "kind": kind,
            "edges": list(bins.edges),
            "counts": list(bins.counts),
            "missing": _told(missing, column, least),
        }
    counts, missing = category_counts(values)
    told = _told(missing, column, least)
    named, other = pool_small(dict(sorted(counts.items())), least)
    return {
        "kind": "category",
        "names": list(named),
        "counts": list(named.values()),
        "other": other,
        "missing": told,
    }


def _told(missing: int, column: Column, least: int) -> int:
    """Missing values; of a sensitive attribute they are a group, and a small one is nobody's business."""
    return 0 if column.role == "sensitive" and missing < least else missing


def _groups(
    values: pa.ChunkedArray, column: Column, positive: NDArray[np.bool_], least: int
) -> dict[str, Any]:
    names, codes = group_codes(values, column)
    sizes = np.bincount(codes, minlength=len(names))
    positives = np.bincount(codes, weights=positive, minlength=len(names)).astype(int)
    named, other = pool_small(dict(zip(names, sizes.tolist(), strict=True)), least)
    of = dict(zip(names, positives.tolist(), strict=True))
    # a rest of fewer rows than that has nobody to hide among, and is left out
    rest = other if other >= least else 0
    return {
        "names": list(named),
        "counts": list(named.values()),
        "positives": [of[name] for name in named],
        "other": rest,
        "other_positives": sum(count for name, count in of.items() if name not in named) if rest else 0,
    }


STEP = Step("profile", profile)
