from __future__ import annotations

import random

import pytest

from evenhand.data_contracts.orders import order_of


@pytest.mark.parametrize(
    "levels",
    [
        ["[0-10)", "[10-20)", "[70-80)", "[80-90)"],
        ["<18", "18-25", "26-35", "65+"],
        ["<1 year", "1-4 years", "5-9 years", "10+ years"],
        ["Less than 25", "25 - 45", "Greater than 45"],
        ["$0-$10k", "$10k-$50k", "$50k+"],
        ["0-10k", "10-50k", "50k+"],
        ["<= 0", "0 to 200", ">200"],
        ["(-1, 20]", "(20, 30]", "(30, 40]"],
        ["3 years", "5 years", "10 years"],
        ["low", "medium", "high"],
        ["Low Risk", "Medium Risk", "High Risk"],
        ["S", "M", "L", "XL"],
        ["primary", "secondary", "tertiary"],
        ["Strongly disagree", "disagree", "neutral", "Agree", "strongly agree"],
        ["level 1", "level 2", "level 10"],
        ["1. low", "2. medium", "3. high"],
        ["none", "mild", "severe"],
        [" Preschool", " 9th", " HS-grad", " Some-college", " Bachelors", " Masters", " Doctorate"],
    ],
)
def test_ordered_categories_are_sorted_as_people_do(levels: list[str]) -> None:
    shuffled = random.Random(1).sample(levels, len(levels))
    found = order_of(shuffled, "x")
    assert found is not None
    assert list(found[0]) == levels


@pytest.mark.parametrize(
    "levels",
    [
        ["A11", "A12", "A13"],
        ["north", "south", "east"],
        ["jan", "feb", "mar"],
        ["2020-01", "2020-02", "2021-11"],
        ["1", "2", "3"],
        ["single", "married", "divorced"],
        ["2-door", "4-door", "van"],
        ["low"],
        [],
        ["A", "B", "C"],
        ["555-1234", "low"],
    ],
)
def test_other_categories_have_no_order(levels: list[str]) -> None:
    assert order_of(levels, "x") is None


def test_letters_are_grades_only_by_name() -> None:
    found = order_of(["A", "B", "C", "A+", "B-"], "loan_grade")
    assert found is not None
    assert found[0] == ("C", "B-", "B", "A", "A+")
