"""The page system: sections are files, text is escaped, pictures are kept, a page loads nothing."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from demo_documents import demo_documents
from filter_documents import filter_documents
from html_tree import Node, read
from page_blocks import page
from page_examples import (
    HOSTILE,
    alone_documents,
    drift_documents,
    evaluation_documents,
    index_documents,
    published_documents,
    run_documents,
    with_champion,
)
from sweep_documents import method_documents, proxy_documents, sweep_documents

from evenhand.fairlib import catalogue
from evenhand.tasks.execution.store import Store
from evenhand.tasks.pages import build as system
from evenhand.tasks.pages import fronts, sections
from evenhand.tasks.pages.page_model import (
    Cell,
    Chart,
    Charts,
    Front,
    Heading,
    Page,
    Section,
    Table,
    Terms,
)

SECTIONS = [item.name for item in pkgutil.iter_modules(sections.__path__)]
KINDS = {item.name.removesuffix("_front") for item in pkgutil.iter_modules(fronts.__path__)}
MOST_BYTES = 2_000_000
FRONT = Front("kind", "title", [], ["a sentence"])
ROWS = [{"step": 1, "series": "loss", "value": 0.5}, {"step": 2, "series": "loss", "value": 0.25}]
CURVE = Chart(
    "curves.training_curves", {"rows": ROWS}, "loss by step", "loss goes from 0.5 to 0.25"
)
# Stands for a picture where a test is not about pictures.
EMPTY_SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" viewBox="0 0 9 9"></svg>'

PAGES: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "run": ("run", lambda: with_champion(run_documents())),
    "published": ("run", published_documents),
    "evaluation": ("evaluation", evaluation_documents),
    "evaluation alone": ("evaluation", alone_documents),
    "drift": ("drift", drift_documents),
    "filter": ("filter", filter_documents),
    "sweep": ("sweep", sweep_documents),
    "sweep over methods": ("sweep", method_documents),
    "sweep of proxies": ("sweep", proxy_documents),
    "index": ("index", index_documents),
    "demo": ("demo", demo_documents),
}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the charts that were drawn; each is an empty picture."""
    names: list[str] = []

    def draw(chart: Chart, form: str) -> str:
        names.append(f"{chart.title} {form}")
        return EMPTY_SVG

    monkeypatch.setattr(system, "_svg", draw)
    return names


# sections


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_is_a_file_with_its_pages_needs_and_content(name: str) -> None:
    module = importlib.import_module(f"evenhand.tasks.pages.sections.{name}")
    assert set(module.PAGES) <= KINDS
    assert all(type(place) is int for place in module.PAGES.values())
    assert module.NEEDS
    assert callable(module.build)


