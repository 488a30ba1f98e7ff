"""Evaluations in this process: what they measure, decide, write and answer, and what they
refuse.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import html
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

import evenhand.flows.commands.evaluate_command as command
import evenhand.flows.evaluate as evaluation
from evenhand.fairlib.methods.registry import load_model
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.flows import runtime
from evenhand.flows.cli import app
from evenhand.flows.commands import terminal
from evenhand.flows.engine import DirectEngine
from evenhand.tasks.errors import GateRefused, InputError, NotCarriedOut
from evenhand.tasks.evaluating import decisions
from evenhand.tasks.execution.step import listen
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.bundle import open_bundle
from evenhand.tasks.registry.client import EVALUATION_TAG, registry_client
from evenhand.tasks.registry.policy import promote
from tests.flows.people import JOB, PROXY_JOB, Answer, Bench, make_people, make_uneven, run_all

SECRET_GROUP = "zzyzx-group"
CHAMPION, CHALLENGER = "models:/people-gbdt@champion", "models:/people-gbdt@challenger"


@dataclass
class Desk:
    """A store of published models, and a folder with tables that none of them has seen."""

    folder: Path
    store: Path
    people: Callable[..., pa.Table]

    def put(self, name: str = "new.csv", table: pa.Table | None = None) -> str:
        """Write a table and give its path."""
        path = self.folder / name
        pyarrow.csv.write_csv(self.people(600, 7) if table is None else table, path)
        return str(path)

    def gates(self, content: Any, name: str = "gates.yaml") -> str:
        path = self.folder / name
        path.write_text(
            content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
        )
        return str(path)

    def __call__(self, model: str, *arguments: str, data: str | None = None) -> Answer:
        given = ["--data", self.put() if data is None else data, *arguments]
        done = CliRunner().invoke(
            app, ["evaluate", model, *given, "--direct", "--store", str(self.store)]
        )
        assert done.exception is None or isinstance(done.exception, SystemExit), repr(
            done.exception
        )
        return Answer(done.exit_code, done.stdout, done.stderr)

    def json(self, model: str, *arguments: str, data: str | None = None) -> dict[str, Any]:
        done = self(model, *arguments, "--json", data=data)
        assert done.code in (0, 1, 3), done.err
        return done.json

    def recorded(self, version: str = "1") -> dict[str, Any]:
        """What the registry says of a version's latest evaluation."""
        with registry_client(self.registry) as client:
            tags = client.get_model_version("people-gbdt", version).tags
        content: dict[str, Any] = json.loads(tags[EVALUATION_TAG])
        return content

    @property
    def registry(self) -> str:
        return f"sqlite:///{self.store.resolve() / 'mlflow.db'}"


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory, registry: Path) -> Path:
    """A store with a champion, a challenger, a proxy, and models of other labels and contracts."""
    bench = Bench(tmp_path_factory.mktemp("shelf"), database=registry)
    bench.contract["customProperties"] = [{"property": "missingSensitive", "value": "own_group"}]
    challenger = {
        "method": {"name": "gbdt", "n_steps": 9, "n_jobs": 1},
        "publish": {"alias": "challenger"},
    }
    run_all(bench, JOB, JOB | challenger)
    contract = copy.deepcopy(bench.contract)
    bench.contract["version"] = "1.1.0"
    run_all(bench, JOB | {"name": "people-newer"})
    bench.contract = copy.deepcopy(contract)
    bench.properties["income"]["logicalTypeOptions"] = {"minimum": -9999}
    run_all(bench, JOB | {"name": "people-edited"})
    bench.contract = copy.deepcopy(contract)
    for item in bench.properties["paid"]["customProperties"]:
        item["value"] = "no" if item["property"] == "positive" else item["value"]
    run_all(bench, JOB | {"name": "people-opposite"})
    bench.contract = contract
    (bench.folder / "people.csv").unlink()
    bench.table = make_uneven()
    return run_all(bench, PROXY_JOB).store


