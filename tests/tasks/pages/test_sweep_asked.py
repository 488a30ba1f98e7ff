"""What is asked, on the page of a sweep: each value, the front, shares feature by feature."""

from __future__ import annotations

import re
from typing import Any

import pytest
from page_blocks import charts, page, rows, said, table
from sweep_documents import asked_documents, sweep_documents

from evenhand.tasks.pages.model import Section

BY_CRITERION = ("method.gamma=0.1,0.9", "method.criterion=demographic_parity,equal_opportunity")


def section(documents: dict[str, Any]) -> Section:
    return page("sweep", documents)["asked"]


def values(documents: dict[str, Any]) -> dict[str, list[str]]:
    return rows(table(section(documents), "Ranking, gap and features asked at each value"))


def shares(documents: dict[str, Any]) -> dict[str, list[str]]:
    return rows(table(section(documents), "Share of people asked"))


def test_other_sweeps_have_no_such_section() -> None:
    assert "asked" not in page("sweep", sweep_documents())


@pytest.mark.parametrize(
    ("over", "swept"),
    [((), True), (BY_CRITERION, True), (("method.memory_size=4,8",), False)],
)
def test_gamma_is_explained_where_it_is_swept_and_no_curve_is_drawn_twice(
    over: tuple[str, ...], swept: bool
) -> None:
    found = section(asked_documents(*over))
    assert charts(found) == []
    assert ("Gamma weighs" in said(found)) == swept
    assert not re.search(r"\b(nan|None|inf)\b", said(found))


def test_the_curve_of_a_metric_against_gamma_stands_in_the_section_of_all_metrics() -> None:
    curves = charts(page("sweep", asked_documents())["profiles"])
    (curve,) = [chart for chart in curves if chart.title == "Features asked by method.gamma"]
    found = [(row["setting"], row["value"]) for row in curve.data["rows"]]
    assert found == [("0.1", 0.4), ("0.5", 2.0), ("0.9", 3.6)]


def test_every_number_stands_in_the_table_with_all_features_last() -> None:
    documents = asked_documents()
    found = values(documents)
    assert list(found) == ["0.9", "0.1", "0.5", "All features"]
    # one seed: the intervals are the run's own
    assert found["0.5"][:3] == ["0.650 | 0.630 to 0.670", "0.100 | 0.080 to 0.120", "2.000 | 1.750 to 2.250"]
    assert found["All features"] == ["0.700", "0.300", "6.000", "to compare with"]
    assert shares(documents)["X1"] == ["89.1%", "9.9%", "49.5%"]
    assert list(table(section(documents), "Share of people asked").columns) == [
        "Feature",
        "0.9",
        "0.1",
        "0.5",
    ]
    assert list(shares(documents))[:3] == ["X1", "X9", "X2"], "those asked most often come first"


def test_seeds_give_means_and_students_interval_by_hand() -> None:
    documents = asked_documents(seeds=2)
    found = values(documents)
    # two numbers one apart: the mean plus and minus 12.706 times a half, cut at none and at all features
    assert found["0.5"][2] == "2.500 | 0.000 to 6.000"
    assert found["0.5"][0].startswith("0.655 | ")
    assert found["All features"][0] == "0.710", "the mean over the runs"
    assert shares(documents)["X1"] == ["90.1%", "10.9%", "50.5%"], "0.01 more than of one"
    assert "as the mean over the seeds" in said(section(documents))


def test_the_front_is_that_of_ranking_and_gap_by_hand() -> None:
    documents = asked_documents()
    # 0.5 now ranks worse than 0.1, with a larger gap
    documents["tradeoff"]["values"][2]["metrics"]["auc"]["mean"] = 0.6
    assert [texts[-1] for texts in values(documents).values()] == ["yes", "yes", "no", "to compare with"]


def test_sentences_name_the_ends_and_what_is_always_or_never_asked() -> None:
    text = said(section(asked_documents("method.gamma=0.6,0.9")))
    assert (
        "Fewest features are asked at method.gamma 0.6 (2.400 a person on average), most at method.gamma 0.9 "
        "(3.600). Asked of at least half of people at every value: X1, X9 and X2. Asked of at most 5% at "
        "every value: X5 and X6." in text
    )


def test_points_that_failed_or_ask_nothing_are_left_out() -> None:
    documents = asked_documents(seeds=2)
    points = documents["tradeoff"]["points"]
    for point in points:
        if point["value"] == 0:
            del point["acquisition"]
    assert list(values(documents)) == ["0.1", "0.5", "All features"]
    points[2]["acquisition"] = None
    assert list(values(documents)) == ["0.1", "0.5", "All features"], "the seed that is left"


def test_without_evidence_of_the_gap_there_is_no_front() -> None:
    documents = asked_documents(gap=False)
    assert [texts[-1] for texts in values(documents).values()] == ["no", "no", "no", "to compare with"]
    assert {texts[1] for texts in values(documents).values()} == {"not available"}


def test_a_feature_that_may_not_be_asked_is_left_out() -> None:
    documents = asked_documents()
    for point in documents["tradeoff"]["points"]:
        point["acquisition"]["groups"][0]["allowed"] = False
    assert "X1" not in shares(documents)
    assert values(documents)["All features"][2] == "5.000"
