"""Asking in the terminal: one question at a time, clear words on bad answers, nothing kept."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from evenhand.fairlib.evaluation.group_thresholds import fit_group_thresholds
from evenhand.fairlib.file_digests import sha256_of_file
from evenhand.fairlib.methods.calibration import Calibration
from evenhand.fairlib.methods.dadi import DADIClassifier
from evenhand.fairlib.methods.dadi.questionnaire import Questionnaire
from evenhand.fairlib.methods.decided import GroupRule, write_decision
from evenhand.flows.cli import app
from evenhand.tasks.registry.client import NAMES_TAG, registry_client
from tests.flows.people import DADI_JOB, Bench, copy_store, run_all

# so does the agent of these tests ask, whatever its training came to
ORDER = ["job", "income", "since", "owner"]
ANSWERS = {"income": "2718.28182", "job": "cook", "owner": "yes", "since": "2021-02-03"}


@pytest.fixture(autouse=True)
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent asks for the first three of the order; the last is worth less than to stop."""

    def values(self: DADIClassifier, X: Any, known: Any) -> Any:
        found = np.array([*(2.5 - ORDER.index(name) for name in self.groups_), 0.0])
        return np.where(np.append(known[0], False), -np.inf, found)[None]

    monkeypatch.setattr(DADIClassifier, "action_values", values)


@pytest.fixture
def bundle(agent_store: Path) -> Path:
    """Folder of the published agent's bundle."""
    (found,) = (
        path.parent
        for path in agent_store.glob("mlflow-artifacts/**/bundle/model/network.safetensors")
    )
    return found.parent


@pytest.fixture
def asking(bundle: Path) -> Questionnaire:
    return Questionnaire.load(bundle)


def ask(*arguments: str | Path, typed: str = "") -> Any:
    done = CliRunner().invoke(app, ["ask", *map(str, arguments)], input=typed)
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    return done


def typed(*names: str) -> str:
    """Their answers, a line each."""
    return "".join(f"{ANSWERS[name]}\n" for name in names)


def test_a_person_is_asked_until_the_agent_stops(bundle: Path, asking: Questionnaire) -> None:
    done = ask(bundle, typed=typed("job", "income", "since"))
    assert done.exit_code == 0, done.stderr
    said = asking.predict({name: ANSWERS[name] for name in ("job", "income", "since")})
    assert done.stdout.splitlines()[-5:] == [
        f"prediction   {said['prediction']}",
        f"probability  {said['probability']:.1%} for “yes”",
        "asked        job, income, since",
        "never asked  owner",
        "  owner: worth 0.500 nats less than to decide without it",
    ]
    assert (
        "  Why: Of the 4 questions left, the model values this answer most: it should help"
        in done.stdout
    )
    assert done.stdout.count("What it reveals: this answer alone predicts sex with AUC ") == 3
    places = [done.stdout.index(f"\n{name}:") for name in ("job", "income", "since")]
    assert places == sorted(places)
    assert "job: Line of work.\n   1  clerk\n   2  smith\n   3  cook\n" in done.stdout
    assert "  a number of euros, at least -1000\n" in done.stdout


def test_the_json_holds_names_and_no_answer(bundle: Path, asking: Questionnaire) -> None:
    done = ask(bundle, "--json", typed=typed("job", "income", "since"))
    assert done.exit_code == 0, done.stderr
    (line,) = done.stdout.splitlines()
    told = asking.predict({name: ANSWERS[name] for name in ("job", "income", "since")})
    assert json.loads(line) == {
        "prediction": told["prediction"],
        "probability": pytest.approx(told["probability"]),
        "asked": ["job", "income", "since"],
        "declined": [],
        "known": ["job", "income", "since"],
        "never_asked": ["owner"],
        "reasons_not_asked": {"owner": "worth 0.500 nats less than to decide without it"},
        "stopped": False,
    }
    assert ANSWERS["income"] not in line
    # the questions themselves are on stderr
    assert "\nsince:\n" in done.stderr


def test_whoever_would_rather_not_say_is_asked_the_next_best(
    bundle: Path, asking: Questionnaire
) -> None:
    done = ask(bundle, "--json", typed=typed("job") + "\n" + typed("since"))
    said = json.loads(done.stdout)
    assert (said["asked"], said["declined"]) == (["job", "income", "since"], ["income"])
    assert (said["known"], said["never_asked"]) == (["job", "since"], ["owner"])
    expected = asking.predict({name: ANSWERS[name] for name in ("job", "since")})
    assert said["probability"] == pytest.approx(expected["probability"])
    shown = ask(bundle, typed=typed("job") + "\n" + typed("since")).stdout
    assert "declined     income\n" in shown


