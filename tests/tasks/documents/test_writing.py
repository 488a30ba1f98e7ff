"""`evenhand documents`: headings, figures, gaps, notes, hostile text, PDF, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import zlib
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from typer.testing import CliRunner

from evenhand.flows.cli import app
from evenhand.tasks.documents.writing import read_facts, to_pdf, write_documents
from evenhand.tasks.execution.store import Store
from evenhand.tasks.pages.formats import count, interval, number
from evenhand.tasks.registry.bundle import open_bundle
from evenhand.tasks.registry.client import tracking_uri

pytestmark = pytest.mark.usefixtures("flow_environment")

# Regulation (EU) 2024/1689, Annex IV: points 1 (a) to (h), 2 (a) to (h) and 3 to 9; point 3 has
# four topics
ANNEX = [
    *(f"{point}{letter}" for point in "12" for letter in "abcdefgh"),
    *("3.1", "3.2", "3.3", "3.4", "4", "5", "6", "7", "8", "9"),
]
# Gebru et al., Datasheets for Datasets
SHEET = [
    "motivation",
    "composition",
    "collection",
    "preprocessing",
    "uses",
    "distribution",
    "maintenance",
]
HOSTILE = "<script>alert(1)</script>\n\n## 9z Evil | The attacker writes.\n| a | b |\n![x](file:///etc/passwd)`<b>"


@pytest.fixture
def documents(tmp_path: Path) -> Callable[..., Any]:
    def call(store: Path, model: str, *arguments: str) -> Any:
        given = [
            "documents",
            model,
            "--output",
            str(tmp_path / "out"),
            "--store",
            str(store),
            *arguments,
        ]
        return CliRunner().invoke(app, given)

    return call


@pytest.fixture(scope="module")
def facts(published: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the registry knows of the published classifier."""
    store = Store(str(published.store))
    bundle = open_bundle("people-gbdt", store, tmp_path_factory.mktemp("bundle"))
    return read_facts(bundle, tracking_uri(store)) | {"monitors": []}


def keys(text: str) -> list[str]:
    """Keys of the headings that are no heading of others, and not the list at the end."""
    found = re.findall(r"^##+ (\S+)", text, re.MULTILINE)[:-1]
    return [key.strip(",").lower() for key in found if key not in ("1", "2", "3")]


