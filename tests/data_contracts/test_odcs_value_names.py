"""Names of coded values: read from a contract, checked, written, and without effect on its
digest.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from evenhand.data_contracts.arrow import group_labels
from evenhand.data_contracts.column import Column, value_text
from evenhand.data_contracts.contract_yaml import to_yaml
from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.odcs import parse_contract
from tests.data_contracts.contract_samples import PEOPLE

SEX = "      [Male, Female]}\n    customProperties:\n".replace("      ", "validValues: ")
TARGET = SEX + "    - {property: role, value: sensitive}\n"


def named(text: str, column: str = TARGET) -> str:
    """The sample contract with names of a column's values."""
    assert PEOPLE.count(column) == 1
    return PEOPLE.replace(column, f"{column}    - {{property: valueNames, value: {text}}}\n")


def coded(kind: str, names: object, **more: object) -> Column:
    return Column("sex", kind, role="sensitive", value_names=names, **more)


def test_names_are_read_written_and_read_again() -> None:
    contract = parse_contract(named("{Male: a man, Female: 'yes'}"))
    assert contract.value_names == {"sex": {"Male": "a man", "Female": "yes"}}
    assert parse_contract(to_yaml(contract)) == contract
    assert Contract.from_dict(json.loads(json.dumps(contract.to_dict()))) == contract


def test_names_are_no_part_of_the_digest_nor_of_what_steps_get() -> None:
    plain, contract = parse_contract(PEOPLE), parse_contract(named("{Male: a man}"))
    assert contract != plain
    assert contract.digest == plain.digest
    assert contract.without_value_names() == plain
    assert contract.without_value_names().to_dict() == plain.to_dict()


@pytest.mark.parametrize(
    "text", ["{1: male, 2: female}", "{'1': male, '2': female}", "{1.0: male, 2.0: female}"]
)
@pytest.mark.parametrize("kind", ["integer", "number"])
def test_a_code_may_be_written_in_any_way(text: str, kind: str) -> None:
    given = named(text).replace(
        "name: sex\n    logicalType: string", f"name: sex\n    logicalType: {kind}"
    )
    contract = parse_contract(given.replace("[Male, Female]", "[1, 2]"))
    assert contract.value_names == {"sex": {"1": "male", "2": "female"}}
    assert parse_contract(to_yaml(contract)) == contract


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("integer", [0, -3, 2**60 + 1]),
        ("number", [0.5, 3.0, -0.25, 1e20]),
        ("boolean", [True, False]),
        ("string", ["A11", "1", "1.0", " x "]),
    ],
)
def test_keys_are_the_names_of_groups(kind: str, values: list[object]) -> None:
    allowed = tuple(values) if kind in ("integer", "number") else None
    column = coded(kind, {value: f"name {value!r}" for value in values}, allowed=allowed)
    groups = group_labels(pa.array(values), column).tolist()
    assert dict(column.value_names) == {
        group: f"name {value!r}" for group, value in zip(groups, values, strict=True)
    }
    assert groups == [value_text(value) for value in values]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[Male, Female]", r"valueNames is \['Male', 'Female'\].*names such as"),
        ("{}", "valueNames is empty"),
        ("{Male: 1}", "gives Male a name that is no text"),
        ("{Male: yes}", "gives Male a name that is no text"),
        ("{Male: ' '}", "gives Male a name that is no text"),
        ("{Male: man, Female: man}", "gives two values the name 'man'"),
        ("{Man: man}", "key 'Man', a value that is not allowed"),
        ("{1: man}", "key '1', a value that is not allowed"),
        ("{[1]: man}", "not valid YAML|not text"),
        ("{Male: man, Male: male}", "'Male' is given twice"),
    ],
)
def test_bad_names_get_one_line(text: str, message: str) -> None:
    with pytest.raises(ContractError, match=message) as caught:
        parse_contract(named(text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "names", "more", "message"),
    [
        ("integer", {1: "a", "1.0": "b"}, {"allowed": (1, 2)}, "names the value 1 twice"),
        ("integer", {"one": "a"}, {"allowed": (1, 2)}, "key 'one', which is not of type integer"),
        ("integer", {1.5: "a"}, {"allowed": (1, 2)}, "key '1.5', which is not of type integer"),
        ("integer", {3: "a"}, {"allowed": (1, 2)}, "key '3', a value that is not allowed"),
        ("integer", {"inf": "a"}, {"allowed": (1, 2)}, "key 'inf', which is not of type integer"),
        (
            "number",
            {9: "a"},
            {"allowed": (1.0, 9.0), "maximum": 8},
            "key '9', a value that is not allowed",
        ),
        ("number", {"nan": "a"}, {"allowed": (1.0,)}, "key 'nan', which is not of type number"),
        ("boolean", {"maybe": "a"}, {}, "key 'maybe', which is not of type boolean"),
        ("boolean", {"true": "a", "1": "b"}, {}, "names the value true twice"),
        ("integer", {30: "a"}, {"bins": (30.0,)}, "not for dates or bins"),
    ],
)
def test_names_of_what_no_value_can_be(kind, names, more, message) -> None:
    with pytest.raises(ContractError, match=message):
        coded(kind, names, **more)


def test_a_date_has_no_names() -> None:
    with pytest.raises(ContractError, match="not for dates or bins"):
        Column("since", "date", is_feature=True, value_names={"2024-01-01": "new year"})


def test_other_keys_need_quotes_as_before() -> None:
    with pytest.raises(ContractError, match="not text: put it in quotes"):
        parse_contract(PEOPLE.replace("value: id}", "value: {1: a}}"))


def test_a_unit_is_read_and_written_and_part_of_the_digest() -> None:
    income = "{minimum: 0}\n    customProperties:\n"
    assert PEOPLE.count(income) == 1
    plain = parse_contract(PEOPLE)
    contract = parse_contract(
        PEOPLE.replace(income, f"{income}    - {{property: unit, value: euros}}\n")
    )
    assert {column.name: column.unit for column in contract.columns if column.unit} == {
        "income": "euros"
    }
    assert parse_contract(to_yaml(contract)) == contract
    assert contract.digest != plain.digest
    assert "unit" not in plain.columns[0].to_dict()


@pytest.mark.parametrize(("kind", "unit"), [("string", "years"), ("number", ""), ("number", 3)])
def test_a_unit_is_a_text_and_of_a_number(kind: str, unit: object) -> None:
    with pytest.raises(
        ContractError, match="column 'age': unit is a text, such as years, and for numbers"
    ):
        Column("age", kind, is_feature=True, unit=unit)  # type: ignore[arg-type]
