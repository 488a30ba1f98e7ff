"""``evenhand report``: the address of a run's report, and the page over all runs."""

from __future__ import annotations

import json
import os
from typing import Any

from evenhand.tasks.errors import InputError, NotCarriedOut, without_secrets
from evenhand.tasks.execution.fingerprint import now
from evenhand.tasks.execution.store import Store
from evenhand.tasks.pages.build import write_page


def report(
    run_id: str | None, store_url: str | None, all_runs: bool, as_json: bool = False
) -> None:
    """Print the address of a run's report, or of the page over all runs."""
    if all_runs and run_id is not None:
        raise InputError(f"--all is about every run: leave out {run_id!r}.")
    if all_runs:
        address = write_index(store_url)
    else:
        address = report_path(run_id or "latest", store_url)
    if as_json:
        print(json.dumps({"report": address}))
    else:
        print(address)


def report_path(run_id: str, store_url: str | None) -> str:
    """Return the address of a run's report.

    Raises `InputError` if there is no such run, or it ended before it wrote a report.
    """
    store = Store(store_url, reading=True)
    runs = store.runs()
    if run_id == "latest":
        with_report = [run for run in runs if store.exists("runs", run, "report.html")]
        if not with_report:
            raise InputError(
                f"the store {store.url} has no report yet: `evenhand run JOB` makes one."
            )
        run_id = with_report[-1]
    if run_id not in runs:
        latest = (runs or ["none"])[-1]
        raise InputError(f"the store {store.url} has no run {run_id!r}; the latest is {latest}.")
    if not store.exists("runs", run_id, "report.html"):
        raise InputError(
            f"the run {run_id} ended before its evaluation: see verdict.json in its folder."
        )
    return store.uri("runs", run_id, "report.html")


def write_index(store_url: str | None) -> str:
    """Write ``runs/index.html``, the page over all runs of a store, and return its address."""
    store = Store(store_url)
    runs = indexed_runs(store)
    run = {"store": without_secrets(store.url), "created": now()}
    documents = {"run": run, "runs": runs, "aliases": _aliases(store, runs)}
    return store.write_text(write_page("index", documents, store), "runs", "index.html")


def _aliases(store: Store, runs: list[dict[str, Any]]) -> dict[str, dict[str, str]] | None:
    """Return the current aliases of the models that the runs made; None if the registry does not
    answer.
    """
    verdicts = [run["verdict"] for run in runs if isinstance(run["verdict"], dict)]
    models = [verdict["model"] for verdict in verdicts if isinstance(verdict.get("model"), dict)]
    names = {str(model["name"]) for model in models if model.get("name")}
    if not names or not (
        os.environ.get("MLFLOW_TRACKING_URI") or (store.local / "mlflow.db").is_file()
    ):
        return None
    from evenhand.flows.runtime import prepare_environment
    from evenhand.tasks.registry.client import current_aliases, tracking_uri

    prepare_environment(store.url)
    try:
        return current_aliases(tracking_uri(store), sorted(names))
    except NotCarriedOut:
        return None


def indexed_runs(store: Store) -> list[dict[str, Any]]:
    """Return every run with its verdict; the files are listed in one call and read in one call."""
    verdicts = store.runs_with("verdict.json")
    reports = store.runs_with("report.html")
    contents: dict[str, Any] = {}
    if verdicts:
        contents = store.filesystem.cat(list(verdicts.values()), on_error="return")
    indexed = []
    for run_id in store.runs():
        entry: dict[str, Any] = {"run_id": run_id, "verdict": None, "damage": None, "report": None}
        path = verdicts.get(run_id)
        if path is None:
            entry["damage"] = "missing"
        else:
            try:
                entry["verdict"] = json.loads(contents.get(path, b""))
            # TypeError: an error of reading stands for the bytes
            except (TypeError, ValueError, RecursionError):
                entry["damage"] = "damaged"
        if run_id in reports:
            entry["report"] = f"{run_id}/report.html"
        indexed.append(entry)
    return indexed
