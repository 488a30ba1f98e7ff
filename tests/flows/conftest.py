"""Tests of flows in this process."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def every_flow(flow_environment: None) -> None:
    """Every test here runs in the environment of flows."""