@pytest.fixture
def desk(shelf: Path, tmp_path: Path) -> Iterator[Desk]:
    """The registry of the shelf, whose versions stay where they are, in a store of the
    test's own.
    """
    with contextlib.chdir(tmp_path):
        yield Desk(tmp_path, new_store(shelf, tmp_path / "store"), make_people)


def new_store(source: Path, target: Path) -> Path:
    target.mkdir(mode=0o700)
    shutil.copyfile(source / "mlflow.db", target / "mlflow.db")
    return target


def suite_of(path: Path) -> ElementTree.Element:
    suite = ElementTree.parse(path).getroot().find("testsuite")
    assert suite is not None
    return suite


def test_without_gates_it_measures_the_published_decisions(desk: Desk, tmp_path: Path) -> None:
    verdict = desk.json(CHAMPION)
    assert (verdict["status"], verdict["exit_code"], verdict["error"]) == ("evaluated", 0, None)
    assert list(verdict["seconds"]) == ["ingest", "contract", "measure_model"]
    assert verdict["notes"] == [evaluation.NO_GATES]
    assert verdict["model"]["uri"] == "models:/people-gbdt/1"
    assert verdict["baseline"] is None
    bundle = open_bundle(CHAMPION, Store(str(desk.store)), tmp_path / "scratch")
    table = desk.people(600, 7)
    X = TableEncoder.load(bundle.folder / "encoder.json").transform(table.to_pandas())
    model: Any = load_model(bundle.folder / "model")
    predicted, truth = model.predict(X), np.array(table["paid"].to_pylist()) == "yes"
    assert verdict["metrics"]["accuracy"] == pytest.approx(
        float((predicted == truth).mean()), abs=1e-12
    )
    women = np.array(table["sex"].to_pylist()) == "F"
    gap = abs(float(predicted[women].mean() - predicted[~women].mean()))
    assert verdict["metrics"]["demographic_parity_difference.sex"] == pytest.approx(gap, abs=1e-12)
    assert verdict["metrics"]["accuracy.low"] < verdict["metrics"]["accuracy"]
    folder = desk.store / "runs" / verdict["run_id"]
    wanted = {
        "verdict.json",
        "metrics.json",
        "decision.json",
        "junit.xml",
        "summary.md",
        "report.html",
    }
    assert {item.name for item in folder.iterdir()} == wanted | {"contract.html"}
    assert json.loads((folder / "metrics.json").read_text())["n"] == 600
    assert (folder / "report.html").read_text().lower().startswith("<!doctype html>")
    assert json.loads((folder / "verdict.json").read_text()) == verdict


def test_chunks_change_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = desk.json(CHAMPION, "--baseline", CHALLENGER)
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(decisions, "CHUNK_ROWS", 97)
    shutil.rmtree(desk.store / "steps" / "measure_model")
    store = Store(str(desk.store))
    job = evaluation.plan_evaluation(CHAMPION, desk.put(), None, CHALLENGER, [], None, record=False)
    with listen(lambda step, done, total, values: seen.append((done, total))):
        parts = evaluation.execute(job, store, "chunks", DirectEngine(store))
    assert parts.cached == ["ingest", "contract"]
    assert (parts.metrics, parts.baseline) == (whole["metrics"], whole["baseline"])
    assert seen[-2:] == [(582, 600), (600, 600)]


