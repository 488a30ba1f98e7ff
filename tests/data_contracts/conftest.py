from __future__ import annotations

import pyarrow as pa
import pytest
from contract_samples import PEOPLE, make_people

from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.odcs import parse_contract


@pytest.fixture
def people_yaml() -> str:
    return PEOPLE


@pytest.fixture
def contract() -> Contract:
    return parse_contract(PEOPLE, "people")


@pytest.fixture
def people() -> pa.Table:
    return make_people()
