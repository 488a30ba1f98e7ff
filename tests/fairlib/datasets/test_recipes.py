"""Public tables: pinned digests, sizes, and features of the papers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from evenhand.fairlib.datasets.recipes import RECIPES
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder

Find = Callable[[str], dict[str, Path]]


@pytest.mark.data
@pytest.mark.parametrize("table", sorted(set(RECIPES) - {"bios"}))  # the owner's file
def test_pinned_digests_are_those_of_the_publishers_files(table: str, raw_files: Find) -> None:
    files = raw_files(table)
    for raw in RECIPES[table].files:
        assert hashlib.sha256(files[raw.name].read_bytes()).hexdigest() == raw.sha256, raw.name
        assert raw.url.startswith("https://")


@pytest.mark.data
@pytest.mark.parametrize(
    ("table", "shape", "label", "counts"),
    [
        ("adult", (45_222, 12), "income", {"<=50K": 34_014, ">50K": 11_208}),
        ("census", (45_222, 15), "income", {"<=50K": 34_014, ">50K": 11_208}),
        ("german", (1_000, 21), "credit", {"good": 700, "bad": 300}),
        ("german-sex", (1_000, 21), "credit", {"good": 700, "bad": 300}),
        ("compas", (5_278, 6), "two_year_recid", {0: 2_795, 1: 2_483}),
        ("compas-charges", (6_167, 11), "two_year_recid", {0: 3_358, 1: 2_809}),
        ("bank", (45_211, 17), "y", {"no": 39_922, "yes": 5_289}),
        ("bank-age", (45_211, 17), "y", {"no": 39_922, "yes": 5_289}),
    ],
)
def test_tables_have_the_known_sizes(
    table: str, shape: tuple[int, int], label: str, counts: dict[object, int], raw_files: Find
) -> None:
    frame = RECIPES[table].read(raw_files(table))
    assert frame.shape == shape
    assert not frame.isna().any().any()
    assert frame[label].value_counts().to_dict() == counts
    assert list(frame.index) == list(range(len(frame)))


def _matrix_width(frame: pd.DataFrame, label: str, binary: dict[str, str]) -> int:
    """Columns of the encoded matrix: numbers standardised, the named ones binary, all others
    one-hot.
    """
    specs = [
        ColumnSpec(name, "binary", binary[name])
        if name in binary
        else ColumnSpec(
            name, "standard" if pd.api.types.is_numeric_dtype(frame[name]) else "onehot"
        )
        for name in frame.columns.drop(label)
    ]
    return TableEncoder(specs).fit(frame).transform(frame).shape[1]


@pytest.mark.data
def test_adult_has_the_papers_41_features(raw_files: Find) -> None:
    frame = RECIPES["adult"].read(raw_files("adult"))
    assert not {"fnlwgt", "education", "native-country"} & set(frame)
    assert frame["race"].value_counts().to_dict() == {"White": 38_903, "Non-White": 6_319}
    assert frame["sex"].value_counts().to_dict() == {"Male": 30_527, "Female": 14_695}
    assert _matrix_width(frame, "income", {"race": "White", "sex": "Male"}) == 41


@pytest.mark.data
def test_the_census_has_all_attributes_of_the_same_people(raw_files: Find) -> None:
    census, adult = (RECIPES[name].read(raw_files(name)) for name in ("census", "adult"))
    assert [name for name in census if name not in adult] == [
        "fnlwgt",
        "education",
        "native-country",
    ]
    same = [name for name in adult if name != "race"]
    pd.testing.assert_frame_equal(census[same], adult[same])
    assert census["race"].eq("White").equals(adult["race"].eq("White"))
    races = {"White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"}
    assert set(census["race"]) == races
    assert _matrix_width(census.drop(columns="sex"), "income", {}) == 102


@pytest.mark.data
def test_german_has_seven_numbers_and_thirteen_categoricals(raw_files: Find) -> None:
    frame = RECIPES["german"].read(raw_files("german"))
    numeric = [name for name in frame if pd.api.types.is_numeric_dtype(frame[name])]
    assert len(numeric) == 7
    assert frame.shape[1] - 1 - len(numeric) == 13
    # the paper counts 62: a status of the code book, A95, that no person in the file has
    assert _matrix_width(frame, "credit", {}) == 61
    assert set(frame["personal_status"]) == {"A91", "A92", "A93", "A94"}
    assert int((frame["age"] < 25).sum()) == 149


@pytest.mark.data
def test_compas_has_the_papers_7_features(raw_files: Find) -> None:
    frame = RECIPES["compas"].read(raw_files("compas"))
    assert frame["race"].value_counts().to_dict() == {"African-American": 3_175, "Caucasian": 2_103}
    binary = {"race": "Caucasian", "sex": "Male", "c_charge_degree": "F"}
    assert _matrix_width(frame, "two_year_recid", binary) == 7


@pytest.mark.data
def test_german_sex_takes_the_place_of_marital_status(raw_files: Find) -> None:
    plain, frame = (RECIPES[name].read(raw_files(name)) for name in ("german", "german-sex"))
    assert frame["sex"].value_counts().to_dict() == {"male": 690, "female": 310}
    pairs = set(zip(plain["personal_status"], frame["sex"], strict=True))
    assert pairs == {("A91", "male"), ("A92", "female"), ("A93", "male"), ("A94", "male")}
    pd.testing.assert_frame_equal(frame.drop(columns="sex"), plain.drop(columns="personal_status"))
    assert [{"sex": "personal_status"}.get(name, name) for name in frame] == list(plain)


@pytest.mark.data
def test_compas_charges_has_all_races_and_401_features(raw_files: Find) -> None:
    frame = RECIPES["compas-charges"].read(raw_files("compas-charges"))
    assert frame["sex"].value_counts().to_dict() == {"Male": 4_994, "Female": 1_173}
    assert frame["race"].value_counts().to_dict() == {"Not Caucasian": 4_067, "Caucasian": 2_100}
    assert frame["c_charge_desc"].nunique() == 389
    binary = {"sex": "Female", "race": "Caucasian"}
    assert _matrix_width(frame, "two_year_recid", binary) == 401


@pytest.mark.data
def test_bank_age_has_two_groups_in_the_place_of_age(raw_files: Find) -> None:
    plain, frame = (RECIPES[name].read(raw_files(name)) for name in ("bank", "bank-age"))
    assert frame["age_group"].value_counts().to_dict() == {"25-59": 42_618, "other": 2_593}
    ages = plain["age"].groupby(frame["age_group"]).agg(["min", "max"])
    assert ages.loc["25-59"].tolist() == [25, 59]
    others = set(plain["age"][frame["age_group"] == "other"])
    assert {24, 60} <= others
    assert not others & set(range(25, 60))
    pd.testing.assert_frame_equal(frame.drop(columns="age_group"), plain.drop(columns="age"))
    assert next(iter(frame)) == "age_group"
