"""Checks of single parameters."""

from __future__ import annotations

from typing import Any

__all__ = ["check_count", "check_share"]


def check_count(name: str, value: Any) -> int:
    """A number of steps, at least 1; ValueError otherwise."""
    if not value >= 1:
        raise ValueError(f"{name} must be at least 1, got {value!r}.")
    return int(value)


def check_share(name: str, value: Any) -> float:
    """A number from 0 to 1; ValueError otherwise."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must lie in [0, 1], got {value!r}.")
    return float(value)
