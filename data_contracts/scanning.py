"""What the check of a table reads of each batch, in any process, and keeps with a stored batch."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.data_contracts.arrow import decode, nonfinite_mask, null_mask, type_fits
from evenhand.data_contracts.model import Column, Contract

MAX_EXAMPLES = 5
# Distinct values of a column in the note of a batch, and the name of the note in a file's metadata.
MAX_NOTED = 1000
NOTE = b"scan"
# Readers of a file read its notes each time.
NOTE_BYTES = 1 << 18


@dataclass
class Scan:
    """What the check of a table needs of one of its batches, apart from the values of columns that
    fail.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of the batch.
    facts : dict of str to ColumnFacts
        Of each required column that is there once and of the right type.
    bad : ndarray of bool, shape (rows,)
        Rows with NaN or infinity in a number.
    dropped : ndarray of bool, shape (rows,)
        Rows without a sensitive value, if that drops them.
    """

    schema: pa.Schema
    facts: dict[str, ColumnFacts]
    bad: NDArray[np.bool_]
    dropped: NDArray[np.bool_]

    def noted(self, table: pa.Table) -> pa.Table:
        """The batch with this scan in its schema's metadata, if it has rows and the scan is
        small.

        Parameters
        ----------
        table : pyarrow.Table
            The batch.

        Returns
        -------
        pyarrow.Table
            The same rows.
        """
        values = [facts.decisive for facts in self.facts.values() if facts.decisive is not None]
        if len(values) < len(self.facts) or max(map(len, values), default=0) > MAX_NOTED:
            return table
        lists = [pa.ListArray.from_arrays([0, len(item)], item) for item in values]
        counts = {name: str(facts.missing) for name, facts in self.facts.items()}
        batch = pa.record_batch(lists, [*self.facts]).replace_schema_metadata(counts)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        note = base64.b64encode(sink.getvalue())
        if len(note) > NOTE_BYTES:
            return table
        return table.replace_schema_metadata({NOTE: note})


def noted_scan(path: Path, columns: Sequence[Column]) -> Scan | None:
    """Scan of a stored batch without bad or dropped rows, as :meth:`Scan.noted` left it; None
    without one.

    Parameters
    ----------
    path : pathlib.Path
        A Parquet file.
    columns : sequence of Column
        The columns that were scanned.

    Returns
    -------
    Scan or None
    """
    footer = pq.read_metadata(path)
    schema = footer.schema.to_arrow_schema()
    if NOTE not in (schema.metadata or {}):
        return None
    with pa.ipc.open_stream(base64.b64decode(schema.metadata[NOTE])) as reader:
        (batch,) = reader
    missing = batch.schema.metadata
    declared = {column.name: column for column in columns}
    facts = {
        name: ColumnFacts(declared[name], int(missing[name.encode()]), decisive=values.flatten())
        for name, values in zip(batch.schema.names, batch.columns, strict=True)
    }
    return Scan(schema.remove_metadata(), facts, *np.zeros((2, footer.num_rows), dtype=bool))


def scan(table: pa.Table, columns: Sequence[Column], contract: Contract | None) -> Scan:
    """Read a batch in any process: for ``check_table`` the columns of its contract, or encoded
    ones.

    Parameters
    ----------
    table : pyarrow.Table, n rows
        The batch.
    columns : sequence of Column
        The columns to read.
    contract : Contract or None
        Decides whether missing sensitive values drop rows; None for an encoded matrix.

    Returns
    -------
    Scan
    """
    bad, dropped = np.zeros((2, table.num_rows), dtype=bool)
    drops_missing = contract is not None and contract.missing_sensitive == "drop"
    names = table.schema.names
    facts_by_name = {}
    for column in columns:
        name = column.name
        if names.count(name) != 1:
            continue
        if not type_fits(table.schema.field(name).type, column.logical_type):
            continue
        facts = ColumnFacts(column)
        facts_by_name[name] = facts
        missing, nonfinite = facts.read(decode(table.column(name)))
        if column.logical_type == "number":
            bad |= nonfinite
        if drops_missing and column.role == "sensitive":
            dropped |= missing
    return Scan(table.schema, facts_by_name, bad, dropped)


@dataclass
class ColumnFacts:
    """What the check knows of a column of the right type.

    Parameters
    ----------
    column : Column
    missing : int, default 0
        Number of missing values.
    nonfinite : int, default 0
        Number of values that are NaN or infinite.
    examples : list, default []
        Some of these values.
    decisive : pyarrow.Array or None, default None
        The values that decide whether rules hold: distinct ones, or the least, the largest and a
        missing one.
    """

    column: Column
    missing: int = 0
    nonfinite: int = 0
    examples: list[Any] = field(default_factory=list)
    decisive: pa.Array | None = None

    def read(self, values: pa.ChunkedArray) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Count a batch; return where it is missing, and where NaN or infinite.

        Parameters
        ----------
        values : pyarrow.ChunkedArray, length n
            The column's values in the batch.

        Returns
        -------
        missing, nonfinite : ndarray of bool, shape (n,)
        """
        missing = null_mask(values)
        nonfinite = nonfinite_mask(values)
        self.missing = int(missing.sum())
        self.nonfinite = int(nonfinite.sum())
        self.examples = first_examples(values, nonfinite)
        if not len(values):
            return missing, nonfinite
        if self.column.allowed is not None:
            self.decisive = pc.unique(values)
        else:
            ends = pc.min_max(values)
            decisive = [ends["min"].as_py(), ends["max"].as_py()]
            if values.null_count:
                decisive.append(None)
            self.decisive = pa.array(decisive, values.type)
        return missing, nonfinite

    def add(self, later: ColumnFacts) -> None:
        """Add a later batch.

        Parameters
        ----------
        later : ColumnFacts
            Of the same column.
        """
        self.missing += later.missing
        self.nonfinite += later.nonfinite
        add_examples(self.examples, later.examples)
        if self.decisive is None:
            self.decisive = later.decisive
        elif later.decisive is not None:
            self.decisive = pc.unique(pa.chunked_array([self.decisive, later.decisive]))


def first_examples(values: pa.ChunkedArray, mask: NDArray[np.bool_]) -> list[Any]:
    """The first distinct values of a batch for which `mask` is true.

    Parameters
    ----------
    values : pyarrow.ChunkedArray, length n
    mask : ndarray of bool, shape (n,)

    Returns
    -------
    list
        At most `MAX_EXAMPLES` values.
    """
    if not mask.any():
        return []
    return pc.unique(values.filter(pa.array(mask)))[:MAX_EXAMPLES].to_pylist()


def add_examples(known: list[Any], found: list[Any]) -> None:
    """Add distinct values of a batch to the first ``MAX_EXAMPLES`` of a table.

    Parameters
    ----------
    known : list
        Examples of the table, which are extended in place.
    found : list
        Examples of the batch.
    """
    texts = {repr(value) for value in known}  # the string, as NaN equals nothing
    new = [value for value in found if repr(value) not in texts]
    known.extend(new)
    del known[MAX_EXAMPLES:]
