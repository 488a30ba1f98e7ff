"""Runs over files: what filtering and predicting share."""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar

from evenhand.flows.engine import CacheMiss, RunFolder, Verdict, recorded_verdict
from evenhand.flows.job import FileSection
from evenhand.flows.workers import make_pool
from evenhand.tasks.errors import InputError, without_secrets
from evenhand.tasks.execution.fingerprint import environment, now
from evenhand.tasks.execution.store import Store
from evenhand.tasks.filtering.filter_bundle import FileSettings
from evenhand.tasks.filtering.filter_engine import (
    Report,
    UnitResult,
    UnitSpec,
    Workers,
    WorkToDo,
    as_finished,
    process_files,
    run_unit,
)
from evenhand.tasks.filtering.summary import FileOutcome, RunSummary
from evenhand.tasks.registry.client import fetch_bundle
from evenhand.tasks.sources.databases import is_database
from evenhand.tasks.sources.lakes import is_lake
from evenhand.tasks.written_input import refuse_credentials

NAMED_FAILURES = 3
Place = tuple[str, str, str, str]
"""A bundle: its folder on this machine, and for others its registry, name and version or
NAME/VERSION.
"""

# Endings of files, which no output has.
ENDINGS = (".csv", ".tsv", ".txt", ".parquet", ".xlsx", ".xls", ".ods", ".feather", ".arrow")


