from __future__ import annotations

import datetime as dt
import string

import numpy as np
import pyarrow as pa
import pytest
from contract_samples import make_people
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evenhand.data_contracts.arrow import coerce
from evenhand.data_contracts.checking import check_batch, check_table, raise_for
from evenhand.data_contracts.contract_yaml import to_yaml
from evenhand.data_contracts.errors import ContractError, ContractViolation
from evenhand.data_contracts.inference import infer_contract
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.odcs import load_contract, parse_contract, shipped_contracts


def make_clients(rows: int = 300) -> pa.Table:
    rng = np.random.default_rng(7)
    return pa.table(
        {
            "client_id": np.arange(rows) + 1000,
            "name": [f"person {i}" for i in range(rows)],
            "region": rng.choice(["north", "south", "no"], rows),
            "street": [f"street {i % 120}" for i in range(rows)],
            "joined": pa.array(15000 + rng.integers(0, 900, rows), pa.int32()).cast(pa.date32()),
            "amount": rng.normal(size=rows),
            "visits": rng.integers(0, 40, rows),
            "note": ["same"] * rows,
            "empty": pa.nulls(rows),
            "gap": [None if i % 7 == 0 else float(i % 5) for i in range(rows)],
            "age": rng.integers(18, 80, rows),
            "sex": rng.choice(["f", "m"], rows),
            "level": rng.integers(0, 3, rows),
            "left": rng.choice(["yes", "no"], rows, p=[0.8, 0.2]),
        }
    )


def test_a_table_never_seen():
    table = make_clients()
    contract = infer_contract(table, "clients", "left", ["age", "sex", "level"])
    roles = {column.name: column.role for column in contract.columns}
    assert roles == {
        "client_id": "ignore", "name": "ignore", "region": "feature", "street": "ignore", "joined": "feature",
        "amount": "feature", "visits": "feature", "note": "ignore", "empty": "ignore", "gap": "feature",
        "age": "sensitive", "sex": "sensitive", "level": "sensitive", "left": "label",
    }  # fmt: skip
    assert contract.label.positive == "yes"
    assert contract.column("region").allowed == ("no", "north", "south")
    assert contract.column("joined").logical_type == "date"
    assert contract.column("amount").minimum is None
    assert contract.column("visits").minimum == 0
    assert contract.column("visits").maximum is None
    assert not contract.column("gap").required
    assert contract.column("age").bins == (25.0, 40.0, 60.0)
    assert contract.column("level").allowed == (0, 1, 2)
    assert not any(column.is_feature for column in contract.sensitive)
    assert contract.unseen_categories == "ignore"
    assert contract.rules_observed
    assert (contract.min_rows, contract.max_rows) == (100, 3000)
    assert check_table(coerce(table, contract), contract).success
    assert parse_contract(to_yaml(contract)) == contract
    assert check_batch(
        table.select([c.name for c in contract.features]).slice(0, 3), contract
    ).success


def test_yaml_has_guiding_comments():
    text = to_yaml(infer_contract(make_clients(), "clients", "left", ["sex"]))
    assert text.startswith("# Data contract")
    assert "\n# role of a column" in text
    assert "\n# unseenCategories: error | ignore" in text
    assert "{property: encoding, value: unit}" in text
    assert "'no'" in text


@pytest.mark.parametrize("name", shipped_contracts())
def test_shipped_contracts_survive_writing(name):
    assert parse_contract(to_yaml(load_contract(name))) == load_contract(name)


def test_every_setting_survives_writing(contract):
    assert parse_contract(to_yaml(contract)) == contract


@pytest.mark.parametrize(
    ("values", "positive", "reason"),
    [
        ([0, 1, 1, 1], 1, "reads as"),
        ([True, False, True, True], True, "reads as"),
        (["Yes", "No", "Yes", "Yes"], "Yes", "reads as"),
        (["<=50K", ">50K", ">50K", ">50K"], ">50K", "reads as"),
        (["good", "good", "bad", "good"], "bad", "rarer"),
        ([2, 1, 2, 2], 1, "reads as"),
        ([5, 5, 7, 5], 7, "rarer"),
        ([0.0, 1.0, 1.0, 1.0], 1.0, "reads as"),
        (["a", "b", "a", "b"], "b", "rarer"),
    ],
)
def test_default_positive(values, positive, reason):
    table = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "y": values})
    label = infer_contract(table, "t", "y", []).label
    assert label.positive == positive
    assert type(label.positive) is type(positive)
    assert reason in label.description


def test_positive_as_text():
    table = pa.table({"x": [1.0, 2.0], "y": [0, 1]})
    assert infer_contract(table, "t", "y", [], positive="0").label.positive == 0
    flags = pa.table({"x": [1.0, 2.0], "y": [True, False]})
    assert infer_contract(flags, "t", "y", [], positive="false").label.positive is False
    with pytest.raises(ContractError, match="positive is 'z'.*0 and 1"):
        infer_contract(table, "t", "y", [], positive="z")


