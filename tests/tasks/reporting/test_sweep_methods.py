"""Methods side by side: bars to scale, a colour a method, every number in a table, words that follow."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from html_tree import Node, read
from hypothesis import given
from hypothesis import strategies as st
from test_report_svg import assert_apart, boxes, parse

from evenhand.flows.grid import PointResult, make_grid
from evenhand.flows.tradeoffs import tradeoffs
from evenhand.tasks.reporting import formats
from evenhand.tasks.reporting.bars import Bar, bar_plot
from evenhand.tasks.reporting.sweep import render_sweep
from evenhand.tasks.reporting.sweep_methods import methods_part

HOSTILE = '<script>alert("1")</script>&'
EOD = "equal_opportunity_difference.sex"
BASE = {
    "accuracy": 0.7,
    "balanced_accuracy": 0.6,
    EOD: 0.2,
    "average_odds_difference.sex": 0.1,
    "average_odds_difference.race": 0.3,
    "average_odds_difference.sex&race": 0.9,
    "theil_index": 0.15,
    "gap_max.sex": 0.2,
}
# what each method adds to the base, beside the noise of the splits
SHIFTS = {
    "gbdt": {},
    "reweigh": {"accuracy": -0.1, EOD: -0.15},
    "nn": {"balanced_accuracy": 0.001},
    "budro": {"theil_index": 0.1, "accuracy": 0.1},
}
NOISE = [0.0, 0.004, -0.004, 0.002, -0.002]


def outcome(method: str, split: int) -> PointResult:
    """Splits differ for all methods alike, and a little for each."""
    own = NOISE[(split + list(SHIFTS).index(method)) % len(NOISE)]
    metrics: dict[str, dict[str, float | None]] = {}
    for name, base in BASE.items():
        value = base + SHIFTS[method].get(name, 0.0) + 0.02 * (split % 3) + own
        metrics[name] = {"value": value, "low": value - 0.01, "high": value + 0.01}
    return PointResult("done", "passed", metrics, {"train": 1.0})


def example(
    *over: str, seeds: int = 5, lacking: tuple[int, ...] = (), failing: tuple[int, ...] = ()
) -> dict[str, Any]:
    grid = make_grid("adult-gbdt", over or ("method=nn,gbdt,reweigh",), seeds=seeds)
    results = [outcome(point.resolved.method, point.seed - grid.seeds[0]) for point in grid.points]
    for index in lacking:
        results[index].metrics[EOD] = {"value": None, "low": None, "high": None}
    for index in failing:
        results[index] = PointResult(error="disk full")
    return {"run_id": "sweep-1", "seconds": 12.5} | tradeoffs(grid, results)


def part(document: dict[str, Any]) -> dict[str, Any]:
    found = methods_part(document)
    assert found is not None
    return found


def section(document: dict[str, Any]) -> Node:
    root = read(render_sweep(document, created="2026-05-03T14:05:00+00:00", made=[], files=[]))
    return next(node for node in root.all("section") if node.attrs.get("id") == "methods")


def panels(found: dict[str, Any]) -> dict[str, str]:
    return {panel["name"]: panel["plot"] for figure in found["figures"] for panel in figure["panels"]}


def test_only_a_sweep_over_methods_has_the_section() -> None:
    assert methods_part(example("method.eta=0.1,0.2")) is None
    html = render_sweep(example("method.eta=0.1,0.2"), created="", made=[], files=[])
    assert "Methods side by side" not in html
    assert section(example()).all("h2")[0].text() == "Methods side by side"


def test_old_documents_have_no_comparison_and_are_still_drawn() -> None:
    document = example()
    del document["comparison"]
    assert 'id="methods"' not in render_sweep(document, created="", made=[], files=[])


def test_a_picture_a_measure_for_all_attributes_and_none_for_intersections() -> None:
    found = part(example())
    assert [figure["title"] for figure in found["figures"]] == [
        "How often they are right",
        "How even they are",
    ]
    assert list(panels(found)) == [
        "accuracy",
        "balanced_accuracy",
        EOD,
        "average_odds_difference.sex",
        "average_odds_difference.race",
        "theil_index",
    ]
    assert [table["caption"] for table in found["tables"]] == [
        "Overall",
        "By sex",
        "By race",
        "By sex and race",
    ]


def test_bars_are_to_scale_with_a_standard_deviation_to_either_side() -> None:
    document = example()
    root = parse(panels(part(document))["accuracy"])
    summaries = [document["values"][i]["metrics"]["accuracy"] for i in (1, 0, 2)]
    bars = [float(node.get("width", 0)) for node in root.findall("rect")]
    full = bars[0] / summaries[0]["mean"]
    assert full == pytest.approx(348, abs=0.5), "from 0 to 1 over the picture"
    assert bars == pytest.approx([summary["mean"] * full for summary in summaries], abs=0.2)
    whiskers = [node.get("d", "") for node in root.findall("path") if node.get("class") == "limit"]
    for whisker, summary in zip(whiskers, summaries, strict=True):
        ends = [float(stroke.split()[0]) for stroke in whisker.replace("L", "M").split("M")[1:]]
        assert (max(ends) - min(ends)) / 2 == pytest.approx(summary["sd"] * full, abs=0.2)


def test_a_method_has_one_colour_in_all_pictures_and_the_reference_is_first_and_bold() -> None:
    found = part(example("method=nn,gbdt,reweigh", "split.test=0.2,0.5"))
    for plot in panels(found).values():
        root = parse(plot)
        kinds = [node.get("class") for node in root.findall("rect")]
        assert kinds == ["end c0 length", "end c1 length", "end c2 length"] * 2
        bold = [node.text for node in root.findall("text") if node.get("class") == "s b"]
        assert bold == ["method=gbdt, test=0.2", "method=gbdt, test=0.5"]


def test_differences_share_an_axis_that_holds_all_of_them() -> None:
    found = panels(part(example()))
    ticks = {
        name: [text for text, *_ in boxes(plot) if text.replace(".", "").isdigit() and len(text) < 5]
        for name, plot in found.items()
    }
    assert ticks[EOD] == ticks["average_odds_difference.race"]
    # 0.3, the mean of the splits' shifts and a standard deviation; the intersection's 0.9 is not drawn
    assert float(ticks[EOD][-1]) == pytest.approx(0.4)
    assert float(ticks["accuracy"][-1]) == 1
    assert float(ticks["theil_index"][-1]) == pytest.approx(0.2)


def test_marks_words_and_tables_say_what_is_significant() -> None:
    document = example()
    found = part(document)
    assert found["said"] == (
        "Compared with gbdt, the reference, on the same 5 splits: reweigh is significantly better in gap in "
        "positives found by sex, and significantly worse in accuracy. No significant difference was found "
        "for nn."
    )
    assert "corrected resampled t-test (Nadeau and Bengio 2003)" in found["explained"]
    notes = {name: [t for t, *_ in boxes(plot) if "±" in t] for name, plot in panels(found).items()}
    assert [note.endswith(", n.s.") for note in notes["accuracy"]] == [False, True, False]
    assert [note.endswith(", n.s.") for note in notes["theil_index"]] == [False, True, True]
    rows = {row["label"]: row["cells"] for row in found["tables"][0]["rows"]}
    assert [sub for _, sub in rows["gbdt"]] == ["", "", ""]
    assert [sub for _, sub in rows["nn"]] == ["n.s.", "n.s.", "n.s."]
    assert [sub for _, sub in rows["reweigh"]] == ["worse", "n.s.", "n.s."]
    described = parse(panels(found)["accuracy"]).find("desc")
    assert described is not None
    assert "(worse)" in (described.text or "")
    assert "(n.s.)" in (described.text or "")


def test_every_number_and_test_stands_in_a_table() -> None:
    document = example()
    tables = {table.all("caption")[0].text(): table for table in section(document).all("table")}
    overall = tables["Overall: mean ± standard deviation over the seeds"]
    rows = {row.all("th")[0].text(): row for row in overall.all("tr")}
    for value in document["values"]:
        head = "gbdt the reference" if value["label"] == "gbdt" else value["label"]
        texts = [cell.text() for cell in rows[head].all("td")]
        names = ("accuracy", "balanced_accuracy", "theil_index")
        for text, summary in zip(texts, (value["metrics"][name] for name in names), strict=True):
            assert text.startswith(f"{summary['mean']:.3f} ± {summary['sd']:.3f}")
    tests = tables["Every difference from the reference, and how it was tested"]
    written = [[cell.text() for cell in row.all("th", "td")] for row in tests.all("tr")[1:]]
    compared = document["comparison"]["values"][1:]
    assert len(written) == sum(len(entry["tests"]) for entry in compared) == 14
    test = compared[0]["tests"]["accuracy"]
    assert written[0] == [
        "nn",
        "Accuracy",
        "gbdt",
        formats.number(test["difference"]),
        *(formats.number(test[key]) for key in ("t", "p", "p_holm")),
        "5",
        "not significant",
    ]


def test_missing_splits_are_counted_and_fewer_than_two_are_no_test() -> None:
    # nn comes first: of its five splits one, then four, have no number
    some, most = (part(example(lacking=lacking)) for lacking in ((0,), (0, 1, 2, 3)))
    by_sex = [
        {row["label"]: row["cells"][0][1] for row in found["tables"][1]["rows"]} for found in (some, most)
    ]
    assert by_sex[0]["nn"] == "n.s. (4 of 5 splits)"
    assert by_sex[1]["nn"] == "no test (1 of 5 splits)"
    assert by_sex[1]["reweigh"] == "better"
    assert any(text.endswith(", no test") for text, *_ in boxes(panels(most)[EOD]))


def test_one_split_is_no_test_and_has_no_marks() -> None:
    found = part(example(seeds=1))
    assert found["said"].startswith("One split: no test. The differences from gbdt, the reference,")
    texts = [text for plot in panels(found).values() for text, *_ in boxes(plot)]
    assert not any("n.s." in text or "no test" in text or "±" in text for text in texts)
    assert all(sub == "" for table in found["tables"] for row in table["rows"] for _, sub in row["cells"])
    assert "Table of the tests" not in section(example(seeds=1)).text()


def test_a_method_that_never_finished_has_no_bar_and_is_told() -> None:
    found = part(example(failing=(0, 1, 2, 3, 4)))
    assert "Nothing could be tested for nn." in found["said"]
    root = parse(panels(found)["accuracy"])
    assert len(root.findall("rect")) == 2
    assert "no number" in {text for text, *_ in boxes(panels(found)["accuracy"])}


def test_the_jobs_method_may_be_missing_and_all_may_differ() -> None:
    found = part(example("method=budro,reweigh"))
    assert found["said"].startswith("Compared with budro, the reference, on the same 5 splits: reweigh is ")
    assert "better in gap in positives found by sex and inequality of errors (Theil)" in found["said"]
    assert "No significant difference" not in found["said"]


def test_another_key_is_named_in_words_and_labels() -> None:
    said = part(example("method=gbdt,reweigh", "split.test=0.2,0.5"))["said"]
    assert said.startswith("Compared with gbdt, the reference, at the same values of the other keys, on the")
    assert "method=reweigh, test=0.2 is significantly" in said


def test_of_many_values_the_first_are_drawn_and_all_are_in_the_tables() -> None:
    shares = ",".join(f"0.{i}" for i in range(11, 20))
    found = part(example("method=gbdt,reweigh,nn", f"split.test={shares}", seeds=2))
    assert found["left_out"] == 3
    assert len(parse(panels(found)["accuracy"]).findall("rect")) == 24
    assert len(found["tables"][0]["rows"]) == 27


def test_hostile_names_stay_text() -> None:
    document = copy.deepcopy(example())
    for value in document["values"]:
        value["label"] = HOSTILE + value["label"]
    html = render_sweep(document, created="", made=[], files=[])
    assert "<script>" not in html
    assert HOSTILE in section(document).text()


LONG = ["gbdt", "calibrated-equalized-odds", "disparate-impact-remover", "adversarial-debiasing, alpha=0.25"]
UNIT = st.integers(0, 100).map(lambda k: k / 100)
BARS = st.builds(
    lambda name, value, note, half, bold: Bar(
        name,
        value,
        note,
        *((None, None) if half is None or value is None else (value - half, value + half)),
        bold=bold,
    ),
    st.one_of(st.sampled_from(LONG), st.text("abW_-= ", min_size=1, max_size=60)),
    st.one_of(st.none(), UNIT),
    st.sampled_from(["0.123 ± 0.012, n.s.", "no number", "0.1", "0.123 ± 0.012, and a very long remark"]),
    st.one_of(st.none(), UNIT),
    st.booleans(),
)
FORMS = [{}, {"compact": True}, {"width": 350.0, "compact": True}]


@pytest.mark.parametrize("form", FORMS, ids=["wide", "narrow", "panel"])
@given(bars=st.lists(BARS, min_size=1, max_size=9), reference=st.one_of(st.none(), UNIT))
def test_labels_stand_apart_and_nothing_leaves_the_picture(
    form: dict[str, Any], bars: list[Bar], reference: float | None
) -> None:
    marks = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    image = bar_plot(bars, marks, uid="u", title="t", description="d", reference=reference, **form)
    assert_apart(image)
    root = parse(image)
    width, height = map(float, root.get("viewBox", "").split()[2:])
    drawn = root.findall("rect")
    assert len(drawn) == sum(bar.value is not None for bar in bars)
    for node in drawn:
        assert float(node.get("x", 0)) + float(node.get("width", 0)) <= width
    for node in root.findall("path"):
        numbers = [pair.split() for pair in (node.get("d") or "").replace("L", "M").split("M")[1:]]
        for x, y in numbers:
            assert 0 <= float(x) <= width
            assert 0 <= float(y) <= height


@pytest.mark.parametrize("name", LONG)
def test_the_names_of_methods_are_whole_beside_their_numbers(name: str) -> None:
    bars = [Bar(name, 0.5, "0.512 ± 0.012", 0.4, 0.6, bold=True)]
    for form in FORMS:
        image = bar_plot(bars, [0.0, 0.5, 1.0], uid="u", title="t", description="d", **form)
        assert {name, "0.512 ± 0.012"} <= {text for text, *_ in boxes(image)}


@pytest.mark.parametrize(("value", "width"), [(0.0, 0.0), (0.0001, 1.0)])
def test_nothing_has_no_bar_and_next_to_nothing_a_mark(value: float, width: float) -> None:
    image = bar_plot([Bar("a", value, "")], [0.0, 1.0], uid="u", title="t", description="d")
    (rect,) = parse(image).findall("rect")
    assert float(rect.get("width", -1)) == width
