"""A run over files: cut them into units, judge these, and resume an interrupted run."""

from __future__ import annotations

import base64
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenhand.data_contracts.errors import ContractViolation
from evenhand.fairlib.execution import available_cores
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.filtering.checks import Judge, Judged, RowFilter
from evenhand.tasks.filtering.filter_bundle import FileSettings, digest_of
from evenhand.tasks.filtering.filter_inputs import LAKE, InputFile, Inputs, list_inputs
from evenhand.tasks.filtering.output import (
    QUARANTINE,
    OutputFolder,
    UnitRecord,
    unit_name,
)
from evenhand.tasks.filtering.output_places import open_output
from evenhand.tasks.filtering.predicting import RowPredictor
from evenhand.tasks.filtering.reading import (
    Stream,
    parquet_footer,
    read_lake,
    read_parquet,
    read_rows,
    read_table,
    typed_batch,
)
from evenhand.tasks.filtering.summary import FileOutcome, RunSummary, common_fields, counts_of
from evenhand.tasks.filtering.table_inputs import TABLE, list_partitions
from evenhand.tasks.sources.databases import is_database
from evenhand.tasks.sources.lakes import is_lake
from evenhand.tasks.sources.table_reader import os_reason

if TYPE_CHECKING:
    from evenhand.tasks.filtering.in_database import Pushed

JUDGES: dict[str, type[Judge]] = {"filter": RowFilter, "predict": RowPredictor}
# A row group is written when it holds this many bytes or rows.
GROUP_BYTES = 32 << 20
GROUP_ROWS = 1 << 19


@dataclass(frozen=True)
class UnitSpec:
    """A piece of one file that is judged on its own.

    A unit of a Parquet file is a range of row groups and writes one part. A CSV file is one unit of
    several parts, because only reading shows where its rows start; it begins at part `index`.
    """

    file: InputFile
    output: str  # address of the run's output
    index: int  # of the first part that it writes
    last: bool  # whether the file ends with it
    groups: (
        tuple[int, int] | None
    )  # the first row group and the one after the last; None: no Parquet
    threads: bool = False  # whether Arrow may decode with its own threads


@dataclass(frozen=True)
class UnitResult:
    """Records of a unit, or the reason why its file cannot be judged."""

    records: tuple[UnitRecord, ...] = ()
    failure: str | None = None
    read_rows: int = 0  # of a unit that the database judged: rows that were judged here


def plan_units(file: InputFile, output: str, settings: FileSettings) -> list[UnitSpec]:
    """Cut a file into units, from its metadata alone.

    Parquet row groups are gathered while their rows fit into `rows_per_unit`; a file without rows
    is one unit. Raises `InputError` if the metadata cannot be read.
    """
    if file.format in (TABLE, LAKE):
        return [UnitSpec(file, output, 0, True, (0, 1))]  # one transaction
    if file.format != "parquet":
        return [UnitSpec(file, output, 0, True, None)]
    footer = parquet_footer(file)
    cuts = [0]
    rows = 0
    for group in range(footer.num_row_groups):
        size = footer.row_group(group).num_rows
        if rows and rows + size > settings.rows_per_unit:
            cuts.append(group)
            rows = 0
        rows += size
    ends = [*cuts[1:], footer.num_row_groups]
    return [
        UnitSpec(file, output, index, index == len(cuts) - 1, (start, stop))
        for index, (start, stop) in enumerate(zip(cuts, ends, strict=True))
    ]


def run_unit(
    unit: UnitSpec, bundle_folder: str, settings: FileSettings, version: str = ""
) -> UnitResult:
    """Judge one unit in any process, with the model in a folder.

    It neither takes the output's lock nor checks which units are done; the run that planned the
    unit does.
    """
    return process_unit(
        unit, _judge(bundle_folder, digest_of(Path(bundle_folder)), settings, version)
    )


@lru_cache(maxsize=4)
def _judge(folder: str, digest: str, settings: FileSettings, version: str) -> Judge:
    return JUDGES[settings.section].load(folder, settings, version)


