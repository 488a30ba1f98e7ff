"""The sections on what an agent asks: the document's numbers, words that follow from them, plots to scale."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from asked_example import SHARES_OF_X10, acquisition_example, evaluation_example, feature
from html_tree import Node, read
from hypothesis import example as example_of
from hypothesis import given
from hypothesis import strategies as st
from report_example import example
from test_report_svg import assert_apart, boxes, parse

from evenhand.tasks.reporting import draw, formats
from evenhand.tasks.reporting.asked import asked_sections
from evenhand.tasks.reporting.asked_plots import Question, count_plot, question_plot
from evenhand.tasks.reporting.context import Section
from evenhand.tasks.reporting.markup import drawing, paragraph
from evenhand.tasks.reporting.page import render_report

HOSTILE = '<script>alert("1")</script>&'
ASKS, WHOM, DEPENDS = "What it asks, and of whom", "By outcome and group", "What its questions depend on"
MUCH, ORDER, ALL = "How much it asks", "In which order it asks", "Compared with asking everything"


def sections(acquisition: dict[str, Any], evaluation: dict[str, Any] | None = None) -> dict[str, Any]:
    written = asked_sections(acquisition, evaluation or evaluation_example())
    for section in written:
        Section.model_validate(section)
        for text in section["html_safe_paragraphs"]:
            paragraph(text)
        for key in ("svg", "svg_narrow"):
            if key in section:
                drawing(section[key])
    return {section["title"]: section for section in written}


def said(section: dict[str, Any]) -> str:
    return " ".join(section["html_safe_paragraphs"])


def page(acquisition: dict[str, Any]) -> str:
    evaluation = evaluation_example()
    changes = {
        "job": {"name": "loans-dadi", "method": "dadi"},
        "evaluation": evaluation,
        "gates": None,
        "paper": None,
        "histograms": {},
        "sections": asked_sections(acquisition, evaluation),
    }
    return render_report(example() | changes)


def edge_cases() -> dict[str, dict[str, Any]]:
    nothing = acquisition_example()
    nothing["asked"] = {"mean": 0.0, "low": 0.0, "high": 0.0, "histogram": [10000, 0, 0, 0, 0, 0, 0]}
    nothing["sequences"] = [{"groups": [], "share": 1.0, "rows": 10000}]
    for group in nothing["groups"]:
        group |= {"share": 0.0, "low": 0.0, "high": 0.0004, "mean_position": None, "first_share": 0.0}
        group["varies_with"] = None
    single = acquisition_example()
    single["groups"] = [feature("X1", {"a": 4990, "b": 5010})]
    single["asked"] |= {"mean": 0.99, "low": None, "high": None, "histogram": [100, 9900]}
    single["sequences"] = []
    unknown = acquisition_example({"a": 3, "b": 2})
    unknown["asked"] |= {"mean": None, "low": None, "high": None}
    unknown["auc"] = {name: {"classifier_auc": None, "adversary_auc": None} for name in ("all", "acquired")}
    unknown["full_information"] = {"auc": None}
    for group in unknown["groups"]:
        group |= {"classifier_auc": None, "adversary_auc": None, "by_label": {"0": None, "1": None}}
    closed = acquisition_example()
    closed["groups"][0]["allowed"] = False
    return {"nothing": nothing, "single": single, "unknown": unknown, "closed": closed}


CASES = {"full": acquisition_example()} | edge_cases()


@pytest.mark.parametrize("acquisition", CASES.values(), ids=CASES)
def test_whole_html_without_nan_whose_plots_speak(acquisition: dict[str, Any]) -> None:
    html = page(acquisition)
    root = read(html)
    ids = [node.attrs["id"] for node in root.walk() if "id" in node.attrs]
    assert len(ids) == len(set(ids))
    assert not re.search(r"\b(nan|None|inf)\b", root.text())
    for table in root.all("table"):
        # a metric without evidence spans two columns
        widths = {sum(int(c.attrs.get("colspan") or 1) for c in r.all("th", "td")) for r in table.all("tr")}
        assert len(widths) == 1
    asked = [node for node in root.all("svg") if (node.attrs["aria-labelledby"] or "").startswith("asked")]
    assert len(asked) == 4, "two plots, each wide and narrow"
    for plot in asked:
        assert plot.all("title")[0].text()
        assert plot.all("desc")[0].text().endswith("The table below has every number.")


def test_a_model_that_does_not_ask_has_no_such_section() -> None:
    assert asked_sections(None, evaluation_example()) == []


def test_the_words_say_how_much_what_of_whom_and_what_it_gives_away() -> None:
    found = sections(acquisition_example())
    assert list(found) == [ASKS, DEPENDS, WHOM, MUCH, ORDER, ALL]
    text = said(found[ASKS])
    for words in (
        "Of 6 features that it may ask for, it asks a person <strong>3.556</strong> on average "
        "(90% interval 3.541 to 3.571)",
        "trade-off gamma is 0.5",
        "From what is asked it ranks people with an AUC of <strong>0.523</strong>; from all features it "
        "would reach <strong>0.881</strong>",
        "The outcome itself is ranked with 0.651 and 0.679.",
        "It asks nearly everybody (at least 95%) for X1, X2 and X9.",
        "differs most for X10, by X9: 93.0% of those whose X9 is “0”, and 22.0% where it is “2”.",
        "It asks hardly anybody (at most 5%) for X5 and X6.",
        "What gives a person’s group away alone is X5 and X6 (the adversary’s AUC is 0.752 to 0.761)",
        "into at most 4 of its categories, from left to right: X10 by X9 (0, 1 and 2).",
    ):
        assert words in text


def test_a_feature_that_tells_little_is_not_said_to_be_left_out_for_it() -> None:
    acquisition = acquisition_example()
    acquisition["groups"][3]["adversary_auc"] = 0.51
    text = said(sections(acquisition)[ASKS])
    assert "What gives a person’s group away alone is X5 (the adversary’s AUC is 0.761)" in text
    assert "Alone, X6 tells little of a person’s group (AUC 0.510), but perhaps adds little" in text


def test_a_difference_between_groups_is_told_where_it_is_large() -> None:
    acquisition = acquisition_example()
    assert "By group it differs" not in said(sections(acquisition)[ASKS])
    cells = acquisition["groups"][5]["by_group"]["group"]
    cells["a"]["share"], cells["b"]["share"] = 0.45, 0.7
    text = said(sections(acquisition)[ASKS])
    assert "By group it differs most for X10: 70.0% of “b” are asked, and 45.0% of “a”." in text


def test_of_many_categories_four_are_drawn_from_the_most_asked_to_the_least() -> None:
    acquisition = acquisition_example()
    shares = {f"c{i}": (i * 3 % 7) / 10 for i in range(7)}
    for group in acquisition["groups"][3:]:
        group["varies_with"] = {"feature": "job", "shares": shares, "spread": 0.6}
    found = sections(acquisition)
    assert "which bar is which stands in the table" in said(found[ASKS])
    drawn = {row[2]: row[4] for row in found[DEPENDS]["folded"]["rows"] if row[0] == "X10"}
    assert drawn == {
        "c2": "1",
        "c6": "2",
        "c3": "3",
        "c0": "4",
        "c1": "not drawn",
        "c4": "not drawn",
        "c5": "not drawn",
    }
    assert len(bars(found[ASKS]["svg"], "part")) == 12


def test_where_answers_hardly_matter_it_says_so() -> None:
    acquisition = acquisition_example()
    acquisition["groups"][5]["varies_with"] |= {"shares": {"0": 0.56, "1": 0.6}, "spread": 0.04}
    found = sections(acquisition)
    section = found[ASKS]
    assert "depends little on their other answers" in said(section)
    assert "differ by more than 4.0 percentage points" in said(section)
    assert "split" not in said(section)
    assert "folded" not in found[DEPENDS]


def test_the_tables_have_the_numbers_of_the_document() -> None:
    acquisition = acquisition_example()
    found = sections(acquisition)
    rows = {row[0]: row for row in found[ASKS]["table"]["rows"]}
    features = ["X1", "X9", "X2", "X10", "X5", "X6"]
    assert list(rows) == [*features, "what is asked", "all features"], "those asked most often first"
    assert rows["what is asked"][-2:] == [0.651, 0.523]
    assert rows["all features"][-2:] == [0.679, 0.881]
    assert rows["X10"] == [
        "X10",
        "58.0% (57.0% to 59.0%)",
        "4.000",
        "0.0%",
        0.556,
        0.638,
    ]
    assert rows["X6"][2] == "never asked"
    assert found[DEPENDS]["table"]["rows"][0] == ["X10", "X9", "2: 22.0%", "0: 93.0%"]
    assert found[DEPENDS]["folded"]["rows"] == [
        ["X10", "X9", category, formats.percent(share), str(place)]
        for place, (category, share) in enumerate(SHARES_OF_X10.items(), start=1)
    ]
    assert found[WHOM]["table"]["columns"] == [
        "Feature",
        "Truly negative",
        "Truly positive",
        "group: a",
        "group: b",
    ]
    assert found[WHOM]["table"]["rows"][5] == ["X10", "58.0%", "58.5%", "58.0%", "58.4%"]
    assert [row[:2] for row in found[MUCH]["folded"]["rows"]] == [
        [str(i), count] for i, count in enumerate(acquisition["asked"]["histogram"])
    ]
    assert found[MUCH]["folded"]["rows"][4][2] == "57.0%"
    assert found[ORDER]["table"]["rows"] == [
        ["X1, X2, X9, X10", "51.2%", 5120],
        ["X2, X1, X9", "12.3%", 1230],
        ["nothing", "0.4%", 40],
    ]
    assert "63.9% of people" in said(found[ORDER])


def test_groups_with_too_few_rows_have_no_share_anywhere() -> None:
    acquisition = acquisition_example({"a": 9970, "rare": 5})
    loose = acquisition_example({"a": 9970, "rare": 30})
    for group in loose["groups"]:
        cell = group["by_group"]["group"]["rare"]
        cell |= {"rows": 24, "share": 0.1234}
    for document in (acquisition, loose):
        found = sections(document)
        assert {row[4] for row in found[WHOM]["table"]["rows"]} == {"too few"}
        assert "“rare”" not in said(found[ASKS])
        assert "12.3%" not in str(found[WHOM])
        assert "fewer than 25 rows" in found[WHOM]["table"]["caption"]


def test_all_features_are_compared_where_both_numbers_are_known() -> None:
    section = sections(acquisition_example())[ALL]
    rows = {row[0]: row[1:] for row in section["table"]["rows"]}
    assert list(rows) == ["Accuracy", "Ranking (AUC)", "Gap in positive answers by group"]
    assert rows["Ranking (AUC)"] == [0.648, "0.638 to 0.658", 0.682, "\u22120.034", "higher"]
    assert "Ranking (AUC) 0.682 instead of 0.648" in said(section)
    assert "Gap in positive answers by group 0.187 instead of 0.021" in said(section)
    evaluation = evaluation_example()
    evaluation["metrics"] = {"auc": evaluation["metrics"]["auc"]}
    section = sections(acquisition_example(), evaluation)[ALL]
    assert [row[0] for row in section["table"]["rows"]] == ["Ranking (AUC)"]
    assert "instead of" not in said(section)


def test_nobody_is_asked_anything() -> None:
    found = sections(CASES["nothing"])
    assert "asks <strong>none</strong>, of nobody" in said(found[ASKS])
    assert "nearly everybody" not in said(found[ASKS])
    assert found[ORDER]["table"]["rows"] == [["nothing", "100.0%", 10000]]
    assert "Most often 0 features: of 100.0% of people." in said(found[MUCH])


def test_a_single_feature_and_no_common_order() -> None:
    found = sections(CASES["single"])
    assert (
        "Of 1 feature that it may ask for, it asks a person <strong>0.990</strong> on average, one"
        in said(found[ASKS])
    )
    assert "table" not in found[ORDER]
    assert "No one order" in said(found[ORDER])


def test_without_evidence_nothing_is_claimed() -> None:
    found = sections(CASES["unknown"])
    assert "too few to say more" in said(found[ASKS])
    assert "adversary" not in said(found[ASKS])
    assert ALL not in found
    assert not parse(found[ASKS]["svg"]).findall("circle")
    assert found[WHOM]["table"]["rows"][0][1:] == ["not available", "not available", "too few", "too few"]


def test_what_may_not_be_asked_is_named_but_not_drawn() -> None:
    found = sections(CASES["closed"])
    assert "Of 5 features that it may ask for" in said(found[ASKS])
    assert "It may not ask for X1, which has a single value in the training rows or is what must" in said(
        found[ASKS]
    )
    assert found[ASKS]["table"]["rows"][0][:2] == ["X1", "may not be asked"]
    assert "X1" not in {text for text, *_ in boxes(found[ASKS]["svg"])}
    assert "X1" not in [row[0] for row in found[WHOM]["table"]["rows"]]


def test_of_many_features_the_picture_has_those_asked_most_and_the_table_all() -> None:
    acquisition = acquisition_example()
    acquisition["groups"] = [
        feature("X1", {"a": 4990, "b": 5010}) | {"name": f"f{i}", "share": i / 40} for i in range(40)
    ]
    section = sections(acquisition)[ASKS]
    assert {f"f{i}" for i in range(40)} <= {row[0] for row in section["table"]["rows"]}
    assert "It has the 24 features that are asked most; the table has all." in said(section)
    for image in (section["svg"], section["svg_narrow"]):
        names = {text for text, *_ in boxes(image)}
        assert {"f39", "f16", "all features"} <= names
        assert "f15" not in names


def test_hostile_names_stay_text() -> None:
    acquisition = acquisition_example()
    acquisition["attributes"] = [HOSTILE]
    for group in acquisition["groups"]:
        group["name"] = HOSTILE + group["name"]
        group["by_group"] = {HOSTILE: {HOSTILE: {"share": 0.5, "rows": 100}}}
    acquisition["groups"][5]["varies_with"] |= {"feature": HOSTILE, "shares": {HOSTILE: 0.2, "b": 0.9}}
    acquisition["sequences"][0]["groups"] = [HOSTILE]
    root = read(page(acquisition))
    assert not root.all("script")
    assert HOSTILE in root.text()


def bars(image: str, kind: str) -> list[ElementTree.Element]:
    """Bars of the plot itself: those of the legend stand in groups."""
    return [r for r in parse(image).findall("rect") if r.get("class") == kind]


QUESTIONS = [
    Question("a", 1.0, 0.9, 1.0, 0.6, 0.5),
    Question("b", 0.5, 0.4, 0.6, 0.7, 0.8, (("x", 0.8), ("y", 0.2))),
    Question("all features", None, label_auc=0.8, group_auc=0.9),
]


@pytest.mark.parametrize("compact", [False, True])
def test_bars_and_marks_stand_to_scale(compact: bool) -> None:
    image = question_plot(QUESTIONS, about="sex", uid="u", title="T", description="D", compact=compact)
    root = parse(image)
    (whole,) = bars(image, "bar")
    full = float(whole.get("height", 0))
    parts = [float(r.get("height", 0)) for r in bars(image, "part")]
    assert parts == [pytest.approx(0.8 * full, abs=0.11), pytest.approx(0.2 * full, abs=0.11)]
    (across,) = [line for line in root.findall("line") if line.get("class") == "limit"]
    ground = float(whole.get("y", 0)) + full
    assert ground - float(across.get("y1", 0)) == pytest.approx(0.5 * full, abs=0.11)
    # from 0.5 to 0.8 the dots rise evenly, and the dashed line is at 0.5
    heights = [float(c.get("cy", 0)) for c in root.findall("circle")]
    (guess,) = [line for line in root.findall("line") if line.get("class") == "reference"]
    level = float(guess.get("y1", 0))
    assert heights[0] - heights[1] == pytest.approx(level - heights[0], abs=0.2)
    assert heights[1] - heights[2] == pytest.approx(level - heights[0], abs=0.2)
    diamonds = [p.get("d", "") for p in root.findall("path") if p.get("class") == "paper"]
    middles = [float(re.findall(r"[\d.]+", d)[1]) + 5 for d in diamonds]
    assert middles[0] == pytest.approx(level, abs=0.2)
    assert level - middles[2] == pytest.approx(4 * (level - heights[0]), abs=0.3)
    # the interval of the whole bar
    ends = re.findall(r"M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)", _limits(root))
    assert abs(float(ends[0][1]) - float(ends[0][3])) == pytest.approx(0.1 * full, abs=0.2)


def _limits(root: ElementTree.Element) -> str:
    (path,) = [p.get("d", "") for p in root.findall("path") if p.get("class") == "limit"]
    return path


NAMES = st.text("abcdefghiX0-_ W", min_size=1, max_size=30)
UNIT = st.integers(0, 100).map(lambda k: k / 100)
PARTS = st.lists(st.tuples(st.sampled_from(["0", "1", "Husband"]), UNIT), max_size=4).map(tuple)


@example_of(
    [Question("a long name", 0.5, 0.4, 0.6, 0.5, 0.5, (("0", 0.1), ("1", 0.9))) for _ in range(24)], True
)
@given(
    st.lists(
        st.builds(Question, NAMES, UNIT, UNIT, UNIT, st.none() | UNIT, st.none() | UNIT, PARTS),
        min_size=1,
        max_size=24,
    ),
    st.booleans(),
)
def test_everything_stays_inside_and_names_do_not_cross(questions: list[Question], compact: bool) -> None:
    image = question_plot(questions, about="sex", uid="u", title="T", description="D", compact=compact)
    root = parse(image)
    width, height = map(float, root.get("viewBox", "").split()[2:])
    for element in root.iter():
        for name in ("cx", "x1", "x2", "x"):
            assert 0 <= float(element.get(name, 0)) <= width
        for name in ("cy", "y1", "y2", "y"):
            assert -8 <= float(element.get(name, 0)) <= height
        assert float(element.get("height", 0)) >= 0
    turned = [t for t in root.findall("text") if "rotate" in (t.get("transform") or "")]
    places = []
    for text in turned:
        x, y, angle = map(float, re.findall(r"-?[\d.]+", text.get("transform", "")))
        length = draw.text_width(text.text or "", 12)
        assert y + (length if angle == -90 else length * 0.7072) <= height
        assert x - (0 if angle == -90 else length * 0.7072) >= -1
        places.append(x)
    assert all(b - a >= 11.5 for a, b in zip(places, places[1:], strict=False))
    if not turned:
        assert {q.name for q in questions} <= {t.text for t in root.findall("text")}


@example_of([0] * 25, True)
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=60), st.booleans())
def test_counts_are_drawn_to_scale_and_labels_stand_apart(counts: list[int], compact: bool) -> None:
    image = count_plot(counts, axis="asked", uid="u", title="T", description="D", compact=compact)
    assert_apart(image)
    heights = [float(r.get("height", 0)) for r in bars(image, "bar")]
    known = [count for count in counts if count]
    assert len(heights) == len(known)
    if known:
        tall = max(heights)
        for high, count in zip(heights, known, strict=True):
            assert high == pytest.approx(max(tall * count / max(known), 1.5), abs=0.2)


def test_features_asked_has_a_scale_of_its_own() -> None:
    root = read(page(acquisition_example()))
    heads = [node.text() for node in root.all("h3")]
    assert "Features asked of a person: lower is better" in heads
    plots = {plot.all("title")[0].text(): _texts(plot) for plot in root.all("svg")}
    gaps = plots["Lower is better: metrics with their 90% intervals"]
    assert "Features asked" not in gaps
    assert "3.556" in plots["Features asked of a person: lower is better: metrics with their 90% intervals"]


def _texts(plot: Node) -> set[str]:
    return {text.text() for text in plot.all("text")}
