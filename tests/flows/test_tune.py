"""evenhand tune on a made-up table: what it searches, sees, chooses, writes and refuses."""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml
from typer.testing import CliRunner

import evenhand.flows.tune as tuning
from evenhand.fairlib.tuning.quantiles import chance_below
from evenhand.flows import tune_answer
from evenhand.flows.cli import app
from evenhand.flows.tune_first_models import plan_of_rows
from evenhand.flows.tune_job import UNJUDGED
from evenhand.flows.tune_plan import make_plan
from evenhand.tasks.errors import NotCarriedOut, OutOfTime
from evenhand.tasks.execution.dataset import read_dataset
from evenhand.tasks.tuning.folds import cells_of
from evenhand.tasks.tuning.trial_search import Rule
from tests.flows.people import Bench, make_people

LIMIT = "gap_max.sex <= 0.9"
# few trees, without a search for their number
SMALL = {"n_steps": 4, "max_depth": 2, "n_iter_no_change": None, "n_jobs": 1}


def tune(bench: Bench, *arguments: str, code: int = 0, job: Path | None = None) -> Any:
    """Run the command in this process."""
    given = ["tune", str(job or bench.write()), "--direct", "--store", str(bench.store), *arguments]
    done = CliRunner().invoke(app, given)
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    assert done.exit_code == code, done.stderr
    return done


def study_of(bench: Bench, *arguments: str, code: int = 0) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(tune(bench, "--json", *arguments, code=code).stdout)
    return content


def models_of(study: dict[str, Any]) -> int:
    """Number of models that were judged or ended early."""
    return len({trial["model"] for trial in study["trials"]})


def winner_of(study: dict[str, Any]) -> dict[str, Any]:
    """The trial that won."""
    (found,) = [trial for trial in study["trials"] if trial["number"] == study["winner"]]
    return found  # type: ignore[no-any-return]


def uneven_people() -> pa.Table:
    """Four hundred people; men earn more than women, and income decides."""
    table, rng = make_people(400, 5), np.random.default_rng(5)
    man = np.array(table["sex"].to_pylist()) == "M"
    income = np.where(man, 3500, 2800) + rng.normal(0, 700, 400)
    paid = income + 800 * np.array(table["owner"].to_pylist()) + rng.normal(0, 500, 400) > 3550
    for name, values in (
        ("income", income.round(2)),
        ("paid", np.where(paid, "yes", "no").tolist()),
    ):
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    return table


@pytest.fixture
def searching(publishing: Bench) -> Bench:
    publishing.table = uneven_people()
    publishing.job |= {"calibration": "sigmoid", "method": {"name": "gbdt", **SMALL}}
    publishing.job["evaluate"]["min_cell"] = 2
    publishing.job["tune"] = {
        **{"where": [LIMIT], "trials": 6, "folds": 2, "workers": 1},
        "space": {"reweigh": SMALL, "tolerance": 0.02},
    }
    return publishing


