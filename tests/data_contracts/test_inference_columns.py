"""How a column that nobody described is understood: its type, its missing values, its use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evenhand.data_contracts.arrow import coerce
from evenhand.data_contracts.checking import check_table
from evenhand.data_contracts.contract_yaml import to_yaml
from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.inference import infer_contract, round_cuts
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.odcs import parse_contract
from evenhand.data_contracts.roles import is_protected

N = 400
RNG = np.random.default_rng(3)
LABEL = RNG.random(N) < 0.4


def infer(values: Any, name: str = "x", **more: Any) -> Contract:
    """Contract of a table with this column, another one, and a label; the table must pass it."""
    table = pa.table(
        {name: values, "other": RNG.normal(size=len(values)), "y": LABEL[: len(values)]}
    )
    contract = infer_contract(table, "t", "y", [], **more)
    assert check_table(coerce(table, contract), contract).success
    assert parse_contract(to_yaml(contract)) == contract
    return contract


@pytest.mark.parametrize(
    ("name", "protected"),
    [
        ("skin_colour", True),
        ("Skin thickness", False),
        ("mother_tongue", True),
        ("tongue", False),
        ("age", True),
        ("vehicleAge", False),
        ("foreign_worker", True),
        ("foreign_currency", False),
        ("race", True),
        ("race_time", False),
        ("black", True),
        ("black_list", False),
    ],
)
def test_words_that_name_a_protected_attribute(name: str, protected: bool) -> None:
    assert is_protected(name) == protected


def pick(*values: Any) -> list[Any]:
    return [values[i] for i in np.random.default_rng(5).integers(0, len(values), N)]


@pytest.mark.parametrize(
    ("values", "name", "kind", "encoding", "missing"),
    [
        (pick("1,234", "5,001", "17", "?"), "price", "integer", "standard", ("?",)),
        (pick("12.5 %", "3 %", "-"), "x", "number", "standard", ("-",)),
        (pick("$5.50", "$1,200", "N/A"), "x", "number", "standard", ("N/A",)),
        (pick("1,925.93 €", "61 €", "800.00 €"), "x", "number", "standard", None),
        (pick("1.5", "2.5", "unknown"), "x", "number", "standard", ("unknown",)),
        (pick("Y", "N"), "x", "boolean", "binary", None),
        (pick("yes", "NO", "No"), "x", "boolean", "binary", None),
        (pick("on", "off", "?"), "x", "boolean", "onehot", ("?",)),
        (pick("T", "F"), "x", "boolean", "binary", None),
        (pick(0, 1), "x", "boolean", "binary", None),
        (pick(0.0, 1.0, None), "x", "boolean", "onehot", None),
        (pick("2024-01-01", "2024-02-03", "None"), "x", "date", "calendar", ("None",)),
        (pick("low", "high", "medium", "unknown"), "x", "string", "ordinal", ("unknown",)),
        (pick("north", "south", "unknown"), "x", "string", "onehot", None),
        (pick("None", "Primary", "Secondary"), "education", "string", "ordinal", None),
        (pick("None", "Islam", "Buddhism"), "religion", "string", "onehot", None),
        (pick("north", "south", " ?"), "x", "string", "onehot", ("?",)),
        (pick("007", "123", "040"), "x", "string", "onehot", None),
        (pick(3, 7, 11, 19, 40), "job_type", "integer", "onehot", None),
        (pick(3, 7, 11, 19, 40), "StatusCode", "integer", "onehot", None),
        (pick(3, 101, 250, 700), "x", "integer", "onehot", None),
        # a duration is none of the codes that its last word can have
        (pick(3, 7, 11, 19, 40), "years_at_job", "integer", "standard", None),
        (pick(3, 7, 11, 19, 40), "distance_to_store", "integer", "standard", None),
        (pick(0, 1, 2, 3), "children", "integer", "standard", None),
        # years of schooling and experience have the gaps and the peaks of codes; four grades have
        # no years
        (pick(0, 3, 7, *[12] * 20, 14, *[16] * 9, 17, 20), "motheduc", "integer", "standard", None),
        (pick(0, 3, 7, *[12] * 20, 14, *[16] * 9, 17, 20), "totexpk", "integer", "standard", None),
        (pick(3, 101, 250, 700), "education", "integer", "onehot", None),
        (pick(*range(1, 57)), "state", "integer", "onehot", None),
        # the differences do not fit into 64 bits
        (pick(2.0, 5e18, 1e19), "x", "number", "standard", None),
        (pick(0.0, 2.0**63), "x", "number", "standard", None),
        (pick(1, 2, 3, 4, 5), "q7", "integer", "standard", None),
        (pick(12, 24, 36, 60), "months", "integer", "standard", None),
        (pick(*range(18, 60), 999), "x", "integer", "standard", (999,)),
        (pick(*range(30), -1), "x", "integer", "standard", (-1,)),
        (pick(*range(30), -99), "x", "integer", "standard", (-99,)),
        (pick(-1, 0, 1), "x", "integer", "standard", None),
        (pick(*range(91, 100)), "x", "integer", "standard", None),
    ],
)
def test_kinds_of_inputs(values: Any, name: str, kind: str, encoding: str, missing: Any) -> None:
    column = infer(values, name).column(name)
    assert (column.role, column.logical_type, column.encoding) == ("feature", kind, encoding)
    assert column.missing == missing
    assert column.required == (missing is None and None not in values)


@pytest.mark.parametrize(
    ("values", "name", "reason"),
    [
        (list(range(1000, 1000 + N)), "x", "numbers the rows"),
        (RNG.permutation(10**6)[:N], "customer_id", "id"),
        (RNG.integers(10**4, 10**5, N), "clinic_id", "id"),
        ([f"C-{k}" for k in range(N)], "x", "differs in every row"),
        (RNG.integers(10**4, 10**6, N), "fnlwgt", "sampling weight"),
        (RNG.gamma(2, 0.5, N), "sample_weight", "sampling weight"),
        (RNG.integers(10**4, 10**6, N), "wght", "sampling weight"),
        (RNG.integers(0, 5, N), "cv_fold", "parts of a split"),
        (pick("train", "test", "valid"), "x", "part of a split"),
        (pick(7), "x", "one value only"),
        ([None] * N, "x", "no value"),
        (RNG.integers(10**4, 10**4 + 200, N), "zip_code", "too many categories"),
        ([f"name {k}" for k in RNG.integers(0, 150, N)], "x", "too many categories"),
    ],
)
def test_columns_that_are_no_inputs(values: Any, name: str, reason: str) -> None:
    column = infer(values, name).column(name)
    assert column.role == "ignore"
    assert reason in column.description


def test_an_ignored_sampling_weight_is_known_to_the_contract() -> None:
    assert infer(RNG.gamma(2, 0.5, N), "sample_weight").unused_weights == ("sample_weight",)
    assert infer(RNG.gamma(2, 0.5, N), "income").unused_weights == ()


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (np.round(RNG.normal(75, 12, N), 1), "weight"),
        (np.round(RNG.normal(3300, 400, N)), "birth_weight"),
        (RNG.permutation(10**6)[:N], "income"),
        (RNG.normal(size=N), "identity_score"),
        (RNG.integers(0, 9, N), "trainings"),
    ],
)
def test_innocent_columns_stay(values: Any, name: str) -> None:
    assert infer(values, name).column(name).role == "feature"


def test_copies_and_recodings_are_ignored() -> None:
    base = RNG.integers(0, 6, N)
    height = RNG.normal(170, 9, N)
    table = pa.table(
        {
            "rooms": base,
            "rooms_again": base,
            "rooms_coded": [f"r{k}" for k in base],
            "cm": height,
            "inches": height / 2.54,
            "schooling": [["primary", "secondary", "tertiary"][k % 3] for k in base],
            "schooling_code": [["s9", "s2", "s5"][k % 3] for k in base],
            "y": LABEL,
        }
    )
    contract = infer_contract(table, "t", "y", [])
    roles = {column.name: column.role for column in contract.columns}
    assert [name for name, role in roles.items() if role == "ignore"] == [
        "rooms_again", "rooms_coded", "inches", "schooling_code",
    ]  # fmt: skip
    # the order is kept, wherever it stands
    swapped = infer_contract(table.select(["schooling_code", "schooling", "y"]), "t", "y", [])
    assert swapped.column("schooling").encoding == "ordinal"
    assert swapped.column("schooling_code").role == "ignore"


def test_codes_without_a_telling_name_need_an_irregular_relation() -> None:
    """Levels 1 to 8 in any order of the label's share are codes; with a rising share they are a
    measure.
    """
    rng = np.random.default_rng(0)
    levels = rng.integers(1, 9, 5000)
    irregular, rising = [0.1, 0.8, 0.3, 0.9, 0.2, 0.7, 0.1, 0.6], np.linspace(0.1, 0.9, 8)
    book, terms, counts = [2, 3, 11, 13, 14, 29, 31, 40], [6, 7, 8, 9, 12, 18, 24, 36], range(1, 9)
    for numbers, shares, encoding in (
        (book, irregular, "onehot"),
        (terms, rising, "standard"),
        (counts, rising, "standard"),
        (counts, irregular, "standard"),
    ):
        y = rng.random(5000) < np.asarray(shares)[levels - 1]
        table = pa.table({"v": np.array(numbers)[levels - 1], "y": y})
        assert infer_contract(table, "t", "y", []).column("v").encoding == encoding


@pytest.mark.parametrize(
    ("numbers", "name", "cuts"),
    [
        (list(range(18, 81)), "age", (25.0, 40.0, 60.0)),
        (list(range(30, 66)), "age", (40.0, 60.0)),
        (list(range(0, 1001)), "points", (200.0, 400.0, 800.0)),
        ([k / 100 for k in range(101)], "share", (0.2, 0.4, 0.8)),
    ],
)
def test_sensitive_numbers_are_cut_at_round_values(
    numbers: list[float], name: str, cuts: tuple[float, ...]
) -> None:
    assert round_cuts(pa.chunked_array([numbers]), name) == cuts


def test_every_group_of_a_cut_number_is_large() -> None:
    rng = np.random.default_rng(2)
    for scale in (0.01, 1.0, 37.0, 1e6):
        for draw in (rng.lognormal(size=500), rng.normal(size=500), rng.exponential(size=500) ** 2):
            cuts = round_cuts(pa.chunked_array([draw * scale]), "x")
            groups = np.searchsorted(cuts, draw * scale, side="right")
            assert np.bincount(groups, minlength=len(cuts) + 1).min() >= 25


def test_the_positive_label_is_said_in_words_and_found_by_number() -> None:
    table = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "won": [0.0, 1.0, 1.0, 0.0]})
    for asked in ("1", "1.0", 1, 1.0, True, "true"):
        label = infer_contract(table, "t", "won", [], positive=asked).label
        assert label.positive == 1.0
        assert "positive means won = 1 (as asked; 50% of rows)" in label.description


def test_sensitive_columns_become_inputs_on_request() -> None:
    table = pa.table(
        {"x": RNG.normal(size=N), "sex": pick("f", "m"), "age": RNG.integers(18, 80, N), "y": LABEL}
    )
    contract = infer_contract(table, "t", "y", ["sex", "age"], use_sensitive=True)
    assert [(c.is_feature, c.encoding) for c in contract.sensitive] == [
        (True, "onehot"),
        (True, "standard"),
    ]
    gaps = table.set_column(2, "age", pa.array([None, *table["age"].to_pylist()[1:]]))
    assert (
        infer_contract(gaps, "t", "y", ["sex", "age"], use_sensitive=True).missing_sensitive
        == "drop"
    )


def test_a_table_of_ignored_columns_is_refused_in_one_line() -> None:
    table = pa.table({"name": [f"p{k}" for k in range(N)], "k": [1] * N, "y": LABEL})
    with pytest.raises(
        ContractError, match="no column is a model input: of 3 columns all are ignored"
    ) as caught:
        infer_contract(table, "t", "y", [])
    assert "\n" not in str(caught.value)


def test_without_missing_spellings_a_contract_has_no_such_key() -> None:
    contract = infer(pick("a", "b"))
    assert all("missing" not in column for column in contract.to_dict()["columns"])
    assert Contract.from_dict(contract.to_dict()) == contract


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"encoding": "ordinal"}, "ordinal needs validValues"),
        ({"missing": ()}, "missing must list"),
        ({"missing": (True,)}, "missing must list"),
    ],
)
def test_columns_that_contradict_themselves(more: dict[str, Any], message: str) -> None:
    from evenhand.data_contracts.column import Column

    with pytest.raises(ContractError, match=message):
        Column("x", "string", is_feature=True, **more)


def test_spellings_are_missing_in_text_and_in_numbers() -> None:
    contract = infer(pick("1", "2", "40", "?", "999"), "visits")
    assert contract.column("visits").missing == ("?", 999) or contract.column("visits").missing == (
        "?",
    )
    numbers = pa.table({"x": [5.0, 999.0, float("nan"), 1.0] * 30, "y": [True, False] * 60})
    column = infer_contract(numbers, "t", "y", []).column("x")
    assert set(column.missing or ()) == {"NaN", 999}
    typed = coerce(numbers, infer_contract(numbers, "t", "y", []))
    assert typed["x"].to_pylist()[:4] == [5.0, None, None, 1.0]


def rare_table(firms: list[str], **columns: list) -> pa.Table:
    rows = len(firms)
    return pa.table(
        {
            "firm": firms,
            "points": [row % 37 for row in range(rows)],
            "sex": ["f", "m"] * (rows // 2),
            "hired": ["yes", "no", "no", "yes"] * (rows // 4),
            **columns,
        }
    )


def test_categories_of_few_people_are_one() -> None:
    firms = ["Acme"] * 60 + ["Globex"] * 30 + ["Five"] * 5 + ["Four"] * 4 + ["One"]
    table = rare_table(firms)
    contract = infer_contract(table, "people", "hired", ["sex"])
    firm = contract.column("firm")
    assert (firm.allowed, firm.other) == (("Acme", "Five", "Globex", "other"), "other")
    assert firm.description == (
        "Category with 3 values; 2 others, of fewer than 5 people each, are read as 'other'."
    )
    assert check_table(coerce(table, contract), contract).success
    kept = infer_contract(table, "people", "hired", ["sex"], least_people=0).column("firm")
    assert (len(kept.allowed or ()), kept.other) == (5, None)
    assert infer_contract(table, "people", "hired", ["firm"]).column("firm").other is None


def test_rare_categories_join_one_that_means_other() -> None:
    firms = ["Acme"] * 60 + ["Other"] * 39 + ["One"]
    firm = infer_contract(rare_table(firms), "people", "hired", ["sex"]).column("firm")
    assert (firm.allowed, firm.other) == (("Acme", "Other"), "Other")
    # a rare one of this meaning is no reason to merge
    firms = ["Acme"] * 60 + ["Globex"] * 38 + ["other"] * 2
    firm = infer_contract(rare_table(firms), "people", "hired", ["sex"]).column("firm")
    assert (firm.allowed, firm.other) == (("Acme", "Globex", "other"), None)


def test_rows_of_one_person_count_once() -> None:
    # 40 people of 5 rows each: the firm of 10 rows is that of two people
    firms = ["Acme"] * 150 + ["Globex"] * 40 + ["Two"] * 10
    people = [row // 5 for row in range(200)]
    table = rare_table(firms, person=people)
    contract = infer_contract(table, "people", "hired", ["sex"], ids=["person"])
    assert contract.column("firm").allowed == ("Acme", "Globex", "other")


def test_a_column_of_rare_categories_alone_is_no_input() -> None:
    firms = [f"firm {row // 4}" for row in range(160)]
    firm = infer_contract(rare_table(firms), "people", "hired", ["sex"]).column("firm")
    assert (firm.role, firm.allowed) == ("ignore", None)
    assert firm.description.startswith("Ignored: no value is that of 5 people or more")


@pytest.mark.parametrize(
    "texts",
    [
        ["Dec 01, 2019", "January 2nd, 2020", "mar 3 2020"],
        ["31.12.2019", "1.2.2020", "03.04.2020"],
        ["12/31/2019 8:15", "1/2/2020 11:00 pm", "03/04/2020 0:00"],
        ["2019/12/31", "2020/1/2", "2020/03/04"],
        ["Dec-2018", "Jan-19", "May-2019"],
    ],
)
def test_dates_in_another_form_are_named(texts: list[str]) -> None:
    column = infer([texts[number % 3] for number in range(N)]).column("x")
    assert column.is_feature
    assert "look like dates" in column.description
    assert "YYYY-MM-DD" in column.description


def test_many_dates_in_another_form_are_not_an_identifier() -> None:
    column = infer([f"{1 + n % 28}/{1 + n // 28 % 12}/{1990 + n // 336}" for n in range(N)])
    assert column.column("x").description.startswith("Ignored: its values look like dates;")


@pytest.mark.parametrize(
    "texts",
    [
        ["married", "December", "1-2"],
        ["10.5.1", "2.0", "3.1"],
        ["decile 10", "decile 02", "marker 55"],
    ],
)
def test_other_texts_are_no_dates(texts: list[str]) -> None:
    column = infer([texts[number % 3] for number in range(N)]).column("x")
    assert "dates" not in column.description