@pytest.mark.parametrize(
    ("gates", "code", "word", "verdict"),
    [
        ({"auc": {"min": 0.3}}, 0, "pass", "passed"),
        ({"auc": {"min": 0.3, "max": 0.31}}, 1, "FAIL", "refused"),
        ({"gates": {"accuracy": {"min": "9e-1", "bound": "interval"}}}, 1, "FAIL", "refused"),
        ({"gap_max.age": {"max": 0.9}}, 3, "open", "insufficient_evidence"),
    ],
)
def test_gates_decide_the_exit_code_and_the_record(
    desk: Desk, gates: Any, code: int, word: str, verdict: str
) -> None:
    young = desk.people(600, 7)
    young = young.filter(pc.or_(pc.less(young["age"], 40), pc.equal(young["key"], "p-00000")))
    done = desk(CHAMPION, "--gates", desk.gates(gates), data=desk.put(table=young))
    assert done.code == code, done.out + done.err
    assert any(line.startswith(f"  {word}  ") for line in done.out.splitlines())
    assert done.err == ""
    left = desk.recorded()
    assert (left["kind"], left["verdict"]) == ("evaluate", verdict)
    (run,) = (desk.store / "runs").iterdir()
    content = json.loads((run / "verdict.json").read_text())
    assert (content["exit_code"], left["run_id"], left["baseline"]) == (code, run.name, None)
    assert content["gates"]["verdict"] == verdict
    if verdict == "passed":
        assert promote(desk.registry, "people-gbdt", "1", "trusted") is not None
    else:
        with pytest.raises(GateRefused, match="cannot become trusted"):
            promote(desk.registry, "people-gbdt", "1", "trusted")


def test_the_record_tells_which_gates_data_and_metrics(desk: Desk) -> None:
    one = desk.json(
        CHALLENGER, "--gates", desk.gates({"auc": {"min": 0.3}}), "--baseline", CHAMPION
    )
    first = desk.recorded("2")
    desk.json(CHALLENGER, "--gates", desk.gates('{"gates": {"auc": {"min": 0.3}}}'))
    second = desk.recorded("2")
    assert first["gates"] == second["gates"], "the layout of the file does not count"
    assert (first["baseline"], second["baseline"]) == ("models:/people-gbdt/1", None)
    assert first["data_fingerprint"] == second["data_fingerprint"]
    metrics = (desk.store / "runs" / one["run_id"] / "metrics.json").read_bytes()
    assert first["metrics"] == hashlib.sha256(metrics).hexdigest()
    assert {"when", "who", "run_id"} <= set(first)


@pytest.mark.parametrize("how", ["no gates", "--no-record", "folder"])
def test_without_gates_in_the_registry_there_is_no_record(
    desk: Desk, how: str, tmp_path: Path
) -> None:
    before = desk.recorded()
    assert before["kind"] == "run"
    model, given = CHAMPION, ["--gates", desk.gates({"auc": {"min": 0.3}})]
    if how == "no gates":
        given = []
    elif how == "folder":
        model = str(open_bundle(CHAMPION, Store(str(desk.store)), tmp_path / "scratch").folder)
    else:
        given.append("--no-record")
    verdict = desk.json(model, *given)
    assert verdict["exit_code"] == 0
    assert desk.recorded() == before
    if how == "folder":
        assert (verdict["model"]["version"], verdict["model"]["name"]) == (None, "people-gbdt")


def test_a_baseline_is_measured_on_the_same_rows(
    desk: Desk,
) -> None:
    """The counterfactuals are the model's."""
    gates = desk.gates(
        {"auc": {"no_worse_than_baseline": "5e-1"}, "accuracy": {"no_worse_than_baseline": 0}}
    )
    verdict = desk.json(CHAMPION, "--baseline", CHALLENGER, "--gates", gates)
    alone = desk.json(CHALLENGER)
    baseline = verdict["baseline"]
    assert baseline["uri"] == "models:/people-gbdt/2"
    points = {
        name: v for name, v in alone["metrics"].items() if not name.endswith((".low", ".high"))
    }
    assert baseline["metrics"] == points
    for name, difference in baseline["differences"].items():
        told = verdict["metrics"][name] - points[name]
        assert difference["value"] == pytest.approx(told, abs=1e-12), name
        assert difference["low"] <= difference["value"] <= difference["high"]
    assert "consistency.work" in baseline["differences"]
    kinds = [(result["metric"], result["kind"]) for result in verdict["gates"]["results"]]
    assert kinds == [("auc", "no_worse_than_baseline"), ("accuracy", "no_worse_than_baseline")]
    swapped = desk.json(CHALLENGER, "--baseline", CHAMPION, "--gates", gates)
    assert baseline["differences"]["accuracy"]["value"] != 0
    worse = [one["gates"]["results"][1] for one in (verdict, swapped)]
    assert {result["passed"] for result in worse} == {True, False}
    assert worse[0]["value"] == pytest.approx(-worse[1]["value"])
    assert {verdict["exit_code"], swapped["exit_code"]} == {0, 1}
    shown = desk(CHAMPION, "--baseline", CHALLENGER)
    assert "difference" in shown.out
    told = [line for line in shown.out.splitlines() if line.endswith(" *")]
    assert (
        len(told)
        == sum(d["low"] > 0 or d["high"] < 0 for d in baseline["differences"].values())
        > 0
    )


