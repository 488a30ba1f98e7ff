"""Aliases: who moves them, by which evaluation, what is on record, and when a run has nothing to
do.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evenhand.tasks.registry.client import registry_client
from evenhand.tasks.registry.ledger import CHAIN, RECORD_TAG, history, record_evaluation
from tests.flows.people import Done

MODEL = "people-gbdt"


def call(store: Path, *arguments: str) -> Any:
    from evenhand.flows.cli import app

    return CliRunner().invoke(app, [*arguments, "--store", str(store)])


def uri(store: Path) -> str:
    return f"sqlite:///{store.resolve()}/mlflow.db"


@pytest.fixture
def two(bench: Any, two_versions: Done) -> Any:
    """A champion and a challenger in a store of the test's own."""
    two_versions.copied_to(bench.store)
    return bench


def test_a_version_is_promoted_and_the_way_back_is_the_same(two: Any) -> None:
    done = call(two.store, "promote", f"models:/{MODEL}@challenger", "--to", "champion")
    assert done.exit_code == 0, done.stderr
    assert f"{MODEL} version 2 is now champion, in place of version 1." in done.stdout
    again = call(two.store, "promote", f"models:/{MODEL}@challenger")
    assert "is champion already" in again.stdout
    back = json.loads(call(two.store, "promote", f"models:/{MODEL}/1", "--json").stdout)
    assert (back["version"], back["change"]["from_version"]) == ("1", "2")

    found = history(uri(two.store), MODEL)
    kinds = ["version", "evaluation", "move"]
    assert [record.kind for record in found.records] == [*kinds, *kinds, "move", "move"]
    moves = [record.content for record in found.of("move")]
    assert [(c["alias"], c["from_version"], c["to_version"], c["reason"]) for c in moves] == [
        ("champion", None, "1", "run"),
        ("challenger", None, "2", "run"),
        ("champion", "1", "2", "promote"),
        ("champion", "2", "1", "promote"),
    ]
    assert found.faults == []
    assert all(content["evaluation"]["verdict"] == "passed" for content in moves)
    assert dict(found.aliases) == {"champion": "1", "challenger": "2"}


@pytest.mark.parametrize(
    ("evaluation", "words"),
    [
        (None, "no evaluation of it is recorded"),
        ({"verdict": "refused"}, "was refused by the gates"),
        ({"verdict": "no_gates"}, "was never judged by gates"),
        ({"verdict": "insufficient_evidence"}, "lacks evidence for a gate"),
    ],
)
def test_only_what_has_passed_is_promoted(two: Any, evaluation: Any, words: str) -> None:
    with registry_client(uri(two.store)) as client:
        if evaluation is None:
            client.delete_model_version_tag(MODEL, "2", "evenhand.evaluation")
            for number in ("6", "5"):  # the chain's records of the evaluation and the move after it
                client.delete_model_version(f"{CHAIN}{MODEL}", number)
        else:
            record_evaluation(client, MODEL, "2", evaluation)
    done = call(two.store, "promote", f"models:/{MODEL}/2")
    assert done.exit_code == 1
    assert words in done.stderr
    assert "evenhand evaluate" in done.stderr
    assert dict(history(uri(two.store), MODEL).aliases)["champion"] == "1"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("promote", "models:/nobody@champion"), "'nobody' is not published"),
        (
            ("promote", f"models:/{MODEL}/9"),
            "has no version 9 in this store: its versions are 1, 2",
        ),
        (("promote", f"models:/{MODEL}@nobody"), "no version with the alias 'nobody'"),
        (("promote", f"models:/{MODEL}/1", "--to", "latest"), "reserves `latest`"),
        (("promote", f"models:/{MODEL}/1", "--to", "a b"), "letters, digits"),
        (("promote", "."), "is a folder"),
        (("promote", "runs:/12/model"), "there is no model"),
        (("history", "nobody"), "not in the registry"),
    ],
)
def test_bad_names_get_one_line(two_versions: Done, arguments: tuple[str, ...], words: str) -> None:
    done = call(two_versions.store, *arguments)
    assert done.exit_code == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


