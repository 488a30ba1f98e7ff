"""Attacks with write access to the store, to the registry, and to neither; and the test of each
finding.

`FINDINGS` names, for each entry of the second section of the findings of 2026-11-22, the tests that
fail without its repair."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from evenhand.tasks.registry.client import FILES_TAG, registry_client
from evenhand.tasks.registry.ledger import CHAIN, RECORD_TAG, append, history
from tests.flows.commands.test_promote_command import MODEL, call, uri
from tests.tasks.registry.test_policy import folder_of, forge, refused

pytestmark = pytest.mark.usefixtures("flow_environment")

ROOT = Path(__file__).resolve().parents[2]
POLICY, CORPUS = "tests/tasks/registry/test_policy.py", "tests/chaos/test_corpus.py"
STORE, FLIPS = "tests/tasks/execution/test_store_shared.py", "tests/chaos/test_byte_flips.py"
FINDINGS = {
    # gates can be walked around
    "2.1": {
        POLICY: [
            "lax_gates_and_other_rows_count_for_nothing",
            "without_a_policy_other_gates_do_not_undo_a_refusal",
            "the_training_table_less_a_row_is_no_holdout",
            "a_run_obeys_the_policy",
        ],
        "tests/tasks/registry/test_ledger.py": [
            "a_version_is_promoted_where_its_evaluation_allows_it"
        ],
    },
    # two promotions at once
    "2.2": {
        "tests/tasks/registry/test_ledger.py": ["of_two_moves_at_one_moment_the_second_gives_up"],
        "tests/chaos/test_races.py": [
            "two_promotions_at_once_over_sqlite",
            "two_hundred_races_over_sqlite",
        ],
    },
    # a lost or damaged champion is called published
    "2.3": {
        "tests/chaos/test_attacks.py": ["a_lost_champion_is_published_again"],
        POLICY: ["changed_files_are_refused_everywhere"],
    },
    # bundles are not verified
    "2.4": {
        POLICY: ["changed_files_are_refused_everywhere", "the_code_of_a_model_finds_damage_itself"],
        FLIPS: ["every_flip_in_a_model_is_refused"],
    },
    # a key that is given twice
    "2.5": {"tests/tasks/test_credentials.py": ["a_repeated_key_names_both_lines"]},
    # credentials in records
    "2.6": {
        "tests/tasks/test_credentials.py": ["credentials_are_refused_wherever_they_stand"],
        "tests/tasks/sources/test_fetching.py": [
            "a_password_in_a_connection_stays_out_of_the_run_folder"
        ],
    },
    # cache gc beside runs
    "2.7": {STORE: ["a_collector_takes_nothing_from_runs"]},
    # a query that writes
    "2.8": {
        "tests/e2e/test_run_bad_input.py": ["a_query_that_fails"],
        "tests/chaos/test_races.py": ["a_query_cannot_write_to_postgresql"],
    },
    # results of Prefect that execute code
    "2.9": {FLIPS: ["a_record_of_prefect_is_never_read"]},
    # values of people in models
    "2.10": {
        "tests/fairlib/methods/test_thresholds.py": ["a_fitted_method_has_no_value_of_a_row"],
        "tests/fairlib/proxies/test_proxy_groups_small_counts.py": [
            "no_count_below_the_least_is_left"
        ],
    },
    # a run of MLflow that stays open
    "2.11": {
        "tests/chaos/test_attacks.py": ["a_run_that_could_not_be_closed_is_closed_by_the_next"]
    },
    # loops of links, limits of numbers, SIGTERM, checkpoints, modes, coins of proxies
    "2.12": {
        CORPUS: ["a_sample_of_bad_input", "all_bad_input"],
        "tests/flows/commands/test_terminal.py": ["sigterm_is_an_interrupt"],
        "tests/fairlib/methods/test_checkpoint.py": ["no_damaged_byte_is_taken_for_a_checkpoint"],
        STORE: ["a_store_that_exists_is_closed_to_others"],
        "tests/tasks/filtering/test_filter_engine.py": [
            "two_proxies_of_one_seed_decide_independently"
        ],
    },
}


def test_every_finding_has_its_tests() -> None:
    assert list(FINDINGS) == [f"2.{number}" for number in range(1, 13)]
    for finding, files in FINDINGS.items():
        for file, names in files.items():
            defined = re.findall(r"^def test_(\w+)", (ROOT / file).read_text(), re.MULTILINE)
            assert not set(names) - set(defined), (finding, file)


# with write access to the store


def test_a_lost_champion_is_published_again(champion: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(folder_of(champion.store, "1"))
    done = call(champion.store, "verify", MODEL)
    assert (done.exit_code, "version 1: its files are missing" in done.stderr) == (1, True)
    champion.write()
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    again = champion.run("--json")
    assert (again.code, again.json["model"]["version"]) == (0, "2")
    assert folder_of(champion.store, "2").is_dir()
    assert list(folder_of(champion.store, "2").rglob("__pycache__")) == []


def test_answers_that_are_kept_in_the_store_vouch_for_nothing(champion: Any) -> None:
    """The kept answers are changed: they point to an intact copy of a damaged model, and deny the
    policy.
    """
    Path("gates.yaml").write_text(yaml.safe_dump({"auc": {"min": 0.3}}))
    gates = ("--gates", "gates.yaml", "--approvals", "1")
    assert call(champion.store, "policy", "set", MODEL, *gates).exit_code == 0
    assert call(champion.store, "policy", "show", MODEL).exit_code == 0
    place = folder_of(champion.store, "1")
    shutil.copytree(place, "intact")
    inputs = place / "artifacts" / "bundle" / "inputs.json"
    inputs.write_text(inputs.read_text().replace("yes", "no"))
    kept = champion.store / "mlflow.db.answers.json"
    content = json.loads(kept.read_text())
    with registry_client(uri(champion.store)) as client:
        files = client.get_model_version(MODEL, "1").tags[FILES_TAG]
    false = {"place": str(Path("intact").resolve()), "files": files}
    content["answers"] = {f"policy of {MODEL}": {}, f"files of {MODEL}/1": false}
    kept.write_text(json.dumps(content))
    done = call(champion.store, "verify", MODEL)
    assert "version 1: artifacts/bundle/inputs.json was changed" in done.stderr
    refused(
        champion.store,
        "inputs.json was changed",
        arguments=("promote", f"{MODEL}/1", "--to", "challenger"),
    )
    champion.write()
    published = champion.run("--json", "--set", "seed=5").json["model"]
    assert published["alias"] == "challenger", "the policy asks for approvals"
    assert history(uri(champion.store), MODEL).aliases["champion"] == "1"


def test_bytecode_beside_a_models_code_is_named(champion: Any) -> None:
    """Python would execute it unchecked; so is another file of a like name a fault."""
    code = folder_of(champion.store, "1") / "code" / "evenhand" / "fairlib"
    for written in list(
        folder_of(champion.store, "1").rglob("__pycache__")
    ):  # when the model was loaded
        shutil.rmtree(written)
    assert "bytecode" not in call(champion.store, "verify", MODEL).stdout
    (code / "__pycache__").mkdir()
    (code / "__pycache__" / "registry.cpython-311.pyc").write_bytes(b"\0")
    done = call(champion.store, "verify", MODEL)
    assert (done.exit_code, "__pycache__ was added: delete bytecode" in done.stderr) == (1, True)
    assert "with bytecode that no list covers (delete the folders __pycache__): 1" in done.stdout
    assert json.loads(call(champion.store, "verify", MODEL, "--json").stdout)["bytecode"] == ["1"]
    (code / "registered_model_meta.py").write_text("")
    assert "registered_model_meta.py was added" in call(champion.store, "verify", MODEL).stderr


# with write access to the registry


def test_a_second_record_of_a_publication_counts_for_nothing(champion: Any) -> None:
    """Files, list and tag of a version are replaced, and the new list is appended to the chain."""
    forge(champion.store, "1", chain=False)
    with registry_client(uri(champion.store)) as client:
        files = client.get_model_version(MODEL, "1").tags[FILES_TAG]
        append(client, MODEL, "version", {"version": "1", "content": "", "files": files})
    done = call(champion.store, "verify", MODEL)
    assert done.exit_code == 1
    assert "version 1: artifacts/bundle/digests.json was changed" in done.stderr
    refused(
        champion.store, "digests.json was changed", arguments=("promote", f"{MODEL}/1", "--to", "x")
    )


def test_a_record_without_its_content_is_one_fault(champion: Any) -> None:
    chain = history(uri(champion.store), MODEL)
    last = chain.records[-1]
    head = {"number": 4, "when": last.when, "who": "ada", "previous": last.digest}
    text = json.dumps(head | {"kind": "move", "content": {"to_version": "1"}})
    with registry_client(uri(champion.store)) as client:
        client.create_model_version(f"{CHAIN}{MODEL}", "evenhand:/record", tags={RECORD_TAG: text})
        # the chain goes on after the last record that can be read
        append(client, MODEL, "approval", {"version": "1"})
    for command in ("history", "verify"):
        done = call(champion.store, command, MODEL)
        assert done.exit_code == 1
        assert "the record at place 4 cannot be read: it was changed" in done.stderr
        assert len(done.stderr.splitlines()) == 1


# with write access to neither


def test_no_job_and_no_command_reaches_the_records(champion: Any) -> None:
    """A model of the name under which records are kept would mix with them."""
    name = f"evenhand.audit.{MODEL}"
    champion.write()
    done = champion.run("--set", f"publish.model={name}")
    assert done.code == 2
    assert "a model whose name begins with evenhand.audit. holds records" in done.err
    for command in (
        ("history", name),
        ("promote", f"{name}/1"),
        ("evaluate", name, "--data", "people.csv"),
    ):
        refused(champion.store, "holds the records of a model", arguments=command, code=2)
    assert len(history(uri(champion.store), MODEL).records) == 3


# an outage in mid-publication


def test_a_run_that_could_not_be_closed_is_closed_by_the_next(
    champion: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    def away(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(mlflow.pyfunc, "log_model", away)
        patch.setattr(mlflow.MlflowClient, "set_terminated", away)
        assert champion.run("--set", "seed=5").code == 4

    def states() -> list[str]:
        with registry_client(uri(champion.store)) as client:
            (experiment,) = (
                item for item in client.search_experiments() if item.name == "evenhand"
            )
            return sorted(run.info.status for run in client.search_runs([experiment.experiment_id]))

    assert states() == ["FINISHED", "RUNNING"]
    assert champion.run("--set", "seed=5").code == 0
    assert states() == ["FAILED", "FINISHED", "FINISHED"]
