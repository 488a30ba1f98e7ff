"""Blocks of rows of a row group of a Parquet file, read without a copy of the file in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq

from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.spellings import Spellings, find_spellings
from evenhand.tasks.errors import InputError

# A column may unpack to so many bytes, or to so many times its size in the file.
LARGE_BYTES = 1 << 30
LARGEST_RATIO = 100
BLOCK_ROWS = 1 << 17
# A value of a list is counted as what it takes where a library of lists holds it.
LISTED_BYTES = 8


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


def unknown_columns(raw: Path, contract: Contract) -> list[str]:
    """Names of a raw table's columns that a contract does not know."""
    declared = {column.name for column in contract.columns}
    return [name for name in columns_of_raw(raw) if name not in declared]


def spellings_of_raw(raw: Path, columns: Sequence[str]) -> Spellings:
    """Values of columns of a raw table that seem to be one."""
    table = pyarrow.dataset.dataset(raw, format="parquet").to_table(list(columns))
    return find_spellings({name: table[name] for name in columns})


def row_groups_of(file: pyarrow.dataset.Fragment) -> list[pyarrow.dataset.Fragment]:
    """The row groups of a Parquet file, for :func:`group_blocks`.

    Raises `InputError` if a column with texts, bytes or lists unpacks to far more than the file
    holds: it would be in memory as a whole.
    """
    groups = list(file.split_by_row_group())
    sizes: dict[str, int] = {}
    unpacked: dict[str, int] = {}
    for group in groups:
        for row_group in group.row_groups:
            for name, size, whole in _sizes(group, row_group.id):
                sizes[name] = sizes.get(name, 0) + size
                unpacked[name] = unpacked.get(name, 0) + whole
                refuse_much(Path(group.path).name, name, sizes[name], unpacked[name])
    return groups


def _sizes(group: pyarrow.dataset.Fragment, number: int) -> Iterator[tuple[str, int, int]]:
    """Columns of a row group whose values may be long: name, bytes in the file, and unpacked."""
    metadata = group.metadata
    row_group = metadata.row_group(number)
    for place in range(row_group.num_columns):
        column = row_group.column(place)
        kind = metadata.schema.column(place)
        unpacked = column.total_uncompressed_size
        if kind.max_repetition_level:
            unpacked = max(unpacked, column.num_values * LISTED_BYTES)
        elif column.physical_type == "FIXED_LEN_BYTE_ARRAY":
            unpacked = max(unpacked, column.num_values * kind.length)
        elif column.physical_type != "BYTE_ARRAY":
            continue
        elif _may_repeat_much(column):
            unpacked = max(unpacked, _text_bytes(group, number, column.path_in_schema))
        yield column.path_in_schema.split(".")[0], column.total_compressed_size, unpacked


def refuse_much(file: str, column: str, size: int, unpacked: int) -> None:
    """Raise `InputError` where a column's bytes in a file unpack to far more."""
    if unpacked > max(LARGE_BYTES, LARGEST_RATIO * size):
        raise InputError(
            f"the column {column} of {file} takes {size / 1e6:,.1f} MB and unpacks to "
            f"{unpacked / 1e9:,.1f} GB: leave it out, or write it in smaller parts."
        )


def _may_repeat_much(column: pq.ColumnChunkMetaData) -> bool:
    """Whether a text could be as long, and repeated as often, as would be too much.

    A column with a dictionary holds a text once, which is at most as long as the column.
    """
    has_dictionary = any("DICTIONARY" in encoding for encoding in column.encodings)
    return has_dictionary and column.total_uncompressed_size * column.num_values > LARGE_BYTES


def _text_bytes(group: pyarrow.dataset.Fragment, number: int, name: str) -> int:
    """Bytes of all texts of a column at most, found without unpacking them."""
    rows = group.metadata.row_group(number).num_rows
    with pq.ParquetFile(
        group.path, filesystem=group.filesystem, read_dictionary=[name], pre_buffer=False
    ) as file:
        # the first row comes with the whole dictionary
        for block in file.iter_batches(1, [number], [name], use_threads=False):
            longest = _longest_text(block.column(0))
            if longest * rows <= LARGE_BYTES:
                return longest * rows
            break
        total = 0
        for block in file.iter_batches(BLOCK_ROWS, [number], [name], use_threads=False):
            total += dictionary_bytes(block.column(0))
    return total


def dictionary_bytes(column: pa.DictionaryArray) -> int:
    """Bytes of the texts of a column that has them as places in a dictionary."""
    lengths = pc.binary_length(column.dictionary)
    return pc.sum(lengths.take(column.indices)).as_py() or 0


def _longest_text(column: pa.Array) -> int:
    """Bytes of the longest value of a dictionary; 0 for other columns."""
    if not pa.types.is_dictionary(column.type):
        return 0
    return pc.max(pc.binary_length(column.dictionary)).as_py() or 0
