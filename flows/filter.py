"""Filtering: a published proxy reduces files to balanced samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from evenhand.flows.engine import RunFolder, Verdict, recorded_verdict
from evenhand.flows.file_runs import fill_verdict, note_idle, on_dask
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import ResolvedJob, resolve
from evenhand.flows.workers import check_engine
from evenhand.tasks.errors import InputError, without_secrets
from evenhand.tasks.filtering.bundle import FilterSettings, ProxyBundle
from evenhand.tasks.filtering.checks import RowFilter
from evenhand.tasks.filtering.engine import Report, process_files
from evenhand.tasks.filtering.summary import FilterSummary
from evenhand.tasks.fingerprint import environment, now
from evenhand.tasks.registry import Published, fetch_bundle, published, tracking_uri
from evenhand.tasks.store import Store


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
    report: Report,
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
            workers = on_dask(plan.resolved.job.filter, place, plan.settings)
            judge = RowFilter(bundle, plan.settings)
            summary = cast("FilterSummary", process_files(judge, plan.input, plan.output, report, workers))
        _fill(verdict, plan, found, summary)
        if note_idle(verdict, summary, plan.settings, "filtered"):
            return verdict
        _write(store, verdict, plan, bundle, summary)
    return verdict


def _fill(verdict: Verdict, plan: FilterPlan, found: Published, summary: FilterSummary) -> None:
    name, alias = plan.resolved.model_name, plan.resolved.job.publish.alias
    fill_verdict(verdict, summary, "filtered")
    verdict.model = {"name": name, "version": found.version, "alias": alias, "uri": f"models:/{name}@{alias}"}
    verdict.seconds = {"filter": round(summary.seconds, 3)}
    verdict.metrics |= {
        "rows_expected": summary.expected_out,
        "kept": summary.rows_out / summary.rows_in if summary.rows_in else None,
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
