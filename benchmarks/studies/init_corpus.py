"""How well `evenhand init` understands tables whose truth is known.

Run ``EVENHAND_DATA=FOLDER python -m benchmarks.studies.init_corpus``. Four sets of tables are
inferred: generated ones with planted traits of every kind; generated ones with other names, written
after the rules of `init`; files as offices write them (:mod:`benchmarks.studies.office_files`); and
four published files, whose truth was written by hand. A column is right if its role and its encoding
are, and every planted spelling of a missing value was found. A false alarm is an innocent column that
is ignored: taken for a leak, an id, a weight, a part of a split, a constant or a copy. Of office
files every value is compared with the one that was meant, and each proposal to read two categories
as one with those that were planted.
"""

from __future__ import annotations

import datetime
import io
import os
import tempfile
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv

from benchmarks.common import log, provenance, write_result
from benchmarks.studies.office_files import OFFICE_FILES, office_table
from evenhand.data_contracts.column import Column
from evenhand.data_contracts.spellings import find_spellings
from evenhand.fairlib.datasets.recipes import ADULT_COLUMNS, GERMAN_COLUMNS
from evenhand.flows.commands.init_command import Understanding, understand
from evenhand.tasks.sources.table_reader import open_table

SEED = 20261122
TABLES, HELD_OUT = 44, 16
# Spellings of missing values that the reader of files knows by itself.
READ_AS_NULL = ("N/A", "NA", "n/a", "k.A.", "-")
GOALS = {"right": 0.97, "leaks_found": 1.0, "false_alarms_per_100": 1.0}
Random = np.random.Generator

NUMBER, CATEGORY, ORDINAL, BOOLEAN, DATE = "number", "category", "ordinal", "boolean", "date"
IGNORED, LEAK, DERIVED = "ignored", "leak", "derived"


@dataclass(frozen=True)
class Truth:
    """What is right for a column: any of some kinds, and the planted spelling of missing values."""

    kinds: tuple[str, ...]
    missing: Any = None


@dataclass
class Case:
    """One table with its truth."""

    name: str
    table: pa.Table
    label: str
    sensitive: list[str]
    truth: dict[str, Truth] = field(default_factory=dict)


def kind_of(column: Column, leaks: Iterable[str]) -> str:
    """Kind of an inferred column, in the words of the truth."""
    if column.role == "ignore":
        return LEAK if column.name in leaks else IGNORED
    if column.logical_type == "boolean":
        return BOOLEAN
    kinds = {
        "standard": NUMBER,
        "unit": NUMBER,
        "onehot": CATEGORY,
        "binary": CATEGORY,
        "ordinal": ORDINAL,
    }
    return kinds.get(str(column.encoding), DATE)


# what columns of real tables look like: each maker returns a value for each row, given its hidden
# quality z


def _income(r: Random, z: np.ndarray) -> Any:
    return np.round(np.exp(10.3 + 0.5 * r.normal(size=len(z)) + 0.15 * z), int(r.choice([0, 2])))


def _measure(r: Random, z: np.ndarray) -> Any:
    return np.round(
        r.normal(r.uniform(5, 120), r.uniform(1, 20), len(z)) + r.uniform(-1, 1) * z,
        int(r.integers(1, 4)),
    )


def _count(r: Random, z: np.ndarray) -> Any:
    return r.poisson(np.exp(r.uniform(-0.5, 1.8) + r.uniform(-0.3, 0.3) * z))


def _amount(r: Random, z: np.ndarray) -> Any:
    return np.where(r.random(len(z)) < 0.6, 0, r.integers(1, 400, len(z)) * 25)


def _months(r: Random, z: np.ndarray) -> Any:
    return r.choice(
        [6, 12, 18, 24, 30, 36, 48, 60, 9, 15, 21, 10, 8, 7, 14], len(z), p=_falling(15, r)
    )


def _share(r: Random, z: np.ndarray) -> Any:
    return np.round(r.beta(2, 5, len(z)), 3)


def _year(r: Random, z: np.ndarray) -> Any:
    return 1985 + np.minimum(r.poisson(14, len(z)), 38)


def _hours(r: Random, z: np.ndarray) -> Any:
    usual = r.choice([40, 38, 20, 30, 45, 50], len(z))
    return np.where(r.random(len(z)) < 0.5, usual, r.integers(5, 75, len(z)))


def _likert(r: Random, z: np.ndarray) -> Any:
    return np.clip(np.round(3 + 0.4 * z + r.normal(size=len(z))), 1, 5).astype(int)


def _falling(k: int, r: Random) -> Any:
    p = 1.0 / np.arange(1, k + 1) ** r.uniform(0.4, 1.3)
    return p / p.sum()