@pytest.fixture
def own_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A file in the folder of sections."""
    (tmp_path / "zz_own.py").write_text(
        "from evenhand.tasks.pages.page_model import Section\n"
        'PAGES, NEEDS = {"index": 5}, ("runs", "own")\n'
        "def build(documents):\n"
        '    blocks = [documents["own"]] if documents["own"] != "empty" else []\n'
        '    return Section("own", "Own", blocks) if documents["own"] != "nothing" else None\n'
    )
    monkeypatch.setattr(sections, "__path__", [*sections.__path__, str(tmp_path)])
    system._modules.cache_clear()
    yield
    sys.modules.pop("evenhand.tasks.pages.sections.zz_own", None)
    system._modules.cache_clear()


@pytest.mark.usefixtures("own_section")
def test_a_new_file_is_a_section_where_its_documents_are() -> None:
    documents = index_documents()
    assert list(page("index", {**documents, "own": "text"})) == ["runs", "jobs", "own"]
    for own in ({}, {"own": None}, {"own": "nothing"}, {"own": "empty"}):
        assert "own" not in page("index", {**documents, **own})
    assert "own" not in page("filter", {**filter_documents(), "runs": [], "own": "text"})


def test_a_section_without_its_documents_is_left_out() -> None:
    for name in SECTIONS:
        module = importlib.import_module(f"evenhand.tasks.pages.sections.{name}")
        assert list(system._sections([module], {})) == []
        assert list(system._sections([module], dict.fromkeys(module.NEEDS))) == []


@pytest.mark.usefixtures("own_section")
def test_a_section_is_folded_where_the_front_folds() -> None:
    """Of a page that folds, modules name the kinds on which their sections stay open."""
    of_run = {
        section.id: section.folded for section in system.build("run", run_documents()).sections
    }
    open_sections = [name for name, folded in of_run.items() if not folded]
    assert open_sections == ["who", "errors", "missing"]
    assert {"gates", "metrics", "rates", "made"} <= set(of_run)
    of_index = system.build("index", {**index_documents(), "own": "text"}).sections
    assert not any(section.folded for section in of_index)


@pytest.mark.usefixtures("drawn")
def test_folded_sections_are_details_below_the_others() -> None:
    first = Section("a", "A", ["first"])
    folded = Section("b", "B", [Heading("within")], folded=True)
    root = read(system.render(Page(FRONT, [folded, first])))
    (part,) = [node for node in root.all("details") if node.attrs.get("class") == "part"]
    assert part.attrs.get("open", "closed") == "closed"
    assert [node.text() for node in part.all("h3")] == ["B"]
    assert [node.text() for node in part.all("h4")] == ["within"]
    # a link to its id opens it, so the id is of what it holds
    assert [node.attrs.get("id") for node in part.all("div")] == ["b"]
    assert [node.text() for node in root.all("h2")] == ["A", "Details"]
    assert "Parts of this page that were not open are not printed: B." in root.text()
    plain = read(system.render(Page(FRONT, [first])))
    assert not plain.all("details", "input")


# text


def test_a_chart_with_controls_in_its_texts_is_drawn() -> None:
    """The drawing library ends the process at a character that XML forbids."""
    rows = [{**row, "series": "loss \x1b[31m \u202e \x00 \ud800"} for row in ROWS]
    picture = system._svg(Chart("curves.training_curves", {"rows": rows}, "t", "d"), "wide")
    assert ElementTree.fromstring(picture) is not None
    assert "loss \ufffd[31m" in picture
    assert not re.search("[\x00-\x08\x0e-\x1f\u202e]", picture)


def every_block(text: str) -> list[Any]:
    chart = Chart("curves.training_curves", {"rows": ROWS}, text, text, caption=text)
    return [
        text,
        Heading(text),
        Table(text, [text, text], [[Cell(text, (text,), code=text), text]]),
        Table(
            text, [text, text], [[text, Cell(text, href=text, time=text)]], folded=True, pairs=True
        ),
        chart,
        Charts([chart]),
        Terms([(text, text, text)]),
    ]


@pytest.mark.usefixtures("drawn")
def test_hostile_text_stays_text_in_every_block() -> None:
    front = Front(
        HOSTILE,
        HOSTILE,
        [(HOSTILE, HOSTILE)],
        [HOSTILE],
        facts=[(HOSTILE, Cell(HOSTILE))],
        note=HOSTILE,
    )
    root = read(system.render(Page(front, [Section("s", HOSTILE, every_block(HOSTILE))])))
    assert not root.all("script", "img")
    assert not any(name.startswith("on") for node in root.walk() for name in node.attrs)
    for tag in (
        "h1",
        "h2",
        "h3",
        "p",
        "caption",
        "td",
        "th",
        "title",
        "desc",
        "figcaption",
        "dt",
        "dd",
    ):
        assert any(HOSTILE in node.solid() for node in root.all(tag)), tag


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("kind", ["run", "filter", "sweep", "drift", "evaluation"])
def test_hostile_names_of_groups_features_and_metrics_stay_text(kind: str) -> None:
    keys = {
        "run": "counts",
        "evaluation": "counts",
        "filter": "attributes",
        "sweep": "values",
        "drift": "columns",
    }
    documents: Any = PAGES[kind][1]()

    def spoil(item: Any, within: bool = False) -> Any:
        if isinstance(item, dict):
            return {
                (HOSTILE + key if within and key not in FIXED else key): spoil(
                    value, within or key == keys[kind]
                )
                for key, value in item.items()
            }
        if isinstance(item, list):
            return [spoil(part, within) for part in item]
        return HOSTILE + item if within and isinstance(item, str) and item not in FIXED else item

    root = read(system.write_page(kind, spoil(documents)))
    assert not root.all("script", "img")
    assert HOSTILE in root.solid()


# keys and values of documents that are no text of a table
FIXED = {
    *(
        "group",
        "label",
        "n",
        "predicted_positive",
        "kind",
        "number",
        "category",
        "sensitive",
        "psi",
    ),
    *(
        "expected_psi",
        "p_value",
        "bins_compared",
        "bins",
        "name",
        "then",
        "now",
        "missing",
        "change",
        "unseen",
    ),
    *(
        "outside_contract",
        "broken",
        "value",
        "low",
        "high",
        "status",
        "ok",
        "reason",
        "rule",
        "rows",
        "settings",
    ),
    *(
        "mark",
        "metrics",
        "over_blind",
        "mean",
        "sd",
        "runs",
        "failed",
        "passed",
        "method.eta",
        "front",
        "points",
        "seeds",
    ),
    *(
        "accuracy",
        "balanced_accuracy",
        "auc",
        "consistency.spouse",
        "gap_max.sex",
        "gap_max.sex&race",
    ),
    *("theil_index", "insufficient_evidence"),
}


@pytest.mark.usefixtures("drawn")
def test_bytes_that_are_no_text_are_replaced() -> None:
    text = b"caf\xe9".decode("utf-8", "surrogateescape") + "\x00\x08\uffff"
    html = system.render(Page(FRONT, [Section("s", "s", [text])]))
    assert "caf\ufffd\ufffd\ufffd\ufffd" in html
    assert html.encode("utf-8")


def test_bold_and_code_are_the_only_markup() -> None:
    assert system.inline("a **b<c** `d&e` *f* <b>g</b>") == (
        "a <strong>b&lt;c</strong> <code>d&amp;e</code> *f* &lt;b&gt;g&lt;/b&gt;"
    )


# tables


def test_values_of_a_table_are_written_by_their_type() -> None:
    assert [cell.text for cell in system.cells(["a", 1234, 0.5, None, True, Cell("c")])] == [
        "a",
        "1,234",
        "0.500",
        "not available",
        "yes",
        "c",
    ]


def test_number_columns_are_aligned_and_rows_have_every_cell() -> None:
    rows = [["a", 1.5, "12%", "x"], ["b", None, Cell("too few", kind="lack"), "3"]]
    assert system.numeric_columns(Table("t", ["h", "n", "p", "x"], rows)) == [
        False,
        True,
        True,
        False,
    ]
    assert system.numeric_columns(
        Table("t", ["h", "v"], [["a", Cell("1", span=1)]], pairs=True)
    ) == [
        False,
        False,
    ]
    with pytest.raises(ValueError, match="table 't': a row has 3 cells for 2 columns"):
        system.numeric_columns(Table("t", ["h", "v"], [["a", Cell("wide", span=2)]]))


# pictures


def with_chart(*charts: Chart) -> Page:
    return Page(FRONT, [Section("s", "s", charts)])


def test_pictures_are_kept_by_what_they_are_drawn_from(tmp_path: Path, drawn: list[str]) -> None:
    store = Store(str(tmp_path))
    first = system.render(with_chart(CURVE), store)
    assert sorted(drawn) == ["loss by step narrow", "loss by step wide"]
    assert system.render(with_chart(CURVE), store) == first
    assert len(drawn) == 2, "both forms are taken from the store"
    retitled = Chart(CURVE.plot, CURVE.data, "another title", "d")
    assert "another title" in system.render(with_chart(retitled), store)
    assert len(drawn) == 2, "title and description are no part of the picture"
    changed = Chart(CURVE.plot, {"rows": [{**ROWS[0], "value": 0.6}, ROWS[1]]}, "t", "d")
    system.render(with_chart(changed, CURVE), store)
    assert len(drawn) == 4
    assert len(list((tmp_path / "charts").glob("*.svg"))) == 4


def test_pictures_are_drawn_again_after_a_change_of_their_code(
    tmp_path: Path, drawn: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(str(tmp_path))
    system.render(with_chart(CURVE), store)
    monkeypatch.setattr(system, "_code", lambda module: f"other code of {module}")
    system.render(with_chart(CURVE), store)
    assert len(drawn) == 4


def test_pruning_removes_the_pictures(tmp_path: Path, drawn: list[str]) -> None:
    store = Store(str(tmp_path))
    system.render(with_chart(CURVE), store)
    _, freed = store.prune(1)
    assert freed == 2 * len(EMPTY_SVG)
    assert not list((tmp_path / "charts").glob("*.svg"))
    system.render(with_chart(CURVE), store)
    assert len(drawn) == 4


def test_a_picture_is_an_image_with_its_text_and_ids_of_its_own() -> None:
    html = system.render(with_chart(CURVE, replace(CURVE)))
    root = read(html)
    images = root.all("svg")
    assert [image.attrs["class"] for image in images] == ["plot wide", "plot narrow"] * 2
    for image in images:
        assert image.attrs["role"] == "img"
        assert image.attrs["viewbox"]
        names = (image.attrs["aria-labelledby"] or "").split()
        assert [node.attrs["id"] for node in image.all("title", "desc")] == names
        assert image.all("title")[0].text() == CURVE.title
        assert image.all("desc")[0].text().startswith(CURVE.description)
        assert not [node for node in image.all("g", "path", "text") if "role" in node.attrs]
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    for reference in re.findall(r"url\(#([^)]*)\)", html):
        assert reference in ids


# whole pages


def columns_of(row: Node) -> int:
    return sum(int(cell.attrs.get("colspan") or 1) for cell in row.all("th", "td"))


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_and_its_parts_have_names(name: str) -> None:
    kind, documents = PAGES[name]
    root = read(system.write_page(kind, documents()))
    ids = [node.attrs["id"] for node in root.walk() if "id" in node.attrs]
    assert len(ids) == len(set(ids))
    for node in root.walk():
        for target in (node.attrs.get("aria-labelledby") or "").split():
            assert target in ids
        href = node.attrs.get("href") or ""
        assert not href.startswith("#") or href[1:] in ids
    (html,) = root.all("html")
    assert html.attrs["lang"] == "en"
    for landmark in ("header", "main", "footer"):
        assert len(root.all(landmark)) == 1
    levels = [int(node.tag[1]) for node in root.all("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:], strict=False))
    for found in root.all("table"):
        assert found.all("caption")[0].text()
        assert all(head.attrs.get("scope") in ("row", "col") for head in found.all("th"))
        assert len({columns_of(row) for row in found.all("tr")}) == 1
    for image in root.all("svg"):
        assert all(part.text() for part in image.all("title", "desc"))
    assert not re.search(r"\b(nan|None|inf|undefined)\b", root.text())


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("name", PAGES)
def test_a_page_loads_and_runs_nothing(name: str) -> None:
    kind, documents = PAGES[name]
    assert_loads_nothing(system.write_page(kind, documents()))


@pytest.mark.parametrize(
    "added",
    [
        "<script>x()</script>",
        '<img src="a.png">',
        '<p onclick="x()">a</p>',
        '<a href="https://example.org">a</a>',
        '<a href="//example.org">a</a>',
        '<video src="film.mp4"></video>',
        '<input type="image" src="a.png">',
        '<picture><source srcset="a.png"></picture>',
        '<button formaction="send">a</button>',
        '<a href=" JavaScript:x()">a</a>',
        '<svg><rect fill="url(https://example.org#a)"></rect></svg>',
        "<style>@import 'a.css';</style>",
        '<meta http-equiv="Content-Security-Policy" content="default-src *">',
    ],
)
@pytest.mark.usefixtures("drawn")
def test_what_would_load_or_run_is_noticed(added: str) -> None:
    kind, documents = PAGES["run"]
    html = system.write_page(kind, documents())
    with pytest.raises(AssertionError):
        assert_loads_nothing(html.replace("</main>", f"{added}</main>"))


# Attributes whose file, which lies next to the page, a browser loads or sends to.
LOADING = {"src", "srcset", "action", "formaction", "data", "poster", "background"}


def assert_loads_nothing(html: str) -> None:
    root = read(html)
    (main,) = root.all("main")
    assert len(list(main.walk())) > 20, "the page is empty"
    assert main.text()
    assert not root.all(
        "script", "link", "img", "image", "iframe", "object", "embed", "base", "form", "use"
    )
    for node in root.walk():
        for name, value in node.attrs.items():
            assert not name.startswith("on")
            assert name not in LOADING
            if name in {"href", "xlink:href"}:
                assert not re.match(r"\s*([a-z][a-z0-9+.-]*:|//)", value or "", re.IGNORECASE)
    for reference in re.findall(r"url\(([^)]*)\)", html):
        assert re.fullmatch(r"#[\w-]+", reference)
    assert "@import" not in html
    policy = [node.attrs["content"] for node in root.all("meta") if "http-equiv" in node.attrs]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_a_page_with_pictures_loads_nothing_and_is_small() -> None:
    """Few charts, as drawing takes time; the browser's tests draw all of every kind."""
    documents = {name: found for name, found in run_documents().items() if name != "histograms"}
    documents["metrics"]["counts"] = {}
    html = system.write_page("run", documents)
    assert_loads_nothing(html)
    pictures = read(html).all("svg")
    assert len(pictures) > 2
    assert all(picture.all("path") for picture in pictures)
    assert len(html.encode()) < MOST_BYTES
    assert "http" not in re.sub(r"http-equiv|http://www.w3.org/[\w/]+", "", html)


# the glossary


def test_the_glossary_says_what_the_catalogue_says() -> None:
    section = page("run", run_documents())["metrics"]
    (terms,) = [block for block in section.blocks if isinstance(block, Terms)]
    explained = {term: text for term, _, text in terms.entries}
    for name in ("accuracy", "balanced_accuracy", "auc", "theil_index"):
        info, _ = catalogue.describe(name)
        assert info.explanation in explained[info.title]


def test_titles_of_metrics_stand_in_the_catalogue_alone() -> None:
    folder = Path(system.__file__).parent
    # a text that is written over several lines is one constant
    texts = [
        node.value
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    templates = [path.read_text() for path in folder.rglob("*.j2")]
    assert "Effect of the mitigation" in texts
    assert any("<main" in text for text in templates)
    whole = "\n".join([*texts, *templates])
    for info in catalogue.METRICS.values():
        assert len(info.explanation) > 20
        assert info.explanation[:60] not in whole, info.name
        # sections on a certificate have the titles of their only metrics; groups have a rate of
        # this name
        if " " in info.title and not info.name.startswith(("certificate", "prediction_rate")):
            assert info.title not in texts, info.name
