"""Runs over files: what filtering and predicting share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.flows.engine import Verdict
from evenhand.flows.workers import make_pool
from evenhand.tasks.filtering.bundle import FileSettings
from evenhand.tasks.filtering.engine import Workers, as_finished
from evenhand.tasks.filtering.summary import RunSummary
from evenhand.tasks.filtering.units import UnitResult, UnitSpec, run_unit
from evenhand.tasks.registry import fetch_bundle

if TYPE_CHECKING:
    from evenhand.flows.job import ParallelSection

NAMED_FAILURES = 3
Place = tuple[str, str, str, str]
"""A bundle: its folder on this machine, and for others its registry, name and version (or NAME/VERSION)."""


def on_dask(section: ParallelSection, place: Place, settings: FileSettings) -> Workers | None:
    """Return a function that judges units on a Dask cluster, or a new one on this machine.

    None for another engine.
    """
    if section.engine != "dask":
        return None

    def run(units: Sequence[UnitSpec]) -> Iterator[tuple[UnitSpec, UnitResult]]:
        if not units:
            return
        with make_pool(section, len(units)) as pool:
            yield from as_finished(units, partial(pool.run, _judge_unit, place, settings), pool.size)

    return run


@lru_cache(maxsize=4)
def _fetched(registry: str, name: str, version: str) -> str:
    return str(fetch_bundle(registry, name, version, Path(tempfile.mkdtemp())))


def _judge_unit(place: Place, settings: FileSettings, unit: UnitSpec) -> UnitResult:
    """Judge a part of one file in this Dask worker; one on another machine fetches the model once."""
    folder, registry, name, version = place
    if not Path(folder).is_dir():
        folder = _fetched(registry, name, version.rpartition("/")[2])
    return run_unit(unit, folder, settings, version)


def fill_verdict(verdict: Verdict, summary: RunSummary, verb: str) -> None:
    """Fill in the result of a run whose verb's participle is ``filtered`` or ``predicted``."""
    failed = summary.failed
    verdict.status = verb if len(failed) < len(summary.files) or not failed else "failed"
    verdict.exit_code = 2 if failed else 0
    if failed:
        reasons = "; ".join(
            str(file.reason) if file.name in str(file.reason) else f"{file.name}: {file.reason}"
            for file in failed[:NAMED_FAILURES]
        )
        more = f"; and {len(failed) - NAMED_FAILURES} more" if len(failed) > NAMED_FAILURES else ""
        verdict.error = f"{len(failed)} of {len(summary.files)} files could not be {verb}: {reasons}{more}"
    verdict.metrics = {
        "rows_in": summary.rows_in,
        "rows_out": summary.rows_out,
        "rows_set_aside": summary.quarantined,
        f"files_{verb}": sum(file.status == "done" for file in summary.files),
        "files_done_before": sum(file.status == "skipped" for file in summary.files),
        "files_failed": len(failed),
    }


def note_idle(verdict: Verdict, summary: RunSummary, settings: FileSettings, verb: str) -> bool:
    """Whether a watched input has no new file; then the verdict says so, and no page is written."""
    if settings.settle_seconds is None or not summary.idle:
        return False
    waiting = f"; {len(summary.waiting)} changed a moment ago and wait" if summary.waiting else ""
    note = f"up to date: {len(summary.files)} files were {verb} before, none is new{waiting}."
    verdict.status, verdict.notes = "up_to_date", [note]
    return True
