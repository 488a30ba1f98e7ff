from __future__ import annotations

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