def test_a_version_beside_itself_differs_in_nothing(desk: Desk) -> None:
    gates = desk.gates({"gap_max.sex": {"no_worse_than_baseline": 0, "bound": "interval"}})
    verdict = desk.json(CHAMPION, "--baseline", "people-gbdt/1", "--gates", gates)
    assert evaluation.SAME_VERSION in verdict["notes"]
    assert {
        (d["value"], d["low"], d["high"]) for d in verdict["baseline"]["differences"].values()
    } == {(0.0, 0.0, 0.0)}
    assert verdict["exit_code"] == 0


def test_the_table_of_the_training_is_told(desk: Desk) -> None:
    verdict = desk.json(CHAMPION, "--baseline", CHALLENGER, data=desk.put(table=desk.people()))
    assert [note for note in verdict["notes"] if evaluation.SAME_TABLE in note] == [
        f"the {role} {evaluation.SAME_TABLE}" for role in ("model", "baseline")
    ]
    summary = (desk.store / "runs" / verdict["run_id"] / "summary.md").read_text()
    assert summary.count(evaluation.SAME_TABLE) == 2


def test_a_second_evaluation_computes_nothing_and_says_the_same(desk: Desk) -> None:
    first, second = desk.json(CHAMPION), desk.json(CHAMPION)
    assert first["cached"] == []
    assert second["cached"] == ["ingest", "contract", "measure_model"]
    assert second["metrics"] == first["metrics"]
    other = desk.json(CHAMPION, "--set", "seed=5")
    assert other["metrics"]["auc"] == first["metrics"]["auc"]
    assert other["metrics"]["auc.low"] != first["metrics"]["auc.low"]
    fewer = desk.json(CHAMPION, "--set", "evaluate.draws=0", "--set", "evaluate.intersections=true")
    assert "auc.low" not in fewer["metrics"]
    assert "gap_max.age&sex" in fewer["metrics"]