def _words(r: Random, z: np.ndarray, levels: list[str] | None = None) -> Any:
    levels = (
        levels
        or [f"{a}{b}" for a in ("north", "east", "brand", "group ", "k") for b in "abcdefg"][
            : r.integers(3, 34)
        ]
    )
    return np.array(levels, dtype=object)[r.choice(len(levels), len(z), p=_falling(len(levels), r))]


def _codes(r: Random, z: np.ndarray) -> Any:
    """Codes from a code book: gaps, no order, each with its own level of z."""
    book = np.sort(
        r.choice(np.arange(1, int(r.choice([30, 90, 400]))), int(r.integers(4, 13)), replace=False)
    )
    return _by_level(r, z, book)


def _dense_codes(r: Random, z: np.ndarray) -> Any:
    return _by_level(r, z, np.arange(1, int(r.integers(5, 13))))


def _by_level(r: Random, z: np.ndarray, levels: np.ndarray) -> Any:
    taste = r.permutation(np.linspace(-1.2, 1.2, len(levels)))
    odds = np.exp(np.outer(z, taste)) * r.permutation(_falling(len(levels), r))
    return levels[
        (odds.cumsum(axis=1) / odds.sum(axis=1, keepdims=True) < r.random(len(z))[:, None]).sum(
            axis=1
        )
    ]


def _ordered(r: Random, z: np.ndarray, levels: list[str]) -> Any:
    place = 0.5 * z + r.normal(size=len(z))
    cuts = np.quantile(place, np.linspace(0, 1, len(levels) + 1)[1:-1])
    return np.array(levels, dtype=object)[np.searchsorted(cuts, place)]


def _flags(r: Random, z: np.ndarray, pair: tuple[Any, Any]) -> Any:
    return np.where(
        r.random(len(z)) < 1 / (1 + np.exp(r.uniform(-1, 1) - 0.4 * z)), pair[1], pair[0]
    )


def _iso_dates(r: Random, z: np.ndarray) -> Any:
    start = datetime.date(2012, 1, 1) + datetime.timedelta(days=int(r.integers(0, 2000)))
    return [
        (start + datetime.timedelta(days=int(d))).isoformat() for d in r.integers(0, 1500, len(z))
    ]


def _timestamps(r: Random, z: np.ndarray) -> Any:
    return pd.Timestamp("2015-03-01") + pd.to_timedelta(r.integers(0, 60_000_000, len(z)), unit="s")


def _sentences(r: Random, z: np.ndarray) -> Any:
    stock = np.array(
        [
            "late",
            "paid",
            "called",
            "again",
            "moved",
            "house",
            "asked",
            "twice",
            "for",
            "new",
            "form",
            "no",
            "reply",
            "sent",
            "back",
        ]
    )
    return [" ".join(r.choice(stock, 6)) + f" {k}" for k in r.integers(0, 10**6, len(z))]


def _surnames(r: Random, z: np.ndarray) -> Any:
    parts = np.array(
        ["ber", "mann", "li", "son", "ka", "ro", "vic", "sch", "el", "ton", "ma", "ni"]
    )
    return ["".join(r.choice(parts, 3)).title() for _ in z]


def _grouped_text(r: Random, z: np.ndarray) -> Any:
    return [f"{int(v):,}" for v in np.exp(8 + r.normal(size=len(z)))]


def _percent_text(r: Random, z: np.ndarray) -> Any:
    return [f"{v:.1f}%" for v in 100 * r.beta(2, 3, len(z))]


def _money_text(r: Random, z: np.ndarray) -> Any:
    return [f"${v:,.2f}" for v in np.exp(6 + r.normal(size=len(z)))]


SCALES = [
    ["low", "medium", "high"],
    ["Very Low", "Low", "Moderate", "High", "Very High"],
    ["never", "rarely", "sometimes", "often", "always"],
    ["Strongly disagree", "Disagree", "Neutral", "Agree", "Strongly agree"],
    ["Very dissatisfied", "Dissatisfied", "Neutral", "Satisfied", "Very satisfied"],
    ["poor", "fair", "good", "very good", "excellent"],
    ["junior", "mid", "senior", "lead"],
    ["S", "M", "L", "XL"],
    ["primary", "secondary", "tertiary"],
    ["High School", "Some College", "Bachelor's", "Master's", "PhD"],
    ["9th", "10th", "11th", "HS-grad", "Some-college", "Bachelors", "Masters", "Doctorate"],
    ["bronze", "silver", "gold", "platinum"],
    ["none", "mild", "moderate", "severe"],
    ["<18", "18-24", "25-34", "35-44", "45-54", "55-64", "65+"],
    ["[0-10)", "[10-20)", "[20-30)", "[30-40)", "[40-50)"],
    ["< 1 year", "1-2 years", "3-5 years", "6-10 years", "> 10 years"],
    ["under 20k", "20k-40k", "40k-60k", "60k-100k", "over 100k"],
    ["0", "1-5", "6-20", "21 or more"],
    ["(15, 25]", "(25, 35]", "(35, 45]", "(45, 80]"],
    ["Low risk", "Medium risk", "High risk"],
    ["Beginner", "Intermediate", "Advanced", "Expert"],
]
FLAGS: list[tuple[Any, Any]] = [
    ("no", "yes"),
    ("No", "Yes"),
    ("N", "Y"),
    ("n", "y"),
    ("F", "T"),
    ("false", "true"),
    ("False", "True"),
    ("FALSE", "TRUE"),
    (0, 1),
    (False, True),
    ("off", "on"),
    ("NO", "YES"),
    (0.0, 1.0),
]

