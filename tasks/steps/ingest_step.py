"""Ingest: read the table from its files, in blocks, and write it as one Parquet file."""

from __future__ import annotations

import hashlib
import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq

from evenhand.fairlib.file_digests import sha256_of_file
from evenhand.tasks.errors import NotCarriedOut
from evenhand.tasks.execution.dataset import StoredTable, block_file, take_over
from evenhand.tasks.execution.step import Parts, StepContext, StepResult
from evenhand.tasks.sources.lakes import lake_of
from evenhand.tasks.sources.table_forms import TableForms
from evenhand.tasks.sources.table_reader import (
    common_schema,
    files_of,
    format_of,
    infer_table_forms,
    open_parquet,
    read_source,
    readable,
    reading_notes,
    with_unique_names,
)

# Rows of a block, in which later steps read the table, and its cells in a wide table.
GROUP_ROWS = 1 << 18
GROUP_CELLS = 1 << 23
# a table with long texts has fewer rows in a group
GROUP_BYTES = 1 << 29
# Blocks in one file of the table, so that earlier files can be taken over where rows were appended.
RUN_GROUPS = 4


def ingest(context: StepContext) -> StepResult:
    """Read the table and write ``raw.parquet``, or of many rows the folder ``raw`` of such files.

    Parts of a folder of Parquet files that an earlier run read are not read again. With `infer` the
    forms of the table's text that the source does not state are found first. Raises `NotCarriedOut`
    if a file changes meanwhile.
    """
    before = _stamps(context.inputs.values())
    source = context.parameters["source"]
    forms = TableForms()
    if source.get("path"):
        (path,) = context.inputs.values()
        if context.parameters.get("infer"):
            forms = infer_table_forms(path, source)
        else:
            forms = TableForms(notes=reading_notes(path, source))
    blocks = read_source({**source, **forms.keys}, context.inputs, context.parameters["seed"])
    schema = blocks.schema
    folder = context.workdir / "raw"
    parts = _take_parts(schema, context, folder)
    if not parts:
        write_raw(blocks, folder)
    after = _stamps(context.inputs.values())
    changed = sorted(path.name for path, stamp in before.items() if after.get(path) != stamp)
    if changed or len(after) > len(before):
        name = "the table"
        if changed:
            name = changed[0]
        raise NotCarriedOut(f"{name} changed while it was read: run again once it is written.")
    written = StoredTable(folder)
    if len(written.files) == 1:
        written = StoredTable(written.files[0].rename(context.workdir / "raw.parquet"))
    facts: dict[str, Any] = {"rows": written.num_rows, "columns": len(schema)}
    if forms.notes:
        facts["notes"] = forms.notes
    if forms.repeated:
        facts["repeated"] = sorted(forms.repeated)
    return StepResult({"raw": (written.path, "raw")}, facts, parts)


def _take_parts(schema: pa.Schema, context: StepContext, folder: Path) -> Parts:
    """Write a folder of many rows in Parquet files, but for what earlier results have.

    A part has ``RUN_GROUPS`` row groups, wherever files end, and is known by the files that its
    rows are in. Returns nothing, and writes nothing, for other tables.
    """
    stated = context.parameters["source"]
    if any(stated.get(key) for key in ("decimal", "dates", "spellings")):
        return {}  # the rows of files as they stand are not those of the table
    files = _parquet_files(context)
    if not files:
        return {}
    rows = RUN_GROUPS * _group_rows(schema)
    name = Path(stated["path"]).name
    parts = {}
    with readable(name, "parquet"):
        ends = list(itertools.accumulate(pq.read_metadata(file).num_rows for file in files))
        digests = [_digest(file) for file in files]
    if ends[-1] <= rows:
        return {}
    file_schema = common_schema(files, name)
    serialized_schema = file_schema.remove_metadata().serialize().to_pybytes()
    for number, start in enumerate(range(0, ends[-1], rows)):
        first = bisect_right(ends, start)
        last = bisect_left(ends, min(start + rows, ends[-1]))
        skipped = start
        if first:
            skipped = start - ends[first - 1]
        content = (serialized_schema, skipped, digests[first : last + 1])
        made_of = hashlib.sha256(repr(content).encode()).hexdigest()
        part_file = f"{number:06d}.parquet"
        parts[made_of] = ("raw", part_file)
        if not take_over(context.earlier.get(made_of), folder, part_file):
            part_rows = open_parquet(files[first : last + 1], name, file_schema, skipped)
            groups = _row_groups(with_unique_names(part_rows))
            _write_run(itertools.islice(groups, RUN_GROUPS), schema, folder, number)
    return parts


def _parquet_files(context: StepContext) -> list[Path]:
    """Files of a table that is a folder of Parquet files; none of another table."""
    source = next(iter(context.inputs.values()), None)
    if source is None or not source.is_dir() or lake_of(source):
        return []
    files = files_of(source)
    if not files or format_of(files[0].name) != "parquet":
        return []
    return files


def _digest(file: Path) -> tuple[str, list[str]]:
    """Digest of a file, and the parts of its path that have values of columns."""
    return sha256_of_file(file), [part for part in file.parts if "=" in part]


def write_raw(blocks: pa.RecordBatchReader, folder: Path) -> None:
    """Write a table into a folder, in files of ``RUN_GROUPS`` row groups."""
    groups = _row_groups(blocks)
    for number, first in enumerate(groups):
        run = itertools.chain([first], itertools.islice(groups, RUN_GROUPS - 1))
        _write_run(run, blocks.schema, folder, number)
    if not folder.exists():
        _write_run([], blocks.schema, folder, 0)


def _write_run(groups: Iterable[pa.Table], schema: pa.Schema, folder: Path, number: int) -> None:
    """Write some row groups as one Parquet file."""
    # Without pandas' metadata and the reader's blocks, the digest depends on the content only.
    schema = schema.remove_metadata()
    with (
        block_file(folder, f"{number:06d}.parquet") as path,
        pq.ParquetWriter(path, schema) as writer,
    ):
        for group in groups:
            writer.write_table(group.cast(schema))


def _stamps(paths: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """Size and time of the last change of files, and of all files in folders."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files.extend(path.rglob("*"))
        else:
            files.append(path)
    stamps = {}
    for file in files:
        if file.is_file():
            status = file.stat()
            stamps[file] = (status.st_size, status.st_mtime_ns)
    return stamps


def _row_groups(blocks: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Tables of as many rows as :func:`_group_rows` says, the last with fewer, each in one
    chunk.
    """
    waiting = blocks.schema.empty_table()
    size = _group_rows(blocks.schema)
    for block in blocks:
        waiting = pa.concat_tables([waiting, pa.Table.from_batches([block])])
        while waiting.num_rows >= size:
            yield waiting.slice(0, size).combine_chunks()
            waiting = waiting.slice(size)
        if waiting.nbytes > GROUP_BYTES:
            yield waiting.combine_chunks()
            waiting = blocks.schema.empty_table()
    if waiting.num_rows:
        yield waiting.combine_chunks()


def _group_rows(schema: pa.Schema) -> int:
    """``GROUP_ROWS``, or as many rows as have ``GROUP_CELLS`` cells."""
    return max(1, min(GROUP_ROWS, GROUP_CELLS // max(1, len(schema))))
