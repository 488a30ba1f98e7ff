"""Shares of groups with the unfavourable outcome, and of wrong predictions: computed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from evenhand.tasks.pages.group_outcomes import (
    MOST_GROUPS,
    MOST_OF_ATTRIBUTE,
    everybody,
    outcomes_by_attribute,
    shown_groups,
)


def cells(group: str, n0: int, positive0: int, n1: int, positive1: int) -> list[dict[str, Any]]:
    """Counts of one group by label."""
    return [
        {"group": group, "label": 0, "n": n0, "predicted_positive": positive0},
        {"group": group, "label": 1, "n": n1, "predicted_positive": positive1},
    ]


def metrics(counts: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return {"settings": {"level": 0.95, "min_cell": 5, **settings}, "counts": counts}


SEX = [*cells("F", 60, 6, 40, 10), *cells("M", 50, 20, 50, 45)]


def test_shares_of_the_unfavourable_outcome_by_hand() -> None:
    """Label 1 is favourable."""
    women, men = outcomes_by_attribute(metrics({"sex": SEX}))["sex"]
    assert (women.label, women.n, men.label, men.n) == ("F", 100, "M", 100)
    assert women.observed.value == pytest.approx(60 / 100)
    assert women.predicted.value == pytest.approx(84 / 100)
    assert women.wrongly_adverse.value == pytest.approx(30 / 40)
    assert women.wrongly_favourable.value == pytest.approx(6 / 60)
    assert women.wrong.value == pytest.approx((6 + 30) / 100)
    assert men.predicted.value == pytest.approx(35 / 100)
    assert men.wrongly_favourable.value == pytest.approx(20 / 50)
    for rate in (women.predicted, women.observed, women.wrong, men.wrongly_adverse):
        assert rate.low is not None
        assert rate.high is not None
        assert rate.low < rate.hits / rate.n < rate.high
        assert rate.value == pytest.approx(rate.hits / rate.n)


def test_an_adverse_positive_label_exchanges_both_errors() -> None:
    (women, _) = outcomes_by_attribute(metrics({"sex": SEX}, favourable=0))["sex"]
    assert women.observed.value == pytest.approx(40 / 100)
    assert women.predicted.value == pytest.approx(16 / 100)
    # of the 60 observed favourable (label 0), 6 are predicted 1
    assert women.wrongly_adverse.value == pytest.approx(6 / 60)
    assert women.wrongly_favourable.value == pytest.approx(30 / 40)
    assert women.wrong.value == pytest.approx(36 / 100)


def test_too_few_rows_have_no_share() -> None:
    (group,) = outcomes_by_attribute(metrics({"sex": cells("x", 2, 1, 2, 1)}))["sex"]
    for rate in (group.observed, group.predicted, group.wrongly_adverse, group.wrong):
        assert rate.value is None


def test_everybody_is_the_sum_of_all_groups() -> None:
    total = everybody(metrics({"sex": SEX}))
    assert total is not None
    assert total.n == 200
    assert total.predicted.value == pytest.approx(119 / 200)
    assert total.wrong.value == pytest.approx((36 + 25) / 200)
    assert everybody(metrics({})) is None


def test_attributes_come_by_their_widest_difference() -> None:
    even = [*cells("a", 50, 20, 50, 30), *cells("b", 50, 20, 50, 30)]
    found = outcomes_by_attribute(metrics({"even": even, "sex": SEX, "sex&even": SEX}))
    assert list(found) == ["sex", "even"]
    assert found["sex"][0].label == "sex: F"


def test_labels_of_several_classes_have_no_unfavourable_one() -> None:
    assert outcomes_by_attribute(metrics({"sex": SEX}, classes=["a", "b", "c"])) == {}


def test_of_many_groups_the_extremes_are_shown() -> None:
    many = []
    for place in range(20):
        many += cells(f"g{place:02}", 50, place, 50, place)
    groups, hidden = shown_groups(outcomes_by_attribute(metrics({"job": many, "sex": SEX})))
    of_job = [group.label for group in groups if group.label.startswith("job")]
    assert of_job == ["job: g00", "job: g01", "job: g02", "job: g18", "job: g19"]
    assert len(of_job) == MOST_OF_ATTRIBUTE
    assert hidden == 15
    several = {f"a{place}": many for place in range(4)}
    groups, hidden = shown_groups(outcomes_by_attribute(metrics(several)))
    assert len(groups) <= MOST_GROUPS
    assert hidden == 80 - len(groups)


def test_of_many_groups_the_largest_is_shown_and_tiny_ones_last() -> None:
    many = cells("large", 500, 250, 500, 250)
    for place in range(5):
        many += cells(f"g{place}", 50, 10 * place, 50, 10 * place)
    many += cells("tiny", 9, 9, 9, 9)
    groups, hidden = shown_groups(outcomes_by_attribute(metrics({"job": many})))
    assert [group.label for group in groups] == ["large", "g0", "g1", "g3", "g4"]
    assert hidden == 2
