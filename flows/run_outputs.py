"""What a run leaves for people: its folder with the job, the pages, the metrics and the model card."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from evenhand.flows.engine import Steps
from evenhand.flows.resolved_job import ResolvedJob
from evenhand.flows.verdict import Verdict
from evenhand.tasks.errors import NotCarriedOut, without_secrets
from evenhand.tasks.fingerprint import environment, now
from evenhand.tasks.pages.build import write_page
from evenhand.tasks.registry import published, read_card, tracking_uri
from evenhand.tasks.store import Store

__all__ = ["current_champion", "model_card", "write_outputs"]

SQLITE = "sqlite:///"
# Checks that have a page: document, its page in the run's folder, its name in the verdict, its title.
CHECKS = (
    ("result", "contract.html", "contract_page", "the table"),
    ("train_result", "encoded-train.html", "encoded_train_page", "the encoded training rows"),
    ("test_result", "encoded-test.html", "encoded_test_page", "the encoded test rows"),
)


def model_card(resolved: ResolvedJob) -> dict[str, Any]:
    """What is known about the model before it is trained."""
    job, contract = resolved.job, resolved.contract
    return {
        "name": resolved.model_name,
        "description": job.description,
        "intended_use": job.publish.intended_use,
        "table": job.table.name,
        "contract": {"name": contract.name, "version": contract.version, "digest": contract.digest},
        "sensitive": [column.name for column in contract.sensitive],
        "method": resolved.method,
        "parameters": resolved.arguments,
        "seed": job.seed,
    }


def write_outputs(
    resolved: ResolvedJob,
    steps: Steps,
    verdict: Verdict,
    documents: Mapping[str, Any],
    champion: Mapping[str, Any] | None,
) -> None:
    """
    Write the run's files and add their addresses to the verdict.

    The page reports this run (which steps were cached, how long each took), so it is never cached.
    """
    store, folder, add = steps.store, ("runs", verdict.run_id), verdict.artifacts.__setitem__
    add(
        "job", store.write_text(yaml.safe_dump(_job_document(resolved), sort_keys=False), *folder, "job.yaml")
    )
    for step, finished in steps.finished.items():
        for name, artifact in finished.record.outputs.items():
            add(f"{step}.{name}", artifact.uri)
    files = [{"name": "the job as it ran", "href": "job.yaml"}, {"name": "metrics", "href": "metrics.json"}]
    for name, file, key, title in CHECKS:
        page = write_page("contract", {"result": documents[name], "run": {"title": title}}, store)
        add(key, store.write_text(page, *folder, file))
        files.append({"name": f"checks of {title}", "href": file})
    add("metrics", store.write_text(json.dumps(documents["metrics"], indent=1), *folder, "metrics.json"))
    if "publish" in steps.finished:
        card = store.fetch(steps.output("publish", "card"))
        for name in ("model_card.json", "model_card.md"):
            add(name, store.write_text((card / name).read_text(), *folder, name))
        files.append({"name": "model card", "href": "model_card.md"})
    facts = {
        "run": _facts(resolved, steps, verdict) | {"files": files},
        "champion": champion,
        "kept_rows": steps.facts("balance") or None,
    }
    add("report", store.write_text(write_page("run", {**documents, **facts}, store), *folder, "report.html"))


def _job_document(resolved: ResolvedJob) -> dict[str, Any]:
    """The job as it ran: overrides applied, contract by name and version, addresses without secrets."""
    document = resolved.job.model_dump(mode="json", exclude_none=True)
    for key in ("path", "connection"):
        if key in document["table"]:
            document["table"][key] = without_secrets(document["table"][key])
    return document | {"contract": f"{resolved.contract.name} {resolved.contract.version}"}


def _facts(resolved: ResolvedJob, steps: Steps, verdict: Verdict) -> dict[str, Any]:
    """What the page shows of this run beside the documents of its steps."""
    job, contract, split = resolved.job, resolved.contract, steps.facts("preprocess")
    return {
        "id": verdict.run_id,
        "title": job.name,
        "created": now(),
        "status": "insufficient_evidence" if verdict.exit_code == 3 else verdict.status,
        "job": {
            "name": job.name,
            "method": resolved.method,
            "parameters": resolved.arguments,
            "seed": job.seed,
            "description": job.description,
        },
        "table": {
            "name": job.table.name,
            "rows": steps.facts("contract")["rows_kept"],
            **{key: split[key] for key in ("train_rows", "test_rows", "features")},
            "fingerprint": steps.output("ingest", "raw").sha256,
            "contract_name": contract.name,
            "contract_version": contract.version,
            "contract_page": "contract.html",
        },
        "paper": job.paper.model_dump() if job.paper else None,
        "refusal": verdict.error,
        "model": verdict.model,
        "alpha": _alpha(resolved) if resolved.is_proxy else None,
        "steps": steps.timeline(),
        "environment": environment(),
    }


def _alpha(resolved: ResolvedJob) -> float | None:
    """The limit of a proxy tree, its default included; the other proxies have none."""
    from evenhand.fairlib.methods.registry import proxy_class

    parameters = inspect.signature(proxy_class(resolved.method).__init__).parameters
    if "alpha" not in parameters:
        return None
    return float(resolved.arguments.get("alpha", parameters["alpha"].default))


def current_champion(resolved: ResolvedJob, store: Store) -> dict[str, Any] | None:
    """
    Look up the version that has the job's alias, for the page of a run that may take its place.

    Returns
    -------
    dict or None
        Version, address and alias, and what its model card says; without a card that can be read, only
        which version it is. None if no version has the alias, or the registry is out of reach: that is no
        fault of a run, unless it publishes, and then it says so itself.
    """
    name, alias = resolved.model_name, resolved.job.publish.alias
    uri = tracking_uri(store)
    if uri.startswith(SQLITE) and not Path(uri.removeprefix(SQLITE)).is_file():
        return None  # asking would create the database
    try:
        found = published(uri, name, alias)
    except NotCarriedOut:
        return None
    if found is None:
        return None
    champion = {"version": found.version, "uri": f"models:/{name}/{found.version}", "alias": alias}
    card = read_card(uri, name, found.version)
    return champion if card is None else champion | _card_fields(card)


def _card_fields(card: Mapping[str, Any]) -> dict[str, Any]:
    """What a card says, as far as it can be read: other releases wrote other cards."""

    def mapping(value: Any) -> Mapping[str, Any]:
        return value if isinstance(value, Mapping) else {}

    def number(value: Any) -> float | None:
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None

    def text(value: Any) -> str | None:
        return value if isinstance(value, str) else None

    return {
        "metrics": {
            name: {end: number(mapping(entry).get(end)) for end in ("value", "low", "high")}
            for name, entry in mapping(card.get("metrics")).items()
        },
        "parameters": dict(mapping(card.get("parameters"))),
        "data_fingerprint": text(card.get("data_fingerprint")),
        "method": text(card.get("method")),
        "contract_version": text(mapping(card.get("contract")).get("version")),
        "seed": seed if isinstance(seed := card.get("seed"), int) else None,
    }
