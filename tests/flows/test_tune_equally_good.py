"""Models that a search for alternatives keeps, and what they decide about the person of a case."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.csv
import pytest
from typer.testing import CliRunner

from evenhand.fairlib.methods.registry import method_class
from evenhand.fairlib.tuning.budget import Budget
from evenhand.fairlib.tuning.study import Trial
from evenhand.flows import case, tune_equally_good
from evenhand.flows.cli import app
from evenhand.flows.job import DecisionRule
from evenhand.flows.tune_alternatives import Alternative
from evenhand.flows.tune_ending import Ending
from evenhand.flows.tune_equally_good import (
    different_settings,
    drawn_jobs,
    keep_models,
    keeping_seconds,
    keeps_models,
    time_for_keeping,
)
from evenhand.tasks.cases.equally_good import (
    ModelFiles,
    _decided,
    _is_same,
    keep,
    kept_folder,
)
from evenhand.tasks.cases.explained_model import Person
from evenhand.tasks.errors import InputError, OutOfTime, ProcessLost
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry import policy_alternatives
from evenhand.tasks.registry.ledger import Chain, Record
from tests.flows.people import Done, make_people

VERSION = {"name": "people-gbdt", "version": "1"}
TO_JOB = Alternative("people", "people", ())
TO_VERSION = Alternative("models:/people-gbdt/1", "people", (), VERSION)
SEARCH: dict[str, Any] = {
    "when": "2026-11-30T08:00:00+00:00",
    "models": 40,
    "metric": "gap_max.sex",
    "alternative_gap": 0.01,
    "multiplicity": {"models": 3, "people": 400, "ambiguity": 0.1, "discrepancy": 0.05},
}


# the search


def test_models_are_kept_of_alternatives_to_a_version_alone() -> None:
    of_a_folder = replace(TO_VERSION, model={**VERSION, "version": None})
    assert [keeps_models(item) for item in (None, TO_JOB, of_a_folder, TO_VERSION)] == [
        False,
        False,
        False,
        True,
    ]
    chosen = Trial(1, "search", "judged", seconds=2.0)
    budget = Budget(3600.0, clock=lambda: 0.0)
    assert keeping_seconds(TO_VERSION, chosen, budget) == 1.5 * 20 * 2.0
    assert keeping_seconds(TO_VERSION, chosen, Budget(120.0, clock=lambda: 0.0)) == 12.0
    assert not time_for_keeping(budget)()
    assert time_for_keeping(Budget(10.0, started=-11.0, clock=lambda: 0.0))()
    assert not time_for_keeping(Budget(started=-900.0, clock=lambda: 0.0))()
    assert keeping_seconds(TO_VERSION, None, budget) == keeping_seconds(TO_JOB, chosen, budget) == 0


def fake_plan(seed: int = 0) -> Any:
    """A plan whose trials are jobs of boosting with the learning rate of the trial."""

    def tuned(trial: Trial, _: int) -> Any:
        if trial.arguments.get("eta", 0) < 0:
            raise InputError("no such job")
        fields = [SimpleNamespace(name=f"x{number}") for number in range(3)]
        return SimpleNamespace(
            method="gbdt",
            arguments=dict(trial.arguments),
            job=SimpleNamespace(decision=DecisionRule(), calibration="none", fair_metric=None),
            contract=SimpleNamespace(features=fields),
        )

    resolved = SimpleNamespace(job=SimpleNamespace(seed=seed))
    return SimpleNamespace(resolved=resolved, tuned=tuned)


def trial_of(number: int, eta: float) -> Trial:
    return Trial(number, "random", "judged", method="gbdt", arguments={"eta": eta})


CHAMPION = Trial(0, "job", "judged")


def test_settings_are_drawn_at_random_each_model_once() -> None:
    """Neither copies of one another nor of the champion, whose learning rate is the default."""
    good = [trial_of(number, 0.001 * number) for number in range(1, 50)]
    default = inspect.signature(method_class("gbdt").__init__).parameters["eta"].default
    copies = [trial_of(98, default), trial_of(99, 0.002), trial_of(97, -1.0)]
    drawn = list(drawn_jobs(fake_plan(), CHAMPION, [*good, *copies], 100))
    # one is no job that runs
    assert [trial.arguments["eta"] for trial, job in drawn if job is None] == [-1.0]
    drawn = [trial for trial, _ in drawn]
    assert len({trial.arguments["eta"] for trial in drawn}) == len(drawn) == 50
    again = [trial for trial, _ in drawn_jobs(fake_plan(), CHAMPION, [*good, *copies], 100)]
    assert drawn == again
    assert [trial.model for trial in drawn] != sorted(trial.model for trial in drawn)


def test_settings_are_counted_once_and_not_the_champion() -> None:
    """The defaults of its method are the champion, and a control may be one of the defaults."""
    default = inspect.signature(method_class("gbdt").__init__).parameters["eta"].default
    champion_again = replace(trial_of(1, default), kind="default")
    defaults = replace(trial_of(2, 0.2), kind="default")
    control = replace(trial_of(3, 0.2), kind="plain", method=None)
    searched = [trial_of(4, 0.3), trial_of(5, 0.3), trial_of(6, 0.4), trial_of(7, default)]
    no_job = replace(trial_of(8, -1.0), kind="default")
    good = [champion_again, defaults, control, *searched, no_job]
    found = different_settings(fake_plan(), CHAMPION, good, 100)
    assert [trial.model for trial in found] == [2, 4, 6, 8]
    # neither is one that the search drew
    assert different_settings(fake_plan(), CHAMPION, [trial_of(7, default)], 100) == []


def test_a_setting_that_was_proposed_often_is_not_likelier() -> None:
    good = [trial_of(number, 0.001 * number) for number in range(1, 21)]
    often = [trial_of(number, 0.002) for number in range(100, 1000)]
    places = []
    for seed in range(60):
        drawn = drawn_jobs(fake_plan(seed), CHAMPION, [*good, *often], 100)
        rates = [trial.arguments["eta"] for trial, _ in drawn]
        places.append(rates.index(0.002))
    # uniform from 0 to 19: a mean of 9.5 with a standard error of .75
    assert 7 < np.mean(places) < 12


def test_without_any_model_the_last_failure_is_raised(
    steps: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="constant"):
        kept_of(steps, monkeypatch, tmp_path, [ProcessLost("x"), ValueError("constant")], good=2)


@pytest.fixture
def steps(tmp_path: Path) -> Any:
    return SimpleNamespace(store=Store(str(tmp_path / "store")), finished={})


def kept_of(
    steps: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, endings: list[Any], good: int
) -> tuple[dict[str, Any] | None, Ending]:
    """Keep models of so many settings, whose trainings end so."""
    model = tmp_path / "model"
    model.mkdir(exist_ok=True)
    (tmp_path / "encoder.json").write_text("{}")
    left = list(endings)

    def trained(trial: Trial, *_: Any) -> ModelFiles:
        error = left.pop(0)
        if error is not None:
            raise error
        return ModelFiles(trial.number, model, tmp_path / "encoder.json", {}, {})

    monkeypatch.setattr(tune_equally_good, "_trained", trained)
    trials = [trial_of(number, 0.001 * number) for number in range(1, good + 1)]
    with Ending() as ending:
        kept = keep_models(
            fake_plan(), CHAMPION, trials, 100, steps, ending, is_over=lambda: not left
        )
    return kept, ending


def test_models_are_trained_until_the_time_is_up(
    steps: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that cannot be trained counts as drawn, and so does one that does not end in time."""
    endings = [None, ValueError("constant"), ProcessLost("memory"), None, OutOfTime("no time")]
    kept, ending = kept_of(steps, monkeypatch, tmp_path, endings, good=9)
    assert kept is not None
    assert (kept["models"], kept["drawn"], kept["of"]) == (2, 5, None)
    assert ending.error is None
    folder = kept_folder(steps.store, kept["sha256"])
    assert folder is not None
    assert len(list(folder.iterdir())) == 2
    # of all that there are it is known how many
    kept, _ = kept_of(steps, monkeypatch, tmp_path, [None, None, None, None], good=3)
    assert kept is not None
    assert (kept["models"], kept["drawn"], kept["of"]) == (3, 3, 3)
    assert kept_of(steps, monkeypatch, tmp_path, [], good=9)[0] is None