def test_what_is_cached_needs_no_prefect(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    data, gates = desk.put(), desk.gates({"auc": {"min": 0.3}})
    first = desk.json(CHAMPION, "--gates", gates, data=data)

    def started(*given: Any) -> None:
        raise AssertionError("a flow was started")

    monkeypatch.setattr(runtime, "start_temporary_server", started)
    given = [CHAMPION, "--data", data, "--gates", gates, "--json", "--store", str(desk.store)]
    done = CliRunner().invoke(app, ["evaluate", *given])
    assert done.exit_code == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["cached"] == list(verdict["seconds"])
    assert verdict["metrics"] == first["metrics"]
    assert desk.recorded()["run_id"] == verdict["run_id"]
    # what is not, is for a flow; the look-up left no verdict
    other = CliRunner().invoke(app, ["evaluate", *given, "--set", "seed=8"])
    assert other.exit_code == 4
    assert "AssertionError" in json.loads(other.stdout)["error"]


def test_a_group_without_rows_stays_in_the_tables(desk: Desk) -> None:
    table = desk.people(600, 7)
    verdict = desk.json(CHAMPION, data=desk.put(table=table.filter(pc.equal(table["sex"], "F"))))
    metrics = json.loads(Path(verdict["artifacts"]["metrics"]).read_text())
    assert {row["n"] for row in metrics["counts"]["sex"] if row["group"] == "M"} == {0}
    assert verdict["metrics"]["gap_max.sex"] is None
    assert verdict["metrics"]["gap_max.age"] is not None


def test_a_model_that_asks_is_measured_after_its_questions(
    agent_store: Path, tmp_path: Path, people: Callable[..., pa.Table]
) -> None:
    store = new_store(agent_store, tmp_path / "store")
    desk = Desk(tmp_path, store, people)
    gates = desk.gates({"features_asked": {"max": 5}})
    verdict = desk.json("people-dadi", "--gates", gates)
    bundle = open_bundle("people-dadi", Store(str(store)), tmp_path / "scratch")
    X = TableEncoder.load(bundle.folder / "encoder.json").transform(people(600, 7).to_pandas())
    acquired = load_model(bundle.folder / "model").acquire(X)  # type: ignore[attr-defined]
    assert verdict["metrics"]["features_asked"] == pytest.approx(float(acquired.asked.mean()))
    truth = np.array(people(600, 7)["paid"].to_pylist()) == "yes"
    threshold = load_model(bundle.folder / "model").rule.threshold
    right = float(((acquired.probability >= threshold) == truth).mean())
    assert verdict["metrics"]["accuracy"] == pytest.approx(right)
    refused = desk("people-gbdt", "--gates", gates)
    assert refused.code == 2
    assert "'features_asked' names no metric of this evaluation" in refused.err


GATES = {"auc": {"min": 0.3}}
REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("no model", "nobody", {}, "'nobody' is not published"),
    ("no alias", "people-gbdt@nobody", {}, "has no version with the alias 'nobody'"),
    ("no version", "people-gbdt/99", {}, "has no version 99 in this store"),
    ("no address", "a b c", {}, "there is no model 'a b c'"),
    ("proxy", "people-proxy", {}, "balancing proxy"),
    ("other version", CHAMPION, {"--baseline": "people-newer"}, r"people 1\.0\.0.*people 1\.1\.0"),
    (
        "same version, other promises",
        CHAMPION,
        {"--baseline": "people-edited"},
        "raise the version",
    ),
    (
        "other label",
        CHAMPION,
        {"--baseline": "people-opposite"},
        "paid = yes.*paid = no.*the same label",
    ),
    ("proxy as baseline", CHAMPION, {"--baseline": "people-proxy"}, "balancing proxy"),
    (
        "no baseline",
        CHAMPION,
        {"--gates": {"auc": {"no_worse_than_baseline": 0.1}}},
        "give --baseline",
    ),
    (
        "other contract",
        CHAMPION,
        {"--contract": "adult"},
        r"people 1\.0\.0, --contract is adult 1\.0\.0",
    ),
    ("no contract", CHAMPION, {"--contract": "nowhere.yaml"}, "--contract: .*nowhere.yaml"),
    ("gates: no list", CHAMPION, {"--gates": "[1, 2]"}, "holds no gates"),
    ("gates: empty", CHAMPION, {"--gates": ""}, "holds no gates"),
    ("gates: no YAML", CHAMPION, {"--gates": "a: [\n"}, "not valid YAML at line 2"),
    ("gates: a number", CHAMPION, {"--gates": {"auc": 0.5}}, "gate 'auc': got 0.5"),
    ("gates: a key", CHAMPION, {"--gates": {"auc": {"mim": 0.5}}}, "did you mean 'min'"),
    ("gates: NaN", CHAMPION, {"--gates": {"auc": {"min": float("nan")}}}, "finite"),
    (
        "gates: a metric",
        CHAMPION,
        {"--gates": {"gap_max.sx": {"max": 1}}},
        "did you mean 'gap_max.sex'",
    ),
    ("gates: certificate", CHAMPION, {"--gates": {"certificate.drf": {"max": 1}}}, "not published"),
    ("set: a key", CHAMPION, {"--set": "evaluate.drws=9"}, "did you mean 'evaluate.draws'"),
    ("set: a value", CHAMPION, {"--set": "evaluate.level=2"}, "evaluate.level: must be below 1"),
    ("data: nowhere", CHAMPION, {"--data": "nowhere.csv"}, "no file or folder 'nowhere.csv'"),
]


