"""Recipes of public tables: their raw files, and the code that makes one table with one row per
person.

A recipe downloads nothing: it names its files, their addresses and their sha256, and reads local
copies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
GITHUB = "https://raw.githubusercontent.com"


@dataclass(frozen=True)
class RawFile:
    """A publisher's file.

    Parameters
    ----------
    name : str
        Name on disk.
    url : str
        Where its publisher serves it; empty for a file that its owner does not pass on.
    sha256 : str
        Of the file itself, not of the archive; empty where every copy may differ.
    member : str or None, default None
        The file's path inside the archive at `url`; None if `url` serves the file itself.
    """

    name: str
    url: str
    sha256: str
    member: str | None = None


@dataclass(frozen=True)
class Recipe:
    """A known table: its raw files and the function that reads them.

    Parameters
    ----------
    summary : str
        What the table is, in a line.
    files : tuple of RawFile
    read : callable
        From the paths of the files, by name, to the table.
    """

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
CHARGES_COLUMNS = [
    "sex",
    "race",
    "age",
    "juv_fel_count",
    "juv_misd_count",
    "juv_other_count",
    "priors_count",
    "age_cat",
    "c_charge_degree",
    "c_charge_desc",
    "two_year_recid",
]
# Position of the word that is toxic or not, by kind of template.
PLACES_OF_WORDS = {
    "name_adj": 3,
    "you_are_adj": 3,
    "you_occupation": 3,
    "being_adj": -1,
    "verb_adj": 0,
    "am_hate_adj": 1,
}
# A95, a single woman, is defined but never occurs.
SEX_OF_STATUS = {"A91": "male", "A92": "female", "A93": "male", "A94": "male", "A95": "female"}


def _read_census(files: Mapping[str, Path]) -> pd.DataFrame:
    """Complete rows of both parts with all attributes.

    The test part opens with a comment line and ends its labels in a full stop.
    """
    import pandas as pd

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
    import pandas as pd

    frame = pd.read_csv(files["german.data"], sep=" ", header=None, names=GERMAN_COLUMNS)
    frame["credit"] = frame["credit"].map({1: "good", 2: "bad"})
    return frame


def _read_german_sex(files: Mapping[str, Path]) -> pd.DataFrame:
    """All rows, with the sex in place of the code of marital status and sex (AIF360)."""
    frame = _read_german(files).rename(columns={"personal_status": "sex"})
    frame["sex"] = frame["sex"].map(SEX_OF_STATUS)
    return frame


def _usable_cases(files: Mapping[str, Path]) -> pd.DataFrame:
    """Defendants with a usable record, with all columns.

    The publisher's own filter: screened within 30 days of the arrest, a known outcome, no ordinary
    traffic offence, a scored case.
    """
    import pandas as pd

    raw = pd.read_csv(files["compas-scores-two-years.csv"])
    usable = (
        raw["days_b_screening_arrest"].between(-30, 30)
        & (raw["is_recid"] != -1)
        & (raw["c_charge_degree"] != "O")
        & raw["score_text"].notna()  # written N/A in the file
    )
    return raw[usable]


def _read_compas(files: Mapping[str, Path]) -> pd.DataFrame:
    """African-American and Caucasian defendants with a usable record (BuDRO, appendix C.5)."""
    usable = _usable_cases(files)
    two_groups = usable["race"].isin(["African-American", "Caucasian"])
    return usable.loc[two_groups, COMPAS_COLUMNS].reset_index(drop=True)


def _read_compas_charges(files: Mapping[str, Path]) -> pd.DataFrame:
    """Complete usable records of all races, as Caucasian / Not Caucasian, with their charges
    (AIF360).
    """
    frame = _usable_cases(files)[CHARGES_COLUMNS].dropna().reset_index(drop=True)
    frame["race"] = frame["race"].where(frame["race"] == "Caucasian", "Not Caucasian")
    return frame


def _read_bank(files: Mapping[str, Path]) -> pd.DataFrame:
    """Every call of the marketing campaign."""
    import pandas as pd

    return pd.read_csv(files["bank-full.csv"], sep=";")


def _read_bank_age(files: Mapping[str, Path]) -> pd.DataFrame:
    """Every call, with two groups in place of age: from 25 to 59 years, and all others (AIF360)."""
    import numpy as np  # imported lazily: jobs need the names of the tables alone

    frame = _read_bank(files).rename(columns={"age": "age_group"})
    frame["age_group"] = np.where(frame["age_group"].between(25, 59), "25-59", "other")
    return frame


def _read_tweets(files: Mapping[str, Path]) -> pd.DataFrame:
    """Every tweet; toxic are those that most annotators called hate speech or offensive."""
    import pandas as pd

    raw = pd.read_csv(files["davidson_labeled_data.csv"])
    return pd.DataFrame(
        {"comment": raw["tweet"].str.strip(), "toxic": (raw["class"] < 2).astype(int)}
    )


def _read_templates(files: Mapping[str, Path]) -> pd.DataFrame:
    """Every template sentence, and by number the word that makes it toxic or not."""
    import pandas as pd

    raw = pd.read_csv(files["bias_madlibs_77k.csv"])
    words = raw["Text"].str.lower().str.rstrip(".").str.split()
    place = raw["Template"].map(PLACES_OF_WORDS)
    decisive = [sentence[at] for sentence, at in zip(words, place, strict=True)]
    return pd.DataFrame(
        {
            "comment": raw["Text"],
            "word": pd.factorize(pd.Series(decisive))[0],
            "toxic": (raw["Label"] == "BAD").astype(int),
        }
    )


def _read_bios(files: Mapping[str, Path]) -> pd.DataFrame:
    """Every biography, without its first sentence; ValueError for a file with other columns."""
    import pandas as pd

    raw = pd.read_csv(files["bios.csv"], dtype=str)
    for name in ("bio", "gender", "title"):
        if name not in raw:
            raise ValueError(f"bios.csv lacks the column {name}: it needs bio, gender and title.")
    raw["title"] = raw["title"].str.strip().str.lower().str.replace(" ", "_")
    return raw[["bio", "gender", "title"]]


ADULT_FILES = (
    RawFile(
        name="adult.data",
        url=f"{UCI}/adult/adult.data",
        sha256="5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    ),
    RawFile(
        name="adult.test",
        url=f"{UCI}/adult/adult.test",
        sha256="a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    ),
)
GERMAN_FILE = RawFile(
    name="german.data",
    url=f"{UCI}/statlog/german/german.data",
    sha256="b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
)
COMPAS_FILE = RawFile(
    name="compas-scores-two-years.csv",
    url=f"{GITHUB}/propublica/compas-analysis/master/compas-scores-two-years.csv",
    sha256="c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
)
TEMPLATE_FILE = RawFile(
    name="bias_madlibs_77k.csv",
    url=f"{GITHUB}/conversationai/unintended-ml-bias-analysis/main/sentence_templates/"
    "en_sentence_templates/bias_madlibs_77k.csv",
    sha256="aac542254cf158415ec74623d54fa76176f26a7e7d8ef20788e1748a05ba5b4c",
)
TWEET_FILE = RawFile(
    name="davidson_labeled_data.csv",
    url=f"{GITHUB}/t-davidson/hate-speech-and-offensive-language/master/data/labeled_data.csv",
    sha256="fcb8bc7c68120ae4af04a5b9acd58585513ede11e1548ebf36a5c2040b6f6281",
)
BANK_FILE = RawFile(
    name="bank-full.csv",
    url=f"{UCI}/00222/bank.zip",
    sha256="d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d",
    member="bank-full.csv",
)
RECIPES: dict[str, Recipe] = {
    "adult": Recipe(
        summary="US census 1994: income above 50K; 45,222 complete rows (UCI)",
        files=ADULT_FILES,
        read=_read_adult,
    ),
    "census": Recipe(
        summary="the rows of adult with all 14 attributes and five races (UCI)",
        files=ADULT_FILES,
        read=_read_census,
    ),
    "german": Recipe(
        summary="Statlog German credit: bad credit risk; 1,000 rows (UCI)",
        files=(GERMAN_FILE,),
        read=_read_german,
    ),
    "german-sex": Recipe(
        summary="the rows of german with sex for marital status: good credit risk (UCI)",
        files=(GERMAN_FILE,),
        read=_read_german_sex,
    ),
    "compas": Recipe(
        summary="COMPAS: two-year recidivism; 5,278 rows (ProPublica)",
        files=(COMPAS_FILE,),
        read=_read_compas,
    ),
    "compas-charges": Recipe(
        summary="COMPAS, all races, with charges: no new offence; 6,167 rows (ProPublica)",
        files=(COMPAS_FILE,),
        read=_read_compas_charges,
    ),
    "bank": Recipe(
        summary="Bank marketing: term deposit subscribed; 45,211 rows (UCI)",
        files=(BANK_FILE,),
        read=_read_bank,
    ),
    "bank-age": Recipe(
        summary="the rows of bank with age in two groups: 25 to 59, and others (UCI)",
        files=(BANK_FILE,),
        read=_read_bank_age,
    ),
    "tweets": Recipe(
        summary="tweets: hate speech or offensive language; 24,783 rows (Davidson et al.)",
        files=(TWEET_FILE,),
        read=_read_tweets,
    ),
    "templates": Recipe(
        summary="toxicity of 76,564 template sentences with identity terms (Dixon et al.)",
        files=(TEMPLATE_FILE,),
        read=_read_templates,
    ),
    "bios": Recipe(
        summary=(
            "occupations of biographies: 28 classes (De-Arteaga et al.); put your bios.csv in "
            "EVENHAND_DATA"
        ),
        files=(RawFile("bios.csv", "", ""),),
        read=_read_bios,
    ),
}
