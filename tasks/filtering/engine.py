"""A run over files: plan units, judge them, and resume an interrupted run."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace

from evenhand.fairlib.execution import available_cores
from evenhand.tasks.errors import InputError
from evenhand.tasks.filtering.checks import Judge
from evenhand.tasks.filtering.inputs import InputFile, list_inputs
from evenhand.tasks.filtering.output import OutputFolder, UnitRecord, unit_name
from evenhand.tasks.filtering.summary import FileOutcome, RunSummary, common_fields, counts_of
from evenhand.tasks.filtering.table_output import open_output
from evenhand.tasks.filtering.units import UnitResult, UnitSpec, plan_units, process_unit

Workers = Callable[[Sequence[UnitSpec]], Iterable[tuple[UnitSpec, UnitResult]]]
Report = Callable[[int, int, Mapping[str, float]], None]


def process_files(
    judge: Judge,
    inputs: str,
    output: str,
    progress: Report | None = None,
    workers: Workers | None = None,
) -> RunSummary:
    """Judge all rows of files and write an output, or resume an earlier run.

    A unit that the same model and settings have finished on the same file is skipped. A file that fails
    leaves no part, and the others are judged. The bytes of the finished output do not depend on
    interruptions, nor on the workers.

    - **inputs**: a file, a folder or a glob; see `list_inputs`
    - **output**: folder, URL or ``URL#TABLE`` of a database; created if it does not exist
    - **progress**: called in this thread, at the start and after every unit, with the number of finished
      units, of all units, and the rows
    - **workers**: judges units and yields each with its result, in any order (default: threads)

    Raises `InputError` if there is no input, or the output is in use for something else, and `NotCarriedOut`
    if the output cannot be written or another run is writing to it.
    """
    started, settings = time.monotonic(), judge.settings
    listed = list_inputs(inputs, settings.format, output, settings.settle_seconds, settings.section)

    def summary(files: Sequence[FileOutcome], records: Sequence[UnitRecord]) -> RunSummary:
        known = judge.model.digest, len(judge.weights)
        return judge.summarise(common_fields(files, listed, records, known, time.monotonic() - started))

    if not listed.files:  # possible for a watched input
        return summary([], [])
    place = open_output(output)
    threads = settings.workers or available_cores()
    with place.held():
        place.prepare(listed.root, settings.section)
        run = _Run(judge, place, listed.files)
        with ThreadPoolExecutor(threads) as pool:
            units = [unit for plan in pool.map(run.plan, run.files.values()) for unit in plan]
        run.clear()
        if len(units) < threads:
            units = [replace(unit, threads=True) for unit in units]

        def report(done: int) -> None:
            if progress is not None and units:
                rate = run.rows_in / max(time.monotonic() - started, 1e-9)
                progress(done, len(units), {"rows": run.rows_in, "rows a second": rate})

        report(0)
        for done, (unit, result) in enumerate((workers or run.on_threads(threads))(units), 1):
            run.note(unit, result)
            report(done)
        return summary([state.outcome for state in run.files.values()], place.records())


def as_finished(
    units: Sequence[UnitSpec], work: Callable[[UnitSpec], UnitResult], threads: int
) -> Iterator[tuple[UnitSpec, UnitResult]]:
    """Call `work` with each unit on threads; yield each with its result as soon as it is finished."""
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
        self.judge, self.settings, self.output = judge, judge.settings, output
        self.before: dict[str, list[UnitRecord]] = defaultdict(list)
        for record in output.records():
            self.before[record.file].append(record)
        self.files = {file.name: _FileState(file, self.before.pop(file.name, [])) for file in files}
        self.rows_in = 0

    def plan(self, state: _FileState) -> list[UnitSpec]:
        """Units of a file that are not done; called in threads, once per file."""
        file = state.file
        done = {record.index: record for record in state.before if self._holds(record, file)}
        if done and max(done) == len(done) - 1 and done[max(done)].last:
            state.records, state.skipped = done, True
            self._limit_quarantine(state)  # the earlier run may have ended before this check
            return []
        try:
            units = plan_units(file, self.output.url, self.settings)
        except InputError as error:
            state.failure = (0, str(error))
            return []
        if file.format == "csv":
            first = next(index for index in range(len(done) + 1) if index not in done)
            units = [replace(units[0], index=first)]
        state.records = {index: record for index, record in done.items() if index <= units[-1].index}
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
        """Remove units that are unfinished, damaged, or of a file that has changed or failed since."""
        valid = [record for state in self.files.values() for record in state.records.values()]
        valid += [record for records in self.before.values() for record in records]
        for unit in self.output.units() - {record.unit for record in valid}:
            self.output.remove(unit)

    def on_threads(self, count: int) -> Workers:
        """Judge units on threads, except those of a file that has failed."""

        def work(unit: UnitSpec) -> UnitResult:
            if self.files[unit.file.name].failure is not None:
                return UnitResult()
            return process_unit(unit, self.judge)

        return lambda units: as_finished(units, work, count)

    def note(self, unit: UnitSpec, result: UnitResult) -> None:
        """Store a unit's result; after a file's last unit, check the file and remove it if it failed."""
        state = self.files[unit.file.name]
        if result.failure is not None and (state.failure is None or unit.index < state.failure[0]):
            state.failure = (unit.index, result.failure)
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
        bad, rows, share = (
            counts["quarantined"],
            counts["rows_in"],
            self.judge.model.contract.quarantine_share,
        )
        if bad > share * rows + 1e-9:
            state.records = {}
            reason = f"{bad:,} of {rows:,} rows break the contract, more than the {share:.1%} that may be set"
            cure = "correct them at their source, or raise quarantineShare"
            state.failure = (0, f"{reason} aside: {cure}.")