@pytest.mark.parametrize(
    ("model", "given", "words"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_what_is_wrong_is_one_line_and_nothing_is_measured(
    desk: Desk, model: str, given: dict[str, Any], words: str
) -> None:
    junit, markdown = desk.folder / "j.xml", desk.folder / "s.md"
    arguments = ["--junit", str(junit), "--markdown", str(markdown)]
    data = None
    for option, value in given.items():
        if option == "--data":
            data = value
        else:
            arguments += [option, desk.gates(value) if option == "--gates" else value]
    done = desk(model, *arguments, data=data)
    assert done.code == 2, done.out
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert re.search(words, done.err), done.err
    assert not (desk.store / "steps").exists()
    left = [item.name for item in (desk.store / "runs").glob("*/*")]
    assert left in ([], ["verdict.json"])
    suite = suite_of(junit)
    assert (suite.get("tests"), suite.get("errors"), suite.get("failures")) == ("1", "1", "0")
    message = suite.find("testcase/error").get("message")  # type: ignore[union-attr]
    assert done.err == f"evenhand: {message}\n"
    assert markdown.read_text().count("\n") == 1
    assert "was not evaluated" in markdown.read_text()


def _one_label(table: pa.Table) -> pa.Table:
    return table.filter(pc.equal(table["paid"], "yes"))


def _secret(table: pa.Table) -> pa.Table:
    values = [SECRET_GROUP, *table["sex"].to_pylist()[1:]]
    return table.set_column(table.column_names.index("sex"), "sex", pa.array(values))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda table: table.drop_columns(["income"]),
            "column 'income': expected the column to be there",
        ),
        (
            lambda table: table.drop_columns(["paid"]),
            "column 'paid': expected the column to be there",
        ),
        (lambda table: table.slice(0, 0), "expected at least 1 row"),
        (_one_label, "paid"),
        (_secret, "column 'sex'"),
    ],
)
def test_a_table_that_breaks_the_contract_ends_as_in_a_run(
    desk: Desk, change: Callable[[pa.Table], pa.Table], words: str
) -> None:
    junit, markdown = desk.folder / "j.xml", desk.folder / "s.md"
    path = desk.folder / "bad.parquet"
    pq.write_table(change(desk.people(600, 7)), path)
    done = desk(CHAMPION, "--junit", str(junit), "--markdown", str(markdown), data=str(path))
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert words in done.err
    assert not (desk.store / "steps" / "measure_model").exists()
    assert suite_of(junit).get("errors") == "1"
    for text in (done.err, junit.read_text(), markdown.read_text()):
        assert SECRET_GROUP not in text
    for file in (desk.store / "runs").rglob("*"):
        assert file.is_dir() or SECRET_GROUP not in file.read_text()


def test_columns_that_the_contract_lacks_are_ignored_and_named(desk: Desk) -> None:
    table = desk.people(600, 7)
    alone = desk.json(CHAMPION, data=desk.put(table=table))
    more = table.append_column("batch", pa.array([SECRET_GROUP] * 600))
    more = more.append_column("id64", pa.array([2**64 - 1] * 600, pa.uint64()))
    pq.write_table(more, desk.folder / "more.parquet")
    verdict = desk.json(CHAMPION, data="more.parquet")
    assert verdict["metrics"] == alone["metrics"]
    note = "ignored 2 columns that the contract does not know: 'batch' and 'id64'"
    assert note in verdict["notes"]
    page = html.unescape(Path(verdict["artifacts"]["report"]).read_text())
    assert f"{note.capitalize()}." in page
    assert not [text for text in alone["notes"] if "ignored" in text]


