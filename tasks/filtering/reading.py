"""Reading a unit: record batches of bounded size, with the columns that the output may have."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import fsspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from evenhand.data_contracts.arrow import is_text
from evenhand.data_contracts.errors import (
    RENAMED,
    ContractViolation,
    Violation,
    did_you_mean,
    nearest,
)
from evenhand.data_contracts.model import Contract
from evenhand.tasks.errors import InputError
from evenhand.tasks.filtering.checks import Judge, typed
from evenhand.tasks.filtering.filter_bundle import FileSettings
from evenhand.tasks.filtering.filter_inputs import InputFile
from evenhand.tasks.sources.delimiters import delimiter_of, first_row
from evenhand.tasks.sources.encodings import encoding_by_content
from evenhand.tasks.sources.headers import NUMBERED, check_unique, names_twice, numbered_names
from evenhand.tasks.sources.plain_forms import (
    Wanted,
    join_spellings,
    refuse_two_readings,
    rewrite_batch,
)
from evenhand.tasks.sources.spreadsheets import read_sheet, sheet_table
from evenhand.tasks.sources.table_reader import (
    csv_arguments,
    csv_options,
    is_gzipped,
    readable,
)

BATCH_ROWS = 1 << 17
BATCH_BYTES = 32 << 20
BUFFER_BYTES = 1 << 20
BLOCK_BYTES = 8 << 20
HEADER_BYTES = 1 << 20
# A text column with fewer bytes per value was written with a dictionary.
DICTIONARY_BYTES = 4.0
WIDTHS = {"BOOLEAN": 0.0, "INT32": 4.0, "INT64": 8.0, "FLOAT": 4.0, "DOUBLE": 8.0, "INT96": 12.0}
# Arrow cannot filter views.
WITHOUT_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


@dataclass(frozen=True)
class Stream:
    """Batches of a file; text columns may come as dictionaries."""

    batches: Iterator[pa.RecordBatch]
    left_out: list[str]  # sensitive columns that are neither read nor written
    schema: pa.Schema  # types of the output
    dictionaries: list[str] | bool = (
        True  # columns for which the output may try a dictionary; True: all
    )
    first_row: int = 0  # rows of the file before the first batch


def select_columns(names: Sequence[str], judge: Judge, file: str) -> tuple[list[str], list[str]]:
    """Check a file's column names, and choose the columns to read and the sensitive ones to leave
    out.

    Raises `ContractViolation` if a feature is missing, and `InputError` if a name occurs twice, a
    key column is missing, a sensitive column is refused or the output adds a column of a name that
    the file has.
    """
    check_unique(names, file)
    model = judge.model
    section = judge.settings.section
    _require_features(names, judge)
    left_out: list[str] = []
    if judge.settings.sensitive != "keep":
        left_out = [
            name for name in names if name in model.sensitive and name not in model.features
        ]
    if left_out and judge.settings.sensitive == "refuse":
        raise InputError(
            f"{file} holds the sensitive column {left_out[0]!r}: take it out, or set "
            f"{section}.sensitive: drop."
        )
    for name in judge.key:
        if name not in names:
            raise InputError(
                f"{file} lacks the key column {name!r}: correct "
                f"{section}.key{did_you_mean(name, names)}"
            )
    for name in judge.added:
        if name in names:
            raise InputError(
                f"{file} has a column {name!r} already, which the output adds: rename it."
            )
    return [name for name in names if name not in left_out], left_out


def _require_features(names: Sequence[str], judge: Judge) -> None:
    """Raise `ContractViolation` if a feature of the model is no column of the file."""
    model = judge.model
    contract_names = {column.name for column in model.contract.columns}
    unknown = [name for name in names if name not in contract_names]
    violations = []
    for name in model.features:
        if name in names:
            continue
        cure = "add the column"
        close = nearest(name, unknown, likeness=RENAMED)
        if close:
            cure += f"; did you mean '{close}'?"
        violations.append(Violation(name, "the column to be there", 1, (), cure, "table", "none"))
    if violations:
        raise ContractViolation(violations)


def parquet_footer(file: InputFile) -> pq.FileMetaData:
    """Metadata of a Parquet file, without its rows; an `InputError` if the file is empty or
    damaged.
    """
    if file.size == 0:
        raise InputError(f"{file.name} is empty: check where it is written.")
    with ExitStack() as files, _readable(file):
        return pq.read_metadata(_opened(file, files))


def read_table(file: InputFile, judge: Judge, files: ExitStack) -> Stream:
    """Stream the rows of a partition of a database's table; `files` closes it."""
    # imported lazily: other inputs need no database
    from evenhand.tasks.filtering.table_inputs import names_of, read_partition

    names, left_out = select_columns(names_of(file), judge, file.name)
    schema, batches = read_partition(file, names, files)
    return Stream(_in_plain_forms(batches, judge, file), left_out, schema)


