"""A filter run: the published proxy is fetched, files are filtered, and what came of it is written."""

from __future__ import annotations

import datetime
import json
import os
import platform
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from evenhand.flows.execute import named_fault
from evenhand.flows.job import load_job
from evenhand.flows.resolved_job import ResolvedJob, resolve
from evenhand.flows.run_outputs import REPORTED_PACKAGES
from evenhand.flows.verdict import Verdict, write_verdict
from evenhand.tasks.errors import EvenhandError, InputError, without_secrets
from evenhand.tasks.filtering.bundle import FilterSettings, ProxyBundle
from evenhand.tasks.filtering.engine import Progress, Workers, filter_files
from evenhand.tasks.filtering.summary import FilterSummary
from evenhand.tasks.fingerprint import git_state, library_versions
from evenhand.tasks.progress import report_progress
from evenhand.tasks.registry import Published, fetch_bundle, published, tracking_uri
from evenhand.tasks.reporting.filtering import render_filter
from evenhand.tasks.store import Store

__all__ = ["FilterJob", "Source", "carry_out_filter", "follow", "resolve_filter"]

NAMED_FAILURES = 3


@dataclass(frozen=True)
class FilterJob:
    """What to filter with, from where, to where."""

    resolved: ResolvedJob
    settings: FilterSettings
    input: str
    output: str


@dataclass(frozen=True)
class Source:
    """Where a proxy's bundle lies on this machine, and where another machine gets it."""

    folder: str
    registry: str
    name: str
    version: str

    def here(self) -> str:
        """Give the bundle's folder on this machine: a worker elsewhere fetches it, once a process."""
        if Path(self.folder).is_dir():
            return self.folder
        return _fetched(self.registry, self.name, self.version)


@lru_cache(maxsize=4)
def _fetched(registry: str, name: str, version: str) -> str:
    return str(fetch_bundle(registry, name, version, Path(tempfile.mkdtemp())))


def resolve_filter(job: str, overrides: Sequence[str], input_url: str, output_url: str) -> FilterJob:
    """
    Check the job of a filter run before anything is read.

    Raises
    ------
    InputError
        The job is wrong, or is not one of a proxy.
    """
    resolved = resolve(*load_job(job, overrides))
    if not resolved.is_proxy:
        raise InputError(
            f"job {resolved.job.name} learns a classifier ({resolved.method}): filter with a job whose "
            "method is a proxy, such as bank-proxy."
        )
    section = resolved.job.filter
    chosen = section.model_dump(exclude={"engine", "address", "seed"})
    seed = resolved.job.seed if section.seed is None else section.seed
    return FilterJob(resolved, FilterSettings(seed=seed, **chosen), input_url, output_url)


def carry_out_filter(
    job: FilterJob,
    store: Store,
    run_id: str,
    report: Callable[[Progress], None],
    workers: Callable[[Source, FilterSettings], Workers] | None = None,
    *,
    keep_idle: bool = True,
) -> Verdict:
    """
    Filter, and leave a verdict and a report whatever happens.

    A watched input with nothing new leaves a verdict only, and without `keep_idle` not even that: a schedule
    of minutes would fill the store with them.

    Returns
    -------
    Verdict
        ``filtered``, with exit code 2 where some files could not be; ``up_to_date`` where nothing was new.

    Raises
    ------
    EvenhandError
        After the verdict of a failed run was written.
    """
    verdict = Verdict(run_id, "failed", 4)
    name, alias = job.resolved.model_name, job.resolved.job.publish.alias
    try:
        registry = tracking_uri(store)
        found = published(registry, name, alias)
        if found is None:
            raise InputError(
                f"the proxy {name!r} is not published in this store (no version has the alias {alias!r}): "
                f"run `evenhand run {job.resolved.job.name}` first."
            )
        with store.workdir() as scratch:
            folder = fetch_bundle(registry, name, found.version, scratch)
            if not (folder / "balance.json").is_file():
                raise InputError(
                    f"the published model {name!r} is a classifier, not a proxy: give the job of a proxy, or "
                    "run this one and publish it under another name."
                )
            source = Source(str(folder), registry, name, found.version)
            bundle = ProxyBundle.load(folder, found.version)
            summary = filter_files(
                bundle,
                job.input,
                job.output,
                job.settings,
                report,
                workers and workers(source, job.settings),
            )
        _fill(verdict, job, found, summary)
        if job.settings.settle_seconds is not None and summary.idle:
            verdict.status, verdict.notes = "up_to_date", [_idle_words(summary)]
            return verdict
        _write(store, verdict, job, bundle, summary)
    except EvenhandError as error:
        verdict.error, verdict.exit_code = str(error), error.exit_code
        raise
    except Exception as error:
        named = named_fault(error)
        verdict.error, verdict.exit_code = str(named), named.exit_code
        raise named from error
    finally:
        idle = verdict.status == "up_to_date"
        if (verdict.status != "failed" or verdict.error) and (keep_idle or not idle):
            write_verdict(store, verdict)
    return verdict


