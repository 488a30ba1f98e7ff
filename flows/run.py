"""A retraining run: train a model on a table, and publish it if its gates pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from evenhand.data_contracts.favourable import favourable_in_words
from evenhand.fairlib.evaluation.group_selection import left_out_notes
from evenhand.fairlib.preprocessing.sentences import TFIDF, encoder_digest
from evenhand.flows.engine import (
    EXIT_OF_VERDICT,
    Engine,
    Json,
    Measured,
    RunFolder,
    Steps,
    Verdict,
    recorded_verdict,
)
from evenhand.flows.job import ONCE, Job
from evenhand.flows.resolved_job import ResolvedJob, provenance
from evenhand.flows.workers import steps_on
from evenhand.tasks.errors import (
    InputError,
    NotCarriedOut,
    input_errors,
    waits_for_service,
    without_secrets,
)
from evenhand.tasks.execution.fingerprint import library_versions
from evenhand.tasks.execution.store import Store
from evenhand.tasks.pages.value_names import label_name
from evenhand.tasks.registry import client as registry
from evenhand.tasks.registry.ledger import current_policy, history
from evenhand.tasks.written_input import FORM_KEYS

NO_POLICY = "no policy guards this model: the job's own gates decided alone"
# Checks with a page: document, file of the page, name in the verdict, title.
CHECKS = (
    ("result", "contract.html", "contract_page", "the table"),
    ("train_result", "encoded-train.html", "encoded_train_page", "the encoded training rows"),
    ("test_result", "encoded-test.html", "encoded_test_page", "the encoded test rows"),
)


@dataclass(frozen=True)
class GatedRun:
    """Results of a run up to its gates; `sources` are the digests of the table's files."""

    sources: dict[str, str]
    measured: Measured
    decision: dict[str, Any]


def execute(resolved: ResolvedJob, store: Store, run_id: str, engine: Engine) -> Verdict:
    """Run a job, publish its model if the gates pass, and write its verdict and pages.

    Raises `EvenhandError` after the verdict of a failed run was written; a refusing gate raises
    nothing. Raises `CacheMiss` from an engine that may only use the cache; no verdict is written.
    """
    steps = Steps(store, engine)
    with (
        recorded_verdict(store, run_id, steps) as verdict,
        steps_on(resolved.job.engine.dask, store) as execution,
    ):
        steps.engine = engine.executing_in(execution)
        _check_policy(resolved, store)
        judged = run_to_gate(resolved, steps)
        # looked up before the alias moves
        champion = _current_champion(resolved, store)
        if judged.decision["passed"]:
            _publish(resolved, judged, steps)
            facts = steps.facts("publish")
            verdict.model = {key: facts[key] for key in ("name", "version", "alias", "uri")}
            if facts["held_back"]:
                name = f"{facts['name']}/{facts['version']}"
                verdict.notes.append(
                    f"{name} is {facts['alias']}, not {resolved.job.publish.alias}: "
                    f"{facts['held_back']}. "
                    f"`evenhand evaluate {name} --policy` and `evenhand promote {name}` are next"
                )
        outcome = judged.decision["verdict"]
        verdict.status = "published" if judged.decision["passed"] else "gated"
        verdict.exit_code = EXIT_OF_VERDICT[outcome]
        verdict.gates = judged.decision
        verdict.error = judged.measured.refusal
        verdict.notes += judged.measured.notes
        documents = steps.documents()
        suspected = [item["name"] for item in documents["leaks"]["columns"]]
        if suspected:
            verdict.notes.append(
                f"a leak is suspected in {', '.join(suspected)}: if its values are known only "
                "after the "
                "decision, give it role: ignore in the contract"
            )
        verdict.notes += left_out_notes(documents["metrics"])
        verdict.add_metrics(documents["metrics"]["metrics"])
        verdict.controls = documents.get("controls", {}).get("controls", {})
        _write_outputs(resolved, steps, verdict, documents, champion)
    return verdict