def rows(text: str, head: str) -> list[list[str]]:
    """Cells of the table whose first column is called `head`."""
    table = text[text.index(f"| {head} |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in table]


class Elements(HTMLParser):
    """Names of all elements, and the text of headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.feed(MarkdownIt("commonmark").enable("table").render(text))

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.names.add(tag)


def test_every_heading_and_the_figures_of_the_registry(
    published: Any, documents: Any, tmp_path: Path, facts: dict[str, Any]
) -> None:
    done = documents(published.store, "people-gbdt@champion")
    assert done.exit_code == 0, done.stderr
    folder = tmp_path / "out/people-gbdt-1"
    assert sorted(path.name for path in folder.iterdir()) == [
        "data-sheet.md",
        "model-card.md",
        "technical-file.md",
    ]
    sheet, technical = (
        (folder / f"{name}.md").read_text() for name in ("data-sheet", "technical-file")
    )
    assert keys(technical) == ANNEX
    assert keys(sheet) == SHEET
    assert (folder / "model-card.md").read_text() == Path(
        published.json["artifacts"]["model_card.md"]
    ).read_text()

    history = CliRunner().invoke(
        app, ["history", "people-gbdt", "--json", "--store", str(published.store)]
    )
    records = json.loads(history.stdout)["records"]
    (evaluation,) = (record for record in records if record["kind"] == "evaluation")
    metrics = json.loads(Path(published.json["artifacts"]["metrics"]).read_text())["metrics"]
    shown = {
        row[0].rpartition("(")[2].strip(")"): row[1:]
        for row in rows(technical, "metric on the test rows")
    }
    assert {name: row[0] for name, row in shown.items()} == {
        name: number(value) for name, value in evaluation["values"].items()
    }
    for name, row in shown.items():
        low, high = metrics[name]["low"], metrics[name]["high"]
        assert row[1] == (
            metrics[name]["reason"] if metrics[name]["value"] is None else interval(low, high)
        )
    assert [row[0] for row in rows(technical, "record")] == [
        str(record["number"]) for record in records
    ]
    assert facts["bundle"].digest in technical

    reference = facts["reference"]
    assert f"Training rows: {count(reference['rows'])}," in sheet
    for attribute, groups in reference["groups"].items():
        (line,) = (
            line
            for line in sheet.splitlines()
            if line.startswith(f"- Training rows by {attribute}:")
        )
        named = zip(groups["names"], groups["counts"], strict=True)
        assert all(
            f"{name}: {n}" in line.replace("&lt;", "<").replace("&gt;", ">") for name, n in named
        )
    assert [row[0] for row in rows(sheet, "column")] == [
        c.name for c in facts["bundle"].contract.columns
    ]


def test_gaps_are_counted_and_notes_fill_them(facts: dict[str, Any]) -> None:
    before, lacking = write_documents(facts, {})
    filled = 26 - before["technical-file"].count("> **To be written** (")
    assert lacking["technical-file"].startswith(f"{filled} of 26 points are filled, ")
    assert len(lacking["technical-file"].splitlines()) == 2 + 26 - filled
    assert lacking["technical-file"] in before["technical-file"]

    text = "It runs *alone*.\n\n- No <script>other</script> system."
    after, left = write_documents(
        facts, {"1b": text, "motivation": "Given.", "3.4": "Added to a filled point."}
    )
    assert left["technical-file"].startswith(f"{filled + 1} of 26 points are filled, ")
    assert left["data-sheet"].startswith("1 of 7 points are filled, 6 more")
    section = after["technical-file"].split("### 1b")[1].split("### 1c")[0]
    assert "*Written by a person:*\n\nIt runs *alone*.\n\n- No &lt;script>other" in section
    assert "To be written" not in section
    assert (
        "Added to a filled point." in after["technical-file"].split("### 3.4")[1].split("## 4")[0]
    )


def test_text_of_others_stays_text(facts: dict[str, Any]) -> None:
    bundle = facts["bundle"]
    contract = dataclasses.replace(
        bundle.contract,
        description=HOSTILE,
        columns=tuple(dataclasses.replace(c, description=HOSTILE) for c in bundle.contract.columns),
    )
    card = facts["card"] | {"description": HOSTILE, "intended_use": HOSTILE, "table": HOSTILE}
    changed = facts | {"bundle": dataclasses.replace(bundle, contract=contract), "card": card}
    texts, lacking = write_documents(changed, {"4": HOSTILE.partition("\n")[0]})
    plain, _ = write_documents(facts, {"4": "x"})
    for name, expected in (("data-sheet", SHEET), ("technical-file", ANNEX)):
        assert keys(texts[name]) == expected
        # this parser obeys HTML and images: the text itself holds none
        assert Elements(texts[name]).names == Elements(plain[name]).names
        assert "script" not in Elements(texts[name]).names
    assert len(rows(texts["data-sheet"], "column")) == len(contract.columns)
    assert "attacker" not in lacking["technical-file"]


def test_small_counts_are_not_shown(facts: dict[str, Any]) -> None:
    columns = facts["reference"]["columns"]
    least = facts["reference"]["min_cell"]
    for missing, shown in ((least - 1, "few"), (least, str(least)), (0, "")):
        found = columns | {"income": columns["income"] | {"missing": missing}}
        texts, _ = write_documents(
            facts | {"reference": facts["reference"] | {"columns": found}}, {}
        )
        (row,) = (row for row in rows(texts["data-sheet"], "column") if row[0] == "income")
        assert row[4] == shown


def test_what_another_release_did_not_record_is_left_out(facts: dict[str, Any]) -> None:
    texts, _ = write_documents(facts | {"reference": {}, "rule": {}}, {})
    assert "Training rows:" not in texts["data-sheet"]
    assert keys(texts["data-sheet"]) == SHEET


def test_a_proxy(published_proxy: Any, documents: Any, tmp_path: Path) -> None:
    done = documents(published_proxy.store, "people-proxy")
    assert done.exit_code == 0, done.stderr
    sheet, technical = (
        (tmp_path / f"out/people-proxy-1/{name}.md").read_text()
        for name in ("data-sheet", "technical-file")
    )
    assert (keys(sheet), keys(technical)) == (SHEET, ANNEX)
    assert "the probability that a row is kept" in technical


@pytest.mark.long
def test_pdf_is_tagged_and_fetches_nothing(
    published: Any, documents: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("weasyprint", reason="what prints PDF is in the extra `documents`")
    done = documents(published.store, "people-gbdt/1", "--pdf")
    assert done.exit_code == 0, done.stderr
    for name in ("model-card", "data-sheet", "technical-file"):
        content = (tmp_path / f"out/people-gbdt-1/{name}.pdf").read_bytes()
        assert content.startswith(b"%PDF-")
        streams = re.findall(rb"/FlateDecode.*?stream\n(.*?)\nendstream", content, re.DOTALL)
        assert b"/MarkInfo" in b"".join(map(zlib.decompress, streams))
    assert to_pdf(f"# A\n\n{HOSTILE}\n\n![x](http://127.0.0.1:9/x.png)").startswith(b"%PDF-")
    assert not [
        record
        for record in caplog.records
        if "127.0.0.1" in record.message or "passwd" in record.message
    ]


def test_the_missing_library_is_named(
    champion: Any, documents: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "weasyprint", None)
    done = documents(champion.store, "people-gbdt", "--pdf")
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert "pip install 'evenhand[documents]'" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("notes", "cause"),
    [
        ("1z: text", "'1z' is not known"),
        ("motivatoin: text", "did you mean 'motivation'?"),
        ("1b: [a, b]", "is no mapping of headings to texts"),
        ("- 1b", "is no mapping of headings to texts"),
        ("1b: x\n1b: y", "given twice"),
        (None, "cannot be read"),
    ],
)
def test_notes_that_fit_nothing(
    published: Any, documents: Any, tmp_path: Path, notes: str | None, cause: str
) -> None:
    path = tmp_path / "notes.yaml"
    if notes is not None:
        path.write_text(notes)
    done = documents(published.store, "people-gbdt", "--notes", str(path))
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert cause in done.stderr
    assert not (tmp_path / "out").exists()


def test_documents_are_rewritten_but_not_over_another_models(
    published: Any, documents: Any, tmp_path: Path
) -> None:
    notes = tmp_path / "notes.yaml"
    notes.write_text("4: They count what matters here.\n3.4: As described.\n")
    assert documents(published.store, "people-gbdt").exit_code == 0
    assert documents(published.store, "people-gbdt", "--notes", str(notes)).exit_code == 0
    file = tmp_path / "out/people-gbdt-1/technical-file.md"
    assert "They count what matters here." in file.read_text()
    file.write_text("# Another\n")
    done = documents(published.store, "people-gbdt")
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert "has files of another model" in done.stderr
    assert file.read_text() == "# Another\n"
    assert len([*file.parent.iterdir()]) == 3


def test_changed_files_and_cards_are_refused(champion: Any, documents: Any, tmp_path: Path) -> None:
    (card,) = champion.store.glob("mlflow-artifacts/**/card/model_card.json")
    published = card.read_text()
    changed = json.loads(published)
    changed["metrics"]["auc"]["value"] = 0.999
    for text in (json.dumps(changed), "{}", "no JSON"):
        card.write_text(text)
        done = documents(champion.store, "people-gbdt")
        assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
        assert "the model card of models:/people-gbdt/1 cannot be used" in done.stderr
    card.write_text(published)
    assert documents(champion.store, "people-gbdt").exit_code == 0
    (file,) = champion.store.glob("mlflow-artifacts/**/bundle/reference.json")
    file.write_text(file.read_text() + " ")
    done = documents(champion.store, "people-gbdt")
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert "is not what was published" in done.stderr


def test_models_that_are_no_version(published: Any, documents: Any, tmp_path: Path) -> None:
    (bundle,) = published.store.glob("mlflow-artifacts/**/artifacts/bundle")
    for model, cause in (
        (str(bundle), "is a folder"),
        ("people-gbdt/7", "has no version 7 in this store"),
        ("a b", "no model"),
    ):
        done = documents(published.store, model)
        assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
        assert cause in done.stderr
    assert not (tmp_path / "out").exists()