def _idle_words(summary: FilterSummary) -> str:
    waiting = f"; {len(summary.waiting)} changed a moment ago and wait" if summary.waiting else ""
    return f"up to date: {len(summary.files)} files were filtered before, none is new{waiting}."


def follow(*, prefect: bool = False) -> Callable[[Progress], None]:
    """Pass a run's progress on."""
    report = report_progress("filter", prefect=prefect)

    def tell(progress: Progress) -> None:
        rate = progress.rows_in / progress.seconds if progress.seconds > 0 else 0.0
        if progress.units:
            report(progress.units_done, progress.units, {"rows a second": rate})

    return tell


def _fill(verdict: Verdict, job: FilterJob, found: Published, summary: FilterSummary) -> None:
    name, alias = job.resolved.model_name, job.resolved.job.publish.alias
    failed = summary.failed
    verdict.status = "filtered" if len(failed) < len(summary.files) or not failed else "failed"
    verdict.exit_code = 2 if failed else 0
    if failed:
        named = "; ".join(
            str(file.reason) if file.name in str(file.reason) else f"{file.name}: {file.reason}"
            for file in failed[:NAMED_FAILURES]
        )
        more = f"; and {len(failed) - NAMED_FAILURES} more" if len(failed) > NAMED_FAILURES else ""
        verdict.error = f"{len(failed)} of {len(summary.files)} files could not be filtered: {named}{more}"
    verdict.model = {
        "name": name,
        "version": found.version,
        "alias": alias,
        "uri": f"models:/{name}@{alias}",
    }
    verdict.seconds = {"filter": round(summary.seconds, 3)}
    verdict.metrics = {
        "rows_in": summary.rows_in,
        "rows_out": summary.rows_out,
        "rows_set_aside": summary.quarantined,
        "rows_expected": summary.expected_out,
        "kept": summary.rows_out / summary.rows_in if summary.rows_in else None,
        "files_filtered": sum(file.status == "done" for file in summary.files),
        "files_done_before": sum(file.status == "skipped" for file in summary.files),
        "files_failed": len(failed),
    }
    if summary.drift is not None:
        verdict.metrics["drift.psi"] = summary.drift["psi"]
        verdict.metrics["drift.p_value"] = summary.drift["p_value"]
    if summary.balance is not None:
        verdict.metrics |= {
            f"imbalance{end}": summary.balance[f"imbalance{key}"]
            for end, key in (("", ""), (".low", "_low"), (".high", "_high"))
        }


def _write(
    store: Store, verdict: Verdict, job: FilterJob, bundle: ProxyBundle, summary: FilterSummary
) -> None:
    folder = ("runs", verdict.run_id)
    context = {
        "run_id": verdict.run_id,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "status": verdict.status,
        "job": job.resolved.job.name,
        "proxy": verdict.model,
        "input": without_secrets(job.input),
        "output": without_secrets(job.output),
        "summary": summary.to_dict(),
        "settings": job.settings.to_dict(),
        "balance": None if bundle.balance is None else dict(bundle.balance),
        "seconds": summary.seconds,
        "environment": _environment(),
    }
    verdict.artifacts["output"] = without_secrets(job.output)
    text = json.dumps({key: context[key] for key in context if key != "balance"}, indent=1)
    verdict.artifacts["filter"] = store.write_text(text, *folder, "filter.json")
    verdict.artifacts["report"] = store.write_text(render_filter(context), *folder, "report.html")


def _environment() -> dict[str, Any]:
    commit, dirty = git_state()
    return {
        "python": platform.python_version(),
        "packages": library_versions(REPORTED_PACKAGES),
        "git_commit": commit,
        "git_dirty": dirty,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }
