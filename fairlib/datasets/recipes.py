"""Recipes of public tables: which raw files, and how they become one table with one row a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

__all__ = ["RECIPES", "RawFile", "Recipe"]

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"


@dataclass(frozen=True)
class RawFile:
    """
    A publisher's file.

    Parameters
    ----------
    name : str
        Name on disk.
    url : str
        Where its publisher serves it.
    sha256 : str
        Of the file itself.
    member : str or None
        Its path inside the archive that `url` serves, if it is one.
    """

    name: str
    url: str
    sha256: str
    member: str | None = None


@dataclass(frozen=True)
class Recipe:
    """How a known table comes about: its raw files and the function that reads them."""

    name: str
    summary: str
    files: tuple[RawFile, ...]
    read: Callable[[Mapping[str, Path]], pd.DataFrame]


ADULT_COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
]
GERMAN_COLUMNS = [
    "status",
    "month",
    "credit_history",
    "purpose",
    "credit_amount",
    "savings",
    "employment",
    "investment_as_income_percentage",
    "personal_status",
    "other_debtors",
    "residence_since",
    "property",
    "age",
    "installment_plans",
    "housing",
    "number_of_credits",
    "skill_level",
    "people_liable_for",
    "telephone",
    "foreign_worker",
    "credit",
]
COMPAS_COLUMNS = ["sex", "race", "age_cat", "priors_count", "c_charge_degree", "two_year_recid"]


def _read_census(files: Mapping[str, Path]) -> pd.DataFrame:
    """
    Complete rows of both parts with all attributes.

    The test part opens with a comment line and ends its labels in a full stop.
    """
    parts = [
        pd.read_csv(
            files[name],
            names=ADULT_COLUMNS,
            skipinitialspace=True,
            na_values="?",
            skiprows=int(name == "adult.test"),
        )
        for name in ("adult.data", "adult.test")
    ]
    frame = pd.concat(parts, ignore_index=True).dropna().reset_index(drop=True)
    frame["income"] = frame["income"].str.rstrip(".")
    return frame


def _read_adult(files: Mapping[str, Path]) -> pd.DataFrame:
    """Complete rows of both parts; race as White / Non-White (BuDRO, appendix C.4)."""
    frame = _read_census(files)
    frame["race"] = frame["race"].where(frame["race"] == "White", "Non-White")
    return frame.drop(columns=["fnlwgt", "education", "native-country"])


def _read_german(files: Mapping[str, Path]) -> pd.DataFrame:
    """All rows and attributes with the publisher's codes (BuDRO, appendix C.3)."""
    frame = pd.read_csv(files["german.data"], sep=" ", header=None, names=GERMAN_COLUMNS)
    frame["credit"] = frame["credit"].map({1: "good", 2: "bad"})
    return frame


def _read_compas(files: Mapping[str, Path]) -> pd.DataFrame:
    """
    African-American and Caucasian defendants with a usable record (BuDRO, appendix C.5).

    The publisher's own filter: screened within 30 days of the arrest, a known outcome, no ordinary traffic
    offence, a scored case.
    """
    raw = pd.read_csv(files["compas-scores-two-years.csv"])
    usable = (
        raw["days_b_screening_arrest"].between(-30, 30)
        & (raw["is_recid"] != -1)
        & (raw["c_charge_degree"] != "O")
        & raw["score_text"].notna()  # written N/A in the file
        & raw["race"].isin(["African-American", "Caucasian"])
    )
    return raw.loc[usable, COMPAS_COLUMNS].reset_index(drop=True)


def _read_bank(files: Mapping[str, Path]) -> pd.DataFrame:
    """Every call of the marketing campaign."""
    return pd.read_csv(files["bank-full.csv"], sep=";")


ADULT_FILES = (
    RawFile(
        "adult.data",
        f"{UCI}/adult/adult.data",
        "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    ),
    RawFile(
        "adult.test",
        f"{UCI}/adult/adult.test",
        "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    ),
)
RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "adult",
            "US census 1994: income above 50K; 45,222 complete rows (UCI)",
            ADULT_FILES,
            _read_adult,
        ),
        Recipe(
            "census",
            "the rows of adult with all 14 attributes and five races (UCI)",
            ADULT_FILES,
            _read_census,
        ),
        Recipe(
            "german",
            "Statlog German credit: bad credit risk; 1,000 rows (UCI)",
            (
                RawFile(
                    "german.data",
                    f"{UCI}/statlog/german/german.data",
                    "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
                ),
            ),
            _read_german,
        ),
        Recipe(
            "compas",
            "COMPAS: two-year recidivism; 5,278 rows (ProPublica)",
            (
                RawFile(
                    "compas-scores-two-years.csv",
                    "https://raw.githubusercontent.com/propublica/compas-analysis/master/"
                    "compas-scores-two-years.csv",
                    "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
                ),
            ),
            _read_compas,
        ),
        Recipe(
            "bank",
            "Bank marketing: term deposit subscribed; 45,211 rows (UCI)",
            (
                RawFile(
                    "bank-full.csv",
                    f"{UCI}/00222/bank.zip",
                    "d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d",
                    member="bank-full.csv",
                ),
            ),
            _read_bank,
        ),
    )
}