@pytest.mark.parametrize(
    ("label", "sensitive", "message"),
    [
        ("lft", ["sex"], "label column 'lft'.*did you mean 'left'"),
        ("left", ["sexx"], "sensitive column 'sexx'.*did you mean 'sex'"),
        ("note", ["sex"], r"'note' has 1 distinct value \(same\),"),
        ("gap", ["sex"], "no usable value in 43 of 300 rows"),
        ("joined", ["sex"], "dates"),
        ("left", ["left"], "named as label and as sensitive"),
        ("left", ["name"], "300 distinct values, too many groups"),
        ("left", ["note"], "no groups to compare"),
        ("left", ["empty"], "no groups to compare"),
        ("left", ["joined"], "holds dates"),
    ],
)
def test_wrong_requests(label, sensitive, message):
    with pytest.raises(ContractError, match=message):
        infer_contract(make_clients(), "clients", label, sensitive)


def test_a_label_of_more_than_two_words_has_classes():
    contract = infer_contract(make_clients(), "clients", "region", ["sex"])
    assert len(contract.label.classes) == 3
    assert contract.label.classes == tuple(sorted(contract.label.classes))
    assert contract.label.positive is None
    assert check_table(coerce(make_clients(), contract), contract).success
    first = contract.label.classes[0]
    with pytest.raises(ContractError, match="'region' has 3 distinct values, expected two"):
        infer_contract(make_clients(), "clients", "region", ["sex"], positive=first)


def test_tables_that_cannot_be_described():
    with pytest.raises(ContractError, match="no rows"):
        infer_contract(make_clients().slice(0, 0), "t", "left", [])
    with pytest.raises(ContractError, match="twice"):
        infer_contract(
            pa.Table.from_arrays([pa.array([1]), pa.array([1])], ["a", "a"]), "t", "a", []
        )
    with pytest.raises(ContractError, match="list<"):
        infer_contract(pa.table({"y": [0, 1], "x": [[1], [2]]}), "t", "y", [])
    with pytest.raises(ContractError, match="no column is a model input"):
        infer_contract(pa.table({"y": [0, 1]}), "t", "y", [])


def test_ids_and_gaps_in_sensitive_columns():
    table = make_people().set_column(2, "sex", pa.array(["f", None] * 10))
    table = table.set_column(2, "sex", pa.array(["f", "m", None, "m"] * 5))
    contract = infer_contract(table, "p", "paid", ["sex"], ids=["key"])
    assert [c.name for c in contract.columns if c.role == "id"] == ["key"]
    assert contract.missing_sensitive == "own_group"
    assert check_table(coerce(table, contract), contract).success


def test_text_dates_become_dates():
    table = pa.table({"y": [0, 1, 1], "d": ["2024-01-01", "2024-05-01 10:00:00", None]})
    contract = infer_contract(table, "t", "y", [])
    assert contract.column("d").logical_type == "date"
    coerced = coerce(table, contract)
    assert coerced.column("d").to_pylist()[0] == dt.date(2024, 1, 1)


def test_cut_point_leaves_rows_on_both_sides():
    skewed = [0] * 30 + list(range(1, 15))
    table = pa.table({"y": [i % 2 for i in range(44)], "x": list(range(44)), "s": skewed})
    assert infer_contract(table, "t", "y", ["s"]).column("s").bins == (3.0,)
    table = table.set_column(2, "s", pa.array([v / 8 for v in skewed]))
    assert infer_contract(table, "t", "y", ["s"]).column("s").bins == (0.4,)
    heavy = pa.array([1e-9 * i for i in range(44)])
    cuts = infer_contract(table.set_column(2, "s", heavy), "t", "y", ["s"]).column("s").bins
    assert all(0 < cut <= 43e-9 for cut in cuts)


_NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs",))
    | st.sampled_from(string.ascii_letters),
    min_size=1,
    max_size=8,
).filter(lambda text: bool(text.strip()))
_TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=6)


@st.composite
def tables(draw):
    rows = draw(st.integers(4, 30))
    names = draw(st.lists(_NAMES, min_size=2, max_size=5, unique=True))
    # one column is a model input whatever the others are: not an id, as one of the name ID is
    names.insert(1, "a feature")
    kinds = [
        st.integers(-(2**40), 2**40),
        # a run refuses larger numbers, and names the rows: no model can read them
        st.floats(min_value=-1e38, max_value=1e38, allow_nan=False),
        st.booleans(),
        st.dates(),
        st.sampled_from(["no", "yes", "1", "~", "null", "2024-01-01", ": x", "#", "'", "a\nb"]),
        _TEXTS,
    ]
    data = {names[0]: [i % 2 for i in range(rows)], names[1]: [float(i) for i in range(rows)]}
    data[names[2]] = [("u", "v")[i % 2] for i in range(rows)]
    for name in names[3:]:
        values = st.none() | draw(st.sampled_from(kinds))
        data[name] = draw(st.lists(values, min_size=rows, max_size=rows))
    return names, pa.table(data)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tables())
