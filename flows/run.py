"""A retraining run: train a model on a table, and publish it if its gates pass."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from evenhand.data_contracts.favourable import favourable_in_words
from evenhand.fairlib.methods.registry import TFIDF
from evenhand.fairlib.outcome_words import outcome_in_words
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
from evenhand.flows.memory import DASK_VARIABLE
from evenhand.flows.resolved_job import (
    ResolvedJob,
    inputs_digest,
    model_digest,
    provenance,
)
from evenhand.flows.workers import steps_on
from evenhand.tasks.errors import (
    InputError,
    NotCarriedOut,
    input_errors,
    without_secrets,
)
from evenhand.tasks.execution.fingerprint import library_versions
from evenhand.tasks.execution.step import IN_THIS_PROCESS, ExecutionContext
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry import client as registry
from evenhand.tasks.registry.ledger import current_policy
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


def _execution(
    address: str | None, store: Store
) -> contextlib.AbstractContextManager[ExecutionContext]:
    """Where the steps run: on a Dask cluster if the job or ``DASK_SCHEDULER_ADDRESS`` names one,
    otherwise in this process.
    """
    address = address or os.environ.get(DASK_VARIABLE)
    if address:
        return steps_on(address, store)
    return contextlib.nullcontext(IN_THIS_PROCESS)


def execute(resolved: ResolvedJob, store: Store, run_id: str, engine: Engine) -> Verdict:
    """Run a job, publish its model if the gates pass, and write its verdict and pages.

    Raises `EvenhandError` after the verdict of a failed run was written; a refusing gate raises
    nothing. Raises `CacheMiss` from an engine that may only use the cache; no verdict is written.
    """
    steps = Steps(store, engine)
    with (
        recorded_verdict(store, run_id, steps) as verdict,
        _execution(resolved.job.engine.dask, store) as execution,
    ):
        steps.engine = engine.executing_in(execution)
        registry.check_access(registry.tracking_uri(store), resolved.model_name)
        _check_policy(resolved, store)
        judged = run_to_gate(resolved, steps)
        # looked up before the alias moves
        champion = _current_champion(resolved, store)
        if judged.decision["passed"]:
            _publish(resolved, judged, steps)
            _add_publication(resolved, steps, verdict)
        else:
            verdict.status = "gated"
        verdict.exit_code = EXIT_OF_VERDICT[judged.decision["verdict"]]
        verdict.gates = judged.decision
        verdict.error = judged.measured.refusal
        verdict.notes += reading_notes(steps)
        verdict.notes += judged.measured.notes
        documents = steps.documents()
        suspected = [item["name"] for item in documents["leaks"]["columns"]]
        if suspected:
            verdict.notes.append(
                f"a leak is suspected in {', '.join(suspected)}: if its values are known only "
                "after the decision, give it role: ignore in the contract"
            )
        verdict.notes += _left_out_notes(documents["metrics"])
        verdict.add_metrics(documents["metrics"]["metrics"])
        verdict.controls = documents.get("controls", {}).get("controls", {})
        verdict.rates = overall_rates(documents["metrics"])
        verdict.findings = group_findings(documents["metrics"])
        verdict.findings += [f"fair metric: {text}" for text in metric_findings(documents)]
        verdict.notes += less_accurate(verdict)
        _write_outputs(resolved, steps, verdict, documents, champion)
    return verdict


def _left_out_notes(metrics: Json) -> list[str]:
    """Name the groups that no comparison includes; most runs leave out none."""
    if not any(groups["left_out"] for groups in metrics.get("groups", {}).values()):
        return []
    # imported lazily: a run from the cache needs no numeric library
    from evenhand.fairlib.evaluation.group_selection import left_out_notes

    return left_out_notes(metrics)


def metric_findings(documents: Json) -> list[str]:
    """Return a sentence on what a learned fair metric neutralises, if the run has one."""
    if "metric_report" not in documents:
        return []
    # imported lazily: other runs have no such section
    from evenhand.tasks.pages.sections.fair_metric_section import summary

    return [summary(documents["metric_report"])]


def overall_rates(metrics: Json) -> dict[str, Any]:
    """Return how many people get the positive label, predicted and observed; empty for other than
    two labels.
    """
    if "rates" not in metrics:
        return {}
    # imported lazily: other commands show no page
    from evenhand.tasks.pages.texts import positive_label

    return {"positive": positive_label(metrics), **metrics["rates"]}


def group_findings(metrics: Json) -> list[str]:
    """Return how often the groups of each attribute get the favourable outcome, in sentences."""
    # imported lazily: other commands show no page
    from evenhand.tasks.pages.texts import treatment

    return treatment(metrics)


def less_accurate(verdict: Verdict) -> list[str]:
    """Return a note where the majority-class baseline makes fewer errors than the model."""
    accuracy = verdict.metrics.get("accuracy")
    majority = verdict.controls.get("majority", {}).get("metrics", {}).get("accuracy")
    if accuracy is None or majority is None or accuracy >= majority:
        return []
    return [
        f"the decisions are less accurate ({accuracy:.1%}) than the most frequent label for "
        f"everybody ({majority:.1%}): `--set decision=max_accuracy` makes the fewest errors"
    ]


def _add_publication(resolved: ResolvedJob, steps: Steps, verdict: Verdict) -> None:
    """Add the published version to the verdict, with a note if it did not get the alias."""
    facts = steps.facts("publish")
    verdict.status = "published"
    verdict.model = {key: facts[key] for key in ("name", "version", "alias", "uri")}
    if facts["held_back"]:
        name = f"{facts['name']}/{facts['version']}"
        verdict.notes.append(
            f"{name} is {facts['alias']}, not {resolved.job.publish.alias}: "
            f"{facts['held_back']}. "
            f"`evenhand evaluate {name} --policy` and `evenhand promote {name}` are next"
        )


def _check_policy(resolved: ResolvedJob, store: Store) -> None:
    """Refuse to publish a champion that no policy guards, unless the job says so; and a key for
    records that cannot be used.
    """
    if os.environ.get("EVENHAND_KEY"):
        # imported lazily: other runs need no cryptography
        from evenhand.tasks.registry.signed_records import check_key

        check_key()
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
    measured = kind.train_and_measure(resolved, steps)
    steps("gate", *kind.gate_step(resolved, steps, measured))
    decision = steps.read("gate", "decision")
    if measured.refusal is not None:
        decision |= {"passed": False, "verdict": "refused", "note": measured.refusal}
    return GatedRun(sources, measured, decision)


def prepare(resolved: ResolvedJob, steps: Steps, *, with_profile: bool = True) -> dict[str, str]:
    """Run the steps up to the training rows' profile; return the sha256 of each of the table's
    files.

    A search trains its first models before that: without the profile.
    """
    job = resolved.job
    if _has_text(resolved):
        # first, so that a run without the encoder's extra ends before any step
        text_parameters(job)
    sources = ingest(resolved.source(), job.seed, steps)
    # which outcome is favourable matters to no step before the evaluation
    table_contract = resolved.table_contract.without_favourable().to_dict()
    steps("contract", {"contract": table_contract}, {"raw": steps.output("ingest", "raw")})
    encode_rows(resolved, steps)
    if not with_profile:
        return sources
    # counts of the training rows are published, so that drift can be measured later
    steps(
        "profile",
        {
            "contract": table_contract,
            "features": [column.name for column in resolved.contract.features],
            "min_cell": job.evaluate.min_cell,
        },
        {
            "checked": steps.output("contract", "checked"),
            "train": steps.output("preprocess", "train"),
        },
    )
    return sources


def _has_text(resolved: ResolvedJob) -> bool:
    return any(column.is_text for column in resolved.contract.features)


def encode_rows(resolved: ResolvedJob, steps: Steps) -> None:
    """Divide the rows that meet the contract and encode them: the step ``preprocess``."""
    job = resolved.job
    checked = {"checked": steps.output("contract", "checked")}
    text: dict[str, Any] = {}
    if _has_text(resolved):
        text = text_parameters(job)
    split = {
        "contract": resolved.contract.without_favourable().to_dict(),
        "split": job.split.parameters(),
        "seed": job.seed,
        **text,
    }
    if resolved.is_proxy:
        split["strata"] = "groups"  # else stratified by the label
    if text and job.text.tune_layers:
        tuning = {key: value for key, value in split.items() if key != "terms"}
        steps("tune_encoder", tuning, checked)
        from evenhand.fairlib.preprocessing.sentences import encoder_digest

        tuned = encoder_folder(job, steps)
        split["text"] = {**split["text"], "encoder": tuned, "digest": encoder_digest(tuned)}
    steps("preprocess", split, checked)


def encoder_folder(job: Job, steps: Steps) -> str:
    """Return the encoder's name or folder; of a tuned one the folder of its step's output."""
    if "tune_encoder" not in steps.finished:
        return job.text.encoder
    return str(steps.store.fetch(steps.output("tune_encoder", "sentence_encoder")))


def text_parameters(job: Job) -> dict[str, Any]:
    """Return the encoder of sentences, with the digest of its weights, and the lists of terms."""
    from evenhand.fairlib.preprocessing.sentences import MIN_SENTENCES, encoder_digest

    text: dict[str, Any] = job.text.model_dump()
    if job.text.encoder != TFIDF:
        with input_errors("text.encoder: "):
            text["digest"] = encoder_digest(job.text.encoder)
        text["libraries"] = library_versions(("sentence-transformers", "transformers"))
    parameters = {"text": text, "terms": job.evaluate.model_dump()["terms"]}
    # a word of fewer people is not stored; a key of its own only where it is not the default
    if job.text.encoder == TFIDF and job.evaluate.min_cell > MIN_SENTENCES:
        parameters["min_texts"] = job.evaluate.min_cell
    return parameters


def ingest(
    source: Mapping[str, Any], seed: int, steps: Steps, *, infer: bool = False
) -> dict[str, str]:
    """Fetch a table and convert it to one Parquet file: the step ``ingest``.

    `source` is a job's ``table``, its path absolute, and `seed` that of a generated table. With
    `infer` the step finds the forms of text that `source` does not state. Returns the sha256 of
    each of the table's files; empty for a generated table.
    """
    started = steps.clock()
    files = steps.engine.fetch(source)
    keys = ("name", "path", "format", "delimiter", "null_values", "sql", "rows")
    reading = {key: source[key] for key in keys} | _stated_forms(source)
    if reading["path"]:
        # the path's last part is enough to read the file: the same bytes elsewhere are the same
        # table
        reading["path"] = reading["path"].partition("?")[0].rstrip("/").rsplit("/", 1)[-1]
    parameters: dict[str, Any] = {"source": reading, "seed": None}
    if not files:
        parameters["seed"] = seed
    if infer and reading["path"]:
        parameters["infer"] = True
    steps("ingest", parameters, files, started=started)
    return {name: artifact.sha256 for name, artifact in files.items()}


def reading_notes(steps: Steps) -> list[str]:
    """Return sentences on how the table's text was read, where nobody stated it so."""
    notes: list[str] = steps.facts("ingest").get("notes", [])
    return notes


