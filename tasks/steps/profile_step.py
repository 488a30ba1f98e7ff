"""Profile: counts of the training rows by value, and leaks among them; neither describes a single
person.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.data_contracts.arrow import (
    decode,
    group_codes,
    group_labels,
    label_codes,
    numbers_of,
)
from evenhand.data_contracts.model import Column, Contract
from evenhand.fairlib.arrays import Bool, Int
from evenhand.fairlib.evaluation.binning import numeric_bins, pool_small
from evenhand.fairlib.preprocessing.encoder import category_counts
from evenhand.fairlib.preprocessing.leaks import (
    LEAK_AUC,
    STAND_IN_AUC,
    Suspect,
    find_leaks,
    sampled_rows,
    stand_ins,
)
from evenhand.tasks.execution.dataset import Block, StoredTable
from evenhand.tasks.execution.step import StepContext, StepResult, in_units
from evenhand.tasks.registry.row_digests import (
    Digests,
    described_columns,
    join_views,
    recorded_columns,
    row_views,
    table_of_views,
)

FORMAT = 1
# Of an AUC in the document of leaks.
DIGITS = 4


def profile(context: StepContext) -> StepResult:
    """Write ``reference.json``, which is published with the model, and ``leaks.json``, see
    :func:`leak_report`.

    The reference has, for each model input, the counts of quantile bins or of categories, and of
    missing values; for each sensitive attribute, the counts of its groups and of positive labels in
    each; and the count of positive labels. Of more than two labels it has the count of each, and
    none by group. Categories and groups of fewer than `min_cell` rows are counted together as
    ``other``, and bins hold too many rows to describe a single person.

    ``training_rows`` has digests of the rows (:mod:`evenhand.tasks.registry.row_digests`). They
    stay in the store: a publication has keyed ones.
    """
    contract = Contract.from_dict(context.parameters["contract"])
    least = context.parameters["min_cell"]
    # Only the row numbers of the dataset are needed, not its matrix.
    checked = StoredTable(context.inputs["checked"])
    training = _Training(checked, context.inputs["train"] / "y.parquet", contract, least)
    rows = training.rows
    features = [contract.column(name) for name in context.parameters["features"]]
    names = [column.name for column in features]
    # new objects: units of work read the rows themselves
    counts = in_units(replace(training).column, names, context.execution)
    columns = dict(zip(names, counts, strict=True))
    sampled: list[pa.Table] = []

    def views() -> Iterator[dict[str, Digests]]:
        blocks = in_units(replace(training).block, checked.places(), context.execution)
        for block_views, sample in blocks:
            sampled.append(sample)
            yield block_views

    digests = join_views(views())
    label = contract.label
    codes = label_codes(checked[label.name].take(rows), label)
    positive = None
    if not label.classes:
        positive = codes == 1
    reference = {
        "format": FORMAT,
        "rows": len(rows),
        "min_cell": least,
        "columns": columns,
        "groups": {
            column.name: _groups(checked[column.name].take(rows), column, positive, least)
            for column in contract.sensitive
        },
        "label": {"name": label.name, **_label_counts(codes, label, least)},
    }
    leaks = leak_report(pa.concat_tables(sampled), contract, len(rows))
    outputs = context.write_json("reference", reference)
    outputs |= context.write_json("leaks", leaks)
    path = context.workdir / "training_rows.parquet"
    pq.write_table(table_of_views(digests), path)
    outputs["training_rows"] = path, "training_rows"
    return StepResult(outputs, {"rows": len(rows), "leak_suspected": len(leaks["columns"])})


@dataclass(frozen=True)
class _Training:
    """The training rows of a table, as units of work read them in any process."""

    table: StoredTable
    split: Path
    contract: Contract
    least: int

    @cached_property
    def rows(self) -> pa.ChunkedArray:
        """Their positions, sorted."""
        return pq.read_table(self.split, columns=["row"])["row"]

    def column(self, name: str) -> dict[str, Any]:
        """Counts of a model input."""
        values = self.table[name].take(self.rows)
        column = self.contract.column(name)
        counted: dict[str, Any]
        # The model reads a date as a number of days.
        if column.logical_type == "date" or column.encoding in ("standard", "unit", "text"):
            numbers = numbers_of(values, column)
            bins = numeric_bins(numbers)
            missing = int(np.isnan(numbers).sum())
            counted = {"kind": "number", "edges": list(bins.edges), "counts": list(bins.counts)}
            if column.logical_type == "date":
                counted["kind"] = "date"
        else:
            counts, missing = category_counts(decode(values))
            large, other_count = pool_small(dict(sorted(counts.items())), self.least)
            counted = {
                "kind": "category",
                "names": list(large),
                "counts": list(large.values()),
                "other": other_count,
            }
        # Missing values of a sensitive attribute are a group; a small group's size is hidden.
        if column.role == "sensitive" and missing < self.least:
            missing = 0
        return counted | {"missing": missing}

    def block(self, place: Block) -> tuple[dict[str, Digests], pa.Table]:
        """Digests of the training rows of a block, and the rows of its sample for leakage
        detection.
        """
        rows = self.rows.to_numpy()
        first, last = np.searchsorted(rows, [place.rows.start, place.rows.stop])
        block = place.read(recorded_columns(self.contract))
        trained = block.take(pa.array(rows[first:last] - place.rows.start))
        sampled = sampled_rows(len(rows))
        sampled = sampled[(sampled >= first) & (sampled < last)] - first
        views = row_views(trained, len(rows), self.contract)
        described = trained.select(described_columns(self.contract))
        return views, described.take(pa.array(sampled))


def _label_counts(codes: Int, label: Column, least: int) -> dict[str, Any]:
    """Rows with the positive value, or of each class that has rows enough."""
    if not label.classes:
        return {"positive": int(codes.sum())}
    sizes = np.bincount(codes, minlength=len(label.classes)).tolist()
    classes = {}
    for value, size in zip(label.classes, sizes, strict=True):
        if size >= least:
            classes[str(value)] = size
    return {"classes": classes}


def _groups(
    values: pa.ChunkedArray, column: Column, positive: Bool | None, least: int
) -> dict[str, Any]:
    names, codes = group_codes(values, column)
    sizes = np.bincount(codes, minlength=len(names))
    large, other_count = pool_small(dict(zip(names, sizes.tolist(), strict=True)), least)
    # A smaller number of others would describe single people, so it is left out.
    if other_count < least:
        other_count = 0
    counted = {"names": list(large), "counts": list(large.values()), "other": other_count}
    if positive is None:
        return counted
    positives = np.bincount(codes, weights=positive, minlength=len(names)).astype(int)
    positives_of = dict(zip(names, positives.tolist(), strict=True))
    other_positives = 0
    if other_count:
        other_positives = sum(n for name, n in positives_of.items() if name not in large)
    counted["positives"] = [positives_of[name] for name in large]
    counted["other_positives"] = other_positives
    return counted


def leak_report(table: pa.Table, contract: Contract, rows: int) -> dict[str, Any]:
    """Find leaks and proxy features among the model inputs of a typed sample of a table of so many
    `rows`.

    `table` has the contract's columns, as after :func:`evenhand.data_contracts.arrow.coerce`.

    The result has ``rows`` and ``sampled`` rows; the ``threshold`` of an AUC; ``columns``,
    suspected ones with ``name``, ``kind`` (see
    :class:`evenhand.fairlib.preprocessing.leaks.Suspect`), ``auc`` and ``attribute``; ``joint_auc``
    of a tree on the others, None if there are no others or too few rows; ``stand_ins``, by
    attribute a list with ``name``, ``group`` and ``auc``, and their ``stand_in_threshold``.
    """
    inputs = {}
    for column in contract.features:
        if column.role == "feature":
            inputs[column.name] = codes_or_numbers(table[column.name], column)
    label = contract.label
    codes = label_codes(table[label.name], label)
    sensitive = {
        column.name: codes_or_numbers(table[column.name], column) for column in contract.sensitive
    }
    suspects: dict[str, Suspect] = {}
    joint: float | None = None
    # a class against all others, one after the other
    positive_codes: Sequence[int] = (1,)
    if label.classes:
        positive_codes = range(len(label.classes))
    for code in positive_codes:
        code_suspects, auc = find_leaks(inputs, codes == code, sensitive)
        suspects |= {item.name: item for item in code_suspects if item.name not in suspects}
        if joint is None or (auc is not None and auc > joint):
            joint = auc
    groups = {
        column.name: group_labels(table[column.name], column) for column in contract.sensitive
    }
    proxies = {}
    for name, features in stand_ins({**inputs, **sensitive}, groups).items():
        proxies[name] = [_rounded(asdict(feature)) for feature in features]
    return {
        "format": FORMAT,
        "rows": rows,
        "sampled": table.num_rows,
        "label": contract.label.name,
        "threshold": LEAK_AUC,
        "columns": [_rounded(asdict(suspects[name])) for name in inputs if name in suspects],
        "joint_auc": _rounded_auc(joint),
        "stand_in_threshold": STAND_IN_AUC,
        "stand_ins": proxies,
    }


def _rounded(item: dict[str, Any]) -> dict[str, Any]:
    return item | {"auc": _rounded_auc(item["auc"])}


def _rounded_auc(auc: float | None) -> float | None:
    if auc is None:
        return None
    return round(auc, DIGITS)


def _categories(values: pa.ChunkedArray, column: Column) -> pa.Array:
    """The categories of a column: in the contract's order, or as they occur."""
    if column.encoding == "ordinal" and column.allowed is not None:
        return pa.array(column.allowed)
    return pc.unique(values).drop_null()


def codes_or_numbers(values: pa.ChunkedArray, column: Column) -> NDArray[Any]:
    """Numbers and days as float64, or the codes of categories as int64; shape (n,)."""
    is_category = column.encoding in ("onehot", "binary", "ordinal") or not column.is_numeric
    is_category &= not column.is_text
    if is_category and column.logical_type != "date":
        values = decode(values)
        categories = _categories(values, column)
        codes = pc.index_in(values, value_set=categories.cast(values.type)).fill_null(-1)
        return np.asarray(codes.to_numpy(), dtype=np.int64)
    numbers = numbers_of(values, column)
    return np.where(np.isfinite(numbers), numbers, np.nan)