def process_unit(unit: UnitSpec, judge: Judge, *, in_database: bool | None = None) -> UnitResult:
    """Judge a unit: write its parts and records, or report why its file cannot be judged.

    `in_database` says whether a database judges its own rows (default: as the judge does).
    Raises `NotCarriedOut` if the output cannot be written.
    """
    output = open_output(unit.output)
    if in_database is None:
        in_database = judge.in_database
    try:
        with ExitStack() as files:
            pushed = None
            if in_database:
                # imported lazily: most runs read their rows
                from evenhand.tasks.filtering.in_database import judged_partition

                pushed = files.enter_context(judged_partition(unit.file, judge, output))
                stream = pushed.stream
            else:
                stream = _stream(unit, judge, files)
            folder = files.enter_context(output.workdir())
            records = tuple(_records(_Work(unit, stream, output, folder, judge, pushed)))
            if pushed is None:
                return UnitResult(records)
            return UnitResult(records, read_rows=records[0].rows_in - pushed.rows)
    except ContractViolation as error:
        if in_database:  # the message counts among all rows
            return process_unit(unit, judge, in_database=False)
        return UnitResult(failure=str(error))
    except InputError as error:
        return UnitResult(failure=str(error))
    except pa.ArrowException as error:
        reason = (
            f"{unit.file.name} has a column of a type that cannot be read ({type(error).__name__})"
        )
        return UnitResult(failure=f"{reason}: take it out or change its type.")
    except OSError as error:  # errors of reading are InputErrors
        raise NotCarriedOut(
            f"the output {output.shown} cannot be written ({os_reason(error)})."
        ) from None


def _stream(unit: UnitSpec, judge: Judge, files: ExitStack) -> Stream:
    """Read the rows of a unit; `files` closes what is opened."""
    if unit.file.format == TABLE:
        return read_table(unit.file, judge, files)
    if unit.file.format == LAKE:
        return read_lake(unit.file, judge)
    if unit.groups is not None:
        return read_parquet(unit.file, unit.groups, judge, files, threads=unit.threads)
    return read_rows(unit.file, judge, files)


class _Work(NamedTuple):
    unit: UnitSpec
    stream: Stream
    output: OutputFolder
    folder: Path
    judge: Judge
    pushed: Pushed | None = None  # rows that the database has judged


def _records(work: _Work) -> Iterator[UnitRecord]:
    """Write a unit's parts, and yield the record of each once it is written."""
    unit = work.unit
    judge = work.judge
    part: _OpenPart | None = None
    for index, first_row, batch in _by_part(unit, work.stream, judge.settings.rows_per_unit):
        if index < unit.index:
            continue  # done by an earlier run
        if unit.groups is None:
            batch = typed_batch(batch, judge.model.contract)
        if part is not None and part.index != index:
            yield part.finish(last=False)
            part = None
        part = part or _OpenPart(index, work)
        part.add(judge.judge(batch, first_row), batch.num_rows)
    part = part or _OpenPart(unit.index, work)
    yield part.finish(last=unit.last)


def _by_part(
    unit: UnitSpec, stream: Stream, size: int
) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """Batches with the number of their part and the number of rows before them."""
    row = stream.first_row
    for batch in stream.batches:
        if unit.groups is not None:
            yield unit.index, row, batch
            row += batch.num_rows
            continue
        start = 0
        while start < batch.num_rows:
            piece = batch.slice(start, size - row % size)
            yield row // size, row, piece
            start += piece.num_rows
            row += piece.num_rows


