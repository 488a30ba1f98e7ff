"""`evenhand case`: case files of a table's adverse decisions, review, replay and deletion."""

from __future__ import annotations

import copy
import datetime
import json
import re
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner, Result

from evenhand.flows.case import expired
from evenhand.flows.cli import app
from evenhand.tasks.cases.case_store import CaseStore
from tests.flows.people import CONTRACT, SECRET_ID, Done, make_people

TERMS = {
    "income": {"changeable": "up", "adverseReason": {"en": "Income too low", "de": "Zu wenig"}},
    "job": {"changeable": "free"},
    "owner": {"changeable": "fixed", "adverseReason": "Owns no home"},
}


def stated_contract(folder: Path) -> Path:
    """The contract of the made-up people, with what case files need."""
    contract = copy.deepcopy(CONTRACT)
    for column in contract["schema"][0]["properties"]:
        for name, value in TERMS.get(column["name"], {}).items():
            column["customProperties"].append({"property": name, "value": value})
    path = folder / "stated.contract.yaml"
    path.write_text(yaml.safe_dump(contract))
    return path


class Desk:
    """A folder with a table, a copy of a finished store, and a case store."""

    def __init__(self, folder: Path, done: Done) -> None:
        self.store = done.copied_to(folder / "store").store
        self.folder = folder
        self.table = folder / "new.csv"
        self.people = make_people(24, seed=5)
        pyarrow.csv.write_csv(self.people, self.table)
        self.other = folder / "other.csv"
        pyarrow.csv.write_csv(self.people.drop_columns(["income"]), self.other)
        self.contract = stated_contract(folder)

    def run(self, *arguments: Any) -> Result:
        command = ["case", *map(str, arguments), "--store", str(self.store)]
        return CliRunner().invoke(app, command)

    def make(self, *more: Any) -> list[str]:
        result = self.run("people-gbdt", "--rows", self.table, *more, "--json")
        assert result.exit_code == 0, result.output
        cases: list[str] = json.loads(result.stdout)["cases"]
        return cases

    def case(self, case: str) -> dict[str, Any]:
        path = self.store / "cases" / "files" / case / "case.json"
        content: dict[str, Any] = json.loads(path.read_text())
        return content

    def page(self, case: str, name: str = "case.html") -> str:
        return (self.store / "cases" / "files" / case / name).read_text()


@pytest.fixture
def desk(tmp_path: Path, published: Done) -> Desk:
    return Desk(tmp_path, published)


def test_cases_are_those_that_predict_decides_adversely(desk: Desk) -> None:
    output = desk.folder / "out"
    arguments = ["predict", "people-gbdt", "--input", str(desk.table), "--output", str(output)]
    predicted = CliRunner().invoke(app, [*arguments, "--direct", "--store", str(desk.store)])
    assert predicted.exit_code == 0, predicted.output
    (part,) = [path for path in output.rglob("*.parquet") if "_evenhand" not in path.parts]
    rows = pq.read_table(part).to_pylist()
    probability = {row["key"]: row["probability"] for row in rows if row["prediction"] == "no"}
    cases = [desk.case(case) for case in desk.make("--contract", desk.contract, "--no-proof")]
    found = {
        case["subject"]["identity"]["key"]: case["decision"]["probability_of_positive"]
        for case in cases
    }
    assert found == probability
    assert 0 < len(found) < 24