def _check_policy(resolved: ResolvedJob, store: Store) -> None:
    """Refuse to publish a champion that no policy guards, unless the job says so."""
    publish = resolved.job.publish
    if publish.alias != "champion" or publish.without_policy:
        return
    if current_policy(registry.tracking_uri(store), resolved.model_name) is None:
        raise InputError(
            f"job {resolved.job.name}: the model {resolved.model_name} has no policy: `evenhand "
            "policy set "
            f"{resolved.model_name} --gates FILE` sets one; publish.without_policy: true does "
            "without."
        )


def run_to_gate(resolved: ResolvedJob, steps: Steps) -> GatedRun:
    """Run a job up to its gates, and publish nothing.

    A run with a refusal is refused even if the gates pass.
    """
    sources = prepare(resolved, steps)
    kind = resolved.kind
    measured: Measured = kind.train_and_measure(resolved, steps)
    steps("gate", *kind.gate_step(resolved, steps, measured))
    decision = steps.read("gate", "decision")
    if measured.refusal is not None:
        decision |= {"passed": False, "verdict": "refused", "note": measured.refusal}
    return GatedRun(sources, measured, decision)


def prepare(resolved: ResolvedJob, steps: Steps) -> dict[str, str]:
    """Run the steps up to the training rows' profile; return the sha256 of each of the table's
    files.
    """
    sentences = any(column.is_text for column in resolved.contract.features)
    # first, so that a run without the encoder's extra ends before any step
    text = text_parameters(resolved.job) if sentences else {}
    sources = ingest(resolved.source(), resolved.job.seed, steps)
    # which outcome is favourable matters to no step before the evaluation
    table_contract = resolved.table_contract.without_favourable().to_dict()
    steps("contract", {"contract": table_contract}, {"raw": steps.output("ingest", "raw")})
    job = resolved.job
    checked = {"checked": steps.output("contract", "checked")}
    split = {
        "contract": resolved.contract.without_favourable().to_dict(),
        "split": job.split.parameters(),
        "seed": job.seed,
        **text,
    }
    # stratified by the label, or by a proxy's groups
    split |= {"strata": "groups"} if resolved.is_proxy else {}
    if sentences and job.text.tune_layers:
        steps(
            "tune_encoder", {key: value for key, value in split.items() if key != "terms"}, checked
        )
        tuned = encoder_folder(job, steps)
        split["text"] = {**split["text"], "encoder": tuned, "digest": encoder_digest(tuned)}
    steps("preprocess", split, checked)
    # counts of the training rows are published, so that drift can be measured later
    steps(
        "profile",
        {
            "contract": table_contract,
            "features": [column.name for column in resolved.contract.features],
            "min_cell": job.evaluate.min_cell,
        },
        {**checked, "train": steps.output("preprocess", "train")},
    )
    return sources


def encoder_folder(job: Job, steps: Steps) -> str:
    """Return the encoder's name or folder; of a tuned one the folder of its step's output."""
    if "tune_encoder" not in steps.finished:
        return job.text.encoder
    return str(steps.store.fetch(steps.output("tune_encoder", "sentence_encoder")))


def text_parameters(job: Job) -> dict[str, Any]:
    """Return the encoder of sentences, with the digest of its weights, and the lists of terms."""
    text: dict[str, Any] = job.text.model_dump()
    if job.text.encoder != TFIDF:
        with input_errors("text.encoder: "):
            text["digest"] = encoder_digest(job.text.encoder)
        text["libraries"] = library_versions(("sentence-transformers", "transformers"))
    return {"text": text, "terms": job.evaluate.model_dump()["terms"]}


def ingest(source: Mapping[str, Any], seed: int, steps: Steps) -> dict[str, str]:
    """Fetch a table and convert it to one Parquet file: the step ``ingest``.

    `source` is a job's ``table``, its path absolute, and `seed` that of a generated table. Returns
    the sha256 of each of the table's files; empty for a generated table.
    """
    started = steps.clock()
    files = steps.engine.fetch(source)
    keys = ("name", "path", "format", "delimiter", "null_values", "sql", "rows")
    reading = {key: source[key] for key in keys}
    # left out where they are not given: the key is then that of a job without them
    reading |= {key: source[key] for key in FORM_KEYS if source.get(key) is not None}
    if reading["path"]:
        # the path's last part is enough to read the file: the same bytes elsewhere are the same
        # table
        reading["path"] = reading["path"].partition("?")[0].rstrip("/").rsplit("/", 1)[-1]
    steps(
        "ingest", {"source": reading, "seed": seed if not files else None}, files, started=started
    )
    return {name: artifact.sha256 for name, artifact in files.items()}


