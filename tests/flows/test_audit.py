"""`evenhand audit`: predictions of a file and of models that others trained, from the command to the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from onnx import TensorProto, helper, save
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from typer.testing import CliRunner

from evenhand.flows.cli import app

FLAGS = ["--label", "hired", "--sensitive", "gender,race", "--set", "evaluate.draws=50"]
Audit = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def table(tmp_path: Path) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 600
    rows = pd.DataFrame({"gender": rng.choice(["female", "male"], n), "race": rng.choice(["x", "y", "z"], n)})
    rows["skill"] = rng.normal(size=n) + 0.8 * (rows["gender"] == "male")
    rows["score"] = (1 / (1 + np.exp(-rows["skill"]))).round(6)
    rows["hired"] = np.where(rng.random(n) < rows["score"], "yes", "no")
    rows["decided"] = np.where(rows["score"] >= 0.5, "yes", "no")
    rows.to_csv(tmp_path / "predictions.csv", index=False)
    return rows


@pytest.fixture
def audit(table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Audit:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENHAND_STORE", str(tmp_path / "store"))

    def run(*flags: str) -> tuple[int, dict[str, Any], str]:
        done = CliRunner().invoke(app, ["audit", "predictions.csv", *flags, "--json"])
        return done.exit_code, json.loads(done.stdout or "{}"), done.stderr

    return run


def test_scores_of_a_file(audit: Audit, table: pd.DataFrame, tmp_path: Path) -> None:
    (tmp_path / "gates.yaml").write_text("impact_ratio.gender: {min: 0.8}\nauc: {min: 0.5}\n")
    code, verdict, _ = audit(
        "--prediction", "score", *FLAGS, "--gates", "gates.yaml", "--junit", "junit.xml", "--markdown", "s.md"
    )
    assert code == 1
    rates = (table["score"] >= 0.5).groupby(table["gender"]).mean()
    assert verdict["metrics"]["impact_ratio.gender"] == pytest.approx(rates.min() / rates.max())
    assert {"auc", "ece", "gap_max.race", "impact_ratio.gender&race"} <= set(verdict["metrics"])
    refused = [one["metric"] for one in verdict["gates"]["results"] if not one["passed"]]
    assert refused == ["impact_ratio.gender"]
    assert "impact_ratio.gender" in (tmp_path / "junit.xml").read_text()
    assert "was refused by the gates" in (tmp_path / "s.md").read_text()
    page = Path(verdict["artifacts"]["report"]).read_text()
    assert "score in predictions.csv, audited" in page
    assert "below four fifths" in page
    assert "Are the probabilities right?" in page


def test_decisions_in_words_say_the_same(audit: Audit) -> None:
    _, scores, _ = audit("--prediction", "score", *FLAGS)
    _, decisions, _ = audit("--prediction", "decided", *FLAGS)
    assert "auc" not in decisions["metrics"]
    assert {name: scores["metrics"][name] for name in decisions["metrics"]} == decisions["metrics"]


def test_without_labels_the_page_has_no_rates_of_errors(audit: Audit) -> None:
    code, verdict, _ = audit("--prediction", "score", "--sensitive", "gender", "--threshold", "median")
    assert code == 0
    kinds = {name.partition(".")[0] for name in verdict["metrics"]}
    assert kinds == {"demographic_parity_difference", "impact_ratio"}
    page = Path(verdict["artifacts"]["report"]).read_text()
    assert "True positive rate" not in page
    assert "Selection rate" in page


@pytest.mark.filterwarnings("ignore:.*type hint")
def test_a_scikit_learn_model_of_mlflow(audit: Audit, table: pd.DataFrame, tmp_path: Path) -> None:
    columns = ["gender", "skill"]
    model = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["gender"]), remainder="passthrough"), LogisticRegression()
    )
    model.fit(table[columns], table["hired"] == "yes")
    mlflow.sklearn.save_model(model, tmp_path / "theirs")
    code, verdict, _ = audit("--model", "theirs", *FLAGS)
    assert code == 0
    decided = model.predict_proba(table[columns])[:, 1] >= 0.5
    rates = pd.Series(decided).groupby(table["gender"]).mean()
    assert verdict["metrics"]["impact_ratio.gender"] == pytest.approx(rates.min() / rates.max())
    flipped = [model.predict_proba(table[columns].assign(gender=g))[:, 1] >= 0.5 for g in ("female", "male")]
    alike = np.mean(flipped[0] == flipped[1])
    assert verdict["metrics"]["consistency.gender"] == pytest.approx(alike)
    assert verdict["metrics"]["consistency.race"] == 1.0  # the model does not read it


def test_an_onnx_model(audit: Audit, table: pd.DataFrame, tmp_path: Path) -> None:
    # sigmoid(skill), from one input by the column's name
    graph = helper.make_graph(
        [helper.make_node("Sigmoid", ["skill"], ["probability"])],
        "scores",
        [helper.make_tensor_value_info("skill", TensorProto.FLOAT, [None, 1])],
        [helper.make_tensor_value_info("probability", TensorProto.FLOAT, [None, 1])],
    )
    save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)]), "theirs.onnx")
    _, verdict, _ = audit("--model", "theirs.onnx", *FLAGS)
    rates = (table["skill"] >= 0).groupby(table["gender"]).mean()
    assert verdict["metrics"]["impact_ratio.gender"] == pytest.approx(rates.min() / rates.max())


def test_nothing_of_a_person_is_kept_but_the_table_of_the_store(audit: Audit, tmp_path: Path) -> None:
    _, verdict, _ = audit("--prediction", "score", *FLAGS)
    for file in (tmp_path / "store" / "runs" / verdict["run_id"]).rglob("*.json"):
        assert '"score"' not in file.read_text().replace('"score in', "")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--sensitive", "gender"], "give either --prediction"),
        (["--prediction", "score", "--model", "m", "--sensitive", "gender"], "give either --prediction"),
        (["--prediction", "skill", "--sensitive", "gender"], "missing or outside [0, 1]"),
        (["--prediction", "scores", "--sensitive", "gender"], "did you mean 'score'?"),
        (["--prediction", "score", "--sensitive", "score"], "has two roles"),
        (["--prediction", "score", "--sensitive", "gender", "--label", "race"], "3 distinct values"),
        (
            ["--prediction", "score", "--label", "hired", "--positive", "maybe", "--sensitive", "gender"],
            "'yes'",
        ),
        (["--prediction", "score", "--sensitive", "gender", "--threshold", "2"], "--threshold is '2'"),
        (
            ["--prediction", "score", "--sensitive", "gender", "--gates", "g.yaml"],
            "names no metric of this audit",
        ),
        (["--model", "nowhere", "--sensitive", "gender"], "there is no model 'nowhere'"),
        (["--prediction", "score", "--sensitive", "one"], "no groups to compare"),
    ],
)
def test_bad_input_is_one_line(
    audit: Audit, table: pd.DataFrame, tmp_path: Path, flags: list[str], says: str
) -> None:
    table.assign(one="same").to_csv(tmp_path / "predictions.csv", index=False)
    (tmp_path / "g.yaml").write_text("impact_ratio.sex: {min: 0.8}\n")
    code, _, err = audit(*flags)
    assert code == 2
    assert says in err
    assert len(err.splitlines()) == 1


def test_the_table_of_groups_has_the_ratio_with_its_interval(audit: Audit, table: pd.DataFrame) -> None:
    _, verdict, _ = audit("--prediction", "score", *FLAGS)
    page = " ".join(Path(verdict["artifacts"]["report"]).read_text().split())
    rates = (table["score"] >= 0.5).groupby(table["gender"]).mean()
    assert "Impact ratio</th>" in page
    assert f"{rates['female'] / rates['male']:.3f}" in page
