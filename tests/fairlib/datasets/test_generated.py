from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from evenhand.fairlib.datasets.generated import (
    CLUBS,
    FIELDS,
    GENERATED,
    OCCUPATIONS,
    make_bios,
    make_hiring,
    make_loans,
)
from evenhand.fairlib.datasets.recipes import RECIPES
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder

Find = Callable[[str], dict[str, Path]]


@pytest.fixture(scope="module")
def loans() -> pd.DataFrame:
    return make_loans(200_000, seed=3)


def test_loans_have_the_observed_columns_alone(loans: pd.DataFrame) -> None:
    assert list(loans) == ["X1", "X2", "X3", "X5", "X6", "X7", "X9", "X10", "group", "repaid"]
    assert len(loans) == 200_000
    assert set(loans["group"]) == {"a", "b"}
    assert set(loans["X9"]) == {"0", "1", "2"}
    assert loans["group"].eq("b").mean() == pytest.approx(0.5, abs=0.005)


@pytest.mark.parametrize(("group", "sign"), [("a", -1.0), ("b", 1.0)])
def test_loans_follow_each_groups_means(loans: pd.DataFrame, group: str, sign: float) -> None:
    rows = loans[loans["group"] == group]
    for name in ("X1", "X2", "X3"):
        assert rows[name].mean() == pytest.approx(0.0, abs=0.02)
    for name in ("X5", "X6", "X7"):
        assert rows[name].mean() == pytest.approx(sign / 2, abs=0.02)
    for name in ("X1", "X3", "X5", "X7"):
        assert rows[name].std() == pytest.approx(1.0, abs=0.02)
    for category in (0, 1, 2):
        part = rows.loc[rows["X9"] == str(category), "X10"]
        assert len(part) / len(rows) == pytest.approx(1 / 3, abs=0.01)
        assert part.mean() == pytest.approx(sign * category / 2, abs=0.03)
        assert part.std() == pytest.approx(1.0, abs=0.03)


def test_loans_label_is_logistic_in_all_ten_features(loans: pd.DataFrame) -> None:
    # Given the observed columns, -X4 / 10 is noise with mean 0 and -X8 / 10 has mean -0.05 in b,
    # 0.05 in a
    columns = ["X1", "X2", "X3", "X5", "X6", "X7", "X10"]
    X = np.column_stack([loans[columns], loans["X9"].astype(float), loans["group"] == "b"])
    fitted = LogisticRegression(C=1e6, max_iter=500).fit(X, loans["repaid"])
    expected = [0.1, -0.1, 0.1, 0.1, -0.1, 0.1, -0.1, 0.1, -0.1]
    np.testing.assert_allclose(fitted.coef_[0][:-1], expected[:-1], atol=0.02)
    assert fitted.coef_[0][-1] == pytest.approx(expected[-1], abs=0.05)
    assert fitted.intercept_[0] == pytest.approx(0.05, abs=0.03)


@pytest.fixture(scope="module")
def hiring() -> pd.DataFrame:
    return make_hiring(200_000, seed=3)


def test_hiring_has_a_column_for_everything_but_the_skill(hiring: pd.DataFrame) -> None:
    assert list(hiring) == [
        "gender",
        "club",
        "test",
        "interview",
        "experience",
        "break_months",
        "hired",
    ]
    assert len(hiring) == 200_000
    assert set(hiring["gender"]) == {"man", "woman"}
    assert set(hiring["club"]) == set(CLUBS)
    assert set(hiring["hired"]) == {0, 1}
    assert not hiring.isna().any().any()
    assert hiring[["experience", "break_months"]].min().min() >= 0
    assert hiring["gender"].eq("woman").mean() == pytest.approx(0.5, abs=0.005)


def test_women_and_men_are_equally_skilled_applicants(hiring: pd.DataFrame) -> None:
    for _, rows in hiring.groupby("gender"):
        skills = rows[["test", "interview"]]
        np.testing.assert_allclose(skills.mean(), 0.0, atol=0.02)
        # the skill, of variance 1, is what both scores share
        np.testing.assert_allclose(skills.cov(), [[1.36, 1.0], [1.0, 1.64]], atol=0.03)
        assert rows["experience"].mean() == pytest.approx(8.0, abs=0.05)
        assert rows["experience"].var() == pytest.approx(16.0, abs=0.4)
        assert abs(np.corrcoef(rows["experience"], rows["test"])[0, 1]) < 0.01


