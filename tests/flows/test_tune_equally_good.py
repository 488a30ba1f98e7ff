"""Models that a search for alternatives keeps, and what they decide about the person of a case."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest
from typer.testing import CliRunner

from evenhand.fairlib.tuning.budget import Budget
from evenhand.fairlib.tuning.study import Trial
from evenhand.flows import case, tune_equally_good
from evenhand.flows.cli import app
from evenhand.flows.tune_alternatives import Alternative
from evenhand.flows.tune_equally_good import (
    drawn,
    keep_models,
    keeping_seconds,
    keeps_models,
    most_seconds,
)
from evenhand.tasks.cases.equally_good import ModelFiles, keep, kept_folder
from evenhand.tasks.errors import InputError, OutOfTime
from evenhand.tasks.execution.store import Store
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
    assert most_seconds(budget) == math.inf  # the command ends
    assert most_seconds(Budget(started=-900.0, clock=lambda: 0.0)) == 90.0
    assert keeping_seconds(TO_VERSION, None, budget) == keeping_seconds(TO_JOB, chosen, budget) == 0


def test_trials_are_drawn_at_random_each_once() -> None:
    good = [Trial(number, "random", "judged") for number in range(50)]
    chosen = [trial.model for trial in drawn(good, 1)]
    assert len(set(chosen)) == 20
    assert chosen == [trial.model for trial in drawn(good, 1)]
    assert chosen != [trial.model for trial in drawn(good, 2)]
    assert sorted(trial.model for trial in drawn(good[:3], 1)) == [0, 1, 2]


def test_models_are_trained_until_the_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that cannot be trained on all rows is passed over."""
    model = tmp_path / "model"
    model.mkdir()
    (tmp_path / "encoder.json").write_text("{}")
    endings = iter([None, InputError("too few rows"), None, OutOfTime("no time"), None])

    def trained(plan: Any, trial: Trial, *_: Any) -> ModelFiles:
        error = next(endings)
        if error is not None:
            raise error
        return ModelFiles(trial.number, model, tmp_path / "encoder.json", {}, {})

    monkeypatch.setattr(tune_equally_good, "_trained", trained)
    store = Store(str(tmp_path / "store"))
    plan: Any = type("P", (), {"resolved": type("R", (), {"job": type("J", (), {"seed": 0})})})
    good = [Trial(number, "random", "judged") for number in range(5)]
    kept = keep_models(plan, good, 100, None, store, seconds=100.0)  # type: ignore[arg-type]
    assert kept is not None
    assert (kept["models"], kept["of"]) == (2, 5)
    folder = kept_folder(store, kept["sha256"])
    assert folder is not None
    assert len(list(folder.iterdir())) == 2
    assert keep_models(plan, good, 100, None, store, seconds=-1.0) is None  # type: ignore[arg-type]


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
    """Two models are the published one, and two decide favourably about everybody."""
    store = published.copied_to(tmp_path / "store").store
    (bundle,) = store.glob("mlflow-artifacts/**/bundle")
    files = [
        model_files(bundle, name, tmp_path / "changed", threshold)
        for name, threshold in (("1", None), ("2", None), ("3", 0.0), ("4", 0.0))
    ]
    search = {**SEARCH, "kept": {"models": 4, "of": 9, "sha256": keep(Store(str(store)), files)}}
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
        assert (person["models"], person["otherwise"]) == (4, 2)
        # Clopper and Pearson: 2 of 4
        assert (person["low"], person["high"]) == (0.0676, 0.9324)
        page = (folder / name / "case.html").read_text()
        assert "About this person 2 of 4 models decide otherwise." in page
    # without the models the case says so
    next((store / "equally-good").rglob("decision.json")).unlink()
    made = CliRunner().invoke(app, [*arguments, "--store", str(store)])
    (name, *_) = json.loads(made.stdout)["cases"]
    assert "are not in this store, or were changed" in (folder / name / "case.html").read_text()