# names by maker, as publishers write them
NAMES: dict[Callable[..., Any], list[str]] = {
    _income: [
        "annual_income",
        "Salary",
        "loan_amount",
        "total_charges",
        "HouseholdIncome",
        "premium",
        "credit_limit",
    ],
    _measure: [
        "bmi",
        "blood_pressure",
        "distance_km",
        "temperature",
        "gpa",
        "body_weight",
        "height_cm",
        "debt_ratio",
    ],
    _count: [
        "children",
        "num_visits",
        "prior_arrests",
        "n_accounts",
        "PreviousCalls",
        "dependents",
        "late_payments",
    ],
    _amount: ["capital_gain", "overtime_pay", "refunds", "bonus", "balance_due"],
    _months: ["duration", "loan_term", "months_on_book", "contract_length"],
    _share: ["utilization", "attendance", "dti", "share_remote", "score_raw"],
    _year: ["year_built", "hire_year", "grad_year", "first_year"],
    _hours: ["hours_per_week", "weekly_hours", "HoursWorked"],
    _likert: ["q1", "q7", "JobSatisfaction", "work_life_balance", "stress", "trust"],
    _words: [
        "region",
        "occupation",
        "city",
        "department",
        "marital",
        "channel",
        "make",
        "native_country",
        "course",
        "club",
    ],
    _codes: [
        "job_code",
        "branch",
        "product_type",
        "OccupationCode",
        "v17",
        "status_cd",
        "segment",
        "ward",
        "x4",
        "reason",
    ],
    _dense_codes: [
        "housing_type",
        "region_code",
        "purpose",
        "plan",
        "MaritalStatus",
        "race_cat",
        "industry",
        "class_of_worker",
    ],
    _iso_dates: ["application_date", "joined", "last_seen", "admitted", "signup"],
    _timestamps: ["created_at", "last_login", "event_time"],
    _sentences: ["comment", "notes", "remarks"],
    _surnames: ["last_name", "surname", "contact_person"],
    _grouped_text: ["revenue", "assets", "turnover"],
    _percent_text: ["interest_rate", "discount", "completion"],
    _money_text: ["price", "monthly_fee", "paid"],
}
ORDERED_NAMES = [
    "level",
    "rating",
    "bracket",
    "answer_3",
    "category",
    "tier",
    "experience",
    "education",
    "band",
    "frequency",
]
FLAG_NAMES = [
    "owns_car",
    "married",
    "smoker",
    "is_student",
    "remote",
    "has_loan",
    "veteran",
    "consent",
    "insured",
    "phone",
]
# the kind that each maker's columns have
KINDS: dict[Callable[..., Any], tuple[str, ...]] = {
    **dict.fromkeys(
        (_income, _measure, _count, _amount, _months, _share, _year, _hours), (NUMBER,)
    ),
    _likert: (NUMBER, ORDINAL),
    **dict.fromkeys((_words, _codes, _dense_codes), (CATEGORY,)),
    **dict.fromkeys((_iso_dates, _timestamps), (DATE,)),
    **dict.fromkeys((_sentences, _surnames), (IGNORED,)),
    **dict.fromkeys((_grouped_text, _percent_text, _money_text), (NUMBER,)),
}
ID_NAMES = ["id", "customer_id", "PatientID", "case_number", "unnamed", "row", "member_no", "ref"]
WEIGHT_NAMES = [
    "sample_weight",
    "fnlwgt",
    "survey_wgt",
    "weight",
    "pop_weight",
    "PERWT",
    "final_wt",
]
FOLD_NAMES = ["fold", "cv_fold", "split", "partition", "is_train", "kfold"]
CONSTANT_NAMES = ["country", "version", "source_system", "currency"]
LABELS = [
    ("hired", "no", "yes"),
    ("default", 0, 1),
    ("churn", "No", "Yes"),
    ("approved", "N", "Y"),
    ("outcome", "bad", "good"),
    ("readmitted", False, True),
    ("income", "<=50K", ">50K"),
    ("target", 0.0, 1.0),
]
LEAK_NAMES = [
    "outcome_code",
    "final_decision",
    "collected",
    "closed_on",
    "exit_score",
    "offer_sent",
    "recovery",
]
TEXT_GAPS, NUMBER_GAPS = ["?", "-", "N/A", "NA", "None", "", "missing"], [999, -1, 9999, -99, -999]


