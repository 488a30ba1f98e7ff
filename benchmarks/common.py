"""Shared by the benchmarks: provenance of a result, and runs of a job on several splits."""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.summaries import merged, records_of, text_of
from evenhand.fairlib.plots.palette import LIGHT
from evenhand.flows.engine import DirectEngine, Steps
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import ResolvedJob, resolve
from evenhand.flows.run import run_to_gate
from evenhand.tasks.execution.fingerprint import git_state, library_versions
from evenhand.tasks.execution.store import Store
from evenhand.tasks.sources.fetching import fetch_source

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parent.parent / "docs"
# A summary keeps what only an earlier one has, as deep as to methods of a table.
MERGED_LEVELS = 3
# A limit that no accuracy reaches: the pipeline measures benchmark models, but never publishes
# them.
NEVER = {"accuracy": {"min": 2.0}}


class OutOfTime(Exception):
    """A result was written after the end of :func:`time_limit`; it is kept."""


class _Clock:
    """When the measurements in progress must end, in seconds of the monotonic clock."""

    end = math.inf


@contextmanager
def time_limit(end: float) -> Iterator[None]:
    """End what runs in the block after the first unit that exceeds a time.

    A measurement writes its results after every unit. :func:`write_result` raises
    :class:`OutOfTime` once it has written one after `end`.

    Parameters
    ----------
    end : float
        In seconds, as :func:`time.monotonic` counts them.
    """
    before = _Clock.end
    _Clock.end = min(end, before)
    try:
        yield
    finally:
        _Clock.end = before


def provenance(command: str) -> dict[str, Any]:
    """Machine, versions, commit and command of a measurement."""
    commit, dirty = code_state()
    return {
        "command": command,
        "measured": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "git_commit": commit,
        "git_dirty": dirty,
        "python": platform.python_version(),
        "machine": {"cpu": _cpu(), "cores": os.cpu_count(), "system": platform.system()},
        "packages": library_versions(),
    }


@cache
def code_state() -> tuple[str | None, bool | None]:
    """As :func:`git_state`, at the first call: a command that writes more than once starts
    with it.
    """
    return git_state()


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def write_result(
    name: str,
    content: Mapping[str, Any],
    summarise: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
) -> None:
    """Write a result to ``benchmarks/results/NAME.json``.

    With `summarise` this file has the summary alone, and the whole result is in
    ``benchmarks/results/whole/NAME.json``, which git ignores. Entries of an earlier summary that
    the new one lacks stay, since a checkout has no whole results: remove the file to start anew.

    Raises
    ------
    OutOfTime
        After writing, if the end of :func:`time_limit` has passed.
    """
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    if summarise is None:
        path.write_text(text_of(content))
    else:
        whole_path(name).parent.mkdir(exist_ok=True)
        whole_path(name).write_text(text_of(content))
        earlier = json.loads(path.read_text()) if path.is_file() else {}
        path.write_text(text_of(merged(earlier, summarise(content), MERGED_LEVELS)))
    if time.monotonic() > _Clock.end:
        raise OutOfTime(name)


def whole_path(name: str) -> Path:
    """Where a benchmark keeps the whole result of which the repository has a summary."""
    return RESULTS / "whole" / f"{name}.json"


def read_whole(name: str, empty: Mapping[str, Any]) -> dict[str, Any]:
    """The whole result of an earlier run; `empty` where there is none."""
    path = whole_path(name)
    return json.loads(path.read_text()) if path.is_file() else dict(empty)


def read_result(name: str) -> dict[str, Any]:
    """What ``benchmarks/results/NAME.json`` has, tables as lists of records; empty without it."""
    path = RESULTS / f"{name}.json"
    content: dict[str, Any] = records_of(json.loads(path.read_text())) if path.is_file() else {}
    return content


def result_version(name: str) -> tuple[str, int, int]:
    """Path, time of the last change and size of ``benchmarks/results/NAME.json``; 0 and 0 where
    it is absent. What is made from results can be kept until it differs.
    """
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        return str(path), 0, 0
    status = path.stat()
    return str(path), status.st_mtime_ns, status.st_size


def rounded(content: Any, digits: int = 5) -> Any:
    """The same content with its numbers rounded to so many digits behind the point."""
    if isinstance(content, dict):
        return {key: rounded(value, digits) for key, value in content.items()}
    if isinstance(content, list):
        return [rounded(value, digits) for value in content]
    return round(content, digits) if isinstance(content, float) else content


def picture(chart: Any, title: str, description: str) -> str:
    """SVG of a chart on a light ground, legible on dark pages too, with a title and a
    description.
    """
    import vl_convert

    spec = chart.to_dict()
    spec["config"] |= {"background": LIGHT["page"], "padding": 12}
    svg = re.sub(r' (?:role|aria-[a-z]+)="[^"]*"', "", vl_convert.vegalite_to_svg(spec))
    svg = re.sub(r"(\d\.\d\d)\d{4,}", r"\1", svg)
    head = f'<title id="t">{escape(title)}</title>\n<desc id="d">{escape(description)}</desc>\n'
    return svg.replace(">", f' role="img" aria-labelledby="t d">\n{head}', 1) + "\n"


def run_unpublished(store: Store, job: str, overrides: Sequence[str]) -> tuple[ResolvedJob, Steps]:
    """Run a job up to its gate, which refuses everything, and return its finished steps."""
    loaded, folder = load_job(job, overrides)
    resolved = resolve(loaded.model_copy(update={"gates": NEVER}), folder)
    steps = Steps(store, DirectEngine(store))
    run_to_gate(resolved, steps)
    return resolved, steps


def raw_files(table: str) -> dict[str, Path]:
    """Return the publisher's files of a known table by name.

    Absent ones are downloaded. An `InputError` names a file that cannot be had, or is damaged.
    """
    store = Store(os.environ.get("EVENHAND_STORE"))
    handles = fetch_source(store, {"name": table})
    return {name: Path(handle.uri) for name, handle in handles.items()}


def log(*words: Any) -> None:
    """Print progress to stderr: stdout is for the tables."""
    print(*words, file=sys.stderr, flush=True)
