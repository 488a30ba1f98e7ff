"""Read a table from its files, in blocks: CSV, Parquet, Arrow, Excel, folders and lakes of them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.sources.delimiters import NAMES, find_delimiter, first_row
from evenhand.tasks.sources.encodings import encoding_of, encoding_of_file
from evenhand.tasks.sources.headers import (
    NUMBERED,
    check_unique,
    column_name,
    headers_note,
    names_twice,
    numbered_names,
)
from evenhand.tasks.sources.lakes import lake_of, open_lake
from evenhand.tasks.sources.plain_forms import checked_blocks, in_joined_spellings, in_plain_forms
from evenhand.tasks.sources.row_group_blocks import (
    dictionary_bytes,
    group_blocks,
    refuse_much,
    row_groups_of,
)
from evenhand.tasks.sources.spreadsheets import ENDINGS as SHEET_ENDINGS
from evenhand.tasks.sources.spreadsheets import read_sheet, sheet_table
from evenhand.tasks.sources.table_forms import TableForms, infer_forms

ZEROS = r"^\s*[+-]?0[0-9]"
# The types of a column of CSV that Arrow tries one after another.
CSV_TYPES = (
    pa.null(),
    pa.int64(),
    pa.bool_(),
    pa.date32(),
    pa.time32("s"),
    pa.timestamp("s"),
    pa.timestamp("ns"),
    pa.timestamp("s", "UTC"),
    pa.timestamp("ns", "UTC"),
    pa.float64(),
    pa.string(),
    pa.binary(),
)
BLOCK_BYTES = 1 << 24
ENDINGS = {
    "csv": (".csv", ".tsv", ".txt", ".data"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
    "excel": SHEET_ENDINGS,
}


def read_source(
    source: Mapping[str, Any], inputs: Mapping[str, Path], seed: int
) -> pa.RecordBatchReader:
    """Open a table, or generate it.

    `source` is the job's ``table``, and `inputs` are the local paths of its files by name, see
    :func:`evenhand.tasks.sources.fetching.fetch_source`. Raises `InputError` if a file cannot be
    read, has no columns, or a name occurs twice; where a Parquet file is damaged within, when the
    reader comes to it.
    """
    from evenhand.fairlib.datasets.generated import GENERATED
    from evenhand.fairlib.datasets.recipes import RECIPES

    is_named = not (source.get("path") or source.get("sql"))
    if is_named and source["name"] in GENERATED:
        generated = GENERATED[source["name"]]
        frame = generated.make(source.get("rows") or generated.rows, seed=seed)
        made = pa.Table.from_pandas(frame, preserve_index=False)
        # its names are those of pandas, each once; without pandas' description of the types
        return made.replace_schema_metadata().to_reader()
    if is_named and source["name"] in RECIPES:
        with input_errors(f"table {source['name']}: "):
            frame = RECIPES[source["name"]].read(inputs)
        table = pa.Table.from_pandas(frame, preserve_index=False).to_reader()
    else:
        (path,) = inputs.values()
        table = open_table(path, source)
        if not len(table.schema):
            raise InputError(f"{path.name} has no columns: check where it is written.")
    return with_unique_names(table)


def with_unique_names(table: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """The same columns, with names; an `InputError` if one occurs twice."""
    schema = pa.schema([field.with_name(column_name(field.name)) for field in table.schema])
    check_unique(schema.names, "the table")
    renamed = (pa.RecordBatch.from_arrays(block.columns, schema=schema) for block in table)
    return pa.RecordBatchReader.from_batches(schema, renamed)


def format_of(name: str) -> str | None:
    """Format of a table by the ending of its name: ``csv``, ``parquet``, ``arrow``, ``excel``, or
    None.
    """
    suffix = Path(name.removesuffix(".gz")).suffix.lower()
    return next((kind for kind, endings in ENDINGS.items() if suffix in endings), None)


def files_of(folder: Path) -> list[Path]:
    """Table files below a folder, all Parquet or all CSV; an empty list if there is none.

    Hidden files, and files in hidden folders, are left out. Raises `InputError` if there are both
    kinds.
    """
    parquet: list[Path] = []
    text: list[Path] = []
    for path in sorted(folder.rglob("*")):
        hidden = any(part[0] in "._" for part in path.relative_to(folder).parts)
        if hidden or not path.is_file():
            continue
        kind = format_of(path.name)
        if kind == "parquet":
            parquet.append(path)
        elif kind == "csv":
            text.append(path)
    if parquet and text:
        raise InputError(
            f"the folder {folder.name} holds Parquet and CSV files, such as {parquet[0].name} and "
            f"{text[0].name}: keep one kind."
        )
    return parquet or text


def open_table(path: Path, source: Mapping[str, Any]) -> pa.RecordBatchReader:
    """Open a Parquet, CSV (any delimiter, quoted or not, gzip), Arrow, Feather or Excel file, or a
    folder.

    A folder may be a table of Delta Lake or Iceberg (:mod:`evenhand.tasks.sources.lakes`).

    `source` may have ``path``, whose ending gives the format unless ``format`` does, ``delimiter``,
    ``null_values``, ``encoding``, ``decimal``, ``dates``, ``sheet`` and ``headers``. Raises
    `InputError` if a file is empty, truncated, ragged or of another format.
    """
    spellings = source.get("spellings")
    if not any(source.get(key) for key in ("decimal", "dates")):
        table = _open_table(path, source, None)
    else:
        checked = source.get("decimal") is None
        opened = partial(_open_table, path, source, types_of={}, checked=checked)
        table = in_plain_forms(
            opened, _shown_name(path, source), source.get("decimal"), source.get("dates")
        )
    if spellings:
        return in_joined_spellings(table, spellings, _shown_name(path, source))
    return table


def infer_table_forms(path: Path, source: Mapping[str, Any]) -> TableForms:
    """Find a table's encoding, delimiter or sheet, and how its header, numbers and dates are
    written.

    `source` is as in :func:`open_table`; the forms that it states are taken as they are. Raises
    `InputError` as :func:`evenhand.tasks.sources.table_forms.infer_forms` does.
    """
    files = _text_files(path, source)
    for file in files:
        with file.open("rb") as stream:
            is_gzipped(file.name, stream.read(4), "rename it or set table.format")
    layout = TableForms()
    delimiter = None
    if files:
        layout = _layout_of_text(files, source)
        delimiter = _delimiter(files[0], {**source, **layout.keys})
    elif _is_sheet(path, source):
        layout = _layout_of_sheet(path, source)
    opened = partial(_open_table, path, {**source, **layout.keys}, types_of={}, checked=False)
    return layout.joined(infer_forms(opened, source, delimiter))


def _layout_of_text(files: Sequence[Path], source: Mapping[str, Any]) -> TableForms:
    """Encoding, delimiter and header of CSV files."""
    keys: dict[str, Any] = {}
    notes: list[str] = []
    encoding = source.get("encoding")
    if encoding is None:
        encoding = encoding_of(files)
        if encoding is not None:
            keys["encoding"] = encoding
            notes.append(
                f"the file is not UTF-8: read as {encoding}; state another encoding with "
                "--encoding (table.encoding)"
            )
    else:
        notes.extend(encoding_notes(files, encoding))
    delimiter = _delimiter(files[0], {**source, "encoding": encoding})
    if delimiter != "," and not source.get("delimiter"):
        described = NAMES[delimiter]
        notes.append(f"the fields are separated by {described}; state another with table.delimiter")
    with _input_stream(files[0], gzipped=_is_gzip(files[0])) as stream:
        head = stream.read(BLOCK_BYTES)
    header = first_row(decoded_head(head, encoding_of_file(files[0], encoding)), delimiter)
    return _with_headers(
        TableForms(keys, notes), header.fields, source, is_late=header.follows_fields
    )


def _layout_of_sheet(path: Path, source: Mapping[str, Any]) -> TableForms:
    """Sheet and header of a spreadsheet."""
    sheet = read_sheet(path, _shown_name(path, source), source.get("sheet"))
    keys: dict[str, Any] = {}
    notes: list[str] = []
    if not sheet.is_only_one:
        keys["sheet"] = sheet.name
    if sheet.others and source.get("sheet") is None:
        other_sheets = ", ".join(map(repr, sheet.others))
        notes.append(
            f"the sheet {sheet.name!r} is read, the first with rows, and not {other_sheets}; state "
            "another with --sheet (table.sheet)"
        )
    return _with_headers(TableForms(keys, notes), sheet.header, source)


def _with_headers(
    layout: TableForms, header: Sequence[str], source: Mapping[str, Any], *, is_late: bool = False
) -> TableForms:
    """Add that names get numbers, where the header has empty ones or one more than once, or comes
    after rows of empty fields.
    """
    repeated = names_twice([column_name(name) for name in header])
    if not (repeated or is_late) or source.get("headers") is not None:
        return layout
    changes = headers_note(header) or "the header comes after rows of empty fields"
    note = f"{changes} (table.headers); give each column a name of its own"
    return replace(
        layout,
        keys={**layout.keys, "headers": NUMBERED},
        notes=[*layout.notes, note],
        repeated=frozenset(repeated),
    )


def encoding_notes(files: Sequence[Path], stated: str | None) -> list[str]:
    """Say of which files the bytes prove another encoding than the stated one."""
    notes = []
    for file in files:
        encoding = encoding_of_file(file, stated)
        if encoding != stated and stated is not None:
            notes.append(f"{file.name} is {encoding or 'UTF-8'}, not {stated}: it was read so")
    return notes


def reading_notes(path: Path, source: Mapping[str, Any]) -> list[str]:
    """Notes on how a table's files were read although the source says otherwise."""
    return encoding_notes(_text_files(path, source), source.get("encoding"))