@dataclass(frozen=True)
class Style:
    """How the publisher of a table names columns and values."""

    name: str = "planted"
    names: dict[Callable[..., Any], list[str]] = field(default_factory=lambda: NAMES)
    ordered: list[str] = field(default_factory=lambda: ORDERED_NAMES)
    flags: list[str] = field(default_factory=lambda: FLAG_NAMES)
    scales: list[list[str]] = field(default_factory=lambda: SCALES)
    labels: list[tuple[str, Any, Any]] = field(default_factory=lambda: LABELS)
    ids: list[str] = field(default_factory=lambda: ID_NAMES)
    weights: list[str] = field(default_factory=lambda: WEIGHT_NAMES)
    leaks: list[str] = field(default_factory=lambda: LEAK_NAMES)


# written after the rules of `init`, from other fields and by other habits
OTHER_STYLE: dict[str, Any] = {
    "names": {
        _income: ["TotalPremium", "mtg_val", "ann_turnover", "Rent", "ClaimSize", "networth"],
        _measure: ["hba1c", "speed_avg", "WaistCircumference", "lat", "ph", "gpa2"],
        _count: ["siblings", "ClaimsLast5y", "n_meds", "absences", "incidents", "PetsOwned"],
        _amount: ["alimony", "fines", "tips", "donated"],
        _months: ["repay_period", "sentence_length", "policyTerm", "time_at_address"],
        _share: ["occupancy", "pct_paid", "loanToValue", "accuracy"],
        _year: ["model_year", "licensed_since", "YearOfEntry"],
        _hours: ["sleep_hours", "screen_time", "hrs"],
        _likert: ["item_04", "wellbeing", "Q12_comfort", "morale"],
        _words: [
            "canton",
            "sport",
            "employer_sector",
            "Language",
            "referral",
            "blood_group",
            "diet",
        ],
        _codes: [
            "dx_code",
            "StoreKind",
            "tariff_cd",
            "soc",
            "agency_code",
            "feld_3",
            "admission_type",
            "Typ",
            "route",
        ],
        _dense_codes: [
            "payer_class",
            "CitizenshipStatus",
            "vehicle_type",
            "ethnic_group",
            "legal_form",
            "crop_kind",
        ],
        _iso_dates: ["dateOfHire", "first_visit", "arrest_day", "policy_start"],
        _timestamps: ["loggedAt", "discharged"],
        _sentences: ["free_text", "Reviewer_Note"],
        _surnames: ["familyName", "landlord"],
        _grouped_text: ["market_cap", "population_served"],
        _percent_text: ["apr", "FillRate"],
        _money_text: ["copay", "TicketFare"],
    },
    "ordered": [
        "Severity",
        "size_class",
        "how_often",
        "schooling",
        "risk",
        "AgeBand",
        "agree_2",
        "skill",
        "quality",
        "tenureBand",
    ],
    "flags": [
        "hasChildren",
        "diabetic",
        "OptIn",
        "homeowner",
        "priorConviction",
        "union",
        "email_ok",
        "disabled",
    ],
    "scales": [
        ["minimal", "mild", "moderate", "severe"],
        ["small", "medium", "large"],
        ["Not at all", "Rarely", "Sometimes", "Often", "Always"],
        ["Elementary", "Middle School", "High School", "College", "Graduate"],
        ["Less than 1 year", "1 to 3 years", "4 to 9 years", "10 years or more"],
        ["Level 1", "Level 2", "Level 3", "Level 4"],
        ["very unlikely", "unlikely", "neutral", "likely", "very likely"],
        ["18 to 30", "31 to 45", "46 to 60", "over 60"],
        ["0-9", "10-19", "20-49", "50+"],
        ["Fails", "Satisfactory", "Good", "Excellent"],
        ["<= 600", "601-700", "701-800", "> 800"],
        ["first", "second", "third"],
        ["unskilled", "skilled", "highly skilled"],
        ["A1", "A2", "B1", "B2", "C1"],
    ],
    "labels": [
        ("graduated", "N", "Y"),
        ("fraud", 0, 1),
        ("grant", "refused", "given"),
        ("relapse", "false", "true"),
        ("Passed", 2, 1),
        ("renewed", "no", "yes"),
    ],
    "ids": ["pid", "claimId", "applicant_id", "account_number", "rowid", "Index"],
    "weights": ["svywgt", "sampling_weight", "final_weight", "pwgtp_wt"],
    "leaks": ["discharge_state", "paidOut", "terminated_on", "posterior", "letter_sent", "y_hat"],
}


