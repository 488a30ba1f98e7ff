"""Tests of values that seem to be one category: which are proposed, and which never are."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.data_contracts.spellings import find_spellings, joined, spellings_of


@pytest.mark.parametrize(
    ("counts", "spellings"),
    [
        (
            {"weiblich": 90, "w": 10, "W ": 1, "männlich": 80, "m": 9, "maennlich": 2},
            {"weiblich": ["W ", "w"], "männlich": ["m", "maennlich"]},
        ),
        ({"Female": 9, "f": 5, "male": 8}, {"Female": ["f"]}),
        ({"female": 9, "weiblich": 5, "male": 8}, {"female": ["weiblich"]}),
        ({"ja": 9, "nein": 8, "J": 2, "n": 1}, {"ja": ["J"], "nein": ["n"]}),
        ({"Köln": 5, "Koeln": 2, "KÖLN": 1, "Bonn": 3}, {"Köln": ["Koeln", "KÖLN"]}),
        ({"self-emp": 5, "Self emp": 2, "paid": 9}, {"self-emp": ["Self emp"]}),
        ({"Nord": 5, "N": 2, "Süd": 4, "S": 1}, {"Nord": ["N"], "Süd": ["S"]}),
        ({"verheiratet": 5, "verh.": 2, "ledig": 4}, {"verheiratet": ["verh."]}),
        ({"married": 3, "single": 2, "m": 1, "s": 1}, {"married": ["m"], "single": ["s"]}),
    ],
)
def test_values_that_seem_to_be_one_are_proposed(
    counts: dict[str, int], spellings: dict[str, list[str]]
) -> None:
    assert spellings_of(counts) == spellings


@pytest.mark.parametrize(
    "values",
    [
        # other single letters begin no word, so M is a size
        ["S", "M", "L", "Medium"],
        # w begins two words
        ["w", "Witwe", "Wahl"],
        ["<=50K", ">50K"],
        ["1-2", "1.2", "12"],
        ["A61", "A62", "A63"],
        ["m", "d", "s"],
        ["f", "m"],
        ["yes", "no"],
        ["k.A.", "K.A.", "-"],
        ["group 1", "group 11", "group1"],
        ["Masters", "Master's degree"],
        ["9th", "10th", "HS-grad"],
    ],
)
def test_values_that_differ_are_not_proposed(values: list[str]) -> None:
    assert spellings_of(dict.fromkeys(values, 5)) == {}


@given(st.dictionaries(st.text("aAbB .wm-", max_size=4), st.integers(1, 9), max_size=8))
def test_no_value_is_lost_and_none_is_joined_twice(counts: dict[str, int]) -> None:
    spellings = spellings_of(counts)
    seen = [*spellings, *(other for others in spellings.values() for other in others)]
    assert len(set(seen)) == len(seen)
    assert set(seen) <= set(counts)


def test_only_columns_of_few_texts_are_looked_at() -> None:
    many = pa.chunked_array([[f"x{k}" for k in range(201)] + ["X1"]])
    few = pa.chunked_array([["a", "A", None]]).dictionary_encode()
    numbers = pa.chunked_array([[1, 2]])
    assert find_spellings({"many": many, "few": few, "n": numbers}) == {"few": {"a": ["A"]}}


def test_joined_spellings_become_the_value_that_stays() -> None:
    values = pa.array(["weiblich", " W", "w", None, "m", "weiblich "])
    after = joined(values, {"weiblich": ["W ", "w"]})
    assert after.to_pylist() == ["weiblich", "weiblich", "weiblich", None, "m", "weiblich"]
