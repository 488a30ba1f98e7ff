"""The fair metric of a starter job, chosen by evidence on people of planted worlds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import yaml
from typer.testing import CliRunner

from evenhand.data_contracts.arrow import coerce
from evenhand.data_contracts.inference import infer_contract
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.odcs import load_contract
from evenhand.fairlib.datasets.planted import WORLDS
from evenhand.fairlib.methods.registry import METHODS
from evenhand.flows.cli import app
from evenhand.flows.init_forms import with_legitimate
from evenhand.flows.job_file import load_job
from evenhand.flows.metric_choice import MetricChoice, choose_metric, proxy_evidence
from evenhand.flows.resolved_job import resolve
from evenhand.flows.starter_job import group_sizes

N = 900


def people_of(world: str, rows: int = N) -> pa.Table:
    """People of a planted world, with the recorded label `hired`."""
    people = WORLDS[world].draw(rows, np.random.default_rng(0))
    table = pa.Table.from_pandas(people.table, preserve_index=False)
    return table.append_column("hired", pa.array(np.where(people.label == 1, "yes", "no")))


def contract_of(table: pa.Table, *, inputs: bool = True) -> Contract:
    return infer_contract(table, "people", "hired", ["sex"], use_sensitive=inputs)


def choice_of(world: str, *, inputs: bool = True, method: str = "project") -> MetricChoice:
    table = people_of(world)
    contract = contract_of(table, inputs=inputs)
    typed = coerce(table, contract)
    return choose_metric(typed, contract, group_sizes(typed, contract), METHODS[method])


def test_columns_that_predict_the_attribute_are_named() -> None:
    table = people_of("linear")
    contract = contract_of(table)
    (evidence,) = proxy_evidence(coerce(table, contract), contract)
    assert (evidence.attribute, evidence.rows) == ("sex", N)
    assert evidence.is_predicted
    assert evidence.leak.auc > 0.9
    # what the world plants: heights differ most, tests and interviews not at all
    assert evidence.columns[0].name == "height"
    assert {"test", "interview", "sex"}.isdisjoint(item.name for item in evidence.columns)
    assert f"an AUC of {evidence.leak.auc:.2f}" in evidence.sentence()
    assert f"alone height {evidence.columns[0].auc:.2f}" in evidence.sentence()


def test_proxy_features_get_a_learned_metric_and_gates() -> None:
    choice = choice_of("linear")
    assert choice.is_learned
    assert choice.section == {"kind": "learned", "legitimate": []}
    assert set(choice.gates) == {"consistency.counterpart", "metric_leak.sex"}
    assert 0.65 <= choice.gates["metric_leak.sex"]["max"] <= 0.75


def test_without_proxy_features_leaving_out_is_enough() -> None:
    choice = choice_of("no-proxy")
    assert choice.section == {"learned": []}
    assert not choice.gates
    assert "no better than chance" in choice.comments[0]
    assert "to leave sex out is enough" in choice.notes[1]


def test_without_the_attribute_as_input_the_cost_is_named() -> None:
    choice = choice_of("linear", inputs=False)
    assert choice.section == {"kind": "learned", "legitimate": []}
    assert set(choice.gates) == {"consistency.counterpart", "metric_leak.sex"}
    assert "with --use-sensitive it adapts columns instead" in choice.notes[-1]
    assert choice.notes[-1] in choice.comments


def test_a_small_group_keeps_the_default_and_names_the_need() -> None:
    table = people_of("linear", 200)
    contract = contract_of(table)
    sizes = {"sex": {"man": 163, "woman": 87}}
    choice = choose_metric(coerce(table, contract), contract, sizes, METHODS["project"])
    assert not choice.section
    assert choice.notes == [
        "the group woman of sex has 87 rows, and a learned fair metric needs 88: the default one "
        "is used, which leaves most proxy features in; for a learned one join the group with "
        "another"
    ]


def test_legitimate_columns_of_the_contract_need_no_key() -> None:
    table = people_of("earned-difference")
    contract = with_legitimate(contract_of(table), ["training"])
    typed = coerce(table, contract)
    sizes = group_sizes(typed, contract)
    choice = choose_metric(typed, contract, sizes, METHODS["project"])
    assert choice.section == {"kind": "learned"}
    assert any("differences explained by training" in text for text in choice.comments)


def starter_of(folder: Path, world: str, *options: str) -> tuple[str, dict[str, Any]]:
    pyarrow.csv.write_csv(people_of(world), folder / "people.csv")
    arguments = ["init", str(folder / "people.csv"), "--label", "hired", "--sensitive", "sex"]
    done = CliRunner().invoke(app, [*arguments, *options, "--into", str(folder)])
    assert done.exit_code == 0, done.stderr
    return done.stdout, yaml.safe_load((folder / "people.yaml").read_text())


@pytest.mark.parametrize("method", ["project", "budro", "sensei", "sensr", "clp"])
def test_init_writes_the_metric_of_a_method_that_takes_one(tmp_path: Path, method: str) -> None:
    printed, job = starter_of(tmp_path, "linear", "--use-sensitive", "--method", method)
    assert job["fair_metric"] == {"kind": "learned", "legitimate": []}
    # a flip of the column alone is no counterpart, and a gate on it could not be reached
    assert job["evaluate"] == {"counterfactuals": {"counterpart": "adapted"}}
    text = (tmp_path / "people.yaml").read_text()
    assert "consistency.sex" not in text
    assert "#   consistency.counterpart: {better_than_blind: 0.0}" in text
    assert ("metric_leak.sex" in text) == (method != "clp")
    assert "proxy features of sex, which the fair metric removes or adapts: height" in printed


def test_init_marks_legitimate_columns_in_the_contract(tmp_path: Path) -> None:
    options = ("--use-sensitive", "--method", "project", "--legitimate", "training")
    _, job = starter_of(tmp_path, "earned-difference", *options)
    assert job["fair_metric"] == {"kind": "learned"}
    contract = load_contract(str(tmp_path / "people.contract.yaml"))
    assert contract.legitimate == ("training",)
    assert resolve(*load_job(str(tmp_path / "people.yaml"))).legitimate == ["training"]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("sex", "column 'sex' is named with --legitimate and is sensitive"),
        ("hired", "no model input (role label)"),
        ("trainin", "--legitimate column 'trainin' is not in the table"),
    ],
)
def test_no_other_column_is_legitimate(tmp_path: Path, column: str, message: str) -> None:
    pyarrow.csv.write_csv(people_of("earned-difference"), tmp_path / "people.csv")
    arguments = ["init", str(tmp_path / "people.csv"), "--label", "hired", "--sensitive", "sex"]
    done = CliRunner().invoke(app, [*arguments, "--legitimate", column, "--into", str(tmp_path)])
    assert done.exit_code == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "people.yaml").exists()


def test_a_method_without_a_metric_gets_none(tmp_path: Path) -> None:
    printed, job = starter_of(tmp_path, "linear", "--use-sensitive", "--method", "reweigh")
    assert "fair_metric" not in job
    assert "proxy features of sex, kept as they are" in printed
    assert "learned" not in printed