def test_a_case_says_reasons_recourse_comparables_and_inputs(desk: Desk) -> None:
    cases = [desk.case(case) for case in desk.make("--contract", desk.contract, "--letter")]
    statuses = {case["recourse"]["status"] for case in cases}
    assert statuses <= {"found", "none"}
    assert all(case["recourse"]["is_smallest"] for case in cases)
    assert {item["status"] for case in cases for item in case["comparables"]} <= {"none", "found"}
    by_reason = [case for case in cases if case["reasons"]["principal"]]
    texts = {item["text"] for case in by_reason for item in case["reasons"]["principal"]}
    assert "Income too low" in texts
    for case in by_reason:
        total = sum(case["reasons"]["contributions"].values())
        assert len(case["reasons"]["principal"]) <= 4
        decision = case["decision"]
        assert total < 0 or decision["probability_of_favourable"] > 0.3
        assert decision["probability_of_favourable"] < decision["threshold_of_favourable"]
        percent = f"{100 * decision['threshold_of_favourable']:.1f}%"
        assert f"where {percent} are needed" in desk.page(case["case"])
    case = by_reason[0]
    page = desk.page(case["case"])
    assert case["reasons"]["principal"][0]["text"] in page
    assert "<script" not in page
    assert [item["column"] for item in case["inputs"]["not_used"]][0] == "key"
    assert case["reasons"]["principal"][0]["text"] in desk.page(case["case"], "letter.html")


@pytest.mark.long  # the others have one case of each kind
def test_one_row_another_language_and_no_terms(desk: Desk) -> None:
    key = desk.people["key"][7].as_py()
    (case,) = desk.make("--row", key, "--contract", desk.contract, "--language", "de")
    assert desk.case(case)["subject"] == {
        "row": 8,
        "identity": {"key": key},
        "table": "new.csv",
    }
    content = json.dumps(desk.case(case)["reasons"]["principal"])
    assert "Income too low" not in content
    adverse = desk.make("--no-proof")[0]
    assert desk.case(adverse)["recourse"]["status"] == "refused"
    assert desk.case(adverse)["comparables"] == []


def test_replay_is_bit_identical_and_takes_corrections(desk: Desk) -> None:
    cases = desk.make("--contract", desk.contract, "--no-proof")
    changed = next(case for case in map(desk.case, cases) if case["recourse"]["status"] == "found")
    assert desk.run("replay", changed["case"]).exit_code == 0
    corrections: list[str] = []
    for change in changed["recourse"]["changes"]:
        corrections += ["--correct", f"{change['column']}={change['to']}"]
    result = desk.run("replay", changed["case"], *corrections)
    assert "another decision with the corrected values: paid" in result.stdout
    replays = desk.case(changed["case"])["replays"]
    assert [entry["is_identical"] for entry in replays] == [True, True]
    assert desk.run("verify").exit_code == 0


def test_a_language_without_texts_is_named_in_one_line(desk: Desk) -> None:
    key = desk.people["key"][7].as_py()
    options = ("--row", key, "--contract", desk.contract, "--letter", "--no-proof")
    result = desk.run("people-gbdt", "--rows", desk.table, *options, "--language", "fr")
    assert result.exit_code == 0
    assert len(result.stderr.splitlines()) == 1
    assert "--language fr: the letter is in English" in result.stderr
    assert "adverseReason" in result.stderr
    result = desk.run("people-gbdt", "--rows", desk.table, *options, "--language", "de-AT")
    assert result.stderr == ""


def test_expired_cases_are_deleted_and_a_review_is_repeated(desk: Desk) -> None:
    """The first expired yesterday; the second was reviewed, and stays."""
    key = desk.people["key"][7].as_py()
    options = ("--row", key, "--no-recourse", "--no-proof")
    (kept,) = desk.make(*options)
    (over,) = desk.make(*options, "--keep-days", 0)
    desk.run("review", kept, "--outcome", "upheld", "--reason", "All is right.")
    result = desk.run("replay", kept)
    assert "upheld: All is right." in result.stdout
    tomorrow = datetime.date.today() + datetime.timedelta(days=1)
    cases = CaseStore(desk.store / "cases")
    assert expired(cases, datetime.date.today()) == []
    assert expired(cases, tomorrow) == [over]
    assert "deleted 0 cases" in desk.run("delete", "--expired").stdout
    assert desk.run("delete", over).exit_code == 0
    assert expired(cases, tomorrow) == []
    assert desk.run("verify").exit_code == 0


