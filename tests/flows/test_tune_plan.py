"""Sensitive columns that a job leaves out of the model inputs, by hand and as the result of a
search.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest
import yaml
from typer.testing import CliRunner

import evenhand.fairlib
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.fairlib.tuning.space import Choice
from evenhand.fairlib.tuning.study import Trial
from evenhand.flows.cli import app
from evenhand.flows.job import LearnedByEvidence, SubspaceMetric
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.flows.tune_first_models import COMPILED, COMPILING_S, compiling_seconds, plan_of_rows
from evenhand.flows.tune_job import tuned_job, tuned_text, unjudged_text
from evenhand.flows.tune_plan import make_plan
from evenhand.flows.tune_space import LEAVE_OUT, METRIC, with_proxy_features
from evenhand.tasks.errors import InputError
from evenhand.tasks.tuning.trial_search import DEFAULT, JOB, Candidate
from tests.flows.people import SMALL, Bench, predict


def features_of(bench: Bench) -> set[str]:
    """Columns that the newest encoder reads."""
    paths = (bench.store / "steps" / "preprocess").iterdir()
    record = json.loads(max(paths, key=lambda path: path.stat().st_mtime_ns).read_text())
    return {*TableEncoder.load(Path(record["outputs"]["encoder"]["uri"])).groups_}


def test_compiled_kernels_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of their module, which is there."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    (tmp_path / "other_kernels.f-1.py311.nbi").touch()
    assert compiling_seconds(["gbdt", "budro"]) == {"budro": COMPILING_S}
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "_transport_kernels.f-1.py311.nbi").touch()
    assert compiling_seconds(["gbdt", "budro"]) == {}
    fairlib = Path(evenhand.fairlib.__path__[0])
    for module in COMPILED.values():
        assert (fairlib / f"{module}.py").is_file()


@pytest.mark.long
def test_a_job_leaves_a_column_out(reading: Bench) -> None:
    reading.job["gates"] = {"consistency.sex": {"min": 1.0}}
    reading.job[LEAVE_OUT] = ["sex"]
    done = reading.run("--json")
    assert done.code == 0, done.err
    assert done.json["metrics"]["consistency.sex"] == 1.0
    # the copies' other change is still measured
    assert done.json["metrics"]["consistency.both"] < 1.0
    assert features_of(reading) == {"age", "income", "job", "owner", "since"}
    # groups by the column are measured all the same, and raw rows need none
    assert "gap_max.sex" in done.json["metrics"]
    table = reading.table.drop_columns(["sex", "paid", "key"])
    pyarrow.csv.write_csv(table, reading.folder / "raw.csv")
    (found,) = predict(reading.store, ("models:/people-gbdt/1", reading.folder / "raw.csv"))
    assert len(next(iter(found.values()))) == table.num_rows
    # the same again computes nothing
    assert reading.run("--json", "--if-changed").json["status"] == "up_to_date"


@pytest.mark.long
def test_a_column_that_is_not_sensitive_is_left_out_too(reading: Bench) -> None:
    reading.job["gates"] = {"auc": {"min": 0.01}}
    reading.job[LEAVE_OUT] = ["income", "since"]
    reading.job["evaluate"]["counterfactuals"]["richer"] = {"income": [1000, 5000]}
    done = reading.run("--json")
    assert done.code == 0, done.err
    assert features_of(reading) == {"age", "sex", "job", "owner"}
    # its copies change nothing, its groups are none
    assert done.json["metrics"]["consistency.richer"] == 1.0
    assert not [name for name in done.json["metrics"] if name.endswith(".income")]
    # neither predictions nor exports need it
    table = reading.table.drop_columns(["income", "since", "paid", "key"])
    pyarrow.csv.write_csv(table, reading.folder / "raw.csv")
    (found,) = predict(reading.store, ("models:/people-gbdt/1", reading.folder / "raw.csv"))
    assert len(next(iter(found.values()))) == table.num_rows
    exported = CliRunner().invoke(
        app, ["export", "people-gbdt", "--to", "sql", "--store", str(reading.store)]
    )
    assert exported.exit_code == 0, exported.stderr
    assert "owner" in exported.stdout
    assert "income" not in exported.stdout


def test_a_tuned_job_leaves_out_what_is_not_sensitive_too(reading: Bench) -> None:
    reading.job[LEAVE_OUT] = ["income"]
    plan = make_plan(str(reading.write()))
    assert plan.methods["gbdt"][LEAVE_OUT] == Choice(((), ("age", "sex")), ())
    trial = Trial(0, "search", "judged", method="gbdt", arguments={LEAVE_OUT: ["age"]})
    assert tuned_job(plan, trial, 300).leave_out == ["income", "age"]
    assert {column.name for column in plan.tuned(trial, 300).contract.features} == {
        "sex",
        "job",
        "owner",
        "since",
    }


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no column": (
        {LEAVE_OUT: ["sexx"]},
        "leave_out names 'sexx' (did you mean 'sex'?); the model inputs are age, ",
    ),
    "the label": ({LEAVE_OUT: ["paid"]}, "leave_out names 'paid'; the model inputs are age, "),
    "all": ({LEAVE_OUT: ["age", "sex", "income", "job", "owner", "since"]}, "no column is a model input"),
    "no list": ({LEAVE_OUT: "sex"}, "leave_out"),
    "no copies": (
        {LEAVE_OUT: ["sex"], "method": "clp", "evaluate": {"counterfactuals": {"sex": {"sex": "all"}}}},
        "clp pairs people with their counterfactuals, and there are none",
    ),
    "one value": (
        {LEAVE_OUT: ["age"], "evaluate": {"counterfactuals": {"job": {"job": ["cook"]}}}},
        "lists one value of 'job'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_column_gets_one_line(reading: Bench, name: str) -> None:
    changes, message = WRONG[name]
    reading.job |= changes
    done = reading.run()
    assert done.code == 2
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not (reading.store / "steps").exists()


def test_a_copy_that_differs_in_left_out_columns_is_the_same(reading: Bench) -> None:
    """The other value of such copies is the same in all of them."""
    copies = {
        "sex": {"sex": "all", "job": ["cook"]},
        "job": {"sex": "all", "job": ["cook", "smith"]},
    }
    reading.job["evaluate"]["counterfactuals"] = copies
    reading.job[LEAVE_OUT] = ["sex"]
    found = resolve(*load_job(str(reading.write()))).job
    assert found.evaluate.counterfactuals == {"sex": {}, "job": {"job": ["cook", "smith"]}}
    assert resolve(found, str(reading.folder)).job == found


@pytest.mark.long
def test_the_blind_control_becomes_a_job_that_runs(reading: Bench) -> None:
    reading.job["method"] = {"name": "reweigh", **SMALL}
    reading.job["tune"] |= {
        "methods": ["reweigh"],
        "where": ["consistency.sex >= 0.99"],
        "space": {"reweigh": {**SMALL, LEAVE_OUT: [[]]}, "decision": "job"},
    }
    # names the column, and no method of this search has a fair metric
    reading.job["fair_metric"] = {"kind": "sensitive-subspace", "indicators": ["sex", "age"]}
    given = ["tune", str(reading.write()), "--direct", "--json", "--store", str(reading.store)]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.stderr
    content = json.loads(done.stdout)
    study = content["tuning"]
    assert [t["kind"] for t in study["trials"] if t["number"] == study["winner"]] == ["blind"]
    assert content["notes"][0].startswith("leaving out the sensitive columns is enough")
    target = reading.folder / "job.tuned.yaml"
    written = yaml.safe_load(target.read_text())
    assert written[LEAVE_OUT] == ["age", "sex"]
    assert written["method"] == {"name": "gbdt", **SMALL}
    run = reading.run("--json", job=target)
    assert run.code == 0, run.err
    assert run.json["metrics"]["consistency.sex"] == 1.0
    assert run.json["metrics"]["balanced_accuracy"] == study["test"]["balanced_accuracy"]["value"]
    assert features_of(reading) == {"income", "job", "owner", "since"}


def test_a_candidate_without_the_columns_becomes_a_job_that_runs(reading: Bench) -> None:
    reading.job["tune"] |= {
        "where": ["consistency.sex >= 0.99"],
        "space": {"gbdt": {**SMALL, LEAVE_OUT: [["sex"]]}, "decision": "job"},
    }
    given = ["tune", str(reading.write()), "--direct", "--json", "--store", str(reading.store)]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.stderr
    trials = json.loads(done.stdout)["tuning"]["trials"]
    candidates = [trial for trial in trials if trial["method"] == "gbdt"]
    assert {trial["metrics"]["consistency.sex"]["value"] for trial in candidates} == {1.0}
    assert trials[1]["metrics"]["consistency.sex"]["value"] < 0.7


# the plan


def test_a_tuned_job_keeps_what_the_job_left_out(reading: Bench) -> None:
    reading.job[LEAVE_OUT] = ["sex"]
    plan = make_plan(str(reading.write()))
    assert plan.methods["gbdt"][LEAVE_OUT] == Choice(((), ("age",)), ())
    expected = [
        (Trial(0, "search", "judged", method="gbdt", arguments={LEAVE_OUT: []}), ["sex"]),
        (
            Trial(0, "search", "judged", method="gbdt", arguments={LEAVE_OUT: ["age"]}),
            ["sex", "age"],
        ),
        (Trial(0, "plain", "judged"), ["sex"]),
        (Trial(0, "blind", "judged"), ["sex", "age"]),
        (Trial(0, "job", "judged"), ["sex"]),
    ]
    for winner, left_out in expected:
        assert tuned_job(plan, winner, 300).leave_out == left_out
        assert {column.name for column in plan.tuned(winner, 300).contract.features} == (
            {"age", "sex", "income", "job", "owner", "since"} - {*left_out}
        )


def test_methods_that_read_the_columns_keep_them(reading: Bench) -> None:
    """Of methods with a fair metric, with copies, and with groups among the model inputs."""
    reading.job["tune"]["methods"] = ["gbdt", "reweigh", "nn", "budro", "clp", "faias"]
    methods = make_plan(str(reading.write())).methods
    assert {name for name, space in methods.items() if LEAVE_OUT in space} == {
        "gbdt",
        "reweigh",
        "nn",
    }


def test_a_gate_that_the_answer_may_not_have_is_refused(reading: Bench) -> None:
    """Before the search: a model without mitigation is compared with no simple mitigation."""
    reading.job["method"] = {"name": "reweigh", **SMALL}
    reading.job["gates"] = {"accuracy": {"better_than_leave_out": -0.05}}
    with pytest.raises(InputError, match="'accuracy' has better_than_leave_out, which a model"):
        make_plan(str(reading.write()))
    assert make_plan(str(reading.write()), ["gates={}"]).resolved.job.gates == {}


def test_a_folder_named_like_the_tuned_job_is_refused(reading: Bench) -> None:
    job = reading.write()
    job.with_name(f"{job.stem}.tuned.yaml").mkdir()
    with pytest.raises(
        InputError, match="is a folder, where the tuned job's file goes: move it away"
    ):
        make_plan(str(job), force=True)


def trial_of(method: str, **arguments: Any) -> Trial:
    return Trial(0, "search", "judged", method=method, arguments=arguments)


def test_the_kind_of_the_metric_is_searched(reading: Bench) -> None:
    reading.job["tune"]["methods"] = ["gbdt", "project", "budro"]
    plan = make_plan(str(reading.write()))
    kinds = Choice(("sensitive-subspace", "learned"), "sensitive-subspace")
    assert METRIC not in plan.methods["gbdt"]
    assert plan.methods["project"][METRIC] == plan.methods["budro"][METRIC] == kinds
    winner = trial_of("project", fair_metric="learned")
    job = tuned_job(plan, winner, 400)
    assert job.fair_metric == LearnedByEvidence(kind="learned", legitimate=[])
    assert "fair_metric" not in job.method
    kept = tuned_job(plan, trial_of("project", fair_metric="sensitive-subspace"), 400)
    assert kept.fair_metric == SubspaceMetric()


def test_a_learned_metric_is_compared_with_the_default(reading: Bench) -> None:
    reading.job["fair_metric"] = {"kind": "learned", "legitimate": ["income"]}
    reading.job["tune"]["methods"] = ["project"]
    space = make_plan(str(reading.write())).methods["project"]
    assert space[METRIC] == Choice(("learned", "sensitive-subspace"), "learned")
    reading.job["tune"]["space"] = {"project": {METRIC: ["learned"]}}
    restricted = make_plan(str(reading.write())).methods["project"][METRIC]
    assert restricted.values == ("learned",)
    reading.job["tune"]["space"] = {"project": {METRIC: ["face"]}}
    with pytest.raises(InputError, match=r"space.project.fair_metric has 'face'; there are"):
        make_plan(str(reading.write()))


def test_no_other_metric_is_searched_where_it_cannot_be(reading: Bench) -> None:
    reading.job["tune"]["methods"] = ["project"]
    for changes in (
        {"tune": {**reading.job["tune"], "trials": None, "minutes": 2}},
        {"evaluate": {**reading.job["evaluate"], "certificate": {"budget": 0.1}}},
    ):
        before = copy.deepcopy(reading.job)
        reading.job |= changes
        assert METRIC not in make_plan(str(reading.write())).methods["project"]
        reading.job = before
    for column in reading.contract["schema"][0]["properties"]:
        if column["name"] == "sex":
            column["customProperties"].pop()
    reading.job["evaluate"]["counterfactuals"] = {}
    # an attribute that is no model input can be learned from all the same
    kinds = make_plan(str(reading.write())).methods["project"][METRIC].values
    assert kinds == ("sensitive-subspace", "learned")


def test_without_sensitive_inputs_there_is_nothing_to_leave_out(bench: Bench) -> None:
    assert all(LEAVE_OUT not in space for space in make_plan(str(bench.write())).methods.values())


@pytest.mark.parametrize(
    ("tune", "text"),
    [
        ({"minutes": 1}, "1 minute"),
        ({"minutes": 0.5, "cpu_minutes": 1}, "0.5 minutes or 1 CPU minute"),
        ({"minutes": 5, "cpu_minutes": 9}, "5 minutes or 9 CPU minutes"),
    ],
)
def test_one_minute_is_not_several(bench: Bench, tune: dict[str, float], text: str) -> None:
    bench.job["tune"] = tune
    assert make_plan(str(bench.write())).time_limit == text


def test_small_tables_get_models_that_overfit_less(bench: Bench) -> None:
    bench.job["method"] = "gbdt"
    bench.job["tune"] = {"methods": ["gbdt", "logistic", "reweigh"]}

    def defaults(rows: int) -> list[tuple[str | None, Any, Any]]:
        plan = plan_of_rows(make_plan(str(bench.write())), rows)
        names = ("colsample_bytree", "C")
        candidates = [item for item in plan.fixed if item.kind == DEFAULT]
        return [(one.method, *map(one.arguments.get, names)) for one in candidates]

    few = [("gbdt", 1.0, None), ("logistic", None, 1.0), ("reweigh", 1.0, None)]
    assert defaults(100_000) == few
    assert defaults(800) == [*few, ("gbdt", 0.5, None), ("logistic", None, 0.01)]
    # not where the job's space does not have them
    bench.job["tune"]["space"] = {"logistic": {"C": [0.1, 10.0]}}
    assert defaults(800)[len(few) :] == [("gbdt", 0.5, None)]


def test_consistency_brings_a_method_for_it(reading: Bench) -> None:
    del reading.job["tune"]["methods"]
    assert [*make_plan(str(reading.write())).methods] == ["gbdt", "logistic", "reweigh"]
    reading.job["tune"]["where"] = ["consistency.sex >= 0.9"]
    assert [*make_plan(str(reading.write())).methods] == ["gbdt", "logistic", "reweigh", "project"]


def test_the_job_as_it_is_can_have_a_method_that_is_not_searched(reading: Bench) -> None:
    reading.job["tune"]["methods"] = ["logistic"]
    plan = make_plan(str(reading.write()))
    assert list(plan.methods) == ["logistic"]
    as_it_is = Candidate(JOB, "gbdt", {})
    assert plan.base(as_it_is)["max_depth"] == SMALL["max_depth"]
    assert "logistic" in unjudged_text(plan)


@pytest.mark.parametrize(
    ("limit", "tolerance"),
    [("impact_ratio.sex >= 0.8", 0.0), ("gap_max.sex <= 0.1", 0.055), ("auc >= 0.6", 0.0)],
)
def test_a_job_that_was_not_judged_has_cautious_thresholds(
    reading: Bench, limit: str, tolerance: float
) -> None:
    """A limit from below, or on performance, says nothing of how much groups may differ."""
    reading.job["tune"] |= {"where": [limit], "minimize": ["demographic_parity_difference.sex"]}
    text = unjudged_text(make_plan(str(reading.write()), force=True))
    assert yaml.safe_load(text)["decision"]["equal"].get("tolerance", 0.0) == tolerance


def test_a_space_that_names_no_lists_of_columns_is_refused(reading: Bench) -> None:
    for given in ("sex", ["sex"], ["sex", "age"]):
        reading.job["tune"]["space"] = {"gbdt": {LEAVE_OUT: given}}
        with pytest.raises(
            InputError, match=r"leave_out must be a list of lists of columns, such as \[\[\], \[age"
        ):
            make_plan(str(reading.write()))
    reading.job["tune"]["space"] = {"gbdt": {LEAVE_OUT: [["sexx"]]}}
    with pytest.raises(InputError, match="leave_out names 'sexx'"):
        make_plan(str(reading.write()))


def test_the_old_spelling_of_a_confidence_is_a_confidence(reading: Bench) -> None:
    del reading.job["tune"]["confidence"]
    reading.job["tune"]["bound"] = "point"
    assert make_plan(str(reading.write()), force=True).confidence == 0.5


def test_a_preference_alone_runs_no_search_of_the_job(reading: Bench) -> None:
    reading.job["tune"]["minutes"] = 20
    job = str(reading.write())
    asked = "tune.prefer=gap_max.sex"
    plan = make_plan(job, [asked], force=True)
    assert [plan.searches(True), plan.searches(False)] == [False, True]
    assert make_plan(job, [asked, "tune.minutes=1"], force=True).searches(True)
    assert make_plan(job, force=True).searches(True)


def test_a_tuned_job_may_have_as_many_folds_as_a_search(reading: Bench) -> None:
    reading.job["tune"] |= {"folds": 50, "where": ["gap_max.sex <= 0.1"]}
    plan = make_plan(str(reading.write()), force=True)
    trial = Trial(5, "search", "judged", 1, "gbdt", {}, "equalized_odds by sex", 0.1)
    text = tuned_text(plan, trial, 400, {"study": "s", "digest": "0" * 64})
    path = plan.target.with_name("many-folds.yaml")
    path.write_text(text)
    read, _ = load_job(str(path))
    assert read.decision.folds == 50


@pytest.mark.parametrize("wrong", ["gap_max.sex&age", "gap_max.age&sxe", "gap_max.age&sex&sex"])
def test_an_intersection_that_is_none_is_refused(reading: Bench, wrong: str) -> None:
    """The message has the name that was meant."""
    reading.job["tune"] = {"maximize": ["auc"], "where": [f"{wrong} <= 0.3"]}
    with pytest.raises(InputError, match=r"did you mean 'gap_max.age&sex'\?"):
        make_plan(str(reading.write()), force=True)


def test_a_metric_of_groups_needs_its_column(reading: Bench) -> None:
    reading.job["tune"] = {"maximize": ["auc"], "where": ["gap_max <= 0.1"]}
    words = r"the limit 'gap_max <= 0.1' names 'gap_max', which compares groups: name the column"
    with pytest.raises(InputError, match=words):
        make_plan(str(reading.write()), force=True)


def test_a_tuned_job_has_the_calibration_of_its_trial(reading: Bench) -> None:
    reading.job["tune"] |= {"maximize": [], "minimize": ["log_loss"]}
    plan = make_plan(str(reading.write()), force=True)
    arguments = {"eta": 0.2}
    trial = Trial(5, "search", "judged", 1, "gbdt", arguments, "observed", calibration="isotonic")
    job = tuned_job(plan, trial, 100)
    assert (job.calibration, job.decision.threshold) == ("isotonic", "observed")
    assert resolve(job, plan.resolved.folder).job.calibration == "isotonic"


def test_an_alternative_may_leave_out_what_predicts_a_group(reading: Bench) -> None:
    """With and without sensitive inputs; not where the job says what is left out."""
    reading.job["tune"] = {"alternative_to": reading.job["name"], "methods": ["gbdt", "clp"]}
    plan = with_proxy_features(make_plan(str(reading.write())), [("income",), ("income", "job")])
    values = plan.methods["gbdt"]["leave_out"].values  # type: ignore[union-attr]
    hidden = values[1]
    assert values == ((), hidden, (*hidden, "income"), (*hidden, "income", "job"))
    # a method with copies has its own way with columns
    assert "leave_out" not in plan.methods["clp"]
    fixed = plan_of_rows(plan, 400).fixed
    left_out = [item.arguments["leave_out"] for item in fixed if item.arguments.get("leave_out")]
    assert (*hidden, "income", "job") in left_out
    reading.job["tune"]["space"] = {"gbdt": {"leave_out": [[], ["income"]]}}
    own = with_proxy_features(make_plan(str(reading.write()), force=True), [("job",)])
    assert own.methods["gbdt"]["leave_out"].values == ([], ["income"])  # type: ignore[union-attr]


def test_rows_held_out_by_their_hash_keep_their_columns(reading: Bench) -> None:
    """Without a column the hash of a row would be another one, and other rows would be held out."""
    reading.job["split"] = {"hash": "row", "test": 0.3}
    reading.job["tune"] = {"alternative_to": reading.job["name"], "methods": ["gbdt"]}
    plan = make_plan(str(reading.write()))
    searched = with_proxy_features(plan, [("income",)])
    assert searched.methods["gbdt"]["leave_out"] == plan.methods["gbdt"]["leave_out"]
    reading.job["tune"]["space"] = {"gbdt": {"leave_out": [[], ["income"]]}}
    with pytest.raises(InputError, match="with split.hash: row other rows are held out"):
        make_plan(str(reading.write()), force=True)
