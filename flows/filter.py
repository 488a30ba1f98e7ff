"""Filtering: a published proxy reduces files to balanced samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from evenhand.flows.file_runs import FilesPlan, Place
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import ResolvedJob, resolve
from evenhand.flows.workers import check_engine
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.store import Store
from evenhand.tasks.filtering.checks import RowFilter
from evenhand.tasks.filtering.filter_bundle import FilterSettings, ProxyBundle
from evenhand.tasks.filtering.summary import FilterSummary
from evenhand.tasks.registry.client import fetch_bundle, published, tracking_uri


@dataclass(frozen=True, kw_only=True)
class FilterPlan(FilesPlan):
    """Checked options of a filter run."""

    verb: ClassVar[str] = "filter"
    done: ClassVar[str] = "filtered"

    resolved: ResolvedJob
    settings: FilterSettings

    @property
    def run_name(self) -> str:
        """Name for the run's id."""
        return f"{self.resolved.job.name}-filter"

    def open(
        self, store: Store, scratch: Path, *, to_look: bool = False
    ) -> tuple[RowFilter, Place, dict[str, Any]]:
        """Fetch the job's proxy; an `InputError` if it is not published, or no proxy."""
        name = self.resolved.model_name
        alias = self.resolved.job.publish.alias
        registry = tracking_uri(store)
        proxy = published(registry, name, alias)
        if proxy is None:
            raise InputError(
                f"the proxy {name!r} is not published in this store (no version has the alias "
                f"{alias!r}): run its job {self.resolved.job.name} first; a run that its gates "
                "refuse publishes none."
            )
        version = proxy.version
        folder = fetch_bundle(registry, name, version, scratch)
        if not (folder / "balance.json").is_file():
            raise InputError(
                f"the published model {name!r} is a classifier, not a proxy: give the job of a "
                "proxy, or run this one and publish it under another name."
            )
        judge = RowFilter(ProxyBundle.load(folder, version), self.settings)
        model = {
            "name": name,
            "version": version,
            "alias": alias,
            "uri": f"models:/{name}@{alias}",
        }
        return judge, (str(folder), registry, name, version), model

    def metrics(self, summary: FilterSummary, judge: RowFilter) -> dict[str, float | None]:
        """Rows expected, drift and the expected imbalance."""
        metrics: dict[str, float | None] = {"rows_expected": summary.expected_out, "kept": None}
        if summary.rows_in:
            metrics["kept"] = summary.rows_out / summary.rows_in
        if summary.drift is not None:
            metrics["drift.psi"] = summary.drift["psi"]
            metrics["drift.p_value"] = summary.drift["p_value"]
        if summary.balance is not None:
            metrics["imbalance"] = summary.balance["imbalance"]
            metrics["imbalance.low"] = summary.balance["imbalance_low"]
            metrics["imbalance.high"] = summary.balance["imbalance_high"]
        return metrics

    def facts(
        self, judge: RowFilter, model: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Job and proxy, and the proxy's balance."""
        job = self.resolved.job.name
        names = self.resolved.value_names
        facts = {"job_name": job, "proxy": model, "value_names": names}
        balance = judge.bundle.balance
        if balance is None:
            return facts, {}
        return facts, {"balance": dict(balance)}


def plan_filter(job: str, overrides: Sequence[str], input: str, output: str) -> FilterPlan:
    """Check the job of a filter run before anything is read.

    Raises `InputError` if the job is wrong, or its method is not a proxy.
    """
    resolved = resolve(*load_job(job, overrides))
    if not resolved.is_proxy:
        raise InputError(
            f"job {resolved.job.name} trains a classifier ({resolved.method}): filter with a job "
            "whose method is a proxy, such as bank-proxy."
        )
    section = resolved.job.filter
    check_engine(section, "filter")
    chosen = section.model_dump(exclude={"engine", "address", "seed"})
    seed = section.seed
    if seed is None:
        seed = resolved.job.seed
    settings = FilterSettings(seed=seed, **chosen).with_forms(resolved.job.table.model_dump())
    return FilterPlan(
        resolved=resolved, section=section, settings=settings, input=input, output=output
    )
