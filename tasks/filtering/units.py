"""Units of work: what a file is cut into, and carrying one out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from evenhand.data_contracts.errors import ContractViolation
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.filtering.bundle import ProxyBundle, digest_of
from evenhand.tasks.filtering.columns import PROBABILITY, decoded_schema, typed_batch
from evenhand.tasks.filtering.inputs import InputFile, os_reason
from evenhand.tasks.filtering.output import STATE, OutputFolder
from evenhand.tasks.filtering.reading import Stream, parquet_footer, read_csv, read_parquet
from evenhand.tasks.filtering.records import UnitRecord, UnitResult, UnitSpec, part_stem
from evenhand.tasks.filtering.rows import Judged, RowFilter
from evenhand.tasks.filtering.settings import FilterSettings
from evenhand.tasks.filtering.writing import PartWriter

__all__ = ["carry_out", "plan_units", "run_unit"]


def plan_units(file: InputFile, output: str, settings: FilterSettings) -> list[UnitSpec]:
    """
    Cut a file into units, from its metadata alone.

    Parquet row groups are gathered while their rows fit into ``rows_per_unit``; a file without rows is one
    unit, whose record says so. A CSV file is one unit that writes several parts.

    Raises
    ------
    InputError
        The file's metadata cannot be read.
    """
    if file.format == "csv":
        return [UnitSpec(file, output, 0, True, None)]
    footer = parquet_footer(file)
    cuts, rows = [0], 0
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
    unit: Mapping[str, Any], bundle_folder: str, settings: Mapping[str, Any], version: str = ""
) -> dict[str, Any]:
    """
    Carry out one unit in any process: plain JSON in and out (:class:`UnitSpec`, :class:`UnitResult`).

    It neither takes the output's lock nor checks what is done already; the run that planned the unit does.
    """
    bundle = _bundle(bundle_folder, digest_of(Path(bundle_folder)), version)
    return carry_out(UnitSpec.from_dict(unit), bundle, FilterSettings.from_dict(settings)).to_dict()


@lru_cache(maxsize=4)
def _bundle(folder: str, digest: str, version: str) -> ProxyBundle:
    return ProxyBundle.load(folder, version)


def carry_out(unit: UnitSpec, bundle: ProxyBundle, settings: FilterSettings) -> UnitResult:
    """
    Filter a unit: its parts and records are written, or its file cannot be filtered.

    Raises
    ------
    NotCarriedOut
        The output cannot be written.
    """
    output = OutputFolder(unit.output)
    try:
        if unit.groups is not None:
            reading = read_parquet(unit.file, unit.groups, bundle, settings, threads=unit.threads)
        else:
            reading = read_csv(unit.file, bundle, settings)
        with reading as stream, output.workdir() as folder:
            return UnitResult(tuple(_records(unit, stream, _Work(output, folder, bundle, settings))))
    except (InputError, ContractViolation) as error:
        return UnitResult(failure=str(error))
    except pa.ArrowException as error:
        reason = f"{unit.file.name} has a column of a type that cannot be filtered ({type(error).__name__})"
        return UnitResult(failure=f"{reason}: take it out or change its type.")
    except OSError as error:  # what reading raises is an InputError by now
        raise NotCarriedOut(f"the output {output.shown} cannot be written ({os_reason(error)}).") from None


class _Work(NamedTuple):
    output: OutputFolder
    folder: Path
    bundle: ProxyBundle
    settings: FilterSettings


def _records(unit: UnitSpec, stream: Stream, work: _Work) -> Iterator[UnitRecord]:
    """Write a unit's parts, and give the record of each once it is written."""
    judge = RowFilter(work.bundle, work.settings).judge
    part = None
    for index, first_row, batch in _placed(unit, stream, work.settings.rows_per_unit):
        if index < unit.index:
            continue  # done by an earlier run
        if unit.groups is None:
            batch = typed_batch(batch, work.bundle.contract)
        if part is None or part.index != index:
            if part is not None:
                yield part.finish(unit.file, stream, last=False)
            part = _OpenPart(index, work, stream.schema or decoded_schema(batch.schema), stream.dictionaries)
        part.take(judge(batch, first_row), batch.num_rows)
    if part is None:
        part = _OpenPart(unit.index, work, stream.schema or pa.schema([]), True)
    yield part.finish(unit.file, stream, last=unit.last)


def _placed(unit: UnitSpec, stream: Stream, size: int) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """Batches with the part that they belong to and the number of rows before them."""
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

    def __init__(self, index: int, work: _Work, schema: pa.Schema, dictionaries: list[str] | bool) -> None:
        self.index, self.work = index, work
        compression = work.settings.compression
        accepted = schema
        if work.settings.probability:
            accepted = schema.append(pa.field(PROBABILITY, pa.float64()))
        self._accepted = PartWriter(work.folder / f"part-{index}", accepted, compression, dictionaries)
        self._broken = PartWriter(work.folder / f"quarantine-{index}", schema, compression, dictionaries)
        self._rows = self._dropped = 0
        self._masses = np.zeros(len(work.bundle.masses))

    def take(self, judged: Judged, rows: int) -> None:
        """Add a batch."""
        self._rows += rows
        self._dropped += judged.dropped
        self._masses += judged.masses
        self._accepted.write(judged.accepted)
        if judged.broken is not None:
            self._broken.write(judged.broken)

    def finish(self, file: InputFile, stream: Stream, *, last: bool) -> UnitRecord:
        """Put everything in place, the record last."""
        output, bundle = self.work.output, self.work.bundle
        name = f"part-{part_stem(file.name)}-{self.index:05d}.parquet"
        set_aside = output.put(self._broken.path, STATE, "quarantine", name) if self._broken.close() else None
        part = output.put(self._accepted.path, name) if self._accepted.close() else None
        record = UnitRecord(
            file=file.name,
            size=file.size,
            version=file.version,
            index=self.index,
            last=last,
            proxy=bundle.digest,
            proxy_version=bundle.version,
            settings=self.work.settings.digest,
            rows_in=self._rows,
            rows_out=self._accepted.rows,
            quarantined=self._broken.rows,
            dropped=self._dropped,
            expected=float(self._masses @ bundle.raw.acceptance),
            masses=tuple(self._masses.tolist()),
            left_out=tuple(stream.selection.left_out),
            part=part,
            set_aside=set_aside,
        )
        output.write_record(record)
        return record