def test_ids_and_ignored_columns_may_be_absent(desk: Desk) -> None:
    table = desk.people(600, 7)
    whole = desk.json(CHAMPION, data=desk.put(table=table))
    assert table.column_names[0] == "key"
    verdict = desk.json(CHAMPION, data=desk.put("no-key.csv", table.drop_columns(["key"])))
    assert verdict["metrics"] == whole["metrics"]
    assert "measured without 1 column that no model reads: 'key'" in verdict["notes"]
    assert not [text for text in whole["notes"] if "measured without" in text]
    # a column of another name beside it is ignored as ever
    renamed = desk.json(CHAMPION, data=desk.put("other.csv", table.rename_columns({"key": "k"})))
    assert renamed["metrics"] == whole["metrics"]
    assert "ignored 1 column that the contract does not know: 'k'" in renamed["notes"]


def test_a_renamed_column_is_not_ignored(desk: Desk) -> None:
    table = desk.people(600, 7)
    renamed = table.rename_columns({"income": "incomes"})
    done = desk(CHAMPION, data=desk.put("renamed.csv", renamed))
    assert (done.code, done.out) == (2, "")
    assert "rename column 'incomes' to it" in done.err


def test_unseen_categories_of_all_columns_are_in_one_line(desk: Desk) -> None:
    table = desk.people(600, 7)
    for column, value in (("sex", "X"), ("job", "baker")):
        values = [value, *table[column].to_pylist()[1:]]
        table = table.set_column(table.column_names.index(column), column, pa.array(values))
    done = desk(CHAMPION, data=desk.put("unseen.csv", table))
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "column 'sex'" in done.err
    assert "column 'job'" in done.err


def test_junit_and_markdown_are_the_runs_own_files(desk: Desk) -> None:
    junit, markdown = desk.folder / "j.xml", desk.folder / "s.md"
    markdown.write_text("# Tests of the other job")
    gates = desk.gates({"auc": {"min": 0.3}, "accuracy": {"max": 0.2}})
    given = ("--gates", gates, "--junit", str(junit), "--markdown", str(markdown), "--json")
    verdict = desk(CHAMPION, *given).json
    assert verdict["exit_code"] == 1
    folder = desk.store / "runs" / verdict["run_id"]
    assert junit.read_text() == (folder / "junit.xml").read_text()
    summary = (folder / "summary.md").read_text()
    assert markdown.read_text() == f"# Tests of the other job\n{summary}"
    suite = suite_of(junit)
    assert [suite.get(key) for key in ("tests", "failures", "errors", "skipped")] == [
        "2",
        "1",
        "0",
        "0",
    ]
    properties = {
        item.get("name"): item.get("value") for item in suite.findall("properties/property")
    }
    assert properties["run_id"] == verdict["run_id"]
    assert properties["model"] == "models:/people-gbdt/1"
    assert len(str(properties["data_fingerprint"])) == 64
    cases = [(case.get("name"), case.get("classname")) for case in suite.findall("testcase")]
    assert cases == [
        ("auc min 0.3 (point)", "models:/people-gbdt/1"),
        ("accuracy max 0.2 (point)", "models:/people-gbdt/1"),
    ]
    text = suite.find("testcase/failure").text  # type: ignore[union-attr]
    assert text == verdict["gates"]["results"][1]["text"]
    for artifact in ("metrics", "decision", "report", "junit", "markdown"):
        assert Path(verdict["artifacts"][artifact]).is_file()