def _publish(resolved: ResolvedJob, judged: GatedRun, steps: Steps) -> None:
    from evenhand.tasks.steps.publish_step import is_current

    job = resolved.job
    kind = resolved.kind
    uri = registry.tracking_uri(steps.store)
    policy = current_policy(uri, resolved.model_name)
    parts = kind.published_artifacts(steps) | {
        "encoder": steps.output("preprocess", "encoder"),
        "metrics": judged.measured.metrics,
        "decision": steps.output("gate", "decision"),
    }
    fingerprint = steps.output("ingest", "raw").sha256
    source = resolved.source()
    forms = {key: source[key] for key in FORM_KEYS if source.get(key) is not None}
    # a tuned encoder is nowhere else
    weights = (
        job.publish.encoder_weights
        and job.text.encoder != TFIDF
        or "tune_encoder" in steps.finished
    )
    steps(
        "publish",
        {
            "name": resolved.model_name,
            "alias": job.publish.alias,
            "tracking_uri": uri,
            "artifact_root": registry.artifact_root(steps.store, uri),
            "inputs": kind.input_description(resolved, steps),
            "modules": resolved.modules,
            "evaluation": {
                "job": job.name,
                "method": resolved.method,
                "contract": resolved.table_contract.to_dict(),
                "evaluate": job.evaluate.model_dump(exclude=ONCE),
                "seed": job.seed,
                "data_fingerprint": fingerprint,
                **({"table_forms": forms} if forms else {}),
            },
            "gates": job.gates,
            "kept": _kept_share(steps),
            "policy": (policy or {}).get("digest"),
            "provenance": provenance(resolved, judged.sources, judged.measured.proxy),
            "content": {name: artifact.sha256 for name, artifact in parts.items()},
            "card": _model_card(resolved, steps) | {"data_fingerprint": fingerprint},
            **({"encoder_weights": encoder_folder(job, steps)} if weights else {}),
            # left out if there are none: the key is then that of a contract without names
            **({"value_names": resolved.value_names} if resolved.value_names else {}),
        },
        parts,
        modules=resolved.modules,
        is_valid=lambda record: is_current(record, uri, resolved.value_names),
    )


def _kept_share(steps: Steps) -> float:
    """Share of the table's rows that met the contract."""
    facts = steps.facts("contract")
    return float(facts["rows_kept"] / facts["rows"])


def _model_card(resolved: ResolvedJob, steps: Steps) -> dict[str, Any]:
    """Return the fields of the model card that are known before publication."""
    job = resolved.job
    contract = resolved.contract
    chosen = steps.facts("balance")
    card: dict[str, Any] = {"kind": "proxy"} if resolved.is_proxy else {}
    if chosen:
        keys = ("proxy", "version", "rows_before", "rows_after")
        card["balance"] = {key: chosen[key] for key in keys}
    return card | {
        "name": resolved.model_name,
        "description": job.description,
        "intended_use": job.publish.intended_use,
        "table": job.table.name,
        "contract": {"name": contract.name, "version": contract.version, "digest": contract.digest},
        "sensitive": [column.name for column in contract.sensitive],
        "favourable_outcome": None
        if contract.label.classes
        else favourable_in_words(contract.label),
        "copies": _copies(job),
        "method": resolved.method,
        "parameters": resolved.arguments,
        "seed": job.seed,
    }


def _copies(job: Job) -> dict[str, str]:
    """Return what each kind of counterfactual copy changes, in words."""
    copies = {
        name: "; ".join(
            f"{column}: {'all values' if values == 'all' else ', '.join(map(str, values))}"
            for column, values in changes.items()
        )
        for name, changes in job.evaluate.counterfactuals.items()
    }
    for name, swap in job.evaluate.terms.items():
        groups = swap.terms if len(swap.terms) > 1 else swap.terms[0]
        terms = ", ".join(group if isinstance(group, str) else "/".join(group) for group in groups)
        copies[name] = f"terms of {swap.column}: {terms}"
    return copies