def test_an_unreachable_registry_is_exit_code_4(
    two_versions: Done, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:////proc/nowhere/mlflow.db")
    done = call(two_versions.store, "promote", f"models:/{MODEL}/1")
    assert done.exit_code == 4
    assert "check MLFLOW_TRACKING_URI" in done.stderr


def test_a_refused_champion_says_that_it_is_still_champion(two: Any) -> None:
    done = call(two.store, "refuse", f"{MODEL}/1", "--reason", "the gap of women grew")
    assert done.exit_code == 0, done.stderr
    assert "refuses people-gbdt version 1: the gap of women grew" in done.stdout
    assert "it is still champion: a refusal keeps it from getting an alias" in done.stdout
    assert dict(history(uri(two.store), MODEL).aliases)["champion"] == "1"


def test_who_acts_is_named(two: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTOR", "ada")
    call(two.store, "promote", f"models:/{MODEL}/2")
    monkeypatch.setenv("EVENHAND_ACTOR", "grace")
    call(two.store, "promote", f"models:/{MODEL}/1")
    assert [c.who for c in history(uri(two.store), MODEL).of("move")[2:]] == ["ada", "grace"]


def test_what_was_done_past_us_shows(two: Any) -> None:
    """A record that was changed, one that was taken out, and an alias that was moved without a
    record.
    """
    call(two.store, "promote", f"models:/{MODEL}/2")
    chain = f"{CHAIN}{MODEL}"
    with registry_client(uri(two.store)) as client:
        second = client.get_model_version(chain, "6").tags[RECORD_TAG]
        client.set_model_version_tag(
            chain, "6", RECORD_TAG, second.replace("challenger", "another")
        )
    done = call(two.store, "history", MODEL)
    assert done.exit_code == 1
    assert "the record before number 7 was changed or taken out" in done.stderr
    with registry_client(uri(two.store)) as client:
        client.set_model_version_tag(chain, "6", RECORD_TAG, second)
        client.set_registered_model_alias(MODEL, "champion", "1")
    done = call(two.store, "history", MODEL)
    assert "champion is at version 1, but version 2 by the last record" in done.stderr
    assert "number 7" not in done.stderr
    with registry_client(uri(two.store)) as client:
        client.delete_model_version(chain, "6")
    assert "before number 7" in call(two.store, "history", MODEL).stderr


def test_an_evaluation_with_a_former_champion_does_not_count(two: Any) -> None:
    """Version 3 was held against version 1; version 2 is champion since. The way back needs no
    baseline.
    """
    assert two.run("--json", "--set", "publish.alias=other", "--set", "seed=2").code == 0
    passed = {"kind": "evaluate", "verdict": "passed", "baseline": f"models:/{MODEL}/1"}
    with registry_client(uri(two.store)) as client:
        record_evaluation(client, MODEL, "3", passed)
        record_evaluation(client, MODEL, "1", passed | {"baseline": f"models:/{MODEL}/3"})
    assert call(two.store, "promote", f"models:/{MODEL}/2").exit_code == 0
    done = call(two.store, "promote", f"models:/{MODEL}/3")
    assert done.exit_code == 1
    assert "it was compared with version 1, and version 2 is champion now" in done.stderr
    assert call(two.store, "promote", f"models:/{MODEL}/1").exit_code == 0
    assert call(two.store, "promote", f"models:/{MODEL}/3").exit_code == 0


def test_an_evaluation_on_the_models_own_table_does_not_count(two: Any) -> None:
    with registry_client(uri(two.store)) as client:
        record_evaluation(client, MODEL, "2", {"verdict": "passed", "same_table": True})
    done = call(two.store, "promote", f"models:/{MODEL}/2")
    assert done.exit_code == 1
    assert "the table that it learned from" in done.stderr


@pytest.mark.parametrize("verdict", ["refused", "insufficient_evidence"])
def test_a_refusal_is_not_forgotten_when_the_model_is_made_again(two: Any, verdict: str) -> None:
    """The challenger's job as one that publishes a champion: the same content, which was
    refused.
    """
    with registry_client(uri(two.store)) as client:
        record_evaluation(client, MODEL, "2", {"verdict": verdict, "run_id": "some-evaluation"})
    done = two.run("--json", "--set", "method.n_steps=6")
    assert done.code == 1
    assert "the evaluation some-evaluation did not pass it" in done.json["error"]
    assert dict(history(uri(two.store), MODEL).aliases)["champion"] == "1"
    assert call(two.store, "promote", f"models:/{MODEL}/2").exit_code == 1


class TestUpToDate:
    def test_the_same_again_has_nothing_to_do(self, publishing: Any) -> None:
        assert publishing.run("--json", "--if-changed").verdict["status"] == "published"
        done = publishing.run("--json", "--if-changed")
        assert (done.code, done.json["status"]) == (0, "up_to_date")
        assert done.json["model"]["version"] == "1"
        assert "is champion" in done.json["notes"][0]
        assert list(done.json["seconds"]) == ["compare"]

    @pytest.mark.long
    @pytest.mark.parametrize(
        "change",
        [
            ("--set", "method.n_steps=5"),
            ("--set", "seed=1"),
            ("--set", "gates.auc.min=0.31"),
            ("--set", "publish.alias=other"),
        ],
    )
    def test_another_job_is_something_to_do(self, champion: Any, change: tuple[str, str]) -> None:
        assert champion.run("--json", "--if-changed", *change).json["status"] == "published"

    @pytest.mark.long
    def test_new_rows_are_something_to_do_and_another_place_is_not(
        self, champion: Any, people: Any
    ) -> None:
        champion.write()
        moved = champion.folder / "elsewhere"
        moved.mkdir()
        (champion.folder / "people.csv").rename(moved / "people.csv")
        elsewhere = ("--set", "table.path=elsewhere/people.csv")
        assert (
            champion.run("--json", "--if-changed", *elsewhere, job="job.yaml").json["status"]
            == "up_to_date"
        )
        (moved / "people.csv").unlink()
        champion.table = people(500, 4)
        assert champion.run("--json", "--if-changed").json["status"] == "published"

    @pytest.mark.long
    def test_another_contract_is_something_to_do(self, champion: Any) -> None:
        champion.contract["version"] = "1.0.1"
        assert champion.run("--json", "--if-changed").json["status"] == "published"

    def test_words_about_a_job_change_nothing(self, champion: Any) -> None:
        champion.job["description"] = "Other words."
        assert champion.run("--json", "--if-changed").json["status"] == "up_to_date"

    def test_a_schedule_does_not_undo_what_a_person_decided(self, two: Any) -> None:
        call(two.store, "promote", f"models:/{MODEL}/2")
        done = two.run("--json", "--if-changed")
        assert done.json["status"] == "up_to_date"
        assert "version 2 is champion by a later decision" in done.json["notes"][0]
        # without the option the job's model comes back, as it always did
        assert two.run("--json").json["model"]["version"] == "1"
        assert dict(history(uri(two.store), MODEL).aliases)["champion"] == "1"

    @pytest.mark.long
    @pytest.mark.parametrize("with_record", [True, False])
    def test_a_version_that_never_got_its_alias_is_finished(
        self, champion: Any, with_record: bool
    ) -> None:
        """Its run ended between the record, or the registration, and the alias."""
        with registry_client(uri(champion.store)) as client:
            client.delete_registered_model_alias(MODEL, "champion")
            if not with_record:
                client.delete_model_version(f"{CHAIN}{MODEL}", "3")
        done = champion.run("--json", "--if-changed")
        assert (done.json["status"], done.json["model"]["version"]) == ("published", "1")

    @pytest.mark.long
    def test_what_went_there_and_back_is_made_champion_again(self, champion: Any) -> None:
        """A bad load one night, and the right one the next: nobody decided that the bad one
        stays.
        """
        other = ("--set", "method.n_steps=5")
        assert champion.run("--json", "--if-changed", *other).json["model"]["version"] == "2"
        back = champion.run("--json", "--if-changed").json
        assert (back["status"], back["model"]["version"]) == ("published", "1")
        assert champion.run("--json", "--if-changed").json["status"] == "up_to_date"

    def test_a_refused_model_is_judged_again(self, publishing: Any) -> None:
        refusing = ("--set", "gates.auc.min=0.999")
        assert publishing.run("--json", *refusing).code == 1
        assert publishing.run("--json", "--if-changed", *refusing).code == 1

    def test_a_table_that_is_gone_is_told(self, publishing: Any) -> None:
        job = publishing.write()
        (publishing.folder / "people.csv").unlink()
        done = publishing.run("--json", "--if-changed", job=job)
        assert done.code == 2
        assert "there is no file" in done.json["error"]
        assert done.verdict["status"] == "failed"


def test_the_page_over_all_runs_shows_what_was_promoted(two: Any) -> None:
    call(two.store, "promote", f"models:/{MODEL}/2")
    done = call(two.store, "report", "--all")
    assert done.exit_code == 0, done.stderr
    page = (two.store / "runs" / "index.html").read_text()
    assert "version 2 is champion, published on" in page
    assert "version 1 is champion" not in page
    # without its registry the page says that it was not asked
    (two.store / "mlflow.db").rename(two.store / "mlflow.away")
    assert call(two.store, "report", "--all").exit_code == 0
    page = (two.store / "runs" / "index.html").read_text()
    assert "the registry was not asked" in page
    assert "version 1 is champion" in page


def test_up_to_date_names_the_alias_while_its_version_has_it(two: Any) -> None:
    assert two.run("--json", "--if-changed").json["model"]["alias"] == "champion"
    call(two.store, "promote", f"models:/{MODEL}/2")
    assert two.run("--json", "--if-changed").json["model"] == {
        "name": MODEL,
        "version": "1",
        "alias": None,
        "uri": f"models:/{MODEL}/1",
    }