def test_without_answers_the_prediction_is_of_nobody_known(
    bundle: Path, asking: Questionnaire
) -> None:
    said = json.loads(ask(bundle, "--json", typed="\n" * 3).stdout)
    assert said["declined"] == said["asked"] == ["job", "income", "since"]
    assert said["known"] == []
    assert said["probability"] == pytest.approx(asking.predict({})["probability"])


def test_a_person_may_stop_and_be_decided_about(bundle: Path, asking: Questionnaire) -> None:
    said = json.loads(ask(bundle, "--json", typed=typed("job") + ".\n").stdout)
    assert (said["asked"], said["declined"], said["stopped"]) == (["job"], [], True)
    assert said["reasons_not_asked"] == {
        "income": "the interview was stopped before it",
        "owner": "worth 0.500 nats less than to decide without it",
        "since": "the interview was stopped before it",
    }
    expected = asking.predict({"job": ANSWERS["job"]})["probability"]
    assert said["probability"] == pytest.approx(expected)


def test_a_bad_answer_is_asked_again_in_one_clear_line(bundle: Path) -> None:
    done = ask(bundle, "--json", typed="zzyzx\n4\n0\n3\nzzyzx\n-99999\n" + typed("income", "since"))
    assert done.exit_code == 0, done.stderr
    assert done.stderr.count("job: no such value; expected one of clerk, smith, cook.\n") == 3
    assert done.stderr.count("income: expected a number of euros, at least -1000.\n") == 2
    assert json.loads(done.stdout)["asked"] == ["job", "income", "since"]
    assert "zzyzx" not in done.stdout + done.stderr


@pytest.mark.parametrize("answer", ["2", "smith"])
def test_a_choice_may_be_given_by_its_number(
    bundle: Path, asking: Questionnaire, answer: str
) -> None:
    said = json.loads(ask(bundle, "--json", typed=f"{answer}\n\n\n").stdout)
    expected = asking.predict({"job": "smith"})["probability"]
    assert said["probability"] == pytest.approx(expected)
    # another choice is another answer
    assert expected != pytest.approx(asking.predict({"job": "clerk"})["probability"], abs=1e-9)


def test_what_is_known_before_is_not_asked(bundle: Path, asking: Questionnaire) -> None:
    given = [part for name, value in ANSWERS.items() for part in ("--known", f"{name}={value}")]
    done = ask(bundle, *given, "--json")
    said = json.loads(done.stdout)
    assert (said["asked"], said["known"], said["never_asked"]) == ([], list(ANSWERS), [])
    assert said["probability"] == pytest.approx(asking.predict(ANSWERS)["probability"])
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("wage=3", "'wage' is no feature of this model"),
        ("income=-31415", "income: expected a number of euros, at least -1000"),
        ("job=zzyzx", "job: no such value; expected one of clerk, cook, smith"),
        ("zzyzx", "--known wants NAME=VALUE"),
    ],
)
def test_what_cannot_be_known_is_refused(bundle: Path, given: str, words: str) -> None:
    done = ask(bundle, "--known", given)
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert words.replace("clerk, cook, smith", "clerk, smith, cook") in line
    assert "zzyzx" not in line
    assert "31415" not in line


@pytest.mark.long
def test_a_feature_that_the_job_left_out_is_no_question(tmp_path: Path, registry: Path) -> None:
    store = run_all(Bench(tmp_path, database=registry), DADI_JOB | {"leave_out": ["job"]}).store
    done = ask("people-dadi", "--store", store, "--json", typed="\n" * 3)
    assert done.exit_code == 0, done.stderr
    answer = json.loads(done.stdout)
    # without it, the rest in the same order
    assert (answer["asked"], answer["never_asked"]) == (["income", "since"], ["owner"])
    refused = ask("people-dadi", "--store", store, "--known", "job=cook")
    assert refused.exit_code == 2
    (line,) = refused.stderr.splitlines()
    assert "'job' is no feature of this model; there are income, since, owner." in line
    assert "cook" not in line


def test_an_input_that_ends_early_ends_cleanly(bundle: Path) -> None:
    done = ask(bundle, "--json")
    assert done.exit_code == 4
    assert "input ended" in json.loads(done.stdout)["error"]
    assert "evenhand: the input ended before the questions did: no answer was kept." in done.stderr