def read_lake(file: InputFile, judge: Judge) -> Stream:
    """Stream the rows of a partition of a lake's table."""
    # imported lazily: other inputs need no lake
    from evenhand.tasks.filtering.lake_inputs import lake_schema, read_lake_partition

    whole = lake_schema(file)
    names, left_out = select_columns(whole.names, judge, file.name)
    schema = pa.schema([whole.field(name) for name in names])
    return Stream(_in_plain_forms(read_lake_partition(file, schema), judge, file), left_out, schema)


def read_parquet(
    file: InputFile,
    groups: tuple[int, int],
    judge: Judge,
    files: ExitStack,
    *,
    threads: bool,
) -> Stream:
    """Stream row groups of a Parquet file; `files` closes it.

    The size of batches follows from the file's metadata alone. Columns are read through small
    buffers, so that memory does not grow with the size of row groups.
    """
    footer = parquet_footer(file)
    with _readable(file):
        source = _opened(file, files)
        with pq.ParquetFile(source, metadata=footer) as parquet:
            # not FileMetaData.schema: it refers back to its metadata, and neither would ever be
            # freed
            schema = parquet.schema_arrow
    names, left_out = select_columns(schema.names, judge, file.name)
    group_numbers = list(range(*groups))
    sizes = _bytes_per_value(footer, group_numbers)
    with _readable(file):
        parquet = files.enter_context(
            pq.ParquetFile(
                source,
                metadata=footer,
                read_dictionary=_dictionary_columns(schema, names, sizes, judge),
                buffer_size=BUFFER_BYTES,
                pre_buffer=False,
                page_checksum_verification=True,
            )
        )
        columns = names if left_out else None
        batches = parquet.iter_batches(
            _batch_rows(footer, group_numbers), group_numbers, columns, use_threads=threads
        )
    plain = (_without_views(batch.select(names)) for batch in _guarded(batches, file))
    return Stream(
        _in_plain_forms(plain, judge, file),
        left_out,
        pa.schema([schema.field(name) for name in names]),
        _worth_a_dictionary(footer, group_numbers, sizes),
        sum(footer.row_group(i).num_rows for i in range(groups[0])),
    )


def _batch_rows(footer: pq.FileMetaData, groups: Sequence[int]) -> int:
    """Rows of a batch, so that it has about `BATCH_BYTES`, by the size of the row groups."""
    size = sum(footer.row_group(i).total_byte_size for i in groups)
    rows = sum(footer.row_group(i).num_rows for i in groups)
    return max(1024, min(BATCH_ROWS, int(BATCH_BYTES * max(rows, 1) / max(size, 1))))


def _dictionary_columns(
    schema: pa.Schema, names: Sequence[str], sizes: dict[str, float], judge: Judge
) -> list[str]:
    """Text columns that are read as dictionaries: categories, and those of few bytes a value."""
    columns = []
    for name in names:
        is_short = sizes.get(name, 99.0) < DICTIONARY_BYTES
        if is_text(schema.field(name).type) and (name in judge.model.categorical or is_short):
            columns.append(name)
    return columns


def _without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    plain = [WITHOUT_VIEWS.get(field.type, field.type) for field in batch.schema]
    if plain == batch.schema.types:
        return batch
    return batch.cast(pa.schema(list(zip(batch.schema.names, plain, strict=True))))


def _bytes_per_value(footer: pq.FileMetaData, groups: Sequence[int]) -> dict[str, float]:
    """Encoded bytes per value of every flat column that has a dictionary in all row groups."""
    sizes: dict[str, float] = {}
    for position in range(footer.num_columns):
        chunks = [footer.row_group(i).column(position) for i in groups]
        values = sum(chunk.num_values for chunk in chunks)
        if values and all(chunk.has_dictionary_page for chunk in chunks):
            size = sum(chunk.total_uncompressed_size for chunk in chunks)
            sizes[chunks[0].path_in_schema] = size / values
    return sizes


