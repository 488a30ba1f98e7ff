"""Other columns as sensitive attributes of a contract."""

from __future__ import annotations

import dataclasses

import pytest

from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.odcs import load_contract


def test_other_columns_can_be_the_sensitive_ones() -> None:
    adult = load_contract("adult").with_attributes(["race"])
    assert [column.name for column in adult.sensitive] == ["race"]
    # sex was sensitive and an input: it stays an input
    assert adult.column("sex").role == "feature"
    bank = load_contract("bank").with_attributes(["job"])
    assert [column.name for column in bank.sensitive] == ["job"]
    assert (bank.column("age").role, bank.column("age").bins) == ("feature", None)
    assert "job" not in [column.name for column in bank.features]
    assert bank.column("job").encoding is None
    assert Contract.from_dict(bank.to_dict()) == bank
    assert bank.digest != load_contract("bank").digest


def test_a_column_can_be_sensitive_beside_the_others() -> None:
    bank = load_contract("bank")
    both = bank.with_sensitive(["job"])
    assert [column.name for column in both.sensitive] == ["age", "job"]
    assert both.column("age") == bank.column("age")
    assert not both.column("job").shows_values
    assert not both.column("job").is_feature


def test_a_sensitive_column_that_was_no_input_is_ignored() -> None:
    bank = load_contract("bank")
    apart = dataclasses.replace(bank.column("age"), is_feature=False, encoding=None)
    columns = tuple(apart if column.name == "age" else column for column in bank.columns)
    seen = dataclasses.replace(bank, columns=columns).with_attributes(["job"])
    assert (seen.column("age").role, seen.column("age").bins) == ("ignore", None)


def test_a_binary_input_can_be_sensitive() -> None:
    bank = load_contract("bank").with_attributes(["default", "age"])
    assert bank.column("default").positive is None
    assert bank.column("age").bins == (25, 60)
    assert not {"default", "age"} & {column.name for column in bank.features}


@pytest.mark.parametrize(
    ("name", "words"),
    [("y", "is the label"), ("balance", "number without groups"), ("jobb", "did you mean 'job'")],
)
def test_columns_that_cannot_be_sensitive(name: str, words: str) -> None:
    with pytest.raises(ContractError, match=words):
        load_contract("bank").with_attributes([name])
