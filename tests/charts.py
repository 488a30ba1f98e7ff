"""What a chart's specification holds."""

from __future__ import annotations

from typing import Any


def values(spec: Any) -> list[dict[str, Any]]:
    """Rows of the data of a chart's specification, once each."""
    found: list[dict[str, Any]] = []
    if isinstance(spec, dict):
        own = spec.get("values")
        if isinstance(own, list) and all(isinstance(row, dict) for row in own):
            found += own
    parts = spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else []
    for part in parts:
        found += [row for row in values(part) if row not in found]
    return found