def test_pages_are_printed_as_pdf_and_printed_anew_at_a_review(desk: Desk) -> None:
    pytest.importorskip("weasyprint", reason="what prints PDF is in the extra `documents`")
    key = desk.people["key"][7].as_py()
    (case,) = desk.make("--row", key, "--no-recourse", "--no-proof", "--letter", "--pdf")
    folder = desk.store / "cases" / "files" / case
    before = (folder / "case.pdf").read_bytes()
    assert before.startswith(b"%PDF")
    assert (folder / "letter.pdf").read_bytes().startswith(b"%PDF")
    assert desk.run("review", case, "--outcome", "upheld", "--reason", "Fine.").exit_code == 0
    assert (folder / "case.pdf").read_bytes() != before


def test_without_a_printer_no_case_is_made(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "weasyprint", None)
    result = desk.run("people-gbdt", "--rows", desk.table, "--pdf")
    assert result.exit_code == 2
    assert "--pdf needs WeasyPrint" in result.stderr
    assert not (desk.store / "cases" / "files").exists()


def test_review_deletion_and_verification(desk: Desk) -> None:
    one, other, *_ = desk.make("--no-recourse", "--no-proof", "--keep-days", 0)
    assert desk.run("review", one, "--outcome", "changed", "--reason", "A typo.").exit_code == 0
    assert "A typo." in desk.page(one)
    anchor = desk.folder / "anchor.json"
    assert desk.run("verify", "--anchor", anchor).exit_code == 0
    assert desk.run("delete", other).exit_code == 0
    assert desk.run("verify", "--anchor", anchor).exit_code == 0
    listed = json.loads(desk.run("ls", "--json").stdout)
    states = {entry["case"]: entry["state"] for entry in listed}
    assert (states[one], states[other]) == ("reviewed", "deleted")
    file = desk.store / "cases" / "files" / one / "case.json"
    file.write_text(file.read_text().replace("A typo.", "None."))
    result = desk.run("verify")
    assert result.exit_code == 1
    assert re.search(rf"the file of the case {one} was changed", result.stdout)


def test_nothing_of_a_person_is_outside_the_case_store(desk: Desk) -> None:
    """Neither in the rest of the store, nor in what is printed, the log and the list."""
    keys = pa.array([f"{SECRET_ID}-{place}" for place in range(len(desk.people))])
    table = desk.people.set_column(0, "key", keys)
    pyarrow.csv.write_csv(table, desk.table)
    result = desk.run("people-gbdt", "--rows", desk.table, "--no-recourse", "--no-proof")
    assert result.exit_code == 0
    printed = result.output + desk.run("ls").output + desk.run("verify").output
    cases = desk.store / "cases"
    outside = [path for path in desk.store.rglob("*") if not path.is_relative_to(cases / "files")]
    texts = [path.read_bytes() for path in outside if path.is_file()]
    assert SECRET_ID not in printed
    assert not any(SECRET_ID.encode() in text for text in texts)
    written = [path.read_text() for path in cases.rglob("case.json")]
    assert all(SECRET_ID in text for text in written)


def test_bad_input_is_one_line_and_leaves_no_case(desk: Desk) -> None:
    attempts = [
        (["people-gbdt", "--rows", desk.table, "--row", "nobody"], "has no such row"),
        (["people-gbdt", "--rows", desk.folder / "none.csv"], "there is no file or folder"),
        (["people-gbdt", "--rows", desk.other], "the column to be there"),
        (["people-gbdt", "--rows", desk.table, "--radius", "-1"], "--radius"),
        (["people-gbdt", "--rows", desk.table, "--metric", desk.folder], "--metric"),
        (["people-gbdt", "--rows", desk.table, "--contract", "german"], "--contract"),
        (["nobody", "--rows", desk.table], "'nobody' is not published"),
        (["review", "0" * 16, "--outcome", "upheld", "--reason", "x"], "there is no case"),
        (["delete"], "name a case"),
    ]
    for arguments, text in attempts:
        result = desk.run(*arguments)
        assert result.exit_code == 2, (arguments, result.output)
        assert text in result.stderr
        assert len(result.stderr.splitlines()) == 1
    assert not (desk.store / "cases" / "files").exists()