@pytest.mark.parametrize(
    ("gender", "choir", "football", "broken"), [("woman", 0.4, 0.1, 0.45), ("man", 0.1, 0.4, 0.15)]
)
def test_clubs_and_career_breaks_tell_the_gender(
    hiring: pd.DataFrame, gender: str, choir: float, football: float, broken: float
) -> None:
    rows = hiring[hiring["gender"] == gender]
    shares = rows["club"].value_counts(normalize=True)
    expected = {"none": 0.2, "chess": 0.1, "choir": choir, "football": football, "rowing": 0.2}
    np.testing.assert_allclose(
        [shares[club] for club in CLUBS], [expected[club] for club in CLUBS], atol=0.006
    )
    # months are rounded: a break of under half a month reads as none
    assert rows["break_months"].gt(0).mean() == pytest.approx(broken * np.exp(-0.05), abs=0.006)
    assert rows["break_months"].mean() == pytest.approx(10 * broken, abs=0.1)


def test_recruiters_preferred_men_and_cared_for_no_club(hiring: pd.DataFrame) -> None:
    """
    The scores s + 0.6 e and s + 0.8 f give the skill's mean as (s1 / 0.36 + s2 / 0.64) / precision.

    What is left of it, with variance 1 / precision, flattens the logistic function by a factor that
    is the same for every coefficient: ratios to that of the gender are exact but for a small error.
    """
    precision = 1 + 1 / 0.36 + 1 / 0.64
    skill = (hiring["test"] / 0.36 + hiring["interview"] / 0.64) / precision
    choir, football = hiring["club"].eq("choir"), hiring["club"].eq("football")
    woman, months = hiring["gender"].eq("woman"), hiring["break_months"]
    X = np.column_stack([woman, skill, hiring["experience"] - 8, months, choir, football])
    fitted = LogisticRegression(C=1e6, max_iter=500).fit(X, hiring["hired"])
    flattened = 1 / np.sqrt(1 + 1.2**2 / precision * np.pi / 8)
    found = np.append(fitted.intercept_, fitted.coef_[0]) / flattened
    np.testing.assert_allclose(found, [0.6, -1.2, 1.2, 0.15, -0.02, 0.0, 0.0], atol=0.05)
    assert found[3:5] == pytest.approx([0.15, -0.02], abs=0.004)


@pytest.mark.parametrize("table", sorted(GENERATED))
def test_generated_tables_repeat_themselves_by_seed(table: str) -> None:
    make = GENERATED[table].make
    pd.testing.assert_frame_equal(make(50, seed=1), make(50, seed=1))
    assert not make(50, seed=1).equals(make(50, seed=2))
    assert len(make(1)) == 1
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        make(0)


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


def test_biographies_tell_gender_and_occupation_as_they_say() -> None:
    people = make_bios(2_800, seed=0)
    sizes = people["title"].value_counts()
    assert len(sizes) == len(OCCUPATIONS) == 28
    assert set(sizes) == {100}
    women = people["gender"].eq("F").groupby(people["title"]).sum()
    assert women.to_dict() == {
        name: round(100 * share) for name, (_, share, _) in OCCUPATIONS.items()
    }
    # pronouns tell the gender, and nothing tells both
    said = people["bio"].str.contains(r"\bher\b")
    assert (said == people["gender"].eq("F")).all()
    assert (people["bio"].str.contains(r"\bhis\b") == people["gender"].eq("M")).all()
    own, phrases = 0, 0
    for bio, title in zip(people["bio"], people["title"], strict=True):
        field, _, told = OCCUPATIONS[title]
        own += sum(bio.count(phrase) for phrase in told.split(", "))
        phrases += 3
        assert any(word in bio for word in (*told.split(", "), *FIELDS[field][0].split(", ")))
    assert own / phrases == pytest.approx(0.4, abs=0.02)