class _OpenPart:
    """A part that is being written."""

    def __init__(self, index: int, work: _Work) -> None:
        self.index = index
        self.work = work
        schema = work.stream.schema
        dictionaries = work.stream.dictionaries
        added = work.judge.added
        accepted = pa.schema([*schema, *(pa.field(name, kind) for name, kind in added.items())])
        if isinstance(dictionaries, list):
            dictionaries = dictionaries + [
                name for name, kind in added.items() if kind != pa.float64()
            ]
        options = {"compression": work.judge.settings.compression, "use_dictionary": dictionaries}
        self._accepted = _PartWriter(work.folder / f"part-{index}", accepted, options)
        self._broken = _PartWriter(work.folder / f"quarantine-{index}", schema, options)
        self._rows = 0
        self._dropped = 0
        self._outside = 0
        self._outside_columns = Counter[str]()
        self._masses = np.zeros(len(work.judge.weights))
        self._pushed_rows = 0
        if work.pushed is not None:
            self._pushed_rows = work.pushed.rows
            self._rows += work.pushed.rows
            self._masses += work.pushed.masses

    def add(self, judged: Judged, rows: int) -> None:
        """Add a batch."""
        self._rows += rows
        self._dropped += judged.dropped
        self._outside += judged.outside
        self._outside_columns.update(judged.outside_columns)
        self._masses += judged.masses
        self._accepted.write(judged.accepted)
        if judged.broken is not None:
            self._broken.write(judged.broken)

    def finish(self, *, last: bool) -> UnitRecord:
        """Put the parts in place, and then the record."""
        output = self.work.output
        judge = self.work.judge
        file = self.work.unit.file
        name = f"part-{unit_name(file.name, self.index)}.parquet"
        set_aside = (
            output.put(self._broken.path, *QUARANTINE, name) if self._broken.close() else None
        )
        part = output.put(self._accepted.path, name) if self._accepted.close() else None
        record = UnitRecord(
            file=file.name,
            size=file.size,
            version=file.version,
            index=self.index,
            last=last,
            proxy=judge.model.digest,
            proxy_version=judge.model.version,
            settings=judge.settings.digest,
            rows_in=self._rows,
            rows_out=self._accepted.rows + self._pushed_rows,
            quarantined=self._broken.rows,
            dropped=self._dropped,
            expected=float(self._masses @ judge.weights),
            masses=tuple(self._masses.tolist()),
            left_out=tuple(self.work.stream.left_out),
            part=part,
            set_aside=set_aside,
            outside=self._outside,
            outside_columns=dict(self._outside_columns),
        )
        if self.work.pushed is None:
            output.write_record(record)
        else:
            output.write_record(record, self.work.pushed)
        return record


class _PartWriter:
    """Writes batches as one Parquet file of a given schema, or none if there are no rows.

    Text may arrive as dictionaries. They are written as they are, which is much faster than
    decoding them; Parquet's types are the same for both. The bytes depend only on the rows and the
    row groups, not on the batches.
    """

    def __init__(self, path: Path, schema: pa.Schema, options: dict[str, Any]) -> None:
        self.path = path
        self.schema = schema
        self.options = options
        self.rows = 0
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._size = (0, 0)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        if not batch.num_rows:
            return
        self.rows += batch.num_rows
        self._waiting.append(batch)
        self._size = (self._size[0] + batch.num_rows, self._size[1] + batch.nbytes)
        if self._size[0] >= GROUP_ROWS or self._size[1] >= GROUP_BYTES:
            self._flush()

    def close(self) -> bool:
        """Finish the file; False if there is none."""
        if self._waiting:
            self._flush()
        if self._writer is None:
            return False
        # readers take the types from here where Parquet has fewer
        types = base64.b64encode(self.schema.remove_metadata().serialize().to_pybytes()).decode()
        self._writer.add_key_value_metadata({"ARROW:schema": types})
        self._writer.close()
        return True

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._waiting)
        with suppress(pa.ArrowException):  # more values than the type of the indices can count
            # with several dictionaries per column the writer would fall back to plain text
            table = table.unify_dictionaries()
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self.path, table.schema, store_schema=False, **self.options
            )
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._waiting = []
        self._size = (0, 0)


class WorkToDo(Exception):
    """A run that may only look has found rows to judge."""


Workers = Callable[[Sequence[UnitSpec]], Iterable[tuple[UnitSpec, UnitResult]]]
Report = Callable[[int, int, Mapping[str, float]], None]