def test_an_interrupt_keeps_the_models_before_it(
    steps: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endings = [None, None, KeyboardInterrupt(), None]
    kept, ending = kept_of(steps, monkeypatch, tmp_path, endings, good=9)
    assert kept is not None
    assert (kept["models"], kept["drawn"]) == (2, 3)
    assert ending.is_interrupt


def test_no_more_than_twenty_are_kept(
    steps: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, _ = kept_of(steps, monkeypatch, tmp_path, [None] * 30, good=20)
    assert (kept or {})["of"] == 20
    kept, _ = kept_of(steps, monkeypatch, tmp_path, [None] * 30, good=21)
    assert (kept or {})["models"] == (kept or {})["drawn"] == 20
    assert (kept or {})["of"] is None


# the store


def test_a_folder_that_was_changed_is_not_asked(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    model = tmp_path / "model"
    model.mkdir()
    (model / "weights").write_text("1")
    (tmp_path / "encoder.json").write_text("{}")
    files = ModelFiles("7", model, tmp_path / "encoder.json", {"job": "people"}, {})
    digest = keep(store, [files])
    assert keep(store, [files]) == digest  # the same models again
    folder = kept_folder(store, digest)
    assert folder is not None
    assert json.loads((folder / "7" / "evaluation.json").read_text()) == {"job": "people"}
    assert kept_folder(store, "0" * 64) is kept_folder(store, "../" + digest[3:]) is None
    (folder / "7" / "model" / "weights").write_text("2")
    assert kept_folder(store, digest) is None
    assert keep(store, [files]) == digest
    assert kept_folder(store, digest) == folder


# the case


def model_files(bundle: Path, name: str, scratch: Path, threshold: float | None) -> ModelFiles:
    """The published model, with another threshold if one is given."""
    model = bundle / "model"
    if threshold is not None:
        model = scratch / name
        model.mkdir(parents=True)
        for path in (bundle / "model").iterdir():
            (model / path.name).write_bytes(path.read_bytes())
        decision = json.loads((model / "decision.json").read_text())
        decision["rule"]["threshold"] = threshold
        (model / "decision.json").write_text(json.dumps(decision))
    evaluation = json.loads((bundle / "evaluation.json").read_text())
    inputs = json.loads((bundle / "inputs.json").read_text())
    return ModelFiles(name, model, bundle / "encoder.json", evaluation, inputs)


def test_a_case_says_how_many_models_decide_otherwise(
    tmp_path: Path, published: Done, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three models are the published one, and one decides favourably about everybody."""
    store = published.copied_to(tmp_path / "store").store
    (bundle,) = store.glob("mlflow-artifacts/**/bundle")
    files = [
        model_files(bundle, name, tmp_path / "changed", threshold)
        for name, threshold in (("1", None), ("2", None), ("3", None), ("4", 0.0))
    ]
    digest = keep(Store(str(store)), files)
    search = {**SEARCH, "kept": {"models": 4, "drawn": 5, "of": None, "sha256": digest}}
    monkeypatch.setattr(case, "search_for_alternatives", lambda *_: search)
    table = tmp_path / "new.csv"
    pyarrow.csv.write_csv(make_people(24, seed=5), table)
    arguments = ["case", "people-gbdt", "--rows", str(table), "--no-proof", "--json"]
    made = CliRunner().invoke(app, [*arguments, "--store", str(store)])
    assert made.exit_code == 0, made.output
    folder = store / "cases" / "files"
    names = json.loads(made.stdout)["cases"]
    assert names
    for name in names:
        content = json.loads((folder / name / "case.json").read_text())
        person = content["alternatives"]["person"]
        assert (person["models"], person["otherwise"]) == (4, 1)
        # Clopper and Pearson: from 1 of 5 to 2 of 5, as the fifth one is not known
        assert (person["low"], person["high"]) == (0.005, 0.8534)
        page = (folder / name / "case.html").read_text()
        assert "About this person 1 of 4 equally good models decides otherwise, for “" in page
    # a record that was written by hand asks no model
    monkeypatch.setattr(case, "search_for_alternatives", lambda *_: {**SEARCH, "kept": "all"})
    made = CliRunner().invoke(app, [*arguments, "--store", str(store)])
    (name, *_) = json.loads(made.stdout)["cases"]
    assert "its search kept no such model" in (folder / name / "case.html").read_text()
    monkeypatch.setattr(case, "search_for_alternatives", lambda *_: search)
    # without the models the case says so
    next((store / "equally-good").rglob("decision.json")).unlink()
    made = CliRunner().invoke(app, [*arguments, "--store", str(store)])
    (name, *_) = json.loads(made.stdout)["cases"]
    assert "are not in this store, or were changed" in (folder / name / "case.html").read_text()


def test_who_a_model_cannot_decide_about_is_left_out() -> None:
    """A person of a group without a threshold, and nobody else."""

    def decide(people: list[Person]) -> Any:
        if any(person.values["sex"] is None for person in people):
            raise ValueError("unknown group")
        return None, np.array([person.row > 2 for person in people]), None

    people = [Person({"sex": sex}, row) for row, sex in enumerate(["f", None, "m"], start=1)]
    model: Any = SimpleNamespace(decide=decide)
    assert _decided(model, people) == [(1, False), (3, True)]
    assert _is_same(people[0], Person({"sex": "f", "age": 3}, 1))
    assert not _is_same(people[0], Person({"sex": "m"}, 1))


def test_models_of_an_earlier_search_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one found more, and was ended before it kept any; another had to keep less."""
    content = {**SEARCH, "version": "1", "judged_models": 30, "no_worse": ["auc by 0.1"]}
    when = "2026-11-30T00:00:00+00:00"
    looser = {**content, "no_worse": ["auc by 0.2"], "kept": {"sha256": "1"}}
    records = [
        Record(1, when, "ada", "alternative", {**content, "kept": {"sha256": "0"}}, "", "a"),
        Record(2, when, "ada", "alternative", looser, "", "b"),
        Record(3, when, "ada", "alternative", {**content, "alternative_gap": 0.02}, "", "c"),
    ]
    monkeypatch.setattr(policy_alternatives, "ask_once", lambda uri, what, look_up: look_up())
    monkeypatch.setattr(
        policy_alternatives, "read_registry", lambda *_: Chain("people-gbdt", records)
    )
    found = policy_alternatives.search_for_alternatives("", "people-gbdt", "1")
    assert found is not None
    assert found["alternative_gap"] == 0.02
    assert found["kept"] == {"sha256": "0"}
