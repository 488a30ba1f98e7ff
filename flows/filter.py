"""Filtering: a published proxy reduces files to balanced samples."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from evenhand.flows.engine import RunFolder, Verdict, recorded_verdict
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import ResolvedJob, resolve
from evenhand.flows.workers import check_engine, make_pool
from evenhand.tasks.errors import InputError, without_secrets
from evenhand.tasks.filtering.bundle import FilterSettings, ProxyBundle
from evenhand.tasks.filtering.engine import Workers, as_finished, filter_files
from evenhand.tasks.filtering.summary import FilterSummary
from evenhand.tasks.filtering.units import UnitResult, UnitSpec, run_unit
from evenhand.tasks.fingerprint import environment, now
from evenhand.tasks.registry import Published, fetch_bundle, published, tracking_uri
from evenhand.tasks.store import Store

NAMED_FAILURES = 3
Place = tuple[str, str, str, str]
"""A proxy's bundle: its folder on this machine, and for others its registry, name and version."""


@dataclass(frozen=True)
class FilterPlan:
    """Checked options of a filter run."""

    resolved: ResolvedJob
    settings: FilterSettings
    input: str
    output: str

    @property
    def run_name(self) -> str:
        """Name for the run's id."""
        return f"{self.resolved.job.name}-filter"


@lru_cache(maxsize=4)
def _fetched(registry: str, name: str, version: str) -> str:
    return str(fetch_bundle(registry, name, version, Path(tempfile.mkdtemp())))


def plan_filter(job: str, overrides: Sequence[str], input_url: str, output_url: str) -> FilterPlan:
    """Check the job of a filter run before anything is read.

    Raises `InputError` if the job is wrong, or its method is not a proxy.
    """
    resolved = resolve(*load_job(job, overrides))
    if not resolved.is_proxy:
        raise InputError(
            f"job {resolved.job.name} trains a classifier ({resolved.method}): filter with a job whose "
            "method is a proxy, such as bank-proxy."
        )
    section = resolved.job.filter
    check_engine(section, "filter")
    chosen = section.model_dump(exclude={"engine", "address", "seed"})
    seed = resolved.job.seed if section.seed is None else section.seed
    return FilterPlan(resolved, FilterSettings(seed=seed, **chosen), input_url, output_url)


def execute(
    plan: FilterPlan,
    store: Store,
    run_id: str,
    report: Callable[[int, int, Mapping[str, float]], None],
    *,
    keep_idle: bool = True,
) -> Verdict:
    """Filter, and write a verdict and a page.

    For a watched input without new files only the verdict is written; without `keep_idle` not even that,
    because a schedule of minutes would fill the store with verdicts.

    The verdict is ``filtered``, with exit code 2 if some files could not be filtered, or ``up_to_date`` if no
    file was new. Raises `EvenhandError` after the verdict of a failed run was written.
    """
    name, alias = plan.resolved.model_name, plan.resolved.job.publish.alias
    with recorded_verdict(store, run_id, keep_idle=keep_idle) as verdict:
        registry = tracking_uri(store)
        found = published(registry, name, alias)
        if found is None:
            raise InputError(
                f"the proxy {name!r} is not published in this store (no version has the alias {alias!r}): "
                f"run `evenhand run {plan.resolved.job.name}` first."
            )
        with store.workdir() as scratch:
            folder = fetch_bundle(registry, name, found.version, scratch)
            if not (folder / "balance.json").is_file():
                raise InputError(
                    f"the published model {name!r} is a classifier, not a proxy: give the job of a proxy, or "
                    "run this one and publish it under another name."
                )
            bundle = ProxyBundle.load(folder, found.version)
            place = (str(folder), registry, name, found.version)
            workers = _on_dask(plan, place) if plan.resolved.job.filter.engine == "dask" else None
            summary = filter_files(bundle, plan.input, plan.output, plan.settings, report, workers)
        _fill(verdict, plan, found, summary)
        if plan.settings.settle_seconds is not None and summary.idle:
            waiting = f"; {len(summary.waiting)} changed a moment ago and wait" if summary.waiting else ""
            note = f"up to date: {len(summary.files)} files were filtered before, none is new{waiting}."
            verdict.status, verdict.notes = "up_to_date", [note]
            return verdict
        _write(store, verdict, plan, bundle, summary)
    return verdict


def _on_dask(plan: FilterPlan, place: Place) -> Workers:
    """Return a function that filters units on the job's Dask cluster, or a new one on this machine."""

    def run(units: Sequence[UnitSpec]) -> Iterator[tuple[UnitSpec, UnitResult]]:
        if not units:
            return
        with make_pool(plan.resolved.job.filter, len(units)) as pool:
            work = partial(pool.run, _filter_unit, place, plan.settings)
            yield from as_finished(units, work, pool.size)

    return run


def _filter_unit(place: Place, settings: FilterSettings, unit: UnitSpec) -> UnitResult:
    """Filter a part of one file in this Dask worker; one on another machine fetches the proxy once."""
    folder, registry, name, version = place
    if not Path(folder).is_dir():
        folder = _fetched(registry, name, version)
    return run_unit(unit, folder, settings, version)


def _fill(verdict: Verdict, plan: FilterPlan, found: Published, summary: FilterSummary) -> None:
    name, alias, failed = plan.resolved.model_name, plan.resolved.job.publish.alias, summary.failed
    verdict.status = "filtered" if len(failed) < len(summary.files) or not failed else "failed"
    verdict.exit_code = 2 if failed else 0
    if failed:
        reasons = "; ".join(
            str(file.reason) if file.name in str(file.reason) else f"{file.name}: {file.reason}"
            for file in failed[:NAMED_FAILURES]
        )
        more = f"; and {len(failed) - NAMED_FAILURES} more" if len(failed) > NAMED_FAILURES else ""
        verdict.error = f"{len(failed)} of {len(summary.files)} files could not be filtered: {reasons}{more}"
    verdict.model = {"name": name, "version": found.version, "alias": alias, "uri": f"models:/{name}@{alias}"}
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
        verdict.metrics |= {f"drift.{key}": summary.drift[key] for key in ("psi", "p_value")}
    if summary.balance is not None:
        verdict.metrics |= {
            f"imbalance{end}": summary.balance[f"imbalance{key}"]
            for end, key in (("", ""), (".low", "_low"), (".high", "_high"))
        }


def _write(
    store: Store, verdict: Verdict, plan: FilterPlan, bundle: ProxyBundle, summary: FilterSummary
) -> None:
    folder = RunFolder(store, verdict)
    documents: dict[str, Any] = {"summary": summary.to_dict(), "settings": plan.settings.to_dict()}
    facts = {
        "created": now(),
        "status": verdict.status,
        "proxy": verdict.model,
        "input": without_secrets(plan.input),
        "output": without_secrets(plan.output),
        "seconds": summary.seconds,
        "environment": environment(),
    }
    name = plan.resolved.job.name
    verdict.artifacts["output"] = str(facts["output"])
    folder.write_json("filter", "filter.json", {"run_id": verdict.run_id, "job": name, **facts, **documents})
    if bundle.balance is not None:
        documents["balance"] = dict(bundle.balance)
    shown = {"job_name": name, "value_names": plan.resolved.value_names}
    folder.write_report("filter", documents, facts | shown)