def process_files(
    judge: Judge,
    inputs: str,
    output: str,
    progress: Report | None = None,
    workers: Workers | None = None,
    *,
    only_look: bool = False,
) -> RunSummary:
    """Judge all rows of files and write an output, or resume an earlier run.

    A unit that the same model and settings have finished on the same file is skipped. A file that
    fails leaves no part, and the others are judged. The bytes of the finished output do not depend
    on interruptions, nor on the workers.

    - **inputs**: a file, a folder or a glob; see `list_inputs`; or ``URL#TABLE`` of a database
    - **output**: folder, URL or ``URL#TABLE`` of a database; created if it does not exist
    - **progress**: called in this thread, at the start and after every unit, with the number of
      finished units, of all units, and the rows
    - **workers**: judges units and yields each with its result, in any order (default: threads)
    - **only_look**: raise `WorkToDo`, with nothing judged, if some file is not done

    Raises `InputError` if there is no input, or the output is in use for something else, and
    `NotCarriedOut` if the output cannot be written or another run is writing to it.
    """
    started = time.monotonic()
    settings = judge.settings
    listed = _listed(inputs, output, settings)

    def summary(files: Sequence[FileOutcome], records: Sequence[UnitRecord]) -> RunSummary:
        model = judge.model.digest, len(judge.weights)
        seconds = time.monotonic() - started
        return judge.summarise(common_fields(files, listed, records, model, seconds))

    if not listed.files:  # possible for a watched input
        return summary([], [])
    place = open_output(output)
    threads = settings.workers or available_cores()
    with place.held():
        place.prepare(listed.root, settings.section)
        run = _Run(judge, place, listed.files)
        units = run.plan_all(threads)
        if only_look and (units or run.has_failures):
            raise WorkToDo
        run.clear()
        if len(units) < threads:
            units = [replace(unit, threads=True) for unit in units]

        def report(done: int) -> None:
            if progress is not None and units:
                rate = run.rows_in / max(time.monotonic() - started, 1e-9)
                progress(done, len(units), {"rows": run.rows_in, "rows a second": rate})

        report(0)
        judged = (workers or run.on_threads(threads))(units)
        for done, (unit, result) in enumerate(judged, start=1):
            run.note(unit, result)
            report(done)
        outcomes = [state.outcome for state in run.files.values()]
        return replace(summary(outcomes, place.records()), read_rows=run.read_rows)


def _listed(inputs: str, output: str, settings: FileSettings) -> Inputs:
    """Find the files of an input, or the partitions of a table."""
    section = settings.section
    if is_database(inputs):
        return list_partitions(inputs, settings, output, section)
    if is_lake(inputs):
        # imported lazily: most inputs are files
        from evenhand.tasks.filtering.lake_inputs import list_lake_partitions

        return list_lake_partitions(inputs, settings, output, section)
    if settings.partitions is not None:
        raise InputError(
            "--partition and --since choose rows of a table of a database or a lake, and the input "
            "is files: leave them out, or name the files."
        )
    return list_inputs(inputs, settings.format, output, settings.settle_seconds, section)


def as_finished(
    units: Sequence[UnitSpec], work: Callable[[UnitSpec], UnitResult], threads: int
) -> Iterator[tuple[UnitSpec, UnitResult]]:
    """Call `work` with each unit on threads; yield each with its result as soon as it is
    finished.
    """
    with ThreadPoolExecutor(threads) as pool:
        futures = {pool.submit(work, unit): unit for unit in units}
        try:
            for future in as_completed(futures):
                yield futures.pop(future), future.result()
        finally:
            pool.shutdown(cancel_futures=True)


@dataclass
class _FileState:
    """State of one input file."""

    file: InputFile
    before: list[UnitRecord]  # records of earlier runs
    records: dict[int, UnitRecord] = field(default_factory=dict)  # valid records, by index
    waiting: int = 0  # units that are still to do
    failure: tuple[int, str] | None = None  # the first unit that failed, and the reason
    skipped: bool = False

    @property
    def outcome(self) -> FileOutcome:
        if self.failure is not None:
            return FileOutcome(self.file.name, "failed", reason=self.failure[1])
        status = "skipped" if self.skipped else "done"
        return FileOutcome(self.file.name, status, **counts_of(self.records.values()))