@pytest.mark.parametrize("option", ["--junit", "--markdown"])
@pytest.mark.parametrize("place", ["nowhere/file", "."])
def test_reports_that_cannot_be_written_are_told_first(desk: Desk, option: str, place: str) -> None:
    other = desk.folder / "other"
    beside = {"--junit": "--markdown", "--markdown": "--junit"}[option]
    done = desk("nobody", option, str(desk.folder / place), beside, str(other))
    assert done.code == 2
    assert f"{option} " in done.err
    assert "cannot be written" in done.err
    assert not (desk.store / "runs").exists()
    if beside == "--junit":
        assert suite_of(other).get("errors") == "1", (
            "what an earlier run left must not speak for this one"
        )


@pytest.mark.parametrize("place", ["/dev/stdout", "/dev/fd/1", "/dev/null", "/proc/self/fd/1"])
def test_junit_is_no_device(place: str) -> None:
    # the check alone, which writes nothing
    with pytest.raises(InputError, match="not a regular file"):
        command._check_plain(Path(place))


def test_junit_is_no_pipe_and_a_link_stays_one(desk: Desk) -> None:
    pipe, link, target = (desk.folder / name for name in ("pipe", "link.xml", "target.xml"))
    os.mkfifo(pipe)
    assert "not a regular file" in desk("nobody", "--junit", str(pipe)).err
    assert pipe.is_fifo()
    target.write_text("old")
    link.symlink_to(target)
    assert desk("nobody", "--junit", str(link)).code == 2
    assert link.is_symlink()
    assert suite_of(target).get("errors") == "1"


def test_one_path_for_both_is_refused(desk: Desk) -> None:
    both = str(desk.folder / "both")
    done = desk(CHAMPION, "--junit", both, "--markdown", both)
    assert done.code == 2
    assert "one path" in done.err
    assert not Path(both).exists()


def test_until_the_end_junit_is_not_green(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    junit = desk.folder / "j.xml"
    assert desk(CHAMPION, "--junit", str(junit)).code == 0
    assert suite_of(junit).get("errors") == "0"
    seen = []

    def interrupted(*given: Any, **more: Any) -> None:
        seen.append(suite_of(junit).get("errors"))
        raise KeyboardInterrupt

    monkeypatch.setattr(terminal, "execute_verb", interrupted)
    done = desk(CHAMPION, "--junit", str(junit))
    assert (done.code, seen) == (4, ["1"])
    assert "interrupted" in junit.read_text()


def test_a_registry_out_of_reach_is_not_green_and_leaves_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    junit = desk.folder / "j.xml"
    done = desk(CHAMPION, "--junit", str(junit))
    assert done.code == 4
    assert "gave no valid answer" in done.err
    assert suite_of(junit).get("errors") == "1"
    assert not (desk.store / "steps").exists()


def test_a_registry_that_fails_at_the_record_keeps_the_files(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any) -> None:
        raise NotCarriedOut("the model registry did not answer.")

    monkeypatch.setattr(evaluation, "record_evaluation", fail)
    junit = desk.folder / "j.xml"
    done = desk(CHAMPION, "--gates", desk.gates(GATES), "--junit", str(junit), "--json")
    assert done.code == 4
    assert done.err == "evenhand: the model registry did not answer.\n"
    assert suite_of(junit).get("errors") == "1"
    assert (done.json["status"], done.json["gates"]["verdict"]) == ("failed", "passed")
    assert Path(done.json["artifacts"]["report"]).is_file()
    assert desk.recorded()["kind"] == "run"


def test_a_fault_of_ours_is_one_line_without_values(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: Any, **more: Any) -> None:
        raise RuntimeError(SECRET_GROUP)

    monkeypatch.setattr(decisions, "decide_rows", broken)
    junit = desk.folder / "j.xml"
    done = desk(CHAMPION, "--junit", str(junit))
    assert done.code == 4
    assert "internal fault (RuntimeError" in done.err
    assert SECRET_GROUP not in done.err + junit.read_text()