def test_an_interrupt_ends_cleanly(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evenhand.flows.commands import ask_command as command

    def interrupt(out: Any) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_line", interrupt)
    done = ask(bundle)
    assert done.exit_code == 4
    assert done.stderr == "evenhand: interrupted: no answer was kept.\n"
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize(
    "model", ["people-dadi", "models:/people-dadi@champion", "models:/people-dadi/1"]
)
def test_a_model_is_found_in_the_registry(agent_store: Path, model: str) -> None:
    before = {path for path in agent_store.rglob("*") if path.is_file()}
    done = ask(model, "--store", agent_store, "--json", typed="\n" * 3)
    assert done.exit_code == 0, done.stderr
    assert 0 < json.loads(done.stdout)["probability"] < 1
    # what was fetched is gone
    left = {path for path in agent_store.rglob("*") if path.is_file()} - before
    assert not [path for path in left if "mlflow.db" not in path.name]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("people-dada", ["'people-dada' is not published", "did you mean 'people-dadi'?"]),
        ("people-dadi@other", ["'people-dadi'", "the alias 'other'"]),
        ("models:/people-dadi/7", ["'people-dadi'", "version 7"]),
        ("people-gbdt", ["'people-gbdt' asks no questions", "dadi"]),
        ("runs:/12/model", ["there is no model 'runs:/12/model'", "models:/NAME@ALIAS"]),
    ],
)
def test_what_is_no_agent_is_refused(agent_store: Path, model: str, words: list[str]) -> None:
    done = ask(model, "--store", agent_store)
    assert done.exit_code == 2, done.stderr
    (line,) = done.stderr.splitlines()
    for word in words:
        assert word in line


def test_a_folder_that_is_no_bundle_is_refused(tmp_path: Path) -> None:
    done = ask(tmp_path)
    assert done.exit_code == 2
    assert "has no inputs.json: give the folder of a published model" in done.stderr


def test_a_model_that_decides_by_group_asks_nobody(bundle: Path, tmp_path: Path) -> None:
    shutil.copytree(bundle, tmp_path / "bundle")
    label = np.tile([0, 0, 1, 1], 20)
    chance, group = np.tile([0.1, 0.6, 0.4, 0.9], 20), np.repeat(["F", "M"], 40)
    thresholds = fit_group_thresholds(
        chance, label, group, attribute="sex", criterion="demographic_parity", tolerance=0.1
    )
    rule = GroupRule("sex", thresholds, "equal rates")
    write_decision(tmp_path / "bundle" / "model", Calibration("none", 0.0), rule)
    listed = json.loads((tmp_path / "bundle" / "digests.json").read_text())
    decision = tmp_path / "bundle" / "model" / "decision.json"
    listed["artifacts/bundle/model/decision.json"] = sha256_of_file(decision)
    (tmp_path / "bundle" / "digests.json").write_text(json.dumps(listed))
    done = ask(tmp_path / "bundle", typed=typed("job", "income", "since"))
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert "the model's decisions depend on 'sex', which nobody is asked for" in line
    assert "decision.equal" in line
    assert done.stdout == ""


def test_no_answer_is_left_anywhere(agent_store: Path) -> None:
    lines = typed("job") + typed("since")
    done = ask(
        "people-dadi", "--store", agent_store, "--known", f"income={ANSWERS['income']}", typed=lines
    )
    assert done.exit_code == 0, done.stderr
    assert ANSWERS["income"] not in done.stdout
    for path in agent_store.rglob("*"):
        if path.is_file():
            assert ANSWERS["income"].encode() not in path.read_bytes(), path


def test_asking_from_a_folder_needs_neither_registry_nor_engine(bundle: Path) -> None:
    import subprocess

    program = (
        "import sys\nfrom evenhand.flows.cli import app\n"
        "try:\n    app()\nexcept SystemExit as end:\n"
        "    heavy = [name for name in ('mlflow', 'prefect', 'great_expectations') if name in "
        "sys.modules]\n"
        "    assert not heavy, heavy\n    sys.exit(end.code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "ask", str(bundle)],
        input="\n" * 4,
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).resolve().parents[3],
    )
    assert done.returncode == 0, done.stderr
    assert "prediction" in done.stdout


def test_the_answer_has_the_name_of_the_published_version(
    agent_store: Path, tmp_path: Path
) -> None:
    store = copy_store(agent_store, tmp_path / "store")
    names = {"paid": {"yes": "pays back", "no": "stays in debt"}, "sex": {"F": "woman"}}
    names |= {
        "job": {"clerk": "works in an office", "cook": "prepares meals"},
        "income": {"0": "none at all"},
    }
    with registry_client(f"sqlite:///{store.resolve() / 'mlflow.db'}") as client:
        client.set_model_version_tag("people-dadi", "1", NAMES_TAG, json.dumps(names))
    said = ask("people-dadi", "--store", store, typed="\n" * 3).stdout
    assert " for “pays back”\n" in said
    assert " 1  clerk: works in an office\n   2  smith\n   3  cook: prepares meals\n" in said
    assert "  a number of euros, at least -1000\n  0: none at all\n  Why: Of the 3" in said
    # programs get the table's own values
    answer = json.loads(ask("people-dadi", "--store", store, "--json", typed="\n" * 3).stdout)
    assert f"prediction   {names['paid'][answer['prediction']]}\n" in said
