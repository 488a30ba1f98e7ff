"""Decisions and controls in whole runs: keys that contradict, degenerate models, groups at decision
time.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from evenhand.fairlib.methods.decided import DecidedModel, ThresholdRule
from evenhand.fairlib.methods.registry import load_model
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.tasks.errors import InputError
from tests.flows.people import CONTRACT, Bench, predict

EQUAL = "decision={equal: {criterion: equalized_odds, attribute: age}}"
CONSTANT = "method={name: gbdt, n_steps: 1, eta: 1e-9, n_jobs: 1, n_iter_no_change: null}"
FEW = "fewer than 5 held-out rows of a label"


@pytest.fixture
def without_gates(publishing: Bench) -> Bench:
    del publishing.job["gates"]
    return publishing


def feature(bench: Bench, name: str) -> None:
    """Make a sensitive column a model input."""
    bench.properties[name]["customProperties"].append({"property": "use", "value": "feature"})


# keys


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("decision={rate: .2, threshold: .3}", "decision: has both threshold and rate"),
        (
            "decision={rate: .2, costs: {false_positive: 1, false_negative: 2}}",
            "both rate and costs",
        ),
        (
            "decision={rate: .2, equal: {criterion: equalized_odds, attribute: sex}}",
            "both equal and rate",
        ),
        (
            "decision={threshold: own, equal: {criterion: equalized_odds}}",
            "both equal and threshold own",
        ),
        (
            "decision={threshold: .5, equal: {criterion: equalized_odds}}",
            "both equal and threshold 0.5",
        ),
        (
            "decision=balance",
            "decision.threshold: is 'balance', expected .*observed, balanced, max_accuracy or own",
        ),
        ("decision=1.5", "decision.threshold: is 1.5, expected a number from 0 to 1"),
        ("decision=true", "decision is true, which is no value of this key"),
        ("decision.rate=0", "decision.rate: .*above 0"),
        ("decision.costs={false_positive: 1}", "'decision.costs.false_negative' is missing"),
        (
            "decision.costs={false_positive: 0, false_negative: 1}",
            "false_positive: .*above 0",
        ),
        ("decision={equal: {criterion: odds}}", "decision.equal.criterion: .*'equalized_odds'"),
        (
            "decision={equal: {criterion: equalized_odds, attribute: job}}",
            "names 'job'; the sensitive columns",
        ),
        (
            "decision={equal: {criterion: equalized_odds}}",
            "give decision.equal.attribute, one of age, sex",
        ),
        ("decision.rat=0.2", "unknown key 'decision.rat' .did you mean 'rate'"),
        ("calibration=platt", "calibration: .*'sigmoid'"),
        ("gates={auc: {better_than_blnd: 0}}", "unknown key 'better_than_blnd'; did you mean"),
        ("gates={probability_spread: {better_than_blind: 0}}", "the controls have no such metric"),
        ("gates={leak_suspected: {better_than_plain: 0}}", "the controls have no such metric"),
        (
            "gates={accuracy: {better_than_reweigh: 0}}",
            "use better_than_blind or better_than_plain",
        ),
        ("gates={calibration_gap.job: {max: 0.1}}", "names no metric of this job"),
    ],
)
def test_a_wrong_key_is_one_line_before_anything_runs(
    bench: Bench, override: str, words: str
) -> None:
    with pytest.raises(InputError, match=words) as caught:
        resolve(*load_job(str(bench.write()), [override]))
    assert "\n" not in str(caught.value)


def test_equal_needs_a_sensitive_column(bench: Bench) -> None:
    for name in ("age", "sex"):
        bench.properties[name]["customProperties"][0]["value"] = "ignore"
        bench.properties[name]["customProperties"] = bench.properties[name]["customProperties"][:1]
    with pytest.raises(InputError, match="has no sensitive column"):
        resolve(*load_job(str(bench.write()), ["decision={equal: {criterion: equalized_odds}}"]))


def test_a_proxy_decides_nothing(proxies: Bench) -> None:
    for override in (
        "decision=balanced",
        "calibration=none",
        "gates={disclosivity: {better_than_blind: 0}}",
    ):
        with pytest.raises(InputError, match="proxy"):
            resolve(*load_job(str(proxies.write()), [override]))


def test_a_threshold_alone_is_short_for_its_key(bench: Bench) -> None:
    bench.job["decision"] = "max_accuracy"
    loaded, _ = load_job(str(bench.write()), ["decision.equal.criterion=demographic_parity"])
    assert loaded.decision.threshold == "max_accuracy"
    assert loaded.decision.equal is not None
    assert load_job(str(bench.write()), ["decision=.25"])[0].decision.threshold == 0.25
    bench.job["gates"] = {"calibration_gap.sex": {"max": 0.5}}
    assert resolve(*load_job(str(bench.write()))).job.gates


# runs


def test_a_job_without_keys_is_calibrated_and_balanced(without_gates: Bench) -> None:
    done = without_gates.run("--json")
    assert done.code == 0, done.err
    verdict = done.json
    assert verdict["gates"]["note"] == "default gates"
    assert [gate["metric"] for gate in verdict["gates"]["results"]] == [
        "balanced_accuracy",
        "log_loss_gain",
    ]
    assert set(verdict["controls"]) == {"majority", "plain", "blind"}
    model = load_model(Path(verdict["artifacts"]["decide.model"]))
    assert isinstance(model, DecidedModel)
    assert isinstance(model.rule, ThresholdRule)
    found = pq.read_table(verdict["artifacts"]["evaluate.predictions"]).to_pandas()
    assert model.rule.threshold is not None
    assert (
        found["prediction"].tolist()
        == (found["probability"] >= model.rule.threshold).astype(int).tolist()
    )
    page = Path(verdict["artifacts"]["report"]).read_text()
    for words in (
        "Effect of the mitigation",
        "Are the probabilities right?",
        "How it decides",
        "the job set no gates",
    ):
        assert words in page
    again = without_gates.run("--json")
    assert set(again.json["cached"]) == set(again.json["seconds"])


def test_thresholds_by_group_use_all_training_rows_with_folds(
    without_gates: Bench,
) -> None:
    decision = "decision={equal: {criterion: demographic_parity, attribute: sex, tolerance: 0.02}, folds: 3}"
    done = without_gates.run("--json", "--set", decision)
    assert done.code == 0, done.err
    held = pq.read_table(done.json["artifacts"]["train.held_out"])
    train = pq.read_table(Path(done.json["artifacts"]["preprocess.train"]) / "y.parquet")
    assert held["row"].to_pylist() == list(range(len(train)))
    rule = json.loads(Path(done.json["artifacts"]["decide.rule"]).read_text())
    assert rule["rows"] == len(train)


def test_folds_that_choose_nothing_are_refused(without_gates: Bench) -> None:
    own = ("--set", "calibration=none", "--set", "decision={threshold: own, folds: 3}")
    done = without_gates.run(*own)
    assert done.code == 2
    assert "decision.folds: the job has neither a calibration nor a decision rule" in done.err


def test_changing_the_decision_does_not_train_again(champion: Bench) -> None:
    done = champion.run("--json", "--set", "decision=0.5")
    assert "train" in done.json["cached"]
    assert {"decide", "controls", "evaluate"}.isdisjoint(done.json["cached"])


@pytest.mark.long
def test_own_decisions_without_calibration_are_the_methods(
    without_gates: Bench,
) -> None:
    done = without_gates.run("--json", "--set", "calibration=none", "--set", "decision=own")
    assert done.code == 0, done.err
    assert "decide" not in done.json["seconds"]
    assert "train.held_out" not in done.json["artifacts"]
    assert not isinstance(load_model(Path(done.json["artifacts"]["train.model"])), DecidedModel)
    assert [gate["metric"] for gate in done.json["gates"]["results"]] == ["balanced_accuracy"]


def test_a_degenerate_model_ends_with_3_and_names_the_key(without_gates: Bench) -> None:
    done = without_gates.run("--set", CONSTANT)
    assert done.code == 3
    assert "method.n_steps" in done.out
    assert done.verdict["model"] is None
    assert "the same probability" in done.verdict["gates"]["degenerate"]
    assert "Not published: the model gives nearly everybody" in (
        Path(done.verdict["artifacts"]["report"]).read_text()
    )
    # gates that it passes do not save it, and gates that refuse it are a refusal
    passing = without_gates.run("--set", CONSTANT, "--set", "gates={gap_max.sex: {max: 0.5}}")
    assert passing.code == 3
    assert passing.verdict["model"] is None
    refusing = without_gates.run("--set", CONSTANT, "--set", "gates={auc: {min: 0.9}}")
    assert refusing.code == 1


def test_a_constant_model_is_not_published_by_default(without_gates: Bench) -> None:
    """It gives everybody the same answer."""
    done = without_gates.run("--set", "decision=1.0")
    assert done.code == 1
    assert "balanced_accuracy is 0.500 and must be at least 0.501" in done.out


def test_a_quota_that_ties_make_impossible_publishes_nothing(without_gates: Bench) -> None:
    done = without_gates.run("--set", CONSTANT, "--set", "decision.rate=0.2")
    assert done.code == 2
    assert "a share of 0.2 positive decisions is impossible" in done.err
    assert len(done.err.splitlines()) == 1
    assert done.verdict["model"] is None


def test_gates_beside_controls(without_gates: Bench) -> None:
    feature(without_gates, "sex")
    gates = "gates={log_loss: {better_than_blind: -0.3, bound: interval}, accuracy: {better_than_plain: 0}}"
    done = without_gates.run("--json", "--set", gates)
    assert done.code == 0, done.err
    texts = [gate["text"] for gate in done.json["gates"]["results"]]
    assert "better than blind's (upper end of the paired interval) and must be -0.3" in texts[0]
    assert texts[1] == "accuracy is 0.000 better than plain's and must be 0.000 better: passed"
    refused = without_gates.run("--json", "--set", "gates={accuracy: {better_than_blind: 0.5}}")
    assert refused.code == 1
    assert refused.json["gates"]["results"][0]["shortfall"] > 0.3


@pytest.mark.long
def test_without_draws_nothing_is_said_of_chance(without_gates: Bench) -> None:
    feature(without_gates, "sex")
    done = without_gates.run("--set", "evaluate.draws=0")
    assert done.code == 0, done.err
    assert "there are no intervals" in done.out
    assert "no significant difference\n" not in done.out


# thresholds by group


def test_small_groups_share_thresholds_with_a_warning(without_gates: Bench) -> None:
    """The group is not quoted."""
    del without_gates.properties["sex"]["quality"]
    without_gates.set("sex", ["zzyzx-group" if i < 8 else "FM"[i % 2] for i in range(400)])
    done = without_gates.run(
        "--set", "decision={equal: {criterion: equalized_odds, attribute: sex}}"
    )
    assert done.code == 0, done.err
    said = done.out + done.err
    assert "2 of 3 groups of 'sex', 'F' among them, share one set of thresholds" in said
    assert "zzyzx" not in done.err


def test_one_large_group_alone_ends_with_2(without_gates: Bench) -> None:
    """The group is not quoted."""
    del without_gates.properties["sex"]["quality"]
    without_gates.set("sex", ["zzyzx-group" if i < 8 else "F" for i in range(400)])
    done = without_gates.run(
        "--set", "decision={equal: {criterion: equalized_odds, attribute: sex}}"
    )
    assert done.code == 2
    assert FEW in done.err
    assert "zzyzx" not in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.long
@pytest.mark.parametrize("attribute", ["age", "age&sex"])
def test_published_thresholds_decide_raw_rows_as_measured(
    without_gates: Bench, attribute: str
) -> None:
    """The attribute is no model input, and its groups are cut from numbers: the raw rows have to
    have it.
    """
    done = without_gates.run("--json", "--set", EQUAL.replace("age", attribute))
    assert done.code == 0, done.err
    measured = pq.read_table(done.json["artifacts"]["evaluate.predictions"]).to_pandas()
    raw = without_gates.table.take(pa.array(measured["row"])).to_pandas()
    path = without_gates.folder / "test.parquet"
    raw.to_parquet(path)
    (found,) = predict(without_gates.store, (done.json["model"]["uri"], path))
    assert found["prediction"] == np.where(measured["prediction"] == 1, "yes", "no").tolist()
    assert found["probability"] == measured["probability"].tolist()
    rule = json.loads((Path(done.json["artifacts"]["decide.model"]) / "decision.json").read_text())[
        "rule"
    ]
    part = rule
    if "&" in attribute:
        part = rule["crossed"][0]
        assert set(rule["thresholds"]["rates"]) == {
            "<40 & F",
            "<40 & M",
            ">=40 & F",
            ">=40 & M",
        }
    assert (part["bins"], part["names"]) == ([40], ["<40", ">=40"])
    words = f"needs to know {attribute.replace('&', ' and ')}."
    assert words in Path(done.json["artifacts"]["report"]).read_text()


@pytest.mark.long
@pytest.mark.parametrize("verb", ["evaluate", "monitor"])
def test_new_rows_need_the_groups_and_they_must_be_known(without_gates: Bench, verb: str) -> None:
    from evenhand.flows.cli import app

    without_gates.run("--set", "decision={equal: {criterion: equalized_odds, attribute: sex}}")

    def measured(table: pa.Table) -> Any:
        pyarrow.csv.write_csv(table, without_gates.folder / "other.csv")
        arguments = ["--data", "other.csv", "--store", str(without_gates.store), "--direct"]
        return CliRunner().invoke(app, [verb, "people-gbdt", *arguments])

    assert measured(without_gates.table).exit_code == 0
    lacking = measured(without_gates.table.drop_columns(["sex"]))
    assert lacking.exit_code == 2
    assert "'sex'" in lacking.stderr


def test_held_out_rows_stay_in_the_store_and_out_of_the_bundle(without_gates: Bench) -> None:
    done = without_gates.run("--json")
    held = pq.read_table(done.json["artifacts"]["train.held_out"])
    assert held.column_names == ["row", "label", "probability"]
    bundle = next(done.store.glob("mlflow-artifacts/**/bundle"))
    assert not [path for path in bundle.rglob("*") if "held_out" in path.name]
    kept = {path.relative_to(bundle / "model").as_posix() for path in (bundle / "model").rglob("*")}
    assert kept == {"model.json", "booster.ubj", "decision.json"}
    names = {column["name"] for column in CONTRACT["schema"][0]["properties"]}
    said = (bundle / "model" / "decision.json").read_text()
    assert not [name for name in names if f'"{name}"' in said]