@dataclass(frozen=True, kw_only=True)
class FilesPlan(ABC):
    """Checked options of a run over files."""

    verb: ClassVar[str]  # such as "filter", also the name of the page and of the section of keys
    done: ClassVar[str]  # such as "filtered"

    section: FileSection
    settings: FileSettings
    input: str
    output: str

    def __post_init__(self) -> None:
        """Refuse addresses with a credential: Prefect and the output's records would keep them."""
        refuse_credentials(self.input, "--input")
        refuse_credentials(self.output, "--output")
        self._check_output()

    def _check_output(self) -> None:
        """Refuse the name of a file: rows are written into a folder, a part for each file."""
        path = Path(self.output)
        is_local = "://" not in self.output and not is_database(self.output)
        if is_local and path.suffix.lower() in ENDINGS and not path.is_dir():
            folder = path.with_suffix("")
            raise InputError(
                f"--output {self.output} is the name of a file: rows are written as Parquet files "
                f"into a folder: give one, such as {folder}."
            )

    @property
    @abstractmethod
    def run_name(self) -> str:
        """Name for the run's id."""

    @abstractmethod
    def open(
        self, store: Store, scratch: Path, *, to_look: bool = False
    ) -> tuple[Any, Place, dict[str, Any]]:
        """Fetch the model, and give its judge, its place and its description for the verdict.

        With `to_look` the judge need not be able to judge rows. Raises `InputError` if there is no
        such model, or it does not fit.
        """

    @property
    def parts_name(self) -> str:
        """What the input consists of, for people: files, or partitions of a table."""
        if is_database(self.input) or is_lake(self.input):
            return "partitions"
        return "files"

    def notes(self, judge: Any) -> Sequence[str]:
        """Warnings about the model, for people."""
        return ()

    @abstractmethod
    def metrics(self, summary: Any, judge: Any) -> dict[str, float | None]:
        """Metrics of the verdict in addition to the counts of rows and files."""

    def rates(self, summary: Any, judge: Any) -> dict[str, Any]:
        """Share of rows with the positive label, and its name; empty where nothing is predicted."""
        return {}

    @abstractmethod
    def facts(self, judge: Any, model: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Facts for the JSON file and the page, and further documents of the page."""


def execute(
    plan: FilesPlan,
    store: Store,
    run_id: str,
    report: Report,
    *,
    keep_idle: bool = True,
    only_look: bool = False,
) -> Verdict:
    """Filter or predict, and write a verdict and a page.

    First it looks for new files without loading the model, which takes longer than the look. For a
    watched input without new files only the verdict is written; without `keep_idle` not even that,
    because a schedule of minutes would fill the store with verdicts.

    The verdict is ``filtered`` or ``predicted``, with exit code 2 if some files failed, or
    ``up_to_date`` if no file was new. Raises `EvenhandError` after the verdict of a failed run was
    written; with `only_look` `CacheMiss`, and nothing is judged, if there are new rows.
    """
    try:
        return _execute(plan, store, run_id, report, keep_idle=keep_idle, to_look=True)
    except CacheMiss:
        if only_look:
            raise
    return _execute(plan, store, run_id, report, keep_idle=keep_idle, to_look=False)


def _execute(
    plan: FilesPlan, store: Store, run_id: str, report: Report, *, keep_idle: bool, to_look: bool
) -> Verdict:
    """Filter or predict; with `to_look` raise `CacheMiss` if there are new rows."""
    with (
        recorded_verdict(store, run_id, keep_idle=keep_idle) as verdict,
        store.workdir() as scratch,
    ):
        judge, place, model = plan.open(store, scratch, to_look=to_look)
        settings: FileSettings = judge.settings
        workers = _on_dask(plan.section, place, settings)
        # a secret stays in the environment; the address of a database is expanded where it is
        # opened
        output = plan.output
        if not is_database(output):
            output = os.path.expandvars(output)
        source = plan.input
        if not is_database(source):
            source = os.path.expandvars(source)
        try:
            summary = process_files(judge, source, output, report, workers, only_look=to_look)
        except WorkToDo:
            raise CacheMiss from None
        _fill(verdict, plan, summary, judge)
        verdict.model = model
        verdict.notes += plan.notes(judge)
        idle = all(file.status == "skipped" for file in summary.files)
        if settings.settle_seconds is not None and idle:
            count = len(summary.files)
            note = f"up to date: {count} {plan.parts_name} were {plan.done} before, none is new"
            if summary.waiting:
                note += f"; {len(summary.waiting)} changed a moment ago and wait"
            verdict.status = "up_to_date"
            verdict.notes = [f"{note}."]
            return verdict
        _write(store, verdict, plan, summary, *plan.facts(judge, model))
    return verdict


def _on_dask(section: FileSection, place: Place, settings: FileSettings) -> Workers | None:
    """Return a function that judges units on the section's Dask cluster, or a new one on this
    machine.

    None for the engine of this process.
    """
    if section.engine != "dask":
        return None

    def run(units: Sequence[UnitSpec]) -> Iterator[tuple[UnitSpec, UnitResult]]:
        if not units:
            return
        with make_pool(section, len(units)) as pool:
            yield from as_finished(
                units, partial(pool.run, _judge_unit, place, settings), pool.size
            )

    return run


@lru_cache(maxsize=4)
def _fetched(registry: str, name: str, version: str) -> str:
    return str(fetch_bundle(registry, name, version, Path(tempfile.mkdtemp())))


def _judge_unit(place: Place, settings: FileSettings, unit: UnitSpec) -> UnitResult:
    """Judge a part of one file in this Dask worker; one on another machine fetches the
    model once.
    """
    folder, registry, name, version = place
    if not Path(folder).is_dir():
        if not version:
            raise InputError(
                "a Dask worker lacks the bundle's folder: publish the model, or leave engine out."
            )
        folder = _fetched(registry, name, version.rpartition("/")[2])
    return run_unit(unit, folder, settings, version)


def _fill(verdict: Verdict, plan: FilesPlan, summary: RunSummary, judge: Any) -> None:
    """Fill in the status, the seconds, and the numbers of rows and files."""
    failed = summary.failed
    verdict.status = plan.done
    verdict.exit_code = 0
    if failed:
        verdict.exit_code = 2
        verdict.error = (
            f"{len(failed)} of {len(summary.files)} {plan.parts_name} could not be {plan.done}: "
            f"{_reasons(failed)}"
        )
        if len(failed) == len(summary.files):
            verdict.status = "failed"
    if summary.outside_columns:
        verdict.notes.append(_outside_note(plan, summary))
    if summary.read_rows:
        verdict.notes.append(
            f"{summary.read_rows:,} rows were read and judged outside the database: they break the "
            "contract, are outside its bounds, or have a category that no training row had"
        )
    verdict.seconds = {plan.verb: round(summary.seconds, 3)}
    verdict.metrics = {
        "rows_in": summary.rows_in,
        "rows_out": summary.rows_out,
        "rows_set_aside": summary.quarantined,
        "rows_outside_bounds": summary.outside,
        "rows_outside_used": 0 if plan.settings.outside == "set_aside" else summary.outside,
        f"files_{plan.done}": sum(file.status == "done" for file in summary.files),
        "files_done_before": sum(file.status == "skipped" for file in summary.files),
        "files_failed": len(failed),
        **plan.metrics(summary, judge),
    }
    verdict.rates = plan.rates(summary, judge)


def _outside_note(plan: FilesPlan, summary: RunSummary) -> str:
    """Say in which columns rows are outside the bounds that the training table had."""
    columns = []
    for name, rows in sorted(summary.outside_columns.items()):
        columns.append(f"{name} ({rows:,})")
    names = ", ".join(columns)
    if plan.settings.outside == "set_aside":
        return (
            f"rows outside the bounds that the training table had in {names} were set aside, in "
            "_evenhand/quarantine of the output: correct the bounds in the contract and publish "
            f"again, or use such rows by --set {plan.verb}.outside=use"
        )
    return f"rows outside the bounds that the training table had in {names} were used"


def _reasons(failed: Sequence[FileOutcome]) -> str:
    """Return the reasons of the first files that failed, each with its file's name."""
    reasons = []
    for file in failed[:NAMED_FAILURES]:
        reason = str(file.reason)
        if file.name not in reason:
            reason = f"{file.name}: {reason}"
        reasons.append(reason)
    if len(failed) > NAMED_FAILURES:
        reasons.append(f"and {len(failed) - NAMED_FAILURES} more")
    return "; ".join(reasons)


def _write(
    store: Store,
    verdict: Verdict,
    plan: FilesPlan,
    summary: RunSummary,
    facts: Mapping[str, Any],
    more: Mapping[str, Any],
) -> None:
    folder = RunFolder(store, verdict)
    documents = {"summary": asdict(summary), "settings": asdict(plan.settings)}
    facts = {
        "created": now(),
        "status": verdict.status,
        "input": without_secrets(plan.input),
        "output": without_secrets(plan.output),
        "seconds": summary.seconds,
        "environment": environment(),
        **facts,
    }
    verdict.artifacts["output"] = facts["output"]
    folder.write_json(
        plan.verb, f"{plan.verb}.json", {"run_id": verdict.run_id, **facts, **documents}
    )
    folder.write_report(plan.verb, documents | dict(more), facts)
