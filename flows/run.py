"""A retraining run: a table becomes a model that the gates judge and that is published if they pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evenhand.flows.engine import Engine, Measured, Steps
from evenhand.flows.resolved_job import ResolvedJob, provenance
from evenhand.flows.run_outputs import current_champion, model_card, write_outputs
from evenhand.flows.verdict import EXIT_OF_VERDICT, Verdict, recorded_verdict
from evenhand.tasks.store import Store

__all__ = ["GatedRun", "execute", "ingest", "run_to_gate"]


@dataclass(frozen=True)
class GatedRun:
    """A run up to its gates: digests of the table's files, what was measured, and the decision."""

    sources: dict[str, str]
    measured: Measured
    decision: dict[str, Any]


def execute(resolved: ResolvedJob, store: Store, run_id: str, engine: Engine) -> Verdict:
    """
    Run a job, publish its model if the gates pass, and leave its verdict and pages.

    Raises
    ------
    EvenhandError
        After the verdict of a failed run was written. A gate that refuses raises nothing here.
    CacheMiss
        From an engine that may only look things up; the run has not begun, so it leaves no verdict.
    """
    steps = Steps(store, engine)
    with recorded_verdict(store, run_id, steps) as verdict:
        judged = run_to_gate(resolved, steps)
        # before the alias moves
        champion = current_champion(resolved, store)
        if judged.decision["passed"]:
            _publish(resolved, judged, steps)
            facts = steps.facts("publish")
            verdict.model = {key: facts[key] for key in ("name", "version", "alias", "uri")}
        outcome = judged.decision["verdict"]
        verdict.status = "published" if judged.decision["passed"] else "gated"
        verdict.exit_code = EXIT_OF_VERDICT[outcome]
        verdict.gates, verdict.error = judged.decision, judged.measured.refusal
        documents = steps.documents()
        verdict.add_metrics(documents["metrics"]["metrics"])
        write_outputs(resolved, steps, verdict, documents, champion)
    return verdict


def run_to_gate(resolved: ResolvedJob, steps: Steps) -> GatedRun:
    """
    Run a job up to its gates, and publish nothing.

    A run that has nothing to publish is refused whatever the gates say.
    """
    sources = ingest(resolved.source(), resolved.job.seed, steps)
    steps("contract", {"contract": resolved.table_contract.to_dict()}, {"raw": steps.output("ingest", "raw")})
    kind = resolved.kind
    steps("preprocess", kind.split_parameters(resolved), {"checked": steps.output("contract", "checked")})
    # counts of the training rows, published so that drift can be measured later
    steps(
        "profile",
        {
            "contract": resolved.table_contract.to_dict(),
            "features": [column.name for column in resolved.contract.features],
            "min_cell": resolved.job.evaluate.min_cell,
        },
        {"checked": steps.output("contract", "checked"), "train": steps.output("preprocess", "train")},
    )
    measured: Measured = kind.train_and_measure(resolved, steps)
    steps("gate", {"gates": resolved.job.gates}, {"metrics": measured.metrics})
    decision = steps.read("gate", "decision")
    if measured.refusal is not None:
        decision |= {"passed": False, "verdict": "refused", "note": measured.refusal}
    return GatedRun(sources, measured, decision)


def ingest(source: Mapping[str, Any], seed: int, steps: Steps) -> dict[str, str]:
    """
    Bring a table here and make it one Parquet file: the step ``ingest``.

    Parameters
    ----------
    source : mapping
        A job's ``table``, its path absolute.
    seed : int
        Of a table that is generated.
    steps : Steps

    Returns
    -------
    dict of str to str
        sha256 of each of the table's files; empty for a generated table.
    """
    started = steps.clock()
    files = steps.engine.fetch(source)
    keys = ("name", "path", "format", "delimiter", "null_values", "sql", "rows")
    reading = {key: source[key] for key in keys}
    if reading["path"]:
        # only the ending matters for reading: the same bytes in another place are the same table
        reading["path"] = reading["path"].partition("?")[0].rstrip("/").rsplit("/", 1)[-1]
    steps("ingest", {"source": reading, "seed": seed if not files else None}, files, started=started)
    return {name: artifact.sha256 for name, artifact in files.items()}


def _publish(resolved: ResolvedJob, judged: GatedRun, steps: Steps) -> None:
    from evenhand.tasks.publish import is_current
    from evenhand.tasks.registry import artifact_root, tracking_uri

    job, kind = resolved.job, resolved.kind
    uri = tracking_uri(steps.store)
    parts = kind.published_artifacts(steps) | {
        "encoder": steps.output("preprocess", "encoder"),
        "metrics": judged.measured.metrics,
        "decision": steps.output("gate", "decision"),
    }
    fingerprint = steps.output("ingest", "raw").sha256
    steps(
        "publish",
        {
            "name": resolved.model_name,
            "alias": job.publish.alias,
            "tracking_uri": uri,
            "artifact_root": artifact_root(steps.store, uri),
            "inputs": kind.input_description(resolved, steps),
            "modules": resolved.modules,
            "evaluation": {
                "job": job.name,
                "method": resolved.method,
                "contract": resolved.table_contract.to_dict(),
                "evaluate": job.evaluate.model_dump(exclude={"certificate"}),
                "seed": job.seed,
                "data_fingerprint": fingerprint,
            },
            "provenance": provenance(resolved, judged.sources, judged.measured.proxy),
            "content": {name: artifact.sha256 for name, artifact in parts.items()},
            "card": model_card(resolved) | kind.card_fields(steps) | {"data_fingerprint": fingerprint},
        },
        parts,
        modules=resolved.modules,
        is_valid=lambda record: is_current(record, uri),
    )
