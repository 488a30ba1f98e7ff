"""Reading a unit: record batches of bounded size, with the columns that may be in the output."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import fsspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from evenhand.data_contracts.arrow import is_text
from evenhand.tasks.errors import InputError
from evenhand.tasks.filtering.bundle import ProxyBundle
from evenhand.tasks.filtering.columns import Selection, select_columns
from evenhand.tasks.filtering.inputs import InputFile, os_reason
from evenhand.tasks.filtering.settings import FilterSettings
from evenhand.tasks.ingest import DELIMITERS

__all__ = ["Stream", "parquet_footer", "read_csv", "read_parquet"]

BATCH_ROWS = 1 << 17
BATCH_BYTES = 32 << 20
BUFFER_BYTES = 1 << 20
BLOCK_BYTES = 8 << 20
HEADER_BYTES = 1 << 20
# A text column of fewer bytes a value than this was written with a dictionary that fits it.
DICTIONARY_BYTES = 4.0
_PLAIN = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
WIDTHS = {"BOOLEAN": 0.0, "INT32": 4.0, "INT64": 8.0, "FLOAT": 4.0, "DOUBLE": 8.0, "INT96": 12.0}


@dataclass(frozen=True)
class Stream:
    """
    Batches of a file.

    Attributes
    ----------
    batches : iterator of RecordBatch
        Text columns may come as dictionaries.
    selection : Selection
        Columns, those left out among them.
    schema : Schema or None
        Types as the output shall have them; None: the batches' own, after the contract's types were given.
    dictionaries : list of str or True
        Columns for which the output may try a dictionary.
    first_row : int
        Rows of the file before the first batch.
    """

    batches: Iterator[pa.RecordBatch]
    selection: Selection
    schema: pa.Schema | None
    dictionaries: list[str] | bool = True
    first_row: int = 0


def parquet_footer(file: InputFile) -> pq.FileMetaData:
    """
    Metadata of a Parquet file, without reading a row.

    Raises
    ------
    InputError
        It is empty, truncated or something else.
    """
    if file.size == 0:
        raise InputError(f"{file.name} is empty: check where it is written.")
    with _opened(file) as source, _readable(file):
        return pq.read_metadata(source)


@contextmanager
def read_parquet(
    file: InputFile,
    groups: tuple[int, int],
    bundle: ProxyBundle,
    settings: FilterSettings,
    *,
    threads: bool,
) -> Iterator[Stream]:
    """
    Stream row groups of a Parquet file.

    The size of batches follows from the file's metadata alone. Columns are read through small buffers, so
    that memory does not grow with the size of row groups.
    """
    footer = parquet_footer(file)
    with _opened(file) as source, _readable(file), pq.ParquetFile(source, metadata=footer) as parquet:
        # FileMetaData.schema refers back to its metadata, and neither would ever be freed
        schema = parquet.schema_arrow
    with _readable(file):
        selection = select_columns(schema.names, bundle, settings, file.name)
    declared = pa.schema([schema.field(name) for name in selection.kept])
    wanted = list(range(*groups))
    sizes = _bytes_per_value(footer, wanted)
    total = sum(footer.row_group(i).total_byte_size for i in wanted)
    rows = sum(footer.row_group(i).num_rows for i in wanted)
    text = [name for name in selection.kept if is_text(schema.field(name).type)]
    as_dictionaries = [
        name for name in text if name in bundle.categorical or sizes.get(name, 99.0) < DICTIONARY_BYTES
    ]
    batch_rows = max(1024, min(BATCH_ROWS, int(BATCH_BYTES * max(rows, 1) / max(total, 1))))

    def batches(parquet: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
        with _readable(file):
            columns = None if not selection.left_out else selection.kept
            for batch in parquet.iter_batches(batch_rows, wanted, columns, use_threads=threads):
                yield _without_views(batch.select(selection.kept))

    with _opened(file) as source:
        with _readable(file):
            parquet = pq.ParquetFile(
                source,
                metadata=footer,
                read_dictionary=as_dictionaries,
                buffer_size=BUFFER_BYTES,
                pre_buffer=False,
                page_checksum_verification=True,
            )
        with parquet:
            before = sum(footer.row_group(i).num_rows for i in range(groups[0]))
            tried = _worth_a_dictionary(footer, wanted, sizes)
            yield Stream(batches(parquet), selection, declared, tried, before)


def _without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Text and bytes of the usual layout: Arrow cannot filter views."""
    plain = [_PLAIN.get(field.type, field.type) for field in batch.schema]
    if plain == batch.schema.types:
        return batch
    return batch.cast(pa.schema(list(zip(batch.schema.names, plain, strict=True))))


def _bytes_per_value(footer: pq.FileMetaData, groups: Sequence[int]) -> dict[str, float]:
    """Encoded bytes per value of every flat column that has a dictionary in all row groups."""
    found: dict[str, float] = {}
    for position in range(footer.num_columns):
        chunks = [footer.row_group(i).column(position) for i in groups]
        values = sum(chunk.num_values for chunk in chunks)
        if values and all(chunk.has_dictionary_page for chunk in chunks):
            found[chunks[0].path_in_schema] = sum(chunk.total_uncompressed_size for chunk in chunks) / values
    return found