def _write_outputs(
    resolved: ResolvedJob, steps: Steps, verdict: Verdict, documents: Json, champion: Json | None
) -> None:
    """Write the run's files and add their addresses to the verdict.

    The page shows which steps of this run were cached and their durations, and so is never cached.
    """
    folder = RunFolder(steps.store, verdict)
    folder.write(
        "job",
        "job.yaml",
        yaml.safe_dump(_job_document(resolved), sort_keys=False),
        "the job as it ran",
    )
    for step, finished in steps.finished.items():
        for name, artifact in finished.record.outputs.items():
            verdict.artifacts[f"{step}.{name}"] = artifact.uri
    folder.write_json("metrics", "metrics.json", documents["metrics"], "metrics")
    for name, file, key, title in CHECKS:
        folder.write_check(key, file, documents[name], title, f"checks of {title}")
    if "publish" in steps.finished:
        card = steps.store.fetch(steps.output("publish", "card"))
        folder.write("model_card.json", "model_card.json", (card / "model_card.json").read_text())
        folder.write(
            "model_card.md", "model_card.md", (card / "model_card.md").read_text(), "model card"
        )
    facts = {"champion": champion, "kept_rows": steps.facts("balance") or None}
    folder.write_report("run", {**documents, **facts}, _facts(resolved, steps, verdict))


def _job_document(resolved: ResolvedJob) -> dict[str, Any]:
    """Return the job with overrides applied, contract by name and version, and addresses without
    secrets.
    """
    document = resolved.job.model_dump(mode="json", exclude_none=True)
    for key in ("path", "connection"):
        if key in document["table"]:
            document["table"][key] = without_secrets(document["table"][key])
    return document | {"contract": f"{resolved.contract.name} {resolved.contract.version}"}


def _facts(resolved: ResolvedJob, steps: Steps, verdict: Verdict) -> dict[str, Any]:
    """Return what the page shows of this run beside the documents of its steps."""
    job = resolved.job
    contract = resolved.contract
    split = steps.facts("preprocess")
    label = contract.label
    return {
        "title": job.name,
        "status": "insufficient_evidence" if verdict.exit_code == 3 else verdict.status,
        "job": {
            **job.model_dump(include={"name", "seed", "description"}),
            "method": resolved.method,
            "parameters": resolved.arguments,
        },
        "table": {
            "name": job.table.name,
            "rows": steps.facts("contract")["rows_kept"],
            **{key: split[key] for key in ("train_rows", "test_rows", "features")},
            **({"split_by": job.split.by} if job.split.by else {}),
            **({"split_unit": job.split.unit} if job.split.unit == "group" else {}),
            "fingerprint": steps.output("ingest", "raw").sha256,
            "contract_name": contract.name,
            "contract_version": contract.version,
            "contract_page": "contract.html",
            "positive": None
            if label.classes
            else f"{label.name} = {label_name(resolved.value_names, label.name, label.positive)}",
            "favourable": None
            if label.classes
            else favourable_in_words(label, resolved.value_names.get(label.name, {})),
        },
        "value_names": resolved.value_names,
        "paper": job.paper.model_dump() if job.paper else None,
        "refusal": verdict.error,
        "notes": [
            *verdict.notes,
            *([] if steps.facts("publish").get("policy", True) else [NO_POLICY]),
        ],
        "model": verdict.model,
        "alpha": steps.facts("learn_proxy").get("alpha"),
        "steps": steps.timeline(),
    }


def _current_champion(resolved: ResolvedJob, store: Store) -> dict[str, Any] | None:
    """Look up the version that has the job's alias now, for the page of the run that may replace
    it.

    Returns version, address and alias, and the fields of its model card if the card can be read.
    Returns None if no version has the alias, or the registry does not answer: publishing reports
    that error.
    """
    name = resolved.model_name
    alias = resolved.job.publish.alias
    uri = registry.tracking_uri(store)
    if uri.startswith(registry.SQLITE) and not Path(uri.removeprefix(registry.SQLITE)).is_file():
        return None  # a query would create the database
    try:
        found = registry.published(uri, name, alias)
    except NotCarriedOut:
        return None
    if found is None:
        return None
    champion = {"version": found.version, "uri": f"models:/{name}/{found.version}", "alias": alias}
    card = registry.read_card(uri, name, found.version)
    return champion if card is None else champion | _card_fields(card)