def decoded_head(head: bytes, encoding: str | None) -> str:
    """Text of a file's first bytes, the last character of which may be cut off."""
    return head[: 1 << 20].decode(encoding or "utf-8", errors="replace")


def _is_sheet(path: Path, source: Mapping[str, Any]) -> bool:
    kind = source.get("format") or format_of(_shown_name(path, source))
    return path.is_file() and kind == "excel"


def _is_gzip(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


def _table_of_sheet(path: Path, name: str, source: Mapping[str, Any]) -> pa.Table:
    status = path.stat()
    version = (status.st_mtime_ns, status.st_size)
    return _sheet_version(path, version, name, source.get("sheet"), source.get("headers"))


@lru_cache(maxsize=1)
def _sheet_version(
    path: Path, version: tuple[int, int], name: str, sheet: str | int | None, headers: str | None
) -> pa.Table:
    """The last table of a sheet: a table is opened several times, and each time as a whole."""
    return sheet_table(read_sheet(path, name, sheet), name, headers)


def _text_files(path: Path, source: Mapping[str, Any]) -> list[Path]:
    """CSV files of a table; none if it has another format."""
    if path.is_dir():
        if lake_of(path):
            return []
        files = files_of(path)
        if files and format_of(files[0].name) == "parquet":
            return []
        return files
    kind = source.get("format") or format_of(_shown_name(path, source))
    if kind == "csv" and path.stat().st_size:
        return [path]
    return []


def _delimiter(file: Path, source: Mapping[str, Any]) -> str:
    """Delimiter of a CSV file."""
    if source.get("delimiter"):
        return str(source["delimiter"])
    encoding = encoding_of_file(file, source.get("encoding"))
    with _input_stream(file, gzipped=_is_gzip(file)) as opened:
        return find_delimiter(opened.read(BLOCK_BYTES), file.name, encoding)


def _input_stream(file: Path, *, gzipped: bool) -> pa.NativeFile:
    """Open a file to read its bytes, decompressed."""
    compression = None
    if gzipped:
        compression = "gzip"
    return pa.input_stream(str(file), compression=compression)


def _shown_name(path: Path, source: Mapping[str, Any]) -> str:
    return Path(str(source.get("path") or path).split("?")[0]).name


def _open_table(
    path: Path,
    source: Mapping[str, Any],
    as_text: Collection[str] | None,
    types_of: dict[Path, dict[str, pa.DataType]] | None = None,
    checked: bool = True,
) -> pa.RecordBatchReader:
    """Open a table whose numbers and dates stay as they are written.

    `as_text` are columns of CSV files that are read as text; with None files of a folder must agree
    in their types. `types_of` keeps the types of CSV files for the next call. With `checked`
    numbers that have two readings are refused.
    """
    name = _shown_name(path, source)
    lake = lake_of(path)
    if lake:
        return open_lake(path, lake, name)
    if path.is_dir():
        return _open_folder(path, name, source, as_text, types_of, checked)
    kind = source.get("format") or format_of(name)
    if kind is None:
        raise InputError(
            f"{name} has an ending of no known format: set table.format to csv or parquet."
        )
    if path.stat().st_size == 0:
        raise InputError(f"{name} is empty: check where it is written.")
    with path.open("rb") as stream:
        magic = stream.read(4)
    if kind == "parquet":
        if magic != b"PAR1":
            raise InputError(
                f"{name} is not a Parquet file, despite its ending: set table.format in the job."
            )
        return open_parquet([path], name)
    if kind == "arrow":
        return _open_arrow(path, name)
    if kind == "excel":
        return _table_of_sheet(path, name, source).to_reader()
    gzipped = is_gzipped(name, magic, "rename it or set table.format")
    if types_of is None:
        types_of = {}
    return _open_csv(path, name, source, gzipped, as_text or (), types_of, checked)


def _open_arrow(path: Path, name: str) -> pa.RecordBatchReader:
    def blocks() -> Iterator[pa.RecordBatch]:
        with readable(name, "arrow"):
            for batch in batches:
                batch.validate(full=True)  # a damaged file may have offsets and text that are none
                _refuse_repeated_texts(batch, name)
                yield batch

    with readable(name, "arrow"):
        try:
            file = pa.ipc.open_file(path)
            schema = file.schema
            batches = map(file.get_batch, range(file.num_record_batches))
        except pa.ArrowInvalid:
            batches = pa.ipc.open_stream(path)
            schema = batches.schema
    return pa.RecordBatchReader.from_batches(schema, blocks())


def _refuse_repeated_texts(batch: pa.RecordBatch, name: str) -> None:
    """Refuse a batch of which a column repeats long texts of its dictionary."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        is_text = pa.types.is_dictionary(field.type) and (
            pa.types.is_string(field.type.value_type)
            or pa.types.is_large_string(field.type.value_type)
        )
        if is_text:
            refuse_much(name, field.name, column.nbytes, dictionary_bytes(column))


def is_gzipped(name: str, magic: bytes, cure: str) -> bool:
    """Whether a CSV file with these first bytes is compressed; an `InputError` if it is no CSV
    file.
    """
    if magic == b"PAR1" or magic[:2] == b"PK":
        kind = "a zip archive"
        if magic == b"PAR1":
            kind = "Parquet"
        raise InputError(f"{name} is {kind}, not CSV, despite its ending: {cure}.")
    if magic[:2] in (b"<!", b"<?", b"<h", b"<H"):
        raise InputError(
            f"{name} is a web page, not CSV: fetch the file itself, signed in if need be, or check "
            "table.delimiter."
        )
    gzipped = magic[:2] == b"\x1f\x8b"
    if name.endswith(".gz") and not gzipped:
        raise InputError(f"{name} is not compressed by gzip, despite its ending: rename it.")
    return gzipped


def _open_folder(
    folder: Path,
    name: str,
    source: Mapping[str, Any],
    as_text: Collection[str] | None,
    types_of: dict[Path, dict[str, pa.DataType]] | None,
    checked: bool,
) -> pa.RecordBatchReader:
    files = files_of(folder)
    if not files or format_of(files[0].name) == "parquet":
        return open_parquet(files, name)

    def open_file(file: Path, texts: Collection[str] | None) -> pa.RecordBatchReader:
        file_source = {**source, "path": file.name, "format": "csv"}
        return _open_table(file, file_source, texts, types_of, checked)

    tables = [open_file(file, as_text) for file in files]
    if as_text is not None:
        # 584 in one file may be 584,56 in another
        mixed = _text_in_some([table.schema for table in tables])
        if mixed:
            tables = [open_file(file, {*as_text, *mixed}) for file in files]
    schemas = _with_codes_as_text([table.schema for table in tables])
    unlike = InputError(
        f"the CSV files in {name} have different columns or types: make them alike."
    )
    try:
        # A column of whole numbers in one file may have fractions in another.
        whole = pa.unify_schemas(schemas, promote_options="permissive").empty_table()
    except pa.ArrowException:
        raise unlike from None

    def blocks() -> Iterator[pa.RecordBatch]:
        for table, schema in zip(tables, schemas, strict=True):
            for block in table:
                parts = [whole, pa.Table.from_batches([block]).cast(schema)]
                try:
                    yield from pa.concat_tables(parts, promote_options="permissive").to_batches()
                except pa.ArrowException:
                    raise unlike from None

    return pa.RecordBatchReader.from_batches(whole.schema, blocks())


def _text_in_some(schemas: Sequence[pa.Schema]) -> set[str]:
    """Columns that are text in some files of a folder, and something else in others."""
    is_text: dict[str, set[bool]] = {}
    for schema in schemas:
        for column in schema:
            is_text.setdefault(column.name, set()).add(pa.types.is_string(column.type))
    return {name for name, kinds in is_text.items() if len(kinds) > 1}


def _with_codes_as_text(schemas: Sequence[pa.Schema]) -> list[pa.Schema]:
    """Schemas in which whole numbers are text where they are text in another file.

    Codes such as 01234 are read as text, but as numbers in files where no code starts with a zero.
    """
    texts: set[str] = set()
    for schema in schemas:
        texts.update(column.name for column in schema if pa.types.is_string(column.type))
    changed = []
    for schema in schemas:
        columns = []
        for column in schema:
            if column.name in texts and pa.types.is_integer(column.type):
                column = column.with_type(pa.string())
            columns.append(column)
        changed.append(pa.schema(columns))
    return changed


def open_parquet(
    files: Sequence[Path], name: str, schema: pa.Schema | None = None, skipped: int = 0
) -> pa.RecordBatchReader:
    """Open files as one table; with a schema as some files of one, after so many `skipped` rows."""
    whole = schema is None
    if schema is None:
        schema = common_schema(files, name)

    def blocks(before: int = skipped) -> Iterator[pa.RecordBatch]:
        # imported lazily: it imports pandas
        from pyarrow.dataset import dataset

        for file in files:
            where = f"{name}/{file.name}"
            if whole and len(files) == 1:
                where = name
            with readable(where, "parquet"):
                # a column that one file lacks is missing there
                part = dataset(file, schema, format="parquet", partitioning="hive")
                groups = []
                for fragment in part.get_fragments():
                    groups.extend(row_groups_of(fragment))
            for number, group in enumerate(groups, start=1):
                with readable(where, "parquet", place=f" in row group {number}"):
                    rows = group.count_rows()
                    if before >= rows:
                        before -= rows
                        continue
                    for block in group_blocks(group, schema):
                        yield block[before:]
                        before = max(0, before - len(block))

    return pa.RecordBatchReader.from_batches(schema, blocks())


def common_schema(files: Sequence[Path], name: str) -> pa.Schema:
    """Schema that holds the columns of all Parquet files of a folder; `InputError` if there is
    none.
    """
    # imported lazily: it imports pandas
    from pyarrow.dataset import dataset

    with readable(name, "parquet"):
        for file in files:
            check_unique(pq.read_schema(file).names, "the table")
        parts = [dataset(file, format="parquet", partitioning="hive") for file in files]
    try:
        return pa.unify_schemas([part.schema for part in parts], promote_options="default")
    except pa.ArrowException:
        raise InputError(
            f"the Parquet files in {name} have different columns or types: make them alike."
        ) from None


def _open_csv(
    path: Path,
    name: str,
    source: Mapping[str, Any],
    gzipped: bool,
    as_text: Collection[str],
    types_of: dict[Path, dict[str, pa.DataType]],
    checked: bool,
) -> pa.RecordBatchReader:
    """Open a CSV file, with the types that Arrow infers from all of its rows, or some columns as
    text.
    """
    parse: dict[str, Any] = {"newlines_in_values": True}
    encoding = encoding_of_file(path, source.get("encoding"))
    convert = csv_options(source.get("null_values"))
    names: list[str] = []
    header_rows = 1

    def opened() -> pa.NativeFile:
        return _input_stream(path, gzipped=gzipped)

    def read(**options: Any) -> pyarrow.csv.CSVStreamingReader:
        arguments = csv_arguments(parse, {**convert, **options}, encoding=encoding)
        arguments["read_options"].use_threads = False  # errors have the number of the row
        if names:
            arguments["read_options"].column_names = names
            arguments["read_options"].skip_rows_after_names = header_rows
        if b"\n" in head:
            return pyarrow.csv.open_csv(opened(), **arguments)
        # a header alone is a table without rows
        return pyarrow.csv.open_csv(pa.BufferReader(head + line_end(encoding)), **arguments)

    def blocks() -> Iterator[pa.RecordBatch]:
        with readable(name, "csv"), read(column_types=types) as reader:
            yield from reader

    with readable(name, "csv"):
        with opened() as stream:
            head = stream.read(BLOCK_BYTES)
        parse["delimiter"] = source.get("delimiter") or find_delimiter(head, name, encoding)
        if source.get("headers") == NUMBERED:
            header = first_row(decoded_head(head, encoding), parse["delimiter"])
            names.extend(numbered_names(header.fields))
            header_rows += header.before
        if path not in types_of:
            types_of[path] = _csv_types(read)
            types_of[path] |= dict.fromkeys(_codes(read, types_of[path]), pa.string())
    types = types_of[path] | dict.fromkeys([n for n in as_text if n in types_of[path]], pa.string())
    _refuse_bytes(types, name)
    schema = pa.schema(list(types.items()))
    parts = blocks()
    if checked and parse["delimiter"] != ",":
        parts = checked_blocks(parts, schema, name)
    return pa.RecordBatchReader.from_batches(schema, parts)


def _refuse_bytes(types: Mapping[str, pa.DataType], name: str) -> None:
    """Refuse a column whose values are no text."""
    for column, kind in types.items():
        if pa.types.is_binary(kind):
            raise InputError(f"the column {column!r} of {name} {not_text(None)}")


def _csv_types(read: Callable[..., pyarrow.csv.CSVStreamingReader]) -> dict[str, pa.DataType]:
    """Types that Arrow would infer by column if it read all rows at once, not the first block
    alone.
    """
    types: dict[str, pa.DataType] = {}
    while True:
        try:
            with read(column_types=types) as blocks:
                check_unique(list(map(column_name, blocks.schema.names)), "the table")
                types = dict(zip(blocks.schema.names, blocks.schema.types, strict=True))
                for _ in blocks:
                    pass
        except pa.ArrowInvalid as error:
            place = re.match(r"In CSV column #(\d+): .*CSV conversion error", str(error))
            if not place:
                raise
            column = list(types)[int(place[1])]
            types[column] = CSV_TYPES[CSV_TYPES.index(types[column]) + 1]
        else:
            return types


def csv_options(null_values: Sequence[str] | None) -> dict[str, Any]:
    """Arrow's options for missing values; None: the usual spellings."""
    options: dict[str, Any] = {"strings_can_be_null": True, "quoted_strings_can_be_null": True}
    if null_values is not None:
        options["null_values"] = list(null_values)
    return options


@contextmanager
def readable(name: str, kind: str, section: str = "table", place: str = "") -> Iterator[None]:
    """Report an unreadable file in one line, without Arrow's message, which may quote a row.

    `kind` is parquet, arrow or csv, `section` the job's section with the key `delimiter`.
    """
    try:
        yield
    except UnicodeDecodeError as error:
        raise InputError(f"{name} {not_text(error.encoding, section)}") from None
    except (pa.ArrowException, OSError) as error:
        fields = re.search(r"(Row #\d+: )?(Expected \d+ columns, got \d+)", str(error))
        if isinstance(error, MemoryError):
            reason = "needs more memory than there is: write it in smaller row groups."
        elif isinstance(error, FileNotFoundError | PermissionError):
            reason = f"cannot be opened ({os_reason(error)}): check it."
        elif kind == "parquet":
            reason = f"is a damaged or truncated Parquet file{place}: write it again."
        elif kind == "arrow":
            reason = "is no Arrow or Feather file, or damaged: write it again."
        elif fields:
            row = (fields[1] or "a row").lower().rstrip(": ")
            reason = (
                f"cannot be read as CSV ({fields[2].lower()} in {row}): check {section}.delimiter "
                "and the quoting."
            )
        elif "UTF8" in str(error):
            reason = not_text(None, section)
        else:
            reason = "is damaged, truncated or no CSV: write it again, or check its quoting."
        raise InputError(f"{name} {reason}") from None


def not_text(encoding: str | None, section: str = "table") -> str:
    """Why a file cannot be read as text, and the cure; the encoding None is UTF-8."""
    if encoding is None or encoding.replace("_", "-").lower() in ("utf-8", "utf8", "utf-8-sig"):
        return (
            f"is not UTF-8 text: save it as UTF-8, or name its encoding: {section}.encoding: "
            "cp1252, say."
        )
    return f"is not text of the encoding {encoding}: correct {section}.encoding."


def line_end(encoding: str | None) -> bytes:
    """A line feed in an encoding, without its byte order mark."""
    name = encoding or "utf-8"
    return "a\n".encode(name)[len("a".encode(name)) :]


def os_reason(error: OSError) -> str:
    """Reason of a system error; the texts of Arrow and others quote paths, and are long."""
    if error.errno:
        return os.strerror(error.errno)
    return type(error).__name__


def csv_arguments(
    parse: Mapping[str, Any],
    convert: Mapping[str, Any],
    block_bytes: int | None = None,
    encoding: str | None = None,
) -> dict[str, Any]:
    """Arguments of Arrow's readers of CSV; a block must hold the longest cell."""
    return {
        "read_options": pyarrow.csv.ReadOptions(
            block_size=block_bytes or BLOCK_BYTES, encoding=encoding or "utf8"
        ),
        "parse_options": pyarrow.csv.ParseOptions(**parse),
        "convert_options": pyarrow.csv.ConvertOptions(**convert),
    }


def _codes(
    read: Callable[..., pyarrow.csv.CSVStreamingReader], types: Mapping[str, pa.DataType]
) -> set[str]:
    """Columns that were read as numbers but hold codes such as 01234, which must keep their
    zeros.
    """
    numeric = []
    for name, kind in types.items():
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            numeric.append(name)
    codes = set[str]()
    if not numeric:
        return codes
    as_text = {"include_columns": numeric, "column_types": dict.fromkeys(numeric, pa.string())}
    with read(**as_text) as blocks:
        for block in blocks:
            for name in numeric:
                if name in codes:
                    continue
                if pc.any(pc.match_substring_regex(block.column(name), ZEROS)).as_py():
                    codes.add(name)
    return codes