class _Run:
    """State of a run."""

    def __init__(self, judge: Judge, output: OutputFolder, files: Sequence[InputFile]) -> None:
        self.judge = judge
        self.settings = judge.settings
        self.output = output
        self.before: dict[str, list[UnitRecord]] = defaultdict(list)
        for record in output.records():
            self.before[record.file].append(record)
        self.files = {file.name: _FileState(file, self.before.pop(file.name, [])) for file in files}
        self.rows_in = 0
        self.read_rows = 0

    @property
    def has_failures(self) -> bool:
        """Whether some file cannot be judged."""
        return any(state.failure is not None for state in self.files.values())

    def plan_all(self, threads: int) -> list[UnitSpec]:
        """Units of all files that are not done, file by file."""
        units: list[UnitSpec] = []
        with ThreadPoolExecutor(threads) as pool:
            for of_file in pool.map(self.plan, self.files.values()):
                units += of_file
        return units

    def plan(self, state: _FileState) -> list[UnitSpec]:
        """Units of a file that are not done; called in threads, once per file."""
        file = state.file
        done = {record.index: record for record in state.before if self._holds(record, file)}
        if done and max(done) == len(done) - 1 and done[max(done)].last:
            state.records = done
            state.skipped = True
            self._limit_quarantine(state)  # the earlier run may have ended before this check
            return []
        try:
            units = plan_units(file, self.output.url, self.settings)
        except InputError as error:
            state.failure = (0, str(error))
            return []
        if file.format != "parquet":
            first = next(index for index in range(len(done) + 1) if index not in done)
            units = [replace(units[0], index=first)]
        state.records = {
            index: record for index, record in done.items() if index <= units[-1].index
        }
        units = [unit for unit in units if unit.index not in done]
        state.waiting = len(units)
        return units

    def _holds(self, record: UnitRecord, file: InputFile) -> bool:
        """Whether a record is of this file, model and settings, and its parts are unchanged."""
        return (
            (record.size, record.version) == (file.size, file.version)
            and record.proxy == self.judge.model.digest
            and record.settings == self.settings.digest
            and self.output.is_whole(record)
        )

    def clear(self) -> None:
        """Remove units that are unfinished, damaged, or of a file that has changed or
        failed since.
        """
        valid: set[str] = set()
        for state in self.files.values():
            valid.update(record.unit for record in state.records.values())
        for records in self.before.values():
            valid.update(record.unit for record in records)
        for unit in self.output.units() - valid:
            self.output.remove(unit)

    def on_threads(self, count: int) -> Workers:
        """Judge units on threads, except those of a file that has failed."""

        def work(unit: UnitSpec) -> UnitResult:
            if self.files[unit.file.name].failure is not None:
                return UnitResult()
            return process_unit(unit, self.judge)

        return lambda units: as_finished(units, work, count)

    def note(self, unit: UnitSpec, result: UnitResult) -> None:
        """Store a unit's result; after a file's last unit, check the file and remove it if it
        failed.
        """
        state = self.files[unit.file.name]
        if result.failure is not None and (state.failure is None or unit.index < state.failure[0]):
            state.failure = (unit.index, result.failure)
        self.read_rows += result.read_rows
        for record in result.records:
            state.records[record.index] = record
            self.rows_in += record.rows_in
        state.waiting -= 1
        if state.waiting:
            return
        if state.failure is None:
            self._limit_quarantine(state)
        if state.failure is not None:
            stem = unit_name(state.file.name, 0).partition("-")[0]
            for name in self.output.units():
                if name.startswith(stem):
                    self.output.remove(name)

    def _limit_quarantine(self, state: _FileState) -> None:
        """Let a file fail if more of its rows were set aside than the contract allows."""
        counts = counts_of(state.records.values())
        contract = self.judge.model.contract
        bad = counts["quarantined"]
        if self.settings.outside == "set_aside":
            bad -= counts["outside"]  # these are set aside without a limit
        rows = counts["rows_in"]
        share = contract.quarantine_share
        most = share * rows + 1e-9
        if contract.rules_observed:
            most = max(most, 1)  # one row of a small file may differ from what was observed
        if bad > most:
            state.records = {}
            reason = (
                f"{bad:,} of {rows:,} rows break the contract, more than the {share:.1%} that may "
                "be set"
            )
            cure = "correct them at their source, or raise quarantineShare"
            state.failure = (0, f"{reason} aside: {cure}.")