def _worth_a_dictionary(
    footer: pq.FileMetaData, groups: Sequence[int], sizes: dict[str, float]
) -> list[str] | bool:
    """Columns whose dictionary saved something in the input: for others, trying one is lost time."""
    if not groups:
        return True
    chunks = [footer.row_group(groups[0]).column(i) for i in range(footer.num_columns)]
    return [
        chunk.path_in_schema
        for chunk in chunks
        if sizes.get(chunk.path_in_schema, 99.0) < WIDTHS.get(chunk.physical_type, 2 * DICTIONARY_BYTES)
    ]


@contextmanager
def read_csv(file: InputFile, bundle: ProxyBundle, settings: FilterSettings) -> Iterator[Stream]:
    """
    Stream a CSV file, compressed by gzip or not.

    Every column is text here: what the contract knows gets the contract's type afterwards, by the rules that
    hold for the training table, and the rest stays text. Types are never guessed from the first rows.
    """
    if file.size == 0:
        raise InputError(f"{file.name} is empty: check where it is written.")
    gzipped = _is_gzip(file)
    if file.name.endswith(".gz") and not gzipped:
        raise InputError(f"{file.name} is not compressed by gzip, whatever its ending says: rename it.")
    with _readable(file), _text_stream(file, gzipped) as stream:
        header = stream.read(HEADER_BYTES)
    names, delimiter, lone = _header(header, settings.delimiter, file.name)
    selection = select_columns(names, bundle, settings, file.name)
    known = {column.name: column.logical_type for column in bundle.contract.columns}
    kinds = {
        name: pa.dictionary(pa.int32(), pa.string()) if known.get(name) == "string" else pa.string()
        for name in selection.kept
    }
    if lone:
        empty = pa.RecordBatch.from_pylist([], schema=pa.schema(list(kinds.items())))
        yield Stream(iter([empty]), selection, None)
        return
    convert: dict[str, Any] = {"strings_can_be_null": True, "quoted_strings_can_be_null": True}
    if settings.null_values is not None:
        convert["null_values"] = list(settings.null_values)
    with _text_stream(file, gzipped) as stream:
        with _readable(file):
            reader = pyarrow.csv.open_csv(
                stream,
                # a single cell must fit into a block
                read_options=pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES),
                parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=kinds, include_columns=selection.kept, **convert
                ),
            )
        yield Stream(_guarded(reader, file), selection, None)


@contextmanager
def _opened(file: InputFile) -> Iterator[BinaryIO | str]:
    with ExitStack() as stack:
        with _readable(file):
            source = stack.enter_context(file.open())
        yield source


def _guarded(batches: Iterable[pa.RecordBatch], file: InputFile) -> Iterator[pa.RecordBatch]:
    with _readable(file):
        yield from batches


@contextmanager
def _text_stream(file: InputFile, gzipped: bool) -> Iterator[pa.NativeFile]:
    compression = "gzip" if gzipped else None
    with _opened(file) as source:
        if isinstance(source, str):
            with pa.input_stream(source, compression=compression, buffer_size=BUFFER_BYTES) as stream:
                yield stream
        else:
            with pa.PythonFile(source, mode="r") as plain:
                yield pa.CompressedInputStream(plain, compression) if compression else plain


def _is_gzip(file: InputFile) -> bool:
    with _readable(file), fsspec.open(file.url, "rb") as stream:
        magic = stream.read(4)
    if magic == b"PAR1" or magic[:2] == b"PK":
        found = "Parquet" if magic == b"PAR1" else "a zip archive"
        raise InputError(f"{file.name} is {found}, not CSV, whatever its ending says: set filter.format.")
    return bool(magic[:2] == b"\x1f\x8b")


def _header(content: bytes, delimiter: str | None, name: str) -> tuple[list[str], str, bool]:
    """Column names, the delimiter, and whether nothing follows."""
    first, _, rest = content.lstrip(b"\r\n").partition(b"\n")
    try:
        line = first.decode("utf-8-sig").rstrip("\r")
    except UnicodeDecodeError:
        raise InputError(f"the header of {name} is not UTF-8 text: save the file as UTF-8.") from None
    if not line.strip():
        raise InputError(f"{name} has no header line: write the column names first.")
    counts = {mark: len(next(csv.reader([line], delimiter=mark))) for mark in DELIMITERS}
    mark = delimiter or max(counts, key=lambda mark: (counts[mark], -DELIMITERS.index(mark)))
    names = next(csv.reader([line], delimiter=mark))
    return names, mark, len(content) < HEADER_BYTES and not rest.strip()


@contextmanager
def _readable(file: InputFile) -> Iterator[None]:
    """Turn what a damaged file does into one line, without Arrow's words: these may quote a row."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise InputError(f"{file.name} cannot be opened ({os_reason(error)}): check it.") from None
        if file.format == "parquet":
            raise InputError(f"{file.name} is a damaged or truncated Parquet file: write it again.") from None
        fields = re.search(r"Expected \d+ columns, got \d+", str(error))
        if fields:
            reason = f"cannot be read as CSV ({fields[0].lower()} in a row): check the delimiter and quoting."
        elif "UTF8" in str(error):
            reason = "is not UTF-8 text: save the file as UTF-8."
        else:
            reason = "is damaged, truncated or no CSV: write it again."
        raise InputError(f"{file.name} {reason}") from None
