"""The filter of the tests: a proxy and settings as arguments."""

from __future__ import annotations

from typing import Any

from evenhand.tasks.filtering.checks import RowFilter
from evenhand.tasks.filtering.filter_bundle import FilterSettings, ProxyBundle
from evenhand.tasks.filtering.filter_engine import process_files


def filter_files(
    bundle: ProxyBundle, inputs: str, output: str, settings: FilterSettings, *rest: Any, **more: Any
) -> Any:
    """Filter files; further arguments are those of `process_files`."""
    return process_files(RowFilter(bundle, settings), inputs, output, *rest, **more)
