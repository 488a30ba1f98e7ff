"""`evenhand audit`: predictions of a file and of models that others trained, from the command to
the page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import mlflow
import numpy as np
import pandas as pd
import pytest
from onnx import TensorProto, helper, save
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

from evenhand.flows.cli import app

FLAGS = ["--label", "hired", "--sensitive", "gender,race", "--set", "evaluate.draws=50"]
Audit = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def table(tmp_path: Path) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 600
    rows = pd.DataFrame(
        {"gender": rng.choice(["female", "male"], n), "race": rng.choice(["x", "y", "z"], n)}
    )
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
        "--prediction",
        "score",
        *FLAGS,
        "--gates",
        "gates.yaml",
        "--junit",
        "junit.xml",
        "--markdown",
        "s.md",
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


def test_two_columns_of_predictions_are_audited_side_by_side(audit: Audit, tmp_path: Path) -> None:
    _, score, _ = audit("--prediction", "score", *FLAGS)
    _, decided, _ = audit("--prediction", "decided", *FLAGS)
    (tmp_path / "gates.yaml").write_text("impact_ratio.gender: {min: 0.8}\n")
    reports = ["--gates", "gates.yaml", "--junit", "junit.xml", "--markdown", "s.md"]
    code, both, _ = audit("--prediction", "score", "--prediction", "decided", *FLAGS, *reports)
    assert (code, both["exit_code"]) == (1, 1)
    assert list(both["audits"]) == ["score", "decided"]
    for alone, name in ((score, "score"), (decided, "decided")):
        assert both["audits"][name]["metrics"] == alone["metrics"]
    pages = [Path(one["artifacts"]["report"]) for one in both["audits"].values()]
    assert len(set(pages)) == 2
    assert [name in page.read_text() for name, page in zip(both["audits"], pages, strict=True)] == [
        True,
        True,
    ]
    suites = list(ElementTree.parse(tmp_path / "junit.xml").getroot())
    assert [suite.get("id") for suite in suites] == ["0", "1"]
    assert all(suite.get("failures") == "1" for suite in suites)
    assert (tmp_path / "s.md").read_text().count("was refused by the gates") == 2


def test_two_columns_at_the_terminal(audit: Audit) -> None:
    done = CliRunner().invoke(
        app,
        ["audit", "predictions.csv", "--prediction", "score", "--prediction", "decided", *FLAGS],
    )
    assert done.exit_code == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    (head,) = (words for words in lines if words == ["score", "decided"])
    (row,) = (words for words in lines if words[:1] == ["impact_ratio.gender"])
    assert row[1] == row[4]  # the value of each, before the ends of its interval
    assert head
    assert done.stdout.count("report  ") == 2


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--prediction", "score", "--prediction", "decided", "--model", "m.onnx"], "--model"),
        (["--prediction", "score", "--prediction", "hired"], "two roles"),
        (["--prediction", "score", "--prediction", "scroe"], "scroe"),
    ],
)
def test_two_columns_of_which_one_is_wrong(audit: Audit, flags: list[str], words: str) -> None:
    code, _, error = audit(*flags, *FLAGS)
    assert code == 2
    (line,) = error.splitlines()
    assert words in line


def test_the_terminal_begins_with_a_finding(
    audit: Audit, table: pd.DataFrame, tmp_path: Path
) -> None:
    given = ["audit", "predictions.csv", "--prediction", "decided", *FLAGS]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.stderr
    first = done.stdout.splitlines()[0]
    assert first.startswith("FINDING   By gender: ")
    assert "below four fifths" in first
    even = np.tile(["yes", "yes", "no"], 200)
    table.assign(decided=even).to_csv(tmp_path / "predictions.csv", index=False)
    first = CliRunner().invoke(app, given).stdout.splitlines()[0]
    assert first.startswith("finding   By ")


def test_several_columns_are_checked_before_one_is_audited(audit: Audit, tmp_path: Path) -> None:
    code, verdict, err = audit("--prediction", "score", "--prediction", "decide", *FLAGS)
    assert code == 2
    assert "the table has no column 'decide' (did you mean 'decided'?)" in err
    assert len(err.strip().splitlines()) == 1
    assert "metrics" not in verdict or not verdict["metrics"]
    assert not list(tmp_path.glob("store/runs/*/report.html"))


@pytest.mark.parametrize(
    ("make", "flags"),
    [
        (lambda rows: rows["decided"] == "yes", []),  # booleans beside words
        (lambda rows: rows["decided"].str.upper(), []),
        (lambda rows: (rows["decided"] == "yes").astype(int), []),
        (
            lambda rows: rows["decided"].map({"yes": "no", "no": "yes"}),
            ["--positive", "no", "--favourable", "no"],
        ),
    ],
    ids=["booleans", "capitals", "numbers", "the other value is positive"],
)
def test_forms_of_decisions(
    audit: Audit, table: pd.DataFrame, tmp_path: Path, make: Callable[..., Any], flags: list[str]
) -> None:
    _, before, _ = audit("--prediction", "decided", "--sensitive", "gender")
    table.assign(decided=make(table)).to_csv(tmp_path / "predictions.csv", index=False)
    _, verdict, _ = audit(
        "--prediction", "decided", "--sensitive", "gender", "--label", "hired", *flags
    )
    kept = ("demographic_parity_difference.gender", "impact_ratio.gender")
    assert {name: verdict["metrics"][name] for name in kept} == {
        name: before["metrics"][name] for name in kept
    }


def test_decisions_that_are_the_labels_numbers(
    audit: Audit, table: pd.DataFrame, tmp_path: Path
) -> None:
    _, before, _ = audit("--prediction", "decided", *FLAGS)
    coded = {"yes": 1, "no": 2}
    table.assign(decided=table["decided"].map(coded), hired=table["hired"].map(coded)).to_csv(
        tmp_path / "predictions.csv", index=False
    )
    _, verdict, _ = audit("--prediction", "decided", *FLAGS, "--positive", "1")
    assert verdict["metrics"] == before["metrics"]


def test_nobody_selected(audit: Audit, table: pd.DataFrame, tmp_path: Path) -> None:
    table.assign(decided="no").to_csv(tmp_path / "predictions.csv", index=False)
    code, verdict, _ = audit("--prediction", "decided", *FLAGS)
    assert code == 0
    assert verdict["metrics"]["accuracy"] == pytest.approx((table["hired"] == "no").mean())


def test_without_labels_the_page_has_no_rates_of_errors(audit: Audit) -> None:
    code, verdict, _ = audit(
        "--prediction", "score", "--sensitive", "gender", "--threshold", "median"
    )
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
        make_column_transformer((OneHotEncoder(), ["gender"]), remainder="passthrough"),
        LogisticRegression(),
    )
    model.fit(table[columns], table["hired"] == "yes")
    mlflow.sklearn.save_model(model, tmp_path / "theirs", pip_requirements=[])
    code, verdict, _ = audit("--model", "theirs", *FLAGS)
    assert code == 0
    decided = model.predict_proba(table[columns])[:, 1] >= 0.5
    rates = pd.Series(decided).groupby(table["gender"]).mean()
    assert verdict["metrics"]["impact_ratio.gender"] == pytest.approx(rates.min() / rates.max())
    flipped = [
        model.predict_proba(table[columns].assign(gender=g))[:, 1] >= 0.5
        for g in ("female", "male")
    ]
    alike = np.mean(flipped[0] == flipped[1])
    assert verdict["metrics"]["consistency.gender"] == pytest.approx(alike)
    assert verdict["metrics"]["consistency.race"] == 1.0  # the model does not read it


@pytest.mark.filterwarnings("ignore:.*type hint")
def test_the_positive_class_is_found_by_its_name(
    audit: Audit, table: pd.DataFrame, tmp_path: Path
) -> None:
    # the classes are sorted, bad before good, and the positive one is the first
    table["outcome"] = np.where(table["hired"] == "yes", "bad", "good")
    table.to_csv(tmp_path / "predictions.csv", index=False)
    model = LogisticRegression().fit(table[["skill"]], table["outcome"])
    mlflow.sklearn.save_model(model, tmp_path / "theirs", pip_requirements=[])
    flags = ["--label", "outcome", "--sensitive", "gender", "--set", "evaluate.draws=50"]
    found = {}
    for positive, place in (("bad", 0), ("good", 1)):
        _, verdict, _ = audit(
            "--model", "theirs", *flags, "--positive", positive, "--favourable", positive
        )
        decided = model.predict_proba(table[["skill"]])[:, place] >= 0.5
        rates = pd.Series(decided).groupby(table["gender"]).mean()
        assert verdict["metrics"]["impact_ratio.gender"] == pytest.approx(rates.min() / rates.max())
        assert verdict["metrics"]["auc"] > 0.7
        found[positive] = rates.min() / rates.max()
    assert found["bad"] != pytest.approx(found["good"])
    _, unlabelled, _ = audit("--model", "theirs", "--sensitive", "gender", "--positive", "bad")
    assert unlabelled["metrics"]["impact_ratio.gender"] == pytest.approx(found["bad"])
    code, _, err = audit("--model", "theirs", "--sensitive", "gender")
    assert (code, "name the positive one with --positive" in err) == (2, True)
    code, _, err = audit("--model", "theirs", "--label", "race", "--sensitive", "gender")
    assert code == 2


@pytest.mark.filterwarnings("ignore:.*type hint")
def test_a_model_of_several_classes_or_of_quantities(
    audit: Audit, table: pd.DataFrame, tmp_path: Path
) -> None:
    table["grade"] = pd.qcut(table["skill"], 3, labels=["low", "middle", "high"]).astype(str)
    table["pay"] = (table["skill"] * 1000).round(1)
    table.to_csv(tmp_path / "predictions.csv", index=False)
    flags = ["--sensitive", "gender", "--set", "evaluate.draws=50"]
    found = {}
    for label, model in (
        ("grade", DecisionTreeClassifier(max_depth=2)),
        ("pay", LinearRegression()),
    ):
        model.fit(table[["score", "skill"]], table[label])
        table["predicted"] = model.predict(table[["score", "skill"]])
        table.to_csv(tmp_path / "predictions.csv", index=False)
        folder = f"theirs-{label}"
        mlflow.sklearn.save_model(
            model, tmp_path / folder, pip_requirements=[], serialization_format="cloudpickle"
        )
        code, of_model, err = audit("--model", folder, "--label", label, *flags)
        assert code == 0, err
        _, of_column, _ = audit("--prediction", "predicted", "--label", label, *flags)
        assert of_model["metrics"] == of_column["metrics"]
        found[label] = of_model["metrics"]
    assert "recall.middle" in found["grade"]
    code, _, err = audit("--model", "theirs-grade", *flags)
    assert (code, err.count("\n")) == (2, 1)
    assert "the model has 3 classes: name the column of true classes with --label" in err


@pytest.mark.filterwarnings("ignore:.*type hint")
def test_probabilities_of_zero_and_one_are_no_decisions(
    audit: Audit, table: pd.DataFrame, tmp_path: Path
) -> None:
    # the label's numbers are 0 and 1 too, and 0 is the positive value
    table["rejected"] = (table["hired"] == "no").astype(int)
    table.to_csv(tmp_path / "predictions.csv", index=False)
    model = DecisionTreeClassifier(random_state=0).fit(table[["skill"]], table["rejected"])
    assert set(model.predict_proba(table[["skill"]])[:, 0]) == {0.0, 1.0}
    mlflow.sklearn.save_model(
        model, tmp_path / "theirs", pip_requirements=[], serialization_format="cloudpickle"
    )
    flags = ["--label", "rejected", "--positive", "0", "--sensitive", "gender"]
    code, verdict, err = audit("--model", "theirs", *flags)
    assert code == 0, err
    assert verdict["metrics"]["accuracy"] > 0.95


@pytest.mark.filterwarnings("ignore:.*type hint")
def test_errors_of_a_model_hold_no_value_of_a_person(
    audit: Audit, table: pd.DataFrame, tmp_path: Path
) -> None:
    mlflow.sklearn.save_model(
        LogisticRegression().fit(table[["skill"]], table["hired"]),
        tmp_path / "theirs",
        pip_requirements=[],
    )
    table.assign(skill="Jane Doe").to_csv(tmp_path / "predictions.csv", index=False)
    code, _, err = audit("--model", "theirs", *FLAGS)
    assert (code, "Jane" in err) == (2, False)
    assert "cannot predict these rows (ValueError)" in err
    table.drop(columns="skill").to_csv(tmp_path / "predictions.csv", index=False)
    code, _, err = audit("--model", "theirs", *FLAGS)
    assert (code, "the model needs the column 'skill'" in err) == (2, True)


@pytest.mark.parametrize("zipmap", [True, False])
def test_classes_in_words_of_an_onnx_model(
    audit: Audit, table: pd.DataFrame, tmp_path: Path, zipmap: bool
) -> None:
    # P(no) and P(yes), as scikit-learn's converter writes them: a mapping a row, or two columns
    tensor, nodes = helper.make_tensor_value_info, helper.make_node
    sort = [
        nodes("Neg", ["skill"], ["less"]),
        nodes("Concat", ["less", "skill"], ["both"], axis=1),
        nodes("Softmax", ["both"], ["probabilities"], axis=1),
        nodes("ArgMax", ["both"], ["place"], axis=1, keepdims=0),
        nodes("LabelEncoder", ["place"], ["label"], domain="ai.onnx.ml", keys_int64s=[0, 1],
              values_strings=["no", "yes"]),
    ]  # fmt: skip
    last = tensor("probabilities", TensorProto.FLOAT, [None, 2])
    if zipmap:
        sort.append(
            nodes(
                "ZipMap",
                ["probabilities"],
                ["mapped"],
                domain="ai.onnx.ml",
                classlabels_strings=["no", "yes"],
            )
        )
        kind = helper.make_map_type_proto(
            TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
        )
        last = helper.make_value_info("mapped", helper.make_sequence_type_proto(kind))
    graph = helper.make_graph(
        sort,
        "classes",
        [tensor("skill", TensorProto.FLOAT, [None, 1])],
        [tensor("label", TensorProto.STRING, [None]), last],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 2)]
    save(helper.make_model(graph, ir_version=10, opset_imports=opsets), tmp_path / "theirs.onnx")
    for positive in ("yes", "no"):
        _, verdict, _ = audit(
            "--model", "theirs.onnx", *FLAGS, "--positive", positive, "--favourable", positive
        )
        decided = table["skill"] >= 0 if positive == "yes" else table["skill"] <= 0
        rates = decided.groupby(table["gender"]).mean()
        assert verdict["metrics"]["impact_ratio.gender"] == pytest.approx(rates.min() / rates.max())


def test_an_onnx_model(audit: Audit, table: pd.DataFrame, tmp_path: Path) -> None:
    # sigmoid(skill), from one input by the column's name
    graph = helper.make_graph(
        [helper.make_node("Sigmoid", ["skill"], ["probability"])],
        "scores",
        [helper.make_tensor_value_info("skill", TensorProto.FLOAT, [None, 1])],
        [helper.make_tensor_value_info("probability", TensorProto.FLOAT, [None, 1])],
    )
    save(
        helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)]),
        "theirs.onnx",
    )
    _, verdict, _ = audit("--model", "theirs.onnx", *FLAGS)
    rates = (table["skill"] >= 0).groupby(table["gender"]).mean()
    assert verdict["metrics"]["impact_ratio.gender"] == pytest.approx(rates.min() / rates.max())


def test_a_certificate_of_comparable_people(
    audit: Audit, table: pd.DataFrame, tmp_path: Path
) -> None:
    # among comparable people the skill, which tells the gender, may differ, and the merit may not
    rng = np.random.default_rng(1)
    table["merit"] = rng.normal(size=len(table))
    table["skill"] += 3 * (table["gender"] == "male")
    for name in ("skill", "merit"):
        table[f"by_{name}"] = (table[name] > table[name].median()).astype(int)
    table.to_csv(tmp_path / "predictions.csv", index=False)
    flags = ["--features", "skill,merit", "--label", "hired", "--sensitive", "gender"]
    found = {}
    for name in ("skill", "merit"):
        code, verdict, _ = audit("--prediction", f"by_{name}", *flags, "--set", "evaluate.draws=20")
        assert code == 0
        found[name] = verdict["metrics"]["certificate.flips"]
    assert found["skill"] > 3 * found["merit"]
    _, verdict, _ = audit("--prediction", "score", *flags, "--set", "evaluate.draws=20")
    assert verdict["metrics"]["certificate.drf"] > 0
    page = Path(verdict["artifacts"]["report"]).read_text()
    assert "Decisions changed under comparable treatment" in page
    code, _, err = audit("--prediction", "score", "--sensitive", "gender", "--features", "skill")
    assert (code, "--features needs --label" in err) == (2, True)


def test_nothing_of_a_person_is_kept_but_the_table_of_the_store(
    audit: Audit, table: pd.DataFrame, tmp_path: Path
) -> None:
    _, verdict, _ = audit("--prediction", "score", *FLAGS)
    folder = tmp_path / "store" / "runs" / verdict["run_id"]
    documents = [file.read_text() for file in folder.rglob("*.json")]
    # probabilities of people, to the digits that the table has: no document holds one
    written = {repr(float(value)) for value in table["score"]}
    assert len(written) > 100
    for text in documents:
        assert '"score"' not in text.replace('"score in', "")
        assert not written & set(re.findall(r"\d\.\d{6,}", text))


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--sensitive", "gender"], "give either --prediction"),
        (
            ["--prediction", "score", "--model", "m", "--sensitive", "gender"],
            "give either --prediction",
        ),
        (["--prediction", "skill", "--sensitive", "gender"], "missing or outside [0, 1]"),
        (["--prediction", "scores", "--sensitive", "gender"], "did you mean 'score'?"),
        (["--prediction", "score", "--sensitive", "score"], "has two roles"),
        (
            ["--prediction", "score", "--sensitive", "gender", "--label", "race"],
            "3 distinct values",
        ),
        (
            [
                "--prediction",
                "score",
                "--label",
                "hired",
                "--positive",
                "maybe",
                "--sensitive",
                "gender",
            ],
            "'yes'",
        ),
        (
            ["--prediction", "score", "--sensitive", "gender", "--threshold", "2"],
            "--threshold is '2'",
        ),
        (
            ["--prediction", "score", "--sensitive", "gender", "--gates", "g.yaml"],
            "names no metric of this audit",
        ),
        (["--model", "nowhere", "--sensitive", "gender"], "there is no model 'nowhere'"),
        (["--model", "models:/nobody@prod", "--sensitive", "gender"], "'nobody' is not published"),
        (
            ["--model", "runs:/0123456789abcdef/model", "--sensitive", "gender"],
            "there is no model 'runs:/",
        ),
        (["--prediction", "score", "--sensitive", "one"], "no groups to compare"),
        (["--prediction", "race", "--sensitive", "gender"], "has 3 different values"),
        (["--prediction", "one", "--sensitive", "gender"], "is the same in all rows"),
        (
            ["--prediction", "gender", "--label", "hired", "--sensitive", "race"],
            "decisions of no and yes, as the label has",
        ),
        (
            ["--prediction", "decided", "--positive", "maybe", "--sensitive", "gender"],
            "holds 'yes'",
        ),
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


def test_the_table_of_groups_has_the_ratio_with_its_interval(
    audit: Audit, table: pd.DataFrame
) -> None:
    _, verdict, _ = audit("--prediction", "score", *FLAGS)
    page = " ".join(Path(verdict["artifacts"]["report"]).read_text().split())
    rates = (table["score"] >= 0.5).groupby(table["gender"]).mean()
    assert "Impact ratio</th>" in page
    assert f"{rates['female'] / rates['male']:.3f}" in page


def test_the_verdict_comes_first(table: pd.DataFrame, audit: Audit, tmp_path: Path) -> None:
    rates = (table["score"] >= 0.5).groupby(table["gender"]).mean()
    share = round(100 * rates["female"] / rates["male"])
    flags = ["--label", "hired", "--sensitive", "gender", "--prediction", "score"]
    done = CliRunner().invoke(app, ["audit", "predictions.csv", *flags])
    first = (
        f"Females are hired {share} % as often as males ({100 * rates['female']:.1f} % against "
        f"{100 * rates['male']:.1f} %): below four fifths; interval ."
    )
    assert done.stdout.splitlines()[0].startswith(f"FINDING   {first}")
    _, verdict, _ = audit(*flags)
    assert verdict["findings"][0].startswith(first)
    page = Path(verdict["artifacts"]["report"]).read_text()
    headline = page[page.index('<ul class="headline') :]
    assert headline.index(first) < headline.index("were audited on")


def test_names_stand_for_codes(table: pd.DataFrame, audit: Audit, tmp_path: Path) -> None:
    table["gender"] = (table["gender"] == "male") + 1
    table.to_csv(tmp_path / "predictions.csv", index=False)
    names = ["--value-name", "gender:1=women", "--value-name", "gender:2=men"]
    flags = ["--label", "hired", "--sensitive", "gender", "--prediction", "decided"]
    _, verdict, _ = audit(*flags, *names)
    assert verdict["findings"][0].startswith("Women are hired ")
    code, _, err = audit(*flags, "--value-name", "race:1=a")
    assert (code, "no column of --sensitive" in err) == (2, True)
    code, _, err = audit(*flags, "--value-name", "gender=a")
    assert (code, "write COLUMN:VALUE=NAME" in err) == (2, True)


def test_weights_people_and_control_columns(
    table: pd.DataFrame, audit: Audit, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    table["weight"] = rng.integers(1, 4, len(table))
    table["person"] = np.arange(len(table)) // 2
    table["site"] = rng.choice(["north", "south"], len(table))
    table.to_csv(tmp_path / "predictions.csv", index=False)
    flags = ["--label", "hired", "--sensitive", "gender", "--prediction", "decided"]
    more = ["--weight", "weight", "--person", "person", "--control", "site"]
    code, verdict, err = audit(*flags, *more)
    assert (code, err) == (0, "")
    rows = table[table["gender"] == "female"]
    chosen = np.average(rows["decided"] == "yes", weights=rows["weight"])
    assert f"({100 * chosen:.1f} % against" in verdict["findings"][0]
    assert any(text.startswith("By gender within site: ") for text in verdict["findings"])
    folder = Path(verdict["artifacts"]["report"]).parent
    document = json.loads((folder / "audit.json").read_text())
    within = {row["site"] for row in document["groups_within"] if row["attribute"]}
    assert within == {"north", "south"}
    assert "How do groups differ within site?" in (folder / "report.html").read_text()
    code, _, err = audit(*flags, "--weight", "race")
    assert (code, "weights are numbers" in err) == (2, True)


def test_classes_and_quantities(table: pd.DataFrame, audit: Audit, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    table["grade"] = rng.choice(["A", "B", "C"], len(table))
    table["guess"] = np.where(rng.random(len(table)) < 0.7, table["grade"], "A")
    table["pay"] = (20_000 + 5_000 * table["skill"]).round(2)
    table["offer"] = (table["pay"] + np.where(table["gender"] == "male", 500, 0)).round(2)
    table.to_csv(tmp_path / "predictions.csv", index=False)
    _, classes, _ = audit("--label", "grade", "--prediction", "guess", "--sensitive", "gender")
    right = (table["grade"] == table["guess"]).mean()
    assert classes["metrics"]["accuracy"] == pytest.approx(right)
    assert "gap_max.gender" in classes["metrics"]
    _, numbers, _ = audit("--label", "pay", "--prediction", "offer", "--sensitive", "gender")
    assert numbers["metrics"]["mean_error_difference.gender"] == pytest.approx(500)
    assert "mean prediction" in numbers["findings"][0]
    assert "Mean absolute error" in Path(numbers["artifacts"]["report"]).read_text()


def test_columns_of_predictions_are_compared_in_pairs(
    table: pd.DataFrame, audit: Audit, tmp_path: Path
) -> None:
    table["stricter"] = np.where(table["score"] >= 0.7, "yes", "no")
    table.to_csv(tmp_path / "predictions.csv", index=False)
    flags = ["--prediction", "decided", "--prediction", "stricter", "--sensitive", "gender"]
    done = CliRunner().invoke(app, ["audit", "predictions.csv", *flags, "--label", "hired"])
    assert "stricter less decided, on the same rows: " in done.stdout
    lost = (table["stricter"] == "yes").mean() - (table["decided"] == "yes").mean()
    assert f"  selection_rate of overall: {lost:+.3f} [" in done.stdout


def test_a_table_in_several_files_is_audited_as_in_one(
    audit: Audit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    flags = ["--label", "hired", "--sensitive", "gender", "--prediction", "score"]
    _, whole, _ = audit(*flags)
    # tables of more than a million rows are kept in several files
    monkeypatch.setattr("evenhand.tasks.steps.ingest_step.GROUP_ROWS", 50)
    monkeypatch.setenv("EVENHAND_STORE", str(tmp_path / "other"))
    code, parts, err = audit(*flags)
    assert (code, err) == (0, "")
    assert list((tmp_path / "other/artifacts/raw").glob("*/000001.parquet"))
    assert parts["metrics"] == whole["metrics"]


def test_groups_that_seem_to_be_one_are_named_and_joined(
    table: pd.DataFrame, audit: Audit, tmp_path: Path
) -> None:
    written = {"female": "weiblich", "male": "männlich"}
    groups = [written[group] for group in table["gender"]]
    groups[::3] = ["w" if group == "weiblich" else "m" for group in groups[::3]]
    groups[5] = "k.A."
    table.assign(gender=groups).to_csv(tmp_path / "predictions.csv", index=False)
    flags = ("--prediction", "score", *FLAGS)
    code, stands, _ = audit(*flags)
    assert code == 0
    (note,) = [text for text in stands["notes"] if "seem to be one" in text]
    assert "gender 'm' as 'männlich', 'w' as 'weiblich'" in note
    assert note.endswith("give --join-spellings")
    code, joined, _ = audit(*flags, "--join-spellings")
    assert code == 0
    assert any(text.startswith("read as one value each: gender") for text in joined["notes"])
    # a person who gave no answer is of no group
    kept = table.drop(index=5)
    share = (kept["score"] >= 0.5).groupby(kept["gender"]).mean()
    ratio = joined["metrics"]["impact_ratio.gender"]
    assert ratio == pytest.approx(share["female"] / share["male"], abs=1e-6)
    assert stands["metrics"]["impact_ratio.gender"] != ratio


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--prediction", "skill"], "the column 'skill' has "),
        (["--prediction", "skill"], "outside [0, 1], such as "),
        (["--prediction", "score", "--weight", "wieght"], "the table has no column 'wieght'"),
        (["--prediction", "score", "--control", "gendr"], "(did you mean 'gender'?)"),
    ],
)
def test_a_wrong_column_is_named(audit: Audit, flags: list[str], says: str) -> None:
    code, document, _ = audit(*flags, *FLAGS)
    assert code == 2
    assert says in document["error"]