def generate(number: int, seed: int = SEED, style: Style | None = None) -> Case:
    """Generate a table with planted traits, all by the generator of its number."""
    style = style or Style()
    r = np.random.default_rng([seed, number])
    n = int(
        r.choice(
            [200, 400, 900, 2_000, 5_000, 12_000, 30_000], p=[0.1, 0.15, 0.2, 0.2, 0.15, 0.12, 0.08]
        )
    )
    z = r.normal(size=n)
    gender = r.choice(["f", "m"], n)
    age = np.clip(np.round(r.gamma(9, 4.6, n)), 18, 90).astype(int)
    name, negative, positive = style.labels[number % len(style.labels)]
    y = 1.1 * z + 0.3 * (gender == "m") + 0.01 * (age - 40) + r.logistic(size=n) > r.uniform(
        -0.5, 1.3
    )
    data: dict[str, Any] = {}
    truth: dict[str, Truth] = {}

    def add(names: list[str], values: Any, *kinds: str, missing: Any = None) -> str | None:
        free = [item for item in names if item not in data and item != name]
        if not free:
            return None
        chosen = str(r.choice(free))
        data[chosen], truth[chosen] = values, Truth(kinds, missing)
        return chosen

    sensitive = [["gender", "sex"][number % 2]] + (["age"] if number % 3 else [])
    data[sensitive[0]], data["age"] = gender, age
    truth[sensitive[0]] = Truth(("sensitive",))
    truth["age"] = Truth(("sensitive",) if "age" in sensitive else (NUMBER,))
    makers = [*KINDS]
    for maker in r.choice(len(makers), int(r.integers(9, 18))):
        make = makers[int(maker)]
        add(style.names[make], make(r, z), *KINDS[make])
    for _ in range(int(r.integers(1, 4))):
        scale = style.scales[int(r.integers(len(style.scales)))]
        add(style.ordered, _ordered(r, z, scale), ORDINAL)
    for _ in range(int(r.integers(1, 4))):
        add(style.flags, _flags(r, z, FLAGS[int(r.integers(len(FLAGS)))]), BOOLEAN)
    _plant_useless(r, n, style, add)
    _plant_copies(r, data, truth, add)
    if n >= 400:
        _plant_leaks(r, number, y, age, gender, sensitive, style.leaks, add)
    _plant_gaps(r, data, truth)
    order = [str(item) for item in r.permutation([*data])]
    frame = pd.DataFrame({item: data[item] for item in order})
    frame[name] = np.where(y, positive, negative)
    truth[name] = Truth(("label",))
    return Case(f"{style.name}-{number}", as_read(frame, number % 2 == 0), name, sensitive, truth)