def _worth_a_dictionary(
    footer: pq.FileMetaData, groups: Sequence[int], sizes: dict[str, float]
) -> list[str] | bool:
    """Columns whose dictionary saves bytes in the input; for other columns it would only
    cost time.
    """
    if not groups:
        return True
    chunks = [footer.row_group(groups[0]).column(i) for i in range(footer.num_columns)]
    return [
        chunk.path_in_schema
        for chunk in chunks
        if sizes.get(chunk.path_in_schema, 99.0)
        < WIDTHS.get(chunk.physical_type, 2 * DICTIONARY_BYTES)
    ]


def read_rows(file: InputFile, judge: Judge, files: ExitStack) -> Stream:
    """Stream a CSV file, compressed by gzip or not, or a sheet of an Excel file; `files` closes it.

    Every column of CSV is read as text. Columns of the contract are then converted to its types, by
    the rules for the training table; others stay as they are. Types are never guessed from the
    first rows.
    """
    if file.format == "excel":
        return _read_sheet(file, judge)
    return _read_csv(file, judge, files)


def _read_sheet(file: InputFile, judge: Judge) -> Stream:
    settings = judge.settings
    with TemporaryDirectory() as scratch, _readable(file):
        place = Path(file.url)
        if "://" in file.url:
            place = Path(scratch) / Path(file.name).name
            with fsspec.open(file.url, "rb") as stream:
                place.write_bytes(stream.read())
        sheet = read_sheet(place, file.name, settings.sheet)
    _refuse_ambiguous_names(sheet.header, judge, file.name)
    table = sheet_table(sheet, file.name, settings.headers)
    names, left_out = select_columns(table.column_names, judge, file.name)
    table = table.select(names)
    contract = judge.model.contract
    batches = _in_plain_forms(table.to_batches(BATCH_ROWS), judge, file)
    schema = typed_batch(pa.RecordBatch.from_pylist([], schema=table.schema), contract).schema
    return Stream(batches, left_out, schema)


def _read_csv(file: InputFile, judge: Judge, files: ExitStack) -> Stream:
    with _readable(file), fsspec.open(file.url, "rb") as stream:
        magic = stream.read(4)
    if not magic:
        raise InputError(f"{file.name} is empty: check where it is written.")
    settings = judge.settings
    contract = judge.model.contract
    gzipped = is_gzipped(file.name, magic, f"set {file.section}.format")
    with _readable(file):
        encoding = encoding_by_content(lambda: _opened_once(file, gzipped), settings.encoding)
    header = _header(file, settings, gzipped, encoding)
    _refuse_ambiguous_names(header.names, judge, file.name)
    all_names = header.names
    if settings.headers == NUMBERED:
        all_names = numbered_names(header.names)
    names, left_out = select_columns(all_names, judge, file.name)
    kinds = _csv_types(names, contract)
    schema = _output_schema(kinds, contract)
    if header.is_whole_file:
        return Stream(iter([]), left_out, schema)
    with _readable(file):
        parse = {"delimiter": header.delimiter, "newlines_in_values": True}
        convert = {
            "column_types": kinds,
            "include_columns": names,
            **csv_options(settings.null_values),
        }
        options = csv_arguments(parse, convert, BLOCK_BYTES, encoding)
        if settings.headers == NUMBERED:
            options["read_options"].column_names = all_names
            options["read_options"].skip_rows_after_names = header.rows
        reader = pyarrow.csv.open_csv(_text_stream(file, gzipped, files), **options)
    batches = _in_plain_forms(_guarded(reader, file), judge, file, header.delimiter)
    return Stream(batches, left_out, schema)


def _refuse_ambiguous_names(names: Sequence[str], judge: Judge, file: str) -> None:
    """Raise `InputError` where two columns have the name of one that the model reads.

    Where the model's table had such columns too, the second one's number distinguishes them.
    """
    read = {column.name for column in judge.model.contract.columns}
    for name in names_twice(names):
        if name in read and f"{name}_2" not in read:
            raise InputError(
                f"the column name {name!r} occurs more than once in {file}: rename all but one."
            )


