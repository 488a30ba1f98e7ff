"""Profile: counts of the training rows by value, and leaks among them; neither describes a single
person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.data_contracts.arrow import decode, group_codes, group_labels, label_codes
from evenhand.data_contracts.model import Column, Contract
from evenhand.fairlib.arrays import Bool, Float, Int
from evenhand.fairlib.evaluation.binning import numeric_bins, pool_small
from evenhand.fairlib.preprocessing.encoder import category_name
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
from evenhand.tasks.registry.row_digests import bits_of, described_columns, membership

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
    ``other``, and bins hold too many rows to describe a single person. ``membership`` has a bit of
    each row (:mod:`evenhand.tasks.registry.row_digests`).
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

    def bits() -> Iterator[NDArray[np.uint8]]:
        blocks = in_units(replace(training).block, checked.places(), context.execution)
        for found, taken in blocks:
            sampled.append(taken)
            yield found

    known = membership(bits(), len(rows), contract)
    label = contract.label
    codes = label_codes(checked[label.name].take(rows), label)
    positive = None if label.classes else codes == 1
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
    outputs = context.write_json("reference", {**reference, "membership": known})
    outputs |= context.write_json("leaks", leaks)
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
        found: dict[str, Any]
        # The model reads a date as a number of days.
        if column.logical_type == "date" or column.encoding in ("standard", "unit", "text"):
            numbers = numbers_of(values, column)
            bins = numeric_bins(numbers)
            missing = int(np.isnan(numbers).sum())
            kind = "date" if column.logical_type == "date" else "number"
            found = {"kind": kind, "edges": list(bins.edges), "counts": list(bins.counts)}
        else:
            counts, missing = category_counts(values)
            named, other = pool_small(dict(sorted(counts.items())), self.least)
            found = {
                "kind": "category",
                "names": list(named),
                "counts": list(named.values()),
                "other": other,
            }
        # Missing values of a sensitive attribute are a group; a small group's size is hidden.
        hidden = column.role == "sensitive" and missing < self.least
        return found | {"missing": 0 if hidden else missing}

    def block(self, place: Block) -> tuple[NDArray[np.uint8], pa.Table]:
        """Membership bits of the training rows of a block, and those of them that leaks are sought
        in.
        """
        rows = self.rows.to_numpy()
        first, last = np.searchsorted(rows, [place.rows.start, place.rows.stop])
        block = place.read(described_columns(self.contract))
        taken = block.take(pa.array(rows[first:last] - place.rows.start))
        sampled = sampled_rows(len(rows))
        sampled = sampled[(sampled >= first) & (sampled < last)] - first
        return bits_of(taken, len(rows), self.contract), taken.take(pa.array(sampled))


def _label_counts(codes: Int, label: Column, least: int) -> dict[str, Any]:
    """Rows with the positive value, or of each class that has rows enough."""
    if not label.classes:
        return {"positive": int(codes.sum())}
    sizes = np.bincount(codes, minlength=len(label.classes)).tolist()
    return {"classes": {str(v): n for v, n in zip(label.classes, sizes, strict=True) if n >= least}}


def _groups(
    values: pa.ChunkedArray, column: Column, positive: Bool | None, least: int
) -> dict[str, Any]:
    names, codes = group_codes(values, column)
    sizes = np.bincount(codes, minlength=len(names))
    named, other = pool_small(dict(zip(names, sizes.tolist(), strict=True)), least)
    # A smaller rest would describe single people, so it is left out.
    rest = other if other >= least else 0
    found = {"names": list(named), "counts": list(named.values()), "other": rest}
    if positive is None:
        return found
    positives = np.bincount(codes, weights=positive, minlength=len(names)).astype(int)
    positives_of = dict(zip(names, positives.tolist(), strict=True))
    others = sum(n for name, n in positives_of.items() if name not in named) if rest else 0
    return found | {"positives": [positives_of[name] for name in named], "other_positives": others}


def numbers_of(values: pa.ChunkedArray, column: Column) -> Float:
    """Values as float64, shape (n,): of dates the days since 1970-01-01, of sentences the
    characters.

    Missing ones are NaN.
    """
    values = decode(values)
    if column.is_text:
        values = pc.utf8_length(values)
    if column.logical_type == "date":
        values = values.cast(pa.date32(), safe=False).cast(pa.int32())
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def category_counts(values: pa.ChunkedArray) -> tuple[dict[str, int], int]:
    """Rows per category, under the encoder's names, and rows with a missing value or NaN."""
    counts: Counter[str] = Counter()
    missing = 0
    for item in pc.value_counts(decode(values).combine_chunks()):
        value = item["values"].as_py()
        count = item["counts"].as_py()
        if value is None or value != value:
            missing += count
        else:
            counts[category_name(value)] += count
    return dict(counts), missing


