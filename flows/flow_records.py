"""What every Prefect flow has: its name, its log, its artifacts and its result."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import PurePath
from typing import Any
from uuid import UUID

from evenhand.flows.runtime import make_prefect_home, prepare_environment, wait_for_server

make_prefect_home(prepare_environment())  # before Prefect reads its settings

import httpx  # noqa: E402
from prefect.artifacts import (  # noqa: E402
    create_link_artifact,
    create_markdown_artifact,
    create_table_artifact,
)
from prefect.client.orchestration import get_client  # noqa: E402
from prefect.exceptions import PrefectException  # noqa: E402
from prefect.logging import get_run_logger  # noqa: E402
from prefect.runtime import flow_run  # noqa: E402

from evenhand.fairlib.catalogue import title  # noqa: E402
from evenhand.fairlib.escaping import markdown_code, markdown_text, plain_texts  # noqa: E402
from evenhand.flows.job_file import load_job  # noqa: E402
from evenhand.flows.run_events import links, log_lines, outcome, refusal_of  # noqa: E402
from evenhand.flows.run_verdict import Verdict  # noqa: E402
from evenhand.tasks.errors import InputError, without_secrets  # noqa: E402

FLOW: dict[str, Any] = {"validate_parameters": True, "persist_result": False, "log_prints": False}


def run_name() -> str:
    """Name the present flow run."""
    return name_of_run(flow_run.parameters)


def name_of_run(given: Mapping[str, Any]) -> str:
    """Name a flow run by its job or model, its table and the time, without folders and secrets."""
    subject = given.get("job") or given["model"]
    data = given.get("data") or given.get("input")
    if data is None:
        with suppress(InputError):
            table = load_job(subject)[0].table
            data = table.path or table.name
    names = []
    for address in (subject, data):
        if address:
            name = PurePath(without_secrets(address).partition("?")[0]).name
            names.append(name.removesuffix(".yaml"))
    return f"{' on '.join(names)}, {datetime.now():%Y-%m-%d %H:%M}"


def artifact_key(name: str, suffix: str) -> str:
    """Return the key of an artifact; the interface shows the history of a key."""
    characters = []
    for character in name.lower():
        if not character.isalnum():
            character = "-"
        characters.append(character)
    return "".join(characters).strip("-") + f"-{suffix}"


def _metric_rows(verdict: Verdict) -> list[dict[str, Any]]:
    """Return every metric with its title and interval, and the baseline's if there is one."""
    rows = []
    for name, value in verdict.metrics.items():
        if name.endswith((".low", ".high")):
            continue
        shown_value: float | str = "insufficient evidence"
        if value is not None:
            shown_value = value
        row: dict[str, Any] = {
            "metric": name,
            "title": title(name),
            "value": shown_value,
            "low": verdict.metrics.get(f"{name}.low"),
            "high": verdict.metrics.get(f"{name}.high"),
        }
        if verdict.baseline:
            row["baseline"] = verdict.baseline["metrics"].get(name)
            row["difference"] = verdict.baseline["differences"].get(name, {}).get("value")
        rows.append(row)
    return rows


def add_artifacts(
    verdict: Verdict,
    name: str,
    table: str,
    summary: str,
    text: str,
    rows: list[dict[str, Any]] | None = None,
) -> None:
    """Show a table, by default of the metrics, and a text under the keys NAME-table and
    NAME-summary.
    """
    if rows is None:
        rows = _metric_rows(verdict)
    run_id = verdict.run_id
    wait_for_server()
    rows_as_text = plain_texts(rows)
    create_table_artifact(
        table=rows_as_text, key=artifact_key(name, table), description=f"Numbers of {run_id}"
    )
    create_markdown_artifact(
        markdown=text, key=artifact_key(name, summary), description=f"Summary of {run_id}"
    )
    for kind, (address, link_text) in links(verdict).items():
        key = artifact_key(name, f"{summary}-{kind}-link")
        create_link_artifact(link=address, link_text=link_text, key=key)


def summary_of(verdict: Verdict, *lines: str) -> str:
    """Format the verdict as Markdown: status, refusing gates, further lines, the report's
    address.
    """
    report = f"Report: {markdown_code(verdict.artifacts.get('report', ''))}"
    head = f"**{outcome(verdict)}** — run {markdown_code(verdict.run_id)}"
    refused = "\n".join(f"- {markdown_text(text)}" for text in _refusals(verdict))
    return "\n\n".join(line for line in (head, refused, *lines, report) if line)


def _refusals(verdict: Verdict) -> list[str]:
    return [result["text"] for result in verdict.gates.get("results", []) if not result["passed"]]


def conclude(verdict: Verdict) -> None:
    """Write the verdict to the flow run's log, and add its outcome to the flow run's name."""
    logger = get_run_logger()
    for level, line in log_lines(verdict):
        logger.log(level, "%s", line)
    if not flow_run.id:
        return
    # a name is no reason to fail a run
    with suppress(PrefectException, httpx.HTTPError, RuntimeError):
        name = f"{flow_run.name} ({outcome(verdict)})"
        with get_client(sync_client=True) as client:
            client.update_flow_run(UUID(str(flow_run.id)), name=name)


def result_of(verdict: Verdict) -> dict[str, Any]:
    """Return the flow's result; raise if the exit code is not 0, so that the flow run shows as
    failed.
    """
    conclude(verdict)
    if verdict.exit_code != 0:
        raise refusal_of(verdict, verdict.error or "; ".join(_refusals(verdict)))
    return verdict.to_dict()
