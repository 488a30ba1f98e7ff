"""Blocks of rows of a row group of a Parquet file, read without a copy of the file in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset

from evenhand.data_contracts.spellings import Spellings, find_spellings


def group_blocks(group: pyarrow.dataset.Fragment, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Blocks of one row group of a Parquet file."""
    # read ahead, or buffered before, a file is in memory as a whole
    plain = pyarrow.dataset.ParquetFragmentScanOptions(pre_buffer=False)
    # with threads the scanner runs ahead of the writer by up to 1 GiB
    return group.to_batches(
        schema, batch_readahead=0, fragment_scan_options=plain, use_threads=False
    )


def columns_of_raw(raw: Path) -> list[str]:
    """Names of the columns of a raw table: a Parquet file, or of many rows a folder of such."""
    return list(pyarrow.dataset.dataset(raw, format="parquet").schema.names)


def spellings_of_raw(raw: Path, columns: Sequence[str]) -> Spellings:
    """Values of columns of a raw table that seem to be one."""
    table = pyarrow.dataset.dataset(raw, format="parquet").to_table(list(columns))
    return find_spellings({name: table[name] for name in columns})