def _plant_useless(r: Random, n: int, style: Style, add: Callable[..., Any]) -> None:
    if r.random() < 0.7:
        start = int(r.integers(0, 5000))
        kind = int(r.integers(4))
        ids: Any = [
            np.arange(start, start + n),
            r.permutation(n) + start,
            [f"C-{k:06d}" for k in r.permutation(n)],
            [str(uuid.UUID(bytes=r.bytes(16))) for _ in range(n)],
        ][kind]
        add(style.ids, ids, IGNORED)
    if r.random() < 0.3:
        add(
            ["household_id", "clinic_id", "user_id"],
            r.integers(10_000, 10_000 + n // 2, n),
            IGNORED,
        )
    if r.random() < 0.4:
        weights = np.round(np.exp(r.normal(0, 0.7, n)), 4)
        weights = weights / weights.mean() if r.random() < 0.5 else np.round(weights * 150_000)
        add(style.weights, weights, IGNORED)
    if r.random() < 0.4:
        parts = r.choice(["train", "test", "valid"], n, p=[0.7, 0.2, 0.1])
        if r.random() < 0.5:
            add(["split", "partition", "dataset"], parts, IGNORED)
        else:
            add(["fold", "cv_fold", "kfold"], r.integers(0, 5, n), IGNORED)
    if r.random() < 0.5:
        add(CONSTANT_NAMES, [["US", 3, 1.5, True][int(r.integers(4))]] * n, IGNORED)
    if r.random() < 0.3:
        add(
            ["zip", "postcode", "zip_code"],
            [f"{k:05d}" for k in r.integers(1000, 99_000, n)],
            IGNORED,
        )


def _plant_copies(
    r: Random, data: dict[str, Any], truth: dict[str, Truth], add: Callable[..., Any]
) -> None:
    """Add a copy, a recoding or another unit of a column; which of the two is ignored does not
    matter.
    """
    sources = [k for k, t in truth.items() if t.kinds[0] in (CATEGORY, NUMBER) and k != "age"]
    for source in r.permutation(sources)[: int(r.integers(0, 3))]:
        values = np.asarray(data[str(source)])
        if len(np.unique(values.astype(str))) < 3:
            continue
        if values.dtype.kind in "if" and r.random() < 0.5:
            copy: Any = values * 2.54
        elif len(np.unique(values.astype(str))) < 40 and r.random() < 0.5:
            levels, index = np.unique(values.astype(str), return_inverse=True)
            copy = np.array([f"k{j}" for j in r.permutation(len(levels))], dtype=object)[index]
        else:
            copy = values
        added = add(
            [f"{source}_2", f"{source}_copy", f"new_{source}", f"{source}.1"], copy, IGNORED, "pair"
        )
        if added:
            kinds = (*truth[str(source)].kinds, IGNORED, "pair")
            truth[str(source)] = truth[added] = Truth((*kinds, CATEGORY, NUMBER))


def _plant_leaks(
    r: Random,
    number: int,
    y: Any,
    age: Any,
    gender: Any,
    sensitive: list[str],
    names: list[str],
    add: Callable[..., Any],
) -> None:
    n = len(y)
    kind = number % 6
    if kind == 0:
        add(names, np.where(y, 7, 4), LEAK)
    elif kind == 1:
        add(names, np.where(y, np.round(np.exp(r.normal(6, 1, n)), 2), 0.0), LEAK)
    elif kind == 2:
        days = pd.Timestamp("2021-01-01") + pd.to_timedelta(r.integers(0, 400, n), unit="D")
        add(names, pd.Series(days).where(y | (r.random(n) < 0.005)), LEAK)
    elif kind == 3:
        add(names, np.round(y * 2.6 + r.normal(0, 0.5, n), 3), LEAK)
    elif kind == 4:
        # positive where the first is high, or the second is given while the first is not low
        first = np.where(y, r.choice([2, 1], n), r.choice([0, 1], n))
        second = np.where(
            y & (first == 1), "paid", np.where(first == 1, "open", r.choice(["paid", "open"], n))
        )
        add(["stage_reached", "last_step"], first, LEAK)
        add(["invoice", "payment_state"], second, LEAK)
    if number % 4 == 1 and "age" in sensitive:
        bands = np.array(["young", "adult", "old"], dtype=object)[
            np.searchsorted([30, 55], age, side="right")
        ]
        add(["age_group", "age_band", "generation"], bands, DERIVED)
    if number % 4 == 2:
        add(["male", "gender_code", "civil_title"], np.where(gender == "m", "Mr", "Ms"), DERIVED)
    if number % 4 == 3 and "age" in sensitive:
        add(["birth_year", "yob"], 2024 - age, DERIVED)


def _plant_gaps(r: Random, data: dict[str, Any], truth: dict[str, Truth]) -> None:
    """Write missing values as publishers do: a text in text, a number of nines or -1 in numbers."""
    for name in [*data]:
        kinds = truth[name].kinds
        if (
            r.random() > 0.2
            or kinds[0] in (IGNORED, LEAK, DERIVED, "sensitive", DATE)
            or "pair" in kinds
            or name == "age"
        ):
            continue
        values = pd.Series(data[name]).astype(object)
        share = r.uniform(0.02, 0.2)
        gone = r.random(len(values)) < share
        if kinds[0] == NUMBER and not isinstance(values.iloc[0], str):
            numbers = np.asarray(data[name], dtype=float)
            fit = [
                g for g in NUMBER_GAPS if (g > 2.2 * numbers.max() or g < 0) and numbers.min() >= 0
            ]
            if not fit or len(np.unique(numbers)) < 8:
                continue
            gap: Any = int(r.choice(fit))
        else:
            gap = str(r.choice(TEXT_GAPS))
        values[gone] = gap
        data[name], truth[name] = values, Truth(kinds, gap)


def as_read(frame: pd.DataFrame, through_csv: bool) -> pa.Table:
    """Return a table as `init` reads it from a CSV file, or from a typed one."""
    if not through_csv:
        columns = []
        for _, series in frame.items():  # noqa: PERF102 - a table may have a name twice
            try:
                columns.append(pa.array(series, from_pandas=True))
            except pa.ArrowException:  # numbers among texts
                columns.append(pa.array([None if pd.isna(v) else str(v) for v in series]))
        return pa.Table.from_arrays(columns, names=[str(name) for name in frame.columns])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        frame.to_csv(path, index=False)
        return open_table(path, {}).read_all()


def measure_set(cases: Iterable[Case]) -> dict[str, Any]:
    """Infer every table of a set, and count right columns, found leaks and false alarms."""
    columns = right = innocent = alarms = planted = found_leaks = spellings = spelled = tables = 0
    wrong: list[str] = []
    for case in cases:
        tables += 1
        found: Understanding = understand(
            case.table, case.name, case.label, case.sensitive, None, [], False
        )
        suspected = {item["name"] for item in found.leaks["columns"]}
        for column in found.contract.columns:
            truth = case.truth[column.name]
            kind = (
                column.role if column.role in ("label", "sensitive") else kind_of(column, suspected)
            )
            kinds = truth.kinds
            if kinds[0] in (DERIVED, LEAK):
                planted += 1
                fits = kind in (LEAK, IGNORED)
                found_leaks += fits
            else:
                fits = kind in kinds
                if not {IGNORED, LEAK, "label", "sensitive"} & {*kinds}:
                    innocent += 1
                    alarms += kind in (LEAK, IGNORED)
            if truth.missing is not None:
                spellings += 1
                known = truth.missing in (column.missing or ()) or str(truth.missing) in map(
                    str, column.missing or ()
                )
                # the reader of CSV files has its own spellings, and an empty text is no number
                read = case.table[column.name].null_count > 0 and truth.missing in READ_AS_NULL
                known = known or read or (truth.missing == "" and not column.required)
                spelled += known
                fits = fits and (known or kind == IGNORED)
            columns += 1
            right += fits
            if not fits:
                wrong.append(
                    f"{case.name} ({case.table.num_rows} rows) {column.name}: {kind}, expected "
                    f"{'/'.join(kinds)}, missing {truth.missing!r}: {column.description}"
                )
    return {
        "tables": tables,
        "columns": columns,
        "right": right / columns,
        "leaks_planted": planted,
        "leaks_found": found_leaks / max(planted, 1),
        "innocent": innocent,
        "false_alarms_per_100": 100 * alarms / max(innocent, 1),
        "spellings_found": spelled / max(spellings, 1),
        "wrong": wrong,
    }


# published files; where two readings are right, the truth has both

# the recipe has the dashes of the publisher
ADULT = [name.replace("-", "_") for name in ADULT_COLUMNS]
NUMBERS = {
    "adult": "capital_gain capital_loss hours_per_week",
    "german": "month credit_amount investment_as_income_percentage residence_since age number_of_credits "
    "people_liable_for",
    "bank": "age balance day duration campaign pdays previous",
    "compas": "age juv_fel_count decile_score juv_misd_count juv_other_count priors_count "
    "days_b_screening_arrest c_days_from_compas v_decile_score start",
}
CATEGORIES = {
    "adult": "workclass marital_status occupation relationship race native_country",
    "german": "status credit_history purpose savings employment personal_status other_debtors property "
    "installment_plans housing skill_level telephone foreign_worker",
    "bank": "job contact month poutcome",
    "compas": "c_charge_degree",
}
# Codes of german such as A61 to A65 have an order that the values do not show.
OTHERS: dict[str, dict[str, tuple[str, ...]]] = {
    "adult": {
        "fnlwgt": (IGNORED,),
        "education": (ORDINAL, IGNORED),
        "education_num": (NUMBER, IGNORED),
    },
    "german": {},
    "bank": {
        "default": (BOOLEAN,),
        "housing": (BOOLEAN,),
        "loan": (BOOLEAN,),
        "education": (ORDINAL,),
    },
    "compas": {
        **dict.fromkeys(
            ("id", "name", "first", "last", "c_case_number", "c_charge_desc", "violent_recid"),
            (IGNORED,),
        ),
        **dict.fromkeys(
            ("type_of_assessment", "v_type_of_assessment", "decile_score_2", "priors_count_2"),
            (IGNORED,),
        ),
        **dict.fromkeys(
            ("screening_date", "v_screening_date", "vr_case_number", "r_case_number"), (IGNORED,)
        ),
        **dict.fromkeys(("r_charge_desc", "vr_charge_desc"), (IGNORED,)),
        **dict.fromkeys(("score_text", "v_score_text", "age_cat"), (ORDINAL,)),
        **dict.fromkeys(
            (
                "compas_screening_date",
                "dob",
                "c_jail_in",
                "c_jail_out",
                "c_offense_date",
                "c_arrest_date",
            ),
            (DATE,),
        ),
        **dict.fromkeys(("in_custody", "out_custody"), (DATE, LEAK)),
        # what happened after the screening: each tells the label to some degree, together almost
        # exactly
        **dict.fromkeys(("r_jail_in", "r_jail_out", "vr_offense_date"), (DATE, LEAK)),
        **dict.fromkeys(("r_charge_degree", "vr_charge_degree"), (CATEGORY, LEAK)),
        **dict.fromkeys(("is_violent_recid", "event"), (BOOLEAN, LEAK)),
        **dict.fromkeys(("r_days_from_arrest", "end"), (NUMBER, LEAK)),
        "is_recid": (LEAK,),
        "r_offense_date": (LEAK,),
    },
}
MISSING = {"workclass": "?", "occupation": "?", "native_country": "?", "pdays": -1}


def published(folder: Path) -> list[Case]:
    """Return the four published files with their truth."""
    read = pyarrow.csv.read_csv
    named = {
        "adult": read(
            folder / "adult.data", read_options=pyarrow.csv.ReadOptions(column_names=ADULT)
        ),
        "german": read(
            io.BytesIO((folder / "german.data").read_bytes()),
            read_options=pyarrow.csv.ReadOptions(column_names=GERMAN_COLUMNS),
            parse_options=pyarrow.csv.ParseOptions(delimiter=" "),
        ),
        "bank": open_table(folder / "bank-full.csv", {}).read_all(),
        "compas": read(
            folder / "compas-scores-two-years.csv",
            convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True),
        ),
    }
    names: list[str] = []
    for name in named["compas"].column_names:
        names.append(f"{name}_2" if name in names else name)
    named["compas"] = named["compas"].rename_columns(names)
    asked = {
        "adult": ("income", ["age", "sex"]),
        "german": ("credit", ["personal_status"]),
        "bank": ("y", ["marital"]),
        "compas": ("two_year_recid", ["sex", "race"]),
    }
    cases = []
    for name, table in named.items():
        label, sensitive = asked[name]
        truth = {item: Truth((NUMBER,), MISSING.get(item)) for item in NUMBERS[name].split()}
        truth |= {item: Truth((CATEGORY,), MISSING.get(item)) for item in CATEGORIES[name].split()}
        truth |= {item: Truth(kinds) for item, kinds in OTHERS[name].items()}
        truth |= {item: Truth(("sensitive",)) for item in sensitive} | {label: Truth(("label",))}
        cases.append(Case(name, table, label, sensitive, truth))
    return cases