def unknown_columns_notes(names: Sequence[str]) -> list[str]:
    """Return a sentence on columns of a table that are ignored because the contract lacks them."""
    if not names:
        return []
    # imported lazily: most runs have no such column
    from evenhand.tasks.pages.formats import plural, shortlist

    quoted = [f"'{name}'" for name in names]
    counted = plural(len(names), "column")
    return [f"ignored {counted} that the contract does not know: {shortlist(quoted)}"]


def _stated_forms(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys on the form of a table's text that are given.

    The others are left out, so that the key of a step is that of a job without them.
    """
    return {key: source[key] for key in FORM_KEYS if source.get(key) is not None}


def _publish(resolved: ResolvedJob, judged: GatedRun, steps: Steps) -> None:
    # imported lazily: other commands publish nothing
    from evenhand.tasks.registry.row_digests import key_file
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
    evaluation = facts_of_model(resolved, steps, judged.measured.proxy)
    parameters = {
        "name": resolved.model_name,
        "alias": job.publish.alias,
        "tracking_uri": uri,
        "artifact_root": registry.artifact_root(steps.store, uri),
        # the file's path: no record of a step holds the key
        "overlap_key": str(key_file(steps.store).resolve()),
        "inputs": kind.input_description(resolved, steps),
        "modules": resolved.modules,
        "evaluation": evaluation,
        "gates": job.gates,
        "kept": _kept_share(resolved, steps, policy),
        "policy": (policy or {}).get("digest"),
        "provenance": provenance(resolved, judged.sources, judged.measured.proxy),
        "made_of": {
            "inputs": inputs_digest(resolved, judged.sources, judged.measured.proxy),
            "steps": {name: list(step.modules) for name, step in steps.finished.items()}
            | {"publish": list(resolved.modules)},
        },
        "content": {name: artifact.sha256 for name, artifact in parts.items()},
        "card": _model_card(resolved, steps) | {"data_fingerprint": fingerprint},
    }
    asked_for_weights = job.publish.encoder_weights and job.text.encoder != TFIDF
    # a tuned encoder is nowhere else
    if asked_for_weights or "tune_encoder" in steps.finished:
        parameters["encoder_weights"] = encoder_folder(job, steps)
    if resolved.value_names:
        # left out if there are none: the key is then that of a contract without names
        parameters["value_names"] = resolved.value_names
    if resolved.case_terms:
        parameters["case_terms"] = resolved.case_terms
    steps(
        "publish",
        parameters,
        parts,
        modules=resolved.modules,
        is_valid=lambda record: is_current(record, uri, resolved.value_names, resolved.case_terms),
    )


def facts_of_model(resolved: ResolvedJob, steps: Steps, proxy: str | None) -> dict[str, Any]:
    """Return what a model's files say of it in ``evaluation.json``, but for its measurement: its
    job, method, contract and table. `proxy` is the content of the job's proxy, if it has one.
    """
    facts = {
        "job": resolved.job.name,
        "method": resolved.method,
        "contract": resolved.table_contract.to_dict(),
        "evaluate": resolved.job.evaluate.model_dump(exclude=ONCE),
        "seed": resolved.job.seed,
        "data_fingerprint": steps.output("ingest", "raw").sha256,
        "model_digest": model_digest(resolved, proxy),
    }
    forms = _stated_forms(resolved.source())
    if forms:
        facts["table_forms"] = forms
    return facts


def _kept_share(resolved: ResolvedJob, steps: Steps, policy: Json | None) -> dict[str, Any]:
    """Return the share of the table's rows that met the contract; under a policy also the smallest
    of a group's rows.
    """
    facts = steps.facts("contract")
    shares: dict[str, Any] = {"rows": float(facts["rows_kept"] / facts["rows"])}
    if policy is None:
        return shares
    # imported lazily: a run without a policy does not read these tables
    import pyarrow.parquet as pq

    from evenhand.tasks.registry.policy_terms import kept_shares

    contract = resolved.table_contract
    columns = [column.name for column in contract.sensitive]
    raw = pq.read_table(steps.store.fetch(steps.output("ingest", "raw")), columns=columns)
    checked = pq.read_table(steps.store.fetch(steps.output("contract", "checked")), columns=columns)
    return kept_shares(raw, checked, contract, resolved.job.evaluate.min_cell)


def _model_card(resolved: ResolvedJob, steps: Steps) -> dict[str, Any]:
    """Return the fields of the model card that are known before publication."""
    job = resolved.job
    contract = resolved.contract
    card: dict[str, Any] = {}
    if resolved.is_proxy:
        card["kind"] = "proxy"
    balance = steps.facts("balance")
    if balance:
        keys = ("proxy", "version", "rows_before", "rows_after")
        card["balance"] = {key: balance[key] for key in keys}
    favourable = None
    if not contract.label.classes:
        favourable = favourable_in_words(contract.label)
    return card | {
        "name": resolved.model_name,
        "description": job.description,
        "intended_use": job.publish.intended_use,
        "table": job.table.name,
        "contract": {"name": contract.name, "version": contract.version, "digest": contract.digest},
        "sensitive": [column.name for column in contract.sensitive],
        "favourable_outcome": favourable,
        "copies": _copies(job),
        "method": resolved.method,
        "parameters": resolved.arguments,
        "seed": job.seed,
    }


def _copies(job: Job) -> dict[str, str]:
    """Return what each kind of counterfactual copy changes, in words."""
    copies = {}
    for name, changes in job.evaluate.counterfactuals.items():
        phrases = []
        for column, values in changes.items():
            if values == "all":
                phrases.append(f"{column}: all values")
            else:
                phrases.append(f"{column}: {', '.join(map(str, values))}")
        copies[name] = "; ".join(phrases)
    for name in job.evaluate.adapted:
        copies[name] = "counterparts in the other groups, with adapted columns"
    for name, swap in job.evaluate.terms.items():
        copies[name] = f"terms of {swap.column}: {_terms_in_words(swap.terms)}"
    return copies


def _terms_in_words(groups: Sequence[Any]) -> str:
    """Return groups of terms with commas between; a single group as its terms."""
    if len(groups) == 1:
        groups = groups[0]
    phrases = []
    for group in groups:
        if isinstance(group, str):
            phrases.append(group)
        else:
            phrases.append("/".join(group))
    return ", ".join(phrases)


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
    """Return what the page shows of this run in addition to the documents of its steps."""
    job = resolved.job
    status = verdict.status
    if verdict.exit_code == 3:
        status = "insufficient_evidence"
    paper = None
    if job.paper:
        paper = job.paper.model_dump()
    notes = list(verdict.notes)
    if not steps.facts("publish").get("policy", True):
        notes.append(NO_POLICY)
    return {
        "title": job.name,
        "status": status,
        "job": {
            **job.model_dump(include={"name", "seed", "description"}),
            "method": resolved.method,
            "parameters": resolved.arguments,
        },
        "table": _table_facts(resolved, steps),
        "value_names": resolved.value_names,
        "paper": paper,
        "refusal": verdict.error,
        "notes": notes,
        "model": verdict.model,
        "alpha": steps.facts("learn_proxy").get("alpha"),
        "steps": steps.timeline(),
    }


def _table_facts(resolved: ResolvedJob, steps: Steps) -> dict[str, Any]:
    """Return what the page shows of the table, its split and its label."""
    split = resolved.job.split
    contract = resolved.contract
    label = contract.label
    facts = {
        "name": resolved.job.table.name,
        "rows": steps.facts("contract")["rows_kept"],
    }
    for key in ("train_rows", "test_rows", "features"):
        facts[key] = steps.facts("preprocess")[key]
    if split.by:
        facts["split_by"] = split.by
    if split.unit == "group":
        facts["split_unit"] = split.unit
    facts |= {
        "fingerprint": steps.output("ingest", "raw").sha256,
        "contract_name": contract.name,
        "contract_version": contract.version,
        "contract_page": "contract.html",
        "positive": None,
        "favourable": None,
    }
    if not label.classes:
        from evenhand.tasks.pages.value_names import label_name

        positive = label_name(resolved.value_names, label.name, label.outcome.positive)
        facts["positive"] = outcome_in_words(label.name, positive)
        value_names = resolved.value_names.get(label.name, {})
        facts["favourable"] = favourable_in_words(label, value_names)
    return facts


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
        current = registry.published(uri, name, alias)
    except NotCarriedOut:
        return None
    if current is None:
        return None
    version = current.version
    champion = {"version": version, "uri": f"models:/{name}/{version}", "alias": alias}
    card = registry.read_card(uri, name, version)
    if card is None:
        return champion
    return champion | _card_fields(card)


def _card_fields(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a card that the page shows; none if another release wrote it in another
    form.
    """
    fields: dict[str, Any] = {"metrics": {}}
    try:
        for name, entry in card["metrics"].items():
            fields["metrics"][name] = {end: entry.get(end) for end in ("value", "low", "high")}
        for key in ("parameters", "data_fingerprint", "method", "seed", "favoured"):
            fields[key] = card.get(key)
        fields["contract_version"] = card["contract"]["version"]
    except (AttributeError, KeyError, TypeError):
        return {}
    return fields