def test_the_page_is_written_under_the_line_of_the_search(
    searching: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the line is that of a step, whose time left is not that of the command."""
    lines: list[str] = []
    shown: list[Callable[[], str]] = []
    write_study = tuning._write_study

    @contextlib.contextmanager
    def described(text: Callable[[], str]) -> Iterator[None]:
        shown.append(text)
        yield
        shown.pop()

    def write(*given: Any) -> None:
        lines.extend(text() for text in shown)
        write_study(*given)

    monkeypatch.setattr(tuning, "described", described)
    monkeypatch.setattr(tuning, "_write_study", write)
    tune(searching, "--trials", "4", "--method", "logistic")
    assert [line.partition(";")[0] for line in lines] == ["tune  writing the page"]


def test_a_tuned_job_publishes_with_its_study_in_provenance(searching: Bench) -> None:
    content = study_of(searching)
    study = content["tuning"]
    assert content["status"] == "evaluated"
    assert [trial["kind"] for trial in study["trials"][:3]] == ["majority", "plain", "blind"]
    # as many people of either label: the commoner one is not the same in all folds
    assert study["trials"][0]["metrics"]["balanced_accuracy"]["value"] == pytest.approx(
        0.5, abs=0.02
    )
    assert {trial["state"] for trial in study["trials"]} == {"judged"}
    assert {trial["method"] for trial in study["trials"]} == {None, "gbdt", "logistic", "reweigh"}
    target = searching.folder / "job.tuned.yaml"
    written = yaml.safe_load(target.read_text())
    assert written["tuned"]["study"] == study["study"]
    assert "tune" not in written

    done = searching.run("--json", job=target)
    assert done.code == 0, done.err
    verdict = done.json
    # the very model that was measured at the end of the search
    assert {"train", "decide", "controls", "evaluate"} <= set(verdict["cached"])
    assert verdict["metrics"]["balanced_accuracy"] == study["test"]["balanced_accuracy"]["value"]
    assert verdict["model"]["name"] == "people-gbdt"
    same = searching.run("--json", "--if-changed", job=target)
    assert same.json["status"] == "up_to_date"
    written["tuned"]["digest"] = "0" * 64
    target.write_text(yaml.safe_dump(written))
    assert searching.run("--json", "--if-changed", job=target).json["status"] == "published"


def test_the_winner_is_the_best_judged_trial_within_the_limits(searching: Bench) -> None:
    limit = 0.12
    study = study_of(searching, "--where", f"gap_max.sex <= {limit}", "--trials", "9")["tuning"]
    known = [t for t in study["trials"] if t["kind"] != "majority" and t["state"] == "judged"]

    def keeps(trial: dict[str, Any]) -> bool:
        gap = trial["metrics"]["gap_max.sex"]
        return chance_below(gap["unseen"], limit) >= study["confidence"] and gap["value"] <= limit

    within = [t for t in known if keeps(t)]
    assert 0 < len(within) < len(known)
    winner = winner_of(study)
    assert winner["metrics"]["balanced_accuracy"]["value"] == max(
        t["metrics"]["balanced_accuracy"]["value"] for t in within
    )
    free = max(t["metrics"]["balanced_accuracy"]["value"] for t in known)
    assert winner["metrics"]["balanced_accuracy"]["value"] < free
    assert study["costs"] == [
        {
            "limit": "gap_max.sex <= 0.12",
            "with": winner["metrics"]["balanced_accuracy"]["value"],
            "without": free,
            "by_value": winner["metrics"]["balanced_accuracy"]["value"],
        }
    ]
    on_points = study_of(
        searching,
        "--where",
        f"gap_max.sex <= {limit}",
        "--trials",
        "9",
        "--confidence",
        "0.5",
        "--force",
    )["tuning"]
    assert sum(t["miss"] == 0 for t in on_points["trials"]) > sum(
        t["miss"] == 0 for t in study["trials"]
    )


class Stop(Exception):
    """The search has ended."""


def test_the_search_reads_no_test_row(
    searching: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test rows are taken away while trials run: the search ends, and with the same trials."""
    searching.job["tune"]["trials"] = 4
    whole = study_of(searching)["tuning"]
    record = json.loads(next((searching.store / "steps" / "preprocess").iterdir()).read_text())
    other = Bench(tmp_path / "other", searching.table, searching.contract, searching.job)
    other.folder.mkdir()
    search = tuning.search

    def without_test_rows(
        plan: Any, rows: Any, study: Any, store: Any, *rest: Any, **more: Any
    ) -> None:
        test, raw = (
            Path(store.local, *place)
            for place in (
                ("artifacts", "dataset", record["outputs"]["test"]["sha256"]),
                ("artifacts", "raw"),
            )
        )
        assert test.is_dir()
        shutil.rmtree(test)
        shutil.rmtree(raw)
        shutil.rmtree(Path(store.local, "artifacts", "checked"))
        search(plan, rows, study, store, *rest, **more)
        raise Stop

    monkeypatch.setattr(tuning, "search", without_test_rows)
    done = tune(other, code=4)
    assert "internal fault (Stop" in done.stderr
    from evenhand.tasks.tuning.trial_search import Study

    (folder,) = (other.store / "studies").iterdir()
    found = Study(folder).trials()
    assert [(t.number, t.kind, dict(t.arguments)) for t in found] == [
        (t["number"], t["kind"], t["arguments"]) for t in whole["trials"]
    ]
    names = ("balanced_accuracy", "gap_max.sex")
    assert [[t.metrics[name] for name in names] for t in found] == [
        [t["metrics"][name] for name in names] for t in whole["trials"]
    ]


def test_a_judgement_is_of_models_that_did_not_see_its_rows(searching: Bench) -> None:
    """The plain control by hand: a model of each half, and the decisions about all rows
    together.
    """
    from evenhand.fairlib.evaluation.metrics import balanced_accuracy
    from evenhand.fairlib.execution import derive_seed
    from evenhand.fairlib.methods.gbdt import GBDTClassifier
    from evenhand.fairlib.methods.row_groups import fold_of_rows

    searching.job |= {"calibration": "none", "decision": "own"}
    study = study_of(searching, "--trials", "4")["tuning"]
    record = json.loads(next((searching.store / "steps" / "preprocess").iterdir()).read_text())
    data = read_dataset(Path(record["outputs"]["train"]["uri"]))
    fold = fold_of_rows(cells_of(data), 2, derive_seed(0, "tune"))
    predicted = np.empty(len(data.y), dtype=np.int64)
    for number in range(2):
        model = GBDTClassifier(**SMALL, random_state=derive_seed(0, "train"))
        model.fit(data.X[fold != number], data.y[fold != number])
        predicted[fold == number] = model.predict(data.X[fold == number])
    counts = np.bincount(2 * data.y + predicted, minlength=4).reshape(2, 2)
    found = study["trials"][1]["metrics"]["balanced_accuracy"]
    assert found["value"] == pytest.approx(float(balanced_accuracy(counts)), abs=1e-6)
    assert found["low"] < found["value"] < found["high"]


def test_an_interrupted_search_ends_as_an_uninterrupted_one(searching: Bench) -> None:
    first = study_of(searching, "--study", "s", "--trials", "5")["tuning"]
    assert models_of(first) == 5
    more = study_of(searching, "--study", "s", "--trials", "6", "--force")["tuning"]
    judged = {path.name for path in (searching.store / "steps/judge").iterdir()}
    once = study_of(searching, "--study", "other", "--trials", "6", "--force")["tuning"]
    key = lambda trial: {  # noqa: E731
        name: trial[name] for name in ("number", "kind", "arguments", "decision", "metrics")
    }
    assert [key(t) for t in more["trials"][: len(first["trials"])]] == [
        key(t) for t in first["trials"]
    ]
    assert [key(t) for t in more["trials"]] == [key(t) for t in once["trials"]]
    # judged before: read from the cache
    assert {path.name for path in (searching.store / "steps/judge").iterdir()} == judged


@pytest.mark.long
def test_a_preference_chooses_from_the_front_without_new_trials(searching: Bench) -> None:
    searching.job["tune"] |= {
        "where": [],
        "maximize": ["balanced_accuracy"],
        "minimize": ["gap_max.sex"],
        "space": {"tolerance": [0.0, 0.5, 0.1], "reweigh": SMALL},
    }
    content = study_of(searching, "--trials", "9")["tuning"]
    front = {
        t["number"]: t["metrics"] for t in content["trials"] if t["number"] in content["front"]
    }
    assert len(front) > 1
    fair = study_of(searching, "--prefer", "gap_max.sex", "--force")["tuning"]
    assert [t["seconds"] for t in fair["trials"]] == [t["seconds"] for t in content["trials"]]
    assert fair["winner"] == min(front, key=lambda number: front[number]["gap_max.sex"]["value"])
    assert content["winner"] == max(
        front, key=lambda number: front[number]["balanced_accuracy"]["value"]
    )
    for number, metrics in front.items():
        for trial in content["trials"]:
            if trial["kind"] == "majority" or trial["number"] == number:
                continue
            ahead = [
                trial["metrics"]["balanced_accuracy"]["value"]
                > metrics["balanced_accuracy"]["value"],
                trial["metrics"]["gap_max.sex"]["value"] < metrics["gap_max.sex"]["value"],
            ]
            assert not all(ahead)


@pytest.mark.long
def test_thresholds_by_group_compete_under_limits_of_groups(searching: Bench) -> None:
    del searching.job["method"][
        "n_iter_no_change"
    ]  # all rows choose the thresholds, by cross-validation
    searching.job["tune"] |= {
        "where": ["demographic_parity_difference.sex <= 0.3"],
        "space": {
            "decision": ["demographic_parity by sex"],
            "tolerance": 0.02,
            "gbdt": {"eta": [0.1, 0.2]},
        },
        "methods": ["gbdt"],
    }
    study = study_of(searching, "--trials", "6")["tuning"]
    plain, winner = study["trials"][1], winner_of(study)
    gap = "demographic_parity_difference.sex"
    assert winner["decision"] == "demographic_parity by sex"
    assert winner["metrics"][gap]["value"] < 0.15 < plain["metrics"][gap]["value"]
    written = yaml.safe_load((searching.folder / "job.tuned.yaml").read_text())
    assert written["decision"]["equal"] == {
        "criterion": "demographic_parity",
        "tolerance": 0.02,
        "attribute": "sex",
        "smoothing": "auto",
    }
    assert 0.1 <= written["method"]["eta"] <= 0.2
    assert written["method"]["n_steps"] == 4  # the job's, which the space does not have


@pytest.mark.parametrize(
    ("tune", "tolerances"),
    [
        # shares of the smallest limit: 20, 40, 55, 70, 85 and 100 %
        (
            {"where": ["gap_max.sex <= 0.1", "gap_max.sex <= 0.3"]},
            [0.02, 0.04, 0.055, 0.07, 0.085, 0.1],
        ),
        ({"where": [], "minimize": ["gap_max.sex"]}, [0.0, 0.02, 0.05, 0.075, 0.1, 0.15]),
        ({"where": ["gap_max.sex <= 0.1"], "space": {"tolerance": 0.3}}, [0.3]),
        (
            {"where": ["gap_max.sex <= 0.1"], "space": {"tolerance": [0, 0.3, 0, 1]}},
            [0.0, 0.3, 1.0],
        ),
        # every model keeps it, so there is nothing to take shares of
        ({"where": ["gap_max.sex <= 1.5"]}, [0.0, 0.02, 0.05, 0.075, 0.1, 0.15]),
        ({"minimize": ["gap_max.sex"], "space": {"tolerance": 0.3}}, [0.3]),
        ({"where": ["auc >= 0.5"]}, []),
    ],
)
def test_thresholds_by_group_are_tried_at_tolerances(
    bench: Bench, tune: dict[str, Any], tolerances: list[float]
) -> None:
    bench.job["tune"] = tune
    rules = make_plan(str(bench.write())).rules
    found = [rule for rule in rules if rule.tolerance is not None]
    assert found == [Rule("equalized_odds by sex", tolerance) for tolerance in tolerances]
    assert rules[0] == Rule()


def test_limits_that_no_value_meets_end_with_1(
    searching: Bench,
) -> None:
    """The best compromise is written."""
    done = tune(searching, "--where", "balanced_accuracy >= 0.9", "--trials", "6", code=1)
    assert "none of 6 trials is within the limits: the best compromise, number " in done.stderr
    assert "balanced_accuracy >= 0.9: missed by 0." in done.stderr
    assert "the best compromise: no trial is within the limits" in done.stdout
    assert "balanced_accuracy >= 0.9: missed by 0." in done.stdout
    target = searching.folder / "job.tuned.yaml"
    written = yaml.safe_load(target.read_text())
    assert "A compromise: no trial is within the limits, which are gates" in written["description"]
    assert "balanced_accuracy >= 0.9: missed by 0." in written["description"]
    folder = next((searching.store / "runs").iterdir())
    page = (folder / "report.html").read_text()
    assert "Nothing is within the limits" in page
    assert "The best compromise" in page
    study = json.loads((folder / "tuning.json").read_text())
    assert study["within_limits"] is False
    (standing,) = [row for row in study["standings"] if row["metric"] == "balanced_accuracy"]
    assert standing["kept_by"] is None
    assert standing["missed_by"] > 0
    # measured on test rows too, and a job whose model is not published as long as it misses
    assert study["test"]["balanced_accuracy"]["value"] is not None
    assert written["gates"]["balanced_accuracy"]["min"] == 0.9
    assert searching.run("--json", job=target).json["status"] == "gated"


def test_a_limit_out_of_reach_is_refused_with_the_nearest_value(searching: Bench) -> None:
    done = tune(searching, "--where", "balanced_accuracy >= 0.99", "--trials", "9", code=2)
    assert "balanced_accuracy >= 0.99 is out of reach: the nearest of the first" in done.stderr
    assert done.stderr.strip().endswith("give a limit up to that.")
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (searching.folder / "job.tuned.yaml").exists()


def test_a_time_without_a_model_leaves_a_job_that_was_not_judged(
    searching: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a quick method's defaults and thresholds by group, and its gates are the limits."""
    monkeypatch.setattr(tuning, "search", lambda *_, **__: None)
    done = tune(
        searching,
        "--minutes",
        "5",
        "--cpu-minutes",
        "9",
        "--where",
        "gap_max.sex <= 0.1",
        "--trials",
        "4",
        code=4,
    )
    target = searching.folder / "job.tuned.yaml"
    assert "the 5 minutes or 9 CPU minutes ended before one model was judged" in done.stderr
    written = yaml.safe_load(target.read_text())
    assert written["description"].endswith(UNJUDGED)
    assert written["method"]["name"] == "gbdt"
    assert written["decision"]["equal"]["criterion"] == "equalized_odds"
    assert written["gates"]["gap_max.sex"] == {"max": 0.1}


def test_a_limit_kept_by_the_value_alone_is_said(
    searching: Bench,
) -> None:
    """A gap below the limit whose interval ends above it was refused; the small table shows
    nothing.
    """
    limit = "gap_max.sex <= 0.12"
    content = study_of(searching, "--where", limit, "--trials", "5")
    study = content["tuning"]
    assert (study["confidence"], study["confidence_asked"]) == (0.3, None)
    (standing,) = [row for row in study["standings"] if row["limit"] == limit]
    assert standing["kept_by"] == "value"
    assert standing["value"] <= 0.12 < standing["end"]
    assert any(
        "no trial keeps the limits on unseen rows with a chance of .90" in note
        for note in content["notes"]
    )
    written = yaml.safe_load((searching.folder / "job.tuned.yaml").read_text())
    assert "kept by the value, not shown to hold" in written["description"]
    assert "gap_max.sex" not in written["gates"]
    # no model reaches a higher confidence: the compromise is the nearest to the limit on unseen rows
    asked = ("--where", limit, "--trials", "5", "--bound", "prediction", "--force")
    strict = study_of(searching, *asked, code=3)
    assert "no trial reaches --confidence 0.975" in strict["error"]
    assert strict["notes"][0] == (
        "bound 'prediction' is an old spelling, and read as --confidence 0.975"
    )
    written = yaml.safe_load((searching.folder / "job.tuned.yaml").read_text())
    assert written["gates"]["gap_max.sex"] == {"max": 0.12}


def test_a_time_limit_keeps_an_answer_without_test_rows(
    searching: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the time ended in the training of the winner."""

    def too_late(*_: Any) -> Any:
        raise OutOfTime("the time for this work is up.")

    monkeypatch.setattr(tune_answer, "run_to_gate", too_late)
    content = study_of(searching, "--trials", "4")
    assert content["tuning"]["test"] is None
    assert "the time ended before the model was trained on all training rows" in content["notes"][0]
    target = searching.folder / "job.tuned.yaml"
    assert "Not measured on test rows yet." in yaml.safe_load(target.read_text())["description"]
    page = Path(content["artifacts"]["report"]).read_text()
    assert "The time ended before the model was trained on all training rows" in page
    monkeypatch.undo()
    assert searching.run("--json", job=target).json["status"] == "published"


def test_an_interrupted_search_writes_the_best_so_far(
    searching: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if Ctrl-C came after the search had begun, and again in the measurement."""
    search = tuning.search

    def interrupted(*arguments: Any, **more: Any) -> None:
        search(*arguments, **more)
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "search", interrupted)
    content = study_of(searching, "--trials", "4", code=4)
    target = searching.folder / "job.tuned.yaml"
    assert content["error"].startswith(f"interrupted: the best so far is in {target}; ")
    assert content["tuning"]["interrupted"]
    assert content["tuning"]["winner"] is not None
    assert content["tuning"]["test"] is None
    assert "Not measured on test rows yet." in yaml.safe_load(target.read_text())["description"]
    monkeypatch.undo()

    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(tune_answer, "run_to_gate", interrupt)
    again = study_of(searching, "--trials", "4", "--force", code=4)
    assert again["tuning"]["interrupted"]
    assert again["tuning"]["winner"] == content["tuning"]["winner"]
    monkeypatch.undo()
    # the same command goes on, and then measures
    whole = study_of(searching, "--trials", "4", "--force")
    assert whole["tuning"]["test"] is not None
    assert not whole["tuning"]["interrupted"]


def test_a_failure_after_the_search_leaves_the_best_so_far(
    searching: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the process that trains on all rows was killed."""

    def killed(*_: Any) -> Any:
        raise NotCarriedOut("the worker process died.")

    monkeypatch.setattr(tune_answer, "run_to_gate", killed)
    content = study_of(searching, "--trials", "4", code=4)
    target = searching.folder / "job.tuned.yaml"
    assert content["error"].startswith(f"the worker process died: the best so far is in {target}; ")
    assert "the command failed before the model was trained" in content["notes"][0]
    assert "Not measured on test rows yet." in yaml.safe_load(target.read_text())["description"]


def test_an_interrupt_in_a_repeat_keeps_what_was_measured(
    searching: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(tune_answer, "_repeat", interrupt)
    content = study_of(searching, "--trials", "4", "--repeats", "2", code=4)
    assert content["error"].startswith("interrupted: the best so far is in ")
    assert content["tuning"]["test"] is not None
    assert content["tuning"]["unmeasured"] is None
    assert "2 of 2 repeats with other seeds were not run" in " ".join(content["notes"])


def test_an_interrupt_of_the_page_says_where_the_job_is(
    searching: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "_write_study", interrupt)
    done = tune(searching, "--trials", "4", code=4)
    assert "interrupted: the best so far is in " in done.stderr
    assert "report" not in done.stdout
    assert (searching.folder / "job.tuned.yaml").exists()


def test_a_page_that_cannot_be_written_hides_no_job(
    searching: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tuning, "_write_study", full)
    done = tune(searching, "--trials", "4", code=4)
    target = searching.folder / "job.tuned.yaml"
    assert f"the disk is full: free some space, then run again: the best so far is in {target}" in (
        done.stderr
    )
    assert target.exists()


def test_a_file_of_another_command_is_not_overwritten(
    searching: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two searches of a job began at the same time, and the other one ended first."""
    target = searching.folder / "job.tuned.yaml"
    search = tuning.search

    def with_another(*arguments: Any, **more: Any) -> None:
        search(*arguments, **more)
        target.write_text("another answer")

    monkeypatch.setattr(tuning, "search", with_another)
    done = tune(searching, "--trials", "4", code=4)
    assert "was written by another command during the search" in done.stderr
    assert target.read_text() == "another answer"
    tune(searching, "--trials", "4", "--force")
    assert "another answer" not in target.read_text()


def test_a_preferred_metric_is_measured_though_nothing_limits_it(searching: Bench) -> None:
    asked = ("--where", "accuracy >= 0", "--trials", "4", "--prefer", "consistency.work")
    study = study_of(searching, *asked)["tuning"]
    assert winner_of(study)["metrics"]["consistency.work"]["value"] is not None
    # the trials of a study that did not measure it are no evidence
    del searching.job["tune"]["trials"]
    study_of(searching, "--trials", "4", "--force", "--study", "mine")
    named = ("--force", "--study", "mine", "--prefer", "consistency.work")
    done = tune(searching, *named, code=2)
    assert "prefer consistency.work: no trial of this study has a number for it" in done.stderr


def test_a_metric_that_no_model_can_have_is_said_at_once(searching: Bench) -> None:
    """Too few people of a group have a label, whatever a model decides."""
    table = searching.table.to_pandas()
    is_kept = (table["sex"] == "M") | (table["paid"] == "no")
    searching.table = pa.Table.from_pandas(table[is_kept], preserve_index=False)
    done = tune(searching, "--trials", "4", code=2)
    assert "no model can have a number for gap_max.sex on the training rows: " in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (searching.folder / "job.tuned.yaml").exists()


def test_an_interruption_before_any_model_writes_nothing(
    searching: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "search", interrupt)
    handler = signal.getsignal(signal.SIGINT)
    done = tune(searching, "--trials", "4", code=4)
    assert signal.getsignal(signal.SIGINT) == handler
    assert "interrupted: run the same command again, the finished trials are kept" in done.stderr
    assert not (searching.folder / "job.tuned.yaml").exists()


def test_a_table_not_read_in_time_gets_one_line_with_the_cure(
    searching: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_late(*_: Any, **__: Any) -> Any:
        raise OutOfTime("the time for this work is up.")

    monkeypatch.setattr(tuning, "prepare", too_late)
    done = tune(searching, "--minutes", "0.5", "--trials", "4", "--set", "tune.workers=1", code=4)
    assert "the 0.5 minutes ended before the table was read, checked and encoded: " in done.stderr
    assert (searching.folder / "job.tuned.yaml").exists()


def test_a_search_without_a_judged_model_ends_with_4(
    searching: Bench,
) -> None:
    """It goes on later."""
    done = tune(searching, "--trials", "1", code=4)
    assert "no model but the majority-class baseline was judged: give more --trials." in done.stderr
    assert not (searching.folder / "job.tuned.yaml").exists()
    assert models_of(study_of(searching, "--trials", "2")["tuning"]) == 2


def test_the_first_model_under_a_time_limit_is_a_quick_one(bench: Bench) -> None:
    """It is judged under all rules."""
    bench.job["method"] = {"name": "sensei"}
    bench.job["tune"] = {"minutes": 1, "where": ["gap_max.sex <= 0.1"]}
    plan = make_plan(str(bench.write()))
    order = [(one.kind, one.method) for one in plan_of_rows(plan, 300).fixed]
    assert order == [
        ("default", "gbdt"),
        ("majority", None),
        ("plain", None),
        ("blind", None),
        ("default", "logistic"),
        ("default", "reweigh"),
        # with strong regularisation, as the table is small
        ("default", "gbdt"),
        ("default", "logistic"),
        ("job", None),
        ("default", "sensei"),
    ]


def test_the_control_without_mitigation_can_win_and_that_is_said(searching: Bench) -> None:
    searching.job["method"] = {"name": "reweigh", **SMALL}
    searching.job["tune"] |= {
        "methods": ["reweigh"],
        "maximize": ["accuracy"],
        "space": {
            "decision": "job",
            "reweigh": {"eta": 0.001, "max_depth": 1, "reg_lambda": 1000, "min_child_weight": 99},
        },
    }
    content = study_of(searching, "--trials", "6")
    assert (
        content["notes"][0]
        == "no mitigation is needed: the control without it is the best within the limits"
    )
    written = yaml.safe_load((searching.folder / "job.tuned.yaml").read_text())
    assert written["method"] == {"name": "gbdt", **SMALL}


def test_repeats_train_the_winner_with_other_seeds(searching: Bench) -> None:
    """The rows are the same."""
    searching.job["gates"] = {"auc": {"min": 0.999}}
    content = study_of(searching, "--trials", "4", "--repeats", "2")
    study = content["tuning"]
    assert any("the job’s gates do not pass on the test rows" in note for note in content["notes"])
    assert [repeat["seed"] for repeat in study["repeats"]] == [1, 2]
    records = [
        json.loads(path.read_text())
        for path in (searching.store / "steps" / "preprocess").iterdir()
    ]
    assert len(records) == 1
    page = next((searching.store / "runs").iterdir()) / "report.html"
    assert "The winner with several seeds" in page.read_text()


def test_the_status_is_of_the_study_whatever_the_command_asks(searching: Bench) -> None:
    study_of(searching)
    shown = json.loads(tune(searching, "--status", "--json", "--where", "auc >= 0.2").stdout)
    by_auc = json.loads(tune(searching, "--status", "--json", "--prefer", "auc").stdout)
    assert (by_auc["prefer"], shown["prefer"]) == ("auc", "balanced_accuracy")
    other = tune(searching, "--status", "--study", "nosuch", code=2).stderr
    assert "there is no study 'nosuch' of" in other
    assert shown["aim"] == f"balanced_accuracy where {LIMIT}"
    assert models_of(shown) == 6
    assert Path(shown["report"]).read_text().startswith("<!DOCTYPE html>")
    assert (
        "there is no study"
        in tune(
            Bench(searching.folder, job={**searching.job, "name": "nobody"}), "--status", code=2
        ).stderr
    )


def test_the_page_shows_validation_beside_test_and_no_person(searching: Bench) -> None:
    content = study_of(searching)
    page = Path(content["artifacts"]["report"]).read_text()
    for text in (
        "Validation (95% interval)",
        "Test (95% interval)",
        "The controls",
        "What each limit costs",
        "What is traded for what",
        "Trials by method and rule of decisions",
        "80 test rows",
    ):
        assert text in page
    study = (searching.store / "studies" / content["tuning"]["study"] / "journal.log").read_text()
    assert "p-00" not in page + study


WRONG = {
    "no such metric": (
        ["--where", "gap_max.sexx <= 0.1"],
        "no metric of this job (did you mean 'gap_max.sex'?)",
    ),
    "no such objective": (
        ["--maximize", "acuracy"],
        "no metric of this job (did you mean 'accuracy'?)",
    ),
    "no limit": (["--where", "gap_max.sex < 0.1"], "is not of the form METRIC >= NUMBER"),
    "contradiction": (
        ["--where", "auc >= 0.9", "--where", "auc <= 0.8"],
        "0.9 contradicts auc <= 0.8",
    ),
    "out of range": (["--where", "auc >= 1.2"], "cannot be met: the metric is between 0 and 1"),
    "a worse metric": (
        ["--where", "gap_max.sex >= 0.1"],
        "of gap_max.sex lower is better, so write <=",
    ),
    "the wrong way": (["--maximize", "gap_max.sex"], "of this metric lower is better"),
    "twice": (["--maximize", "auc", "--maximize", "auc"], "an objective is given twice"),
    "a certificate": (["--where", "certificate.flips <= 0.1"], "are on proved ends"),
    "membership": (
        ["--where", "membership_auc <= 0.6", "--set", "evaluate.membership.shadows=4"],
        "'membership_auc', which is not measured in a search",
    ),
    "unknown method": (["--method", "gbtd"], "method 'gbtd' is not known (did you mean 'gbdt'?)"),
    "impossible method": (
        ["--method", "clp", "--set", "evaluate.counterfactuals={}"],
        "clp pairs people",
    ),
    "unknown space": (
        ["--set", "tune.space={gbtd: {eta: 1}}"],
        "names 'gbtd', which is no method (did you mean",
    ),
    "unknown parameter": (
        ["--set", "tune.space={gbdt: {etta: 1}}"],
        "parameter of gbdt (did you mean 'eta'?)",
    ),
    "an empty range": (
        ["--set", "tune.space={gbdt: {eta: [0.3, 0.1]}}"],
        "range 0.3 to 0.1 is empty",
    ),
    "a wrong value": (["--set", "tune.space={gbdt: {n_steps: many}}"], "method.n_steps is 'many'"),
    "unknown decision": (["--set", "tune.space={decision: equal}"], "space.decision names 'equal'"),
    "a decision that is no name": (
        ["--set", "tune.space={decision: [{a: 1}]}"],
        "space.decision names {'a': 1}",
    ),
    "too few rows": (["--folds", "50", "--set", "split.test=0.9"], "50 folds need at least 100"),
    "no tolerance": (
        ["--set", "tune.space={tolerance: [0.1, 2]}"],
        "space.tolerance is [0.1, 2]: give a number",
    ),
    "no number": (
        ["--set", "tune.space={tolerance: many}"],
        "space.tolerance is 'many': give a number",
    ),
    "unknown sampler": (["--sampler", "random"], "tune.sampler"),
    "no scheduler": (
        ["--set", "tune.address=tcp://h:1"],
        "set engine to dask, or leave address out",
    ),
    "left out": (
        ["--set", "tune.space={gbdt: {leave_out: [sex]}}"],
        "space.gbdt.leave_out must be a list of lists of columns",
    ),
    "unknown bound": (["--bound", "low"], "tune.bound"),
    "two confidences": (
        ["--bound", "point", "--confidence", "0.8"],
        "bound 'point' is the old spelling of confidence, and confidence is 0.8: leave bound out",
    ),
    "less confident than a coin": (["--confidence", "0.4"], "tune.confidence"),
    "certain": (["--confidence", "1"], "tune.confidence"),
    "no intervals": (
        ["--where", "auc >= 0.2", "--set", "evaluate.draws=0"],
        "needs evaluate.draws above 0",
    ),
    "CPU time elsewhere": (
        ["--cpu-minutes", "1", "--set", "tune.engine=dask"],
        "tune.cpu_minutes counts the processes of this machine",
    ),
    "no CPU time": (["--cpu-minutes", "0.1"], "tune.cpu_minutes: must be at least 0.25"),
    "no minutes": (["--minutes", "0"], "tune.minutes"),
    "less than half a minute": (
        ["--minutes", "0.49"],
        "tune.minutes: must be at least",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_input_gets_one_line_and_nothing_is_written(bench: Bench, name: str) -> None:
    arguments, message = WRONG[name]
    done = tune(bench, "--trials", "9", "--workers", "1", *arguments, code=2)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (bench.folder / "job.tuned.yaml").exists()
    assert not (bench.store / "studies").exists()


@pytest.mark.long
def test_a_study_of_another_table_contract_or_search_is_refused(searching: Bench) -> None:
    study_of(searching, "--study", "s", "--trials", "4")
    changed = tune(searching, "--study", "s", "--force", "--maximize", "auc", code=2)
    assert "the study 's' is of another search" in changed.stderr
    searching.properties["income"]["description"] = "Per month."
    assert "is of another contract" in tune(searching, "--study", "s", "--force", code=2).stderr
    del searching.properties["income"]["description"]
    searching.table = make_people(390)
    (searching.folder / "people.csv").unlink()
    assert "is of another table" in tune(searching, "--study", "s", "--force", code=2).stderr


def test_a_tuned_job_is_neither_overwritten_nor_tuned_again(searching: Bench) -> None:
    study_of(searching, "--trials", "4")
    target = searching.folder / "job.tuned.yaml"
    assert "job.tuned.yaml exists: give --force" in tune(searching, code=2).stderr
    assert "has been tuned already" in tune(searching, job=target, code=2).stderr


def test_the_space_of_a_method_is_listed() -> None:
    done = CliRunner().invoke(app, ["methods", "--space", "gbdt"])
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == ["parameter", "range", "scale", "default"]
    assert rows[1] == ["eta", "0.02", "to", "0.3", "number,", "logarithmic", "0.05"]
    assert CliRunner().invoke(app, ["methods", "--space", "proxy"]).exit_code == 2


def test_a_run_starts_without_optuna() -> None:
    import subprocess
    import sys

    code = "import sys, evenhand.flows.cli, evenhand.flows.commands.run_command; print('optuna' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