def office_set() -> dict[str, Any]:
    """Read and infer files as offices write them."""
    cases = []
    columns = right = proposed = planted = wrong_proposals = 0
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(OFFICE_FILES):
            office = office_table(number, Path(folder), SEED)
            table, misread = office.read()
            columns += len(office.values)
            right += len(office.values) - len(misread)
            wrong += [f"{office.name} {name}: other values were read" for name in misread]
            proposals = find_spellings({name: table[name] for name in table.column_names})
            for name, values in proposals.items():
                others = {other for spellings in values.values() for other in spellings}
                proposed += len(others & office.spellings.get(name, set()))
                wrong_proposals += len(others - office.spellings.get(name, set()))
            planted += sum(map(len, office.spellings.values()))
            truth = {
                name: Truth(kinds, office.missing.get(name)) for name, kinds in office.kinds.items()
            }
            cases.append(Case(office.name, table, office.label, office.sensitive, truth))
        result = measure_set(cases)
    return {
        **result,
        "wrong": [*result["wrong"], *wrong],
        "values_read_right": right / columns,
        "spellings_of_categories_proposed": proposed / planted,
        "wrong_proposals": wrong_proposals,
    }


def main() -> None:
    """Measure all sets and keep the result."""
    sets = {"planted": measure_set(generate(number) for number in range(TABLES))}
    other = Style(name="held-out", **OTHER_STYLE)
    sets["held_out"] = measure_set(generate(number, SEED + 1, other) for number in range(HELD_OUT))
    sets["office"] = office_set()
    folder = os.environ.get("EVENHAND_DATA")
    if folder:
        sets["published"] = measure_set(published(Path(folder)))
    for name, found in sets.items():
        log(
            f"{name:10} {found['tables']:3} tables, {found['columns']:5} columns: "
            f"right {found['right']:.2%}, leaks {found['leaks_found']:.2%} of "
            f"{found['leaks_planted']}, "
            f"false alarms {found['false_alarms_per_100']:.2f} in 100, "
            f"spellings of missing values found {found['spellings_found']:.2%}"
        )
        if "values_read_right" in found:
            log(
                f"           values read right in {found['values_read_right']:.2%} of columns, "
                f"{found['spellings_of_categories_proposed']:.2%} of spellings proposed, "
                f"{found['wrong_proposals']} wrong proposals"
            )
        for line in found["wrong"]:
            log(f"    {line}")
    command = "python -m benchmarks.studies.init_corpus"
    write_result("init-corpus", {**provenance(command), "seed": SEED, "goals": GOALS, "sets": sets})


if __name__ == "__main__":
    main()