def _csv_types(names: Sequence[str], contract: Contract) -> dict[str, pa.DataType]:
    """Types that columns are read with: text, in a dictionary for categories of the contract."""
    categories = {column.name for column in contract.columns if column.logical_type == "string"}
    types: dict[str, pa.DataType] = {}
    for name in names:
        types[name] = pa.string()
        if name in categories:
            types[name] = pa.dictionary(pa.int32(), pa.string())
    return types


def _output_schema(kinds: dict[str, pa.DataType], contract: Contract) -> pa.Schema:
    """Types of the columns in the output: those of the contract, without dictionaries."""
    empty = typed_batch(pa.RecordBatch.from_pylist([], schema=pa.schema(kinds)), contract)
    fields = []
    for name, kind in zip(empty.schema.names, empty.schema.types, strict=True):
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        fields.append((name, plain))
    return pa.schema(fields)


def _in_plain_forms(
    batches: Iterable[pa.RecordBatch], judge: Judge, file: InputFile, delimiter: str = ","
) -> Iterator[pa.RecordBatch]:
    """Batches with numbers and dates as a contract reads them
    (:mod:`evenhand.tasks.sources.table_forms`).
    """
    settings = judge.settings
    kinds = {column.name: column.logical_type for column in judge.model.contract.columns}
    is_stated = settings.decimal is not None or settings.dates is not None
    row = 0
    for batch in batches:
        if settings.decimal is None and delimiter != ",":
            refuse_two_readings(batch, kinds, row, file.name, file.section)
        row_count = batch.num_rows
        if is_stated:
            forms = Wanted(settings.decimal, settings.dates, kinds)
            batch = rewrite_batch(batch, forms, row, file.name, file.section)
        if settings.spellings:
            batch = join_spellings(batch, settings.spellings)
        yield batch
        row += row_count


def typed_batch(batch: pa.RecordBatch, contract: Contract) -> pa.RecordBatch:
    """Convert a CSV batch's columns to the types of the contract; others stay text.

    Categories that the contract reads as another one stay, as the output has them.
    """
    contract = contract.without_other()
    contract_columns = {column.name: column for column in contract.columns}
    columns = []
    for name, values in zip(batch.schema.names, batch.columns, strict=True):
        column = contract_columns.get(name)
        if column is not None:
            values = typed(values, column, contract, category=False)
        columns.append(values)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _opened(file: InputFile, files: ExitStack) -> BinaryIO | str:
    """The path of a local file, or a stream of a remote one."""
    if "://" not in file.url:
        return file.url
    stream: BinaryIO = files.enter_context(fsspec.open(file.url, "rb"))
    return stream


def _text_stream(file: InputFile, gzipped: bool, files: ExitStack) -> pa.NativeFile:
    compression = "gzip" if gzipped else None
    source = pa.input_stream(
        _opened(file, files), compression=compression, buffer_size=BUFFER_BYTES
    )
    return files.enter_context(source)


@contextmanager
def _opened_once(file: InputFile, gzipped: bool) -> Iterator[pa.NativeFile]:
    """The bytes of a file, decompressed, for a look at them."""
    with ExitStack() as once:
        yield _text_stream(file, gzipped, once)


@dataclass(frozen=True)
class _Header:
    """The first row of a CSV file."""

    names: list[str]
    rows: int  # with blank ones before it
    delimiter: str
    is_whole_file: bool


def _header(
    file: InputFile, settings: FileSettings, gzipped: bool, encoding: str | None
) -> _Header:
    """Column names, the delimiter, and whether the header is the whole file."""
    with ExitStack() as once, _readable(file):
        content = _text_stream(file, gzipped, once).read(HEADER_BYTES)
        # the last character may be incomplete
        text = codecs.getincrementaldecoder(encoding or "utf-8")().decode(content)
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise InputError(f"{file.name} has no header line: write the column names first.")
    is_whole = len(content) < HEADER_BYTES
    mark = settings.delimiter or delimiter_of(text, file.name, is_whole=is_whole)
    row = first_row(text, mark)
    _, _, remainder = text.strip("\r\n").partition("\n")
    return _Header(row.fields, row.before + 1, mark, is_whole and not remainder.strip())


def _guarded(batches: Iterable[pa.RecordBatch], file: InputFile) -> Iterator[pa.RecordBatch]:
    with _readable(file):
        yield from batches


def _readable(file: InputFile) -> AbstractContextManager[None]:
    return readable(file.name, file.format, file.section)
