"""``evenhand report``: where a run's report is."""

from __future__ import annotations

from tasks.errors import InputError
from tasks.store import Store

__all__ = ["report_path"]


def report_path(run_id: str, store_url: str | None) -> str:
    """
    Address of a run's report.

    Raises
    ------
    InputError
        No such run, or one that ended before there was a report.
    """
    store = Store(store_url)
    runs = store.runs()
    if run_id == "latest":
        with_report = [run for run in runs if store.exists("runs", run, "report.html")]
        if not with_report:
            raise InputError(f"the store {store.url} has no report yet: `evenhand run JOB` makes one.")
        run_id = with_report[-1]
    if run_id not in runs:
        raise InputError(
            f"the store {store.url} has no run {run_id!r}; the latest is {runs[-1] if runs else 'none'}."
        )
    if not store.exists("runs", run_id, "report.html"):
        raise InputError(f"the run {run_id} ended before its evaluation: see verdict.json in its folder.")
    return store.uri("runs", run_id, "report.html")