def leak_report(table: pa.Table, contract: Contract, rows: int) -> dict[str, Any]:
    """Find leaks and stand-ins among the model inputs of a typed sample of a table of so many
    `rows`.

    `table` has the contract's columns, as after :func:`evenhand.data_contracts.arrow.coerce`.

    The result has ``rows`` and ``sampled`` rows; the ``threshold`` of an AUC; ``columns``,
    suspected ones with ``name``, ``kind`` (see
    :class:`evenhand.fairlib.preprocessing.leaks.Suspect`), ``auc`` and ``attribute``; ``joint_auc``
    of a tree on the others, None if there are no others or too few rows; ``stand_ins``, by
    attribute a list with ``name``, ``group`` and ``auc``, and their ``stand_in_threshold``.
    """
    inputs = {
        c.name: _codes_or_numbers(table[c.name], c)
        for c in contract.features
        if c.role == "feature"
    }
    label = contract.label
    codes = label_codes(table[label.name], label)
    sensitive = {
        column.name: _codes_or_numbers(table[column.name], column) for column in contract.sensitive
    }
    suspects: dict[str, Suspect] = {}
    joint: float | None = None
    # a class against all others, one after the other
    for k in range(len(label.classes)) if label.classes else (1,):
        found, auc = find_leaks(inputs, codes == k, sensitive)
        suspects |= {one.name: one for one in found if one.name not in suspects}
        joint = max((x for x in (joint, auc) if x is not None), default=None)
    groups = {
        column.name: group_labels(table[column.name], column) for column in contract.sensitive
    }
    told = stand_ins({**inputs, **sensitive}, groups)
    return {
        "format": FORMAT,
        "rows": rows,
        "sampled": table.num_rows,
        "label": contract.label.name,
        "threshold": LEAK_AUC,
        "columns": [_rounded(asdict(suspects[name])) for name in inputs if name in suspects],
        "joint_auc": None if joint is None else round(joint, DIGITS),
        "stand_in_threshold": STAND_IN_AUC,
        "stand_ins": {
            name: [_rounded(asdict(item)) for item in found] for name, found in told.items()
        },
    }


def _rounded(item: dict[str, Any]) -> dict[str, Any]:
    return item | {"auc": None if item["auc"] is None else round(item["auc"], DIGITS)}


def _codes_or_numbers(values: pa.ChunkedArray, column: Column) -> NDArray[Any]:
    """Numbers and days as float64, or the codes of categories as int64; shape (n,)."""
    ordered = column.encoding == "ordinal" and column.allowed is not None
    is_category = column.encoding in ("onehot", "binary", "ordinal") or not column.is_numeric
    is_category &= not column.is_text
    if is_category and column.logical_type != "date":
        values = decode(values)
        categories = pa.array(column.allowed) if ordered else pc.unique(values).drop_null()
        codes = pc.index_in(values, value_set=categories.cast(values.type)).fill_null(-1)
        return np.asarray(codes.to_numpy(), dtype=np.int64)
    numbers = numbers_of(values, column)
    return np.where(np.isfinite(numbers), numbers, np.nan)
