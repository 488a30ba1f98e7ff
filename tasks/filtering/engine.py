"""The filter run: what is to do, who does it, what came of it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace

from evenhand.fairlib.cores import available_cores
from evenhand.tasks.errors import InputError
from evenhand.tasks.filtering.bundle import ProxyBundle
from evenhand.tasks.filtering.columns import coin_key
from evenhand.tasks.filtering.inputs import InputFile, list_inputs
from evenhand.tasks.filtering.output import OutputFolder
from evenhand.tasks.filtering.records import UnitRecord, UnitResult, UnitSpec, part_stem
from evenhand.tasks.filtering.settings import FilterSettings
from evenhand.tasks.filtering.summary import FileOutcome, FilterSummary, outcome_of, summarise
from evenhand.tasks.filtering.units import carry_out, plan_units

__all__ = ["Progress", "Workers", "filter_files"]

Workers = Callable[[Sequence[UnitSpec]], Iterable[tuple[UnitSpec, UnitResult]]]


@dataclass(frozen=True)
class Progress:
    """How far a run is: files finished (skipped and failed ones too) and units of all, rows, seconds."""

    files_done: int
    files: int
    units_done: int
    units: int
    rows_in: int
    rows_out: int
    seconds: float


def filter_files(
    bundle: ProxyBundle,
    inputs: str,
    output: str,
    settings: FilterSettings,
    progress: Callable[[Progress], None] | None = None,
    workers: Workers | None = None,
) -> FilterSummary:
    """
    Filter files into balanced samples, or go on where an earlier run ended.

    A unit that is done already, by the same proxy and settings on the same file, is not done again. A file
    that fails leaves no part; the others are filtered. The finished output has the same bytes however often
    the run was interrupted and whoever carried out the units.

    Parameters
    ----------
    bundle : ProxyBundle
    inputs : str
        A file, a folder or a glob; see :func:`list_inputs`.
    output : str
        Folder or URL; made if it is not there.
    settings : FilterSettings
    progress : callable, optional
        Called in this thread after every unit.
    workers : callable, optional
        Carries out units and yields each with its result, in any order; default: threads of this process.

    Raises
    ------
    InputError
        No input, settings that do not fit the proxy, an output that is in use for something else.
    NotCarriedOut
        The output cannot be written, or another run is writing to it.
    """
    started = time.monotonic()
    coin_key(bundle, settings)
    listed = list_inputs(inputs, settings.format, output, settings.settle_seconds)
    if not listed.files:  # of a watched input
        nothing = summarise([], listed.ignored, [], bundle, settings, time.monotonic() - started)
        return replace(nothing, waiting=list(listed.waiting))
    place = OutputFolder(output)
    threads = settings.workers or available_cores()
    with place.held():
        place.prepare(listed.root)
        run = _Run(bundle, settings, place, listed.files)
        with ThreadPoolExecutor(threads) as pool:
            units = [unit for plan in pool.map(run.plan, listed.files) for unit in plan]
        run.clear()
        if len(units) < threads:
            units = [replace(unit, threads=True) for unit in units]
        told = _Told(progress, len(listed.files), len(units), started)
        told.tell(run, None)
        for unit, result in (workers or run.on_threads(threads))(units):
            run.note(unit, result)
            told.tell(run, result)
        seconds = time.monotonic() - started
        summary = summarise(run.outcomes(), listed.ignored, place.records(), bundle, settings, seconds)
        return replace(summary, waiting=list(listed.waiting))


class _Told:
    """Counts for the progress callback."""

    def __init__(
        self, progress: Callable[[Progress], None] | None, files: int, units: int, started: float
    ) -> None:
        self.progress, self.files, self.units, self.started = progress, files, units, started
        self.units_done = self.rows_in = self.rows_out = 0

    def tell(self, run: _Run, result: UnitResult | None) -> None:
        self.units_done += result is not None
        for record in result.records if result else ():
            self.rows_in += record.rows_in
            self.rows_out += record.rows_out
        if self.progress is not None:
            seconds = time.monotonic() - self.started
            done = self.files - len(run.waiting)
            self.progress(
                Progress(done, self.files, self.units_done, self.units, self.rows_in, self.rows_out, seconds)
            )


class _Run:
    """
    State of a run: units that each file waits for, their records, and failures.

    Attributes
    ----------
    waiting : dict of str to int
        Units that are still to do, for files that have any.
    """

    def __init__(
        self, bundle: ProxyBundle, settings: FilterSettings, output: OutputFolder, files: Sequence[InputFile]
    ) -> None:
        self.bundle, self.settings, self.output = bundle, settings, output
        self.files = {file.name: file for file in files}
        self.waiting: dict[str, int] = {}
        self._skipped: set[str] = set()
        self._failed: dict[str, tuple[int, str]] = {}
        self._before: dict[str, list[UnitRecord]] = defaultdict(list)
        for record in output.records():
            self._before[record.file].append(record)
        self._records: dict[str, dict[int, UnitRecord]] = defaultdict(dict)

    # what is to do

    def plan(self, file: InputFile) -> list[UnitSpec]:
        """Units of a file that are not done; called in threads, one file each."""
        done = {record.index: record for record in self._before[file.name] if self._holds(record, file)}
        if _is_complete(done):
            self._take_over(file.name, done)
            return []
        try:
            units = plan_units(file, self.output.url, self.settings)
        except InputError as error:
            self._failed[file.name] = (0, str(error))
            return []
        if file.format == "csv":
            start = next(index for index in range(len(done) + 1) if index not in done)
            done = {index: record for index, record in done.items() if index < start}
            units = [replace(units[0], index=start)]
        self._records[file.name] = {
            index: record
            for index, record in done.items()
            if file.format == "csv" or index < units[-1].index + 1
        }
        units = [unit for unit in units if unit.index not in done]
        self.waiting[file.name] = len(units)
        return units

    def _take_over(self, name: str, records: dict[int, UnitRecord]) -> None:
        self._records[name] = records
        excess = self._quarantine_excess(name)  # the earlier run may not have come to this
        if excess is None:
            self._skipped.add(name)
        else:
            self._failed[name] = (0, excess)
            del self._records[name]

    def _holds(self, record: UnitRecord, file: InputFile) -> bool:
        return (
            (record.size, record.version) == (file.size, file.version)
            and record.proxy == self.bundle.digest
            and record.settings == self.settings.digest
            and self.output.is_whole(record)
        )

    def clear(self) -> None:
        """Remove what is unfinished, damaged, or of a file that has changed since."""
        keep = {(part_stem(name), index) for name, records in self._records.items() for index in records} | {
            (record.stem, record.index)
            for name, records in self._before.items()
            if name not in self.files
            for record in records
        }
        for stem, index in self.output.units() - keep:
            self.output.remove(stem, index)

    # who does it

    def on_threads(self, count: int) -> Workers:
        """Carry out units on threads; those of a file that has failed are passed over."""

        def work(unit: UnitSpec) -> UnitResult:
            if unit.file.name in self._failed:
                return UnitResult()
            return carry_out(unit, self.bundle, self.settings)

        def run(units: Sequence[UnitSpec]) -> Iterator[tuple[UnitSpec, UnitResult]]:
            with ThreadPoolExecutor(count) as pool:
                futures = {pool.submit(work, unit): unit for unit in units}
                try:
                    for future in as_completed(futures):
                        yield futures.pop(future), future.result()
                finally:
                    pool.shutdown(cancel_futures=True)

        return run

    # what came of it

    def note(self, unit: UnitSpec, result: UnitResult) -> None:
        """Take up a unit's result, and close its file after the last one."""
        name = unit.file.name
        if result.failure is not None:
            known = self._failed.get(name)
            if known is None or unit.index < known[0]:
                self._failed[name] = (unit.index, result.failure)
        for record in result.records:
            self._records[name][record.index] = record
        self.waiting[name] -= 1
        if self.waiting[name]:
            return
        del self.waiting[name]
        excess = None if name in self._failed else self._quarantine_excess(name)
        if excess is not None:
            self._failed[name] = (0, excess)
        if name in self._failed:
            self._remove(name)

    def _quarantine_excess(self, name: str) -> str | None:
        outcome = outcome_of(name, "", list(self._records[name].values()))
        share = self.bundle.contract.quarantine_share
        if outcome.quarantined <= share * outcome.rows_in + 1e-9:
            return None
        return (
            f"{outcome.quarantined:,} of {outcome.rows_in:,} rows break the contract, more than the "
            f"{share:.1%} that may be set aside: mend them at their source, or raise quarantineShare."
        )

    def _remove(self, name: str) -> None:
        stem = part_stem(name)
        for index in [number for known, number in self.output.units() if known == stem]:
            self.output.remove(stem, index)
        self._records.pop(name, None)

    def outcomes(self) -> list[FileOutcome]:
        """Every file's outcome."""
        found = []
        for name in self.files:
            if name in self._failed:
                found.append(FileOutcome(name, "failed", reason=self._failed[name][1]))
                continue
            status = "skipped" if name in self._skipped else "done"
            found.append(outcome_of(name, status, list(self._records[name].values())))
        return found


def _is_complete(records: dict[int, UnitRecord]) -> bool:
    return bool(records) and max(records) == len(records) - 1 and records[max(records)].last
