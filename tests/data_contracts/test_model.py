"""A contract as a whole: its digest, its features, its label, and its columns by name."""

from __future__ import annotations

import dataclasses
import json

import pytest

from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.model import Column, Contract
from evenhand.data_contracts.odcs import parse_contract


def test_json_round_trip_and_digest(contract, people_yaml):
    again = Contract.from_dict(json.loads(json.dumps(contract.to_dict())))
    assert again == contract
    assert again.digest == contract.digest
    commented = "# a comment\n" + people_yaml.replace(
        "    logicalType: number\n    required: true\n",
        "    required: true\n    logicalType: number\n",
    )
    assert commented != people_yaml
    assert parse_contract(commented).digest == contract.digest
    changed = parse_contract(people_yaml.replace("maximum: 99", "maximum: 98"))
    assert changed.digest != contract.digest


def test_frozen(contract):
    with pytest.raises(dataclasses.FrozenInstanceError):
        contract.name = "other"


def test_no_feature():
    label = Column("y", "integer", True, role="label", positive=1)
    with pytest.raises(ContractError, match="no column is a model input"):
        Contract("t", "1", "", (label,))


def test_label_must_be_required():
    feature = Column("x", "number", role="feature", is_feature=True)
    with pytest.raises(ContractError, match="required: true"):
        Contract("t", "1", "", (Column("y", "integer", role="label", positive=1), feature))


def test_column_lookup_names_the_nearest(contract):
    with pytest.raises(ContractError, match="'incme'; did you mean 'income'"):
        contract.column("incme")