def _card_fields(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a card that the page shows; none if another release wrote it in another
    form.
    """
    try:
        metrics = {
            name: {end: entry.get(end) for end in ("value", "low", "high")}
            for name, entry in card["metrics"].items()
        }
        fields = {
            key: card.get(key) for key in ("parameters", "data_fingerprint", "method", "seed")
        }
        return {"metrics": metrics, **fields, "contract_version": card["contract"]["version"]}
    except (AttributeError, KeyError, TypeError):
        return {}


def up_to_date(resolved: ResolvedJob, store: Store, run_id: str, engine: Engine) -> Verdict | None:
    """Write the verdict ``up_to_date`` if the registry has a model with the provenance that a run
    would have.

    Returns None if a run is needed; nothing is written then. Raises `EvenhandError` if the table or
    the registry cannot be read; the verdict of a failed run was written.
    """
    steps = Steps(store, engine)
    with recorded_verdict(store, run_id) as verdict:
        started = steps.clock()
        found = find_unchanged(resolved, store, engine)
        if found is None:
            return None
        version, current = found
        name = resolved.model_name
        alias = resolved.job.publish.alias
        note = f"up to date: {name} version {version} was made from the same data, job and code"
        if current == version:
            note += f", and is {alias}."
        else:
            holder = "no version is" if current is None else f"version {current} is"
            note += f"; {holder} {alias} by a later decision (`evenhand history {name}`)."
        verdict.seconds = {"compare": round(steps.clock() - started, 3)}
        verdict.status = "up_to_date"
        verdict.exit_code = 0
        verdict.notes = [note]
        verdict.model = {
            "name": name,
            "version": version,
            "alias": alias if current == version else None,
            "uri": f"models:/{name}/{version}",
        }
    return verdict


def find_unchanged(
    resolved: ResolvedJob, store: Store, engine: Engine
) -> tuple[str, str | None] | None:
    """Read the table's files, and look for a version as :func:`find_equal_version` does; write
    nothing.
    """
    sources = {name: item.sha256 for name, item in engine.fetch(resolved.source()).items()}
    wanted = resolved.job.balance
    proxy = wanted and registry.published(registry.tracking_uri(store), wanted.proxy, wanted.alias)
    return find_equal_version(
        resolved, store, provenance(resolved, sources, proxy.content if proxy else None)
    )


@waits_for_service
def find_equal_version(
    resolved: ResolvedJob, store: Store, digest: str
) -> tuple[str, str | None] | None:
    """Find a version with this provenance that makes a run unnecessary, and the version that has
    the alias.

    The first is a version which has the job's alias; or which had it until a person gave the alias
    to another version, because a schedule must not undo that. The result is None if a run is
    needed: also if a later run replaced the version (data or job have changed back), or if the
    version never got the alias (its run ended before the last step).
    """
    uri = registry.tracking_uri(store)
    name = resolved.model_name
    alias = resolved.job.publish.alias
    with registry.registry_client(uri) as client:
        from mlflow import MlflowException

        try:
            versions = client.search_model_versions(f"name = '{name}'")
        except MlflowException as error:
            if error.error_code in registry.ABSENT:
                return None
            raise
    made = [
        str(v.version)
        for v in versions
        if v.tags.get(registry.PROVENANCE_TAG) == digest and v.status == "READY"
    ]
    if not made:
        return None
    chain = history(uri, name)
    current = chain.aliases.get(alias)
    if current in made:
        # a lost or damaged version is made again
        return None if registry.damaged_files(uri, name, current) else (current, current)
    moves = [record.content for record in chain.moves(alias)]
    # the last move was a person's, or was made outside Evenhand
    decided = bool(moves) and (
        moves[-1]["reason"] == "promote" or moves[-1]["to_version"] != current
    )
    had = {move["from_version"] for move in moves}
    newest = max((version for version in made if version in had), key=int, default=None)
    return (newest, current) if decided and newest is not None else None