def test_an_inferred_contract_survives_its_forms(case):
    names, table = case
    contract = infer_contract(table, names[0], names[0], [names[2]])
    again = parse_contract(to_yaml(contract))
    assert again == contract
    assert again.digest == contract.digest
    assert type(contract).from_dict(contract.to_dict()) == contract


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tables())
def test_a_table_passes_the_contract_inferred_from_it(case):
    names, table = case
    contract = infer_contract(table, names[0], names[0], [names[2]])
    assert check_table(coerce(table, contract), contract).violations == ()


def test_people_of_whom_there_are_several_rows():
    rng = np.random.default_rng(1)
    person = np.repeat(np.arange(200), 3)
    sex = rng.choice(["f", "m"], 200)[person]
    born = rng.integers(1940, 2010, 200)[person]
    table = pa.table(
        {
            "nr": 7 * person + 5,
            "case": [f"c{number}" for number in person],
            "clinic_id": rng.integers(0, 90, 600),
            "born": born,
            "income": rng.integers(20_000, 20_400, 600),
            "sex": sex,
            "age": 2026 - born,
            "y": rng.integers(0, 2, 600),
        }
    )
    contract = infer_contract(table, "t", "y", ["sex", "age"])
    roles = {column.name: column.role for column in contract.columns}
    assert roles == {
        "nr": "id", "case": "id", "clinic_id": "ignore", "born": "feature", "income": "feature",
        "sex": "sensitive", "age": "sensitive", "y": "label",
    }  # fmt: skip
    assert check_table(coerce(table, contract), contract).success
    # what is computed from an age names nobody
    alone = infer_contract(table.select(["born", "income", "age", "y"]), "t", "y", ["age"])
    assert [column.name for column in alone.features] == ["born", "income"]


@pytest.mark.parametrize("size", [1e39, -1e39, 1e308, np.inf])
def test_numbers_that_no_model_can_read_are_found(size):
    table = make_clients()
    amounts = table["amount"].to_pylist()
    table = table.set_column(
        table.column_names.index("amount"), "amount", pa.array([size, *amounts[1:]], pa.float64())
    )
    contract = infer_contract(table, "clients", "left", ["sex"])
    with pytest.raises(ContractViolation, match=r"'amount'.*a size above 1e\+38"):
        raise_for(check_table(coerce(table, contract), contract))


def _incomes(values: object, **options: object) -> Contract:
    n = len(values)  # type: ignore[arg-type]
    points = np.random.default_rng(0).normal(size=n)
    table = pa.table({"sex": (["f", "m"] * n)[:n], "points": points, "income": values})
    return infer_contract(table, "people", "income", ["sex"], **options)  # type: ignore[arg-type]


def test_many_numbers_are_offered_a_threshold():
    incomes = [1000.5 * k for k in range(1, 201)]
    proposal = "200 different numbers.* give --at-least 100000 .the median is 100,550."
    with pytest.raises(ContractError, match=proposal):
        _incomes(incomes)
    label = _incomes(incomes, at_least=100000).label
    assert (label.at_least, label.logical_type, label.favourable) == (100000, "number", None)
    assert "positive means income at least 100,000 (as asked; 50% of rows)" in label.description


# where most numbers are equal, a proposal still has rows on both sides
@pytest.mark.parametrize(
    ("incomes", "threshold"),
    [([0] * 150 + [*range(1, 151)], 1), ([0] * 300 + [*range(7, 207)], 7)],
)
def test_a_proposal_has_rows_on_both_sides(incomes, threshold):
    with pytest.raises(ContractError, match=f"give --at-least {threshold} "):
        _incomes(incomes)
    assert _incomes(incomes, at_least=threshold).label.at_least == threshold


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (range(200), {"at_least": 0}, "a number above 0 and at most 199"),
        (range(200), {"at_least": 199.5}, "a number above 0 and at most 199"),
        (range(200), {"at_least": float("nan")}, "on one side of it"),
        (range(200), {"at_least": 50, "positive": "1"}, "leave one of them out"),
        (range(200), {"at_least": 50, "favourable": "50"}, "--favourable at-least or below"),
        ([0, 1] * 100, {"at_least": 1}, "needs no threshold"),
        (["a", "b", "c", "d"] * 50, {"at_least": 1}, "at-least needs numbers"),
        ([float("nan"), 1.0, 2.0, 3.0] * 50, {"at_least": 2}, "no usable value in 50 of 200 rows"),
    ],
)
def test_a_threshold_that_fits_no_label(values, options, message):
    with pytest.raises(ContractError, match=message):
        _incomes(list(values), **options)
