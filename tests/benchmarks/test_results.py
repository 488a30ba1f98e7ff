"""The committed results: their size, what each states of its origin, and how summaries are made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import common
from benchmarks.common import RESULTS, read_result, read_whole, write_result
from benchmarks.summaries import (
    COLUMNS,
    MODULES,
    WIDEST,
    by_column,
    merged,
    records_of,
    shown_alike,
    text_of,
)

MOST_LINES_OF_A_SUMMARY = 200
MOST_LINES = 10_000
WIDEST_LINE = 300
ORIGIN = {"command", "python", "machine", "packages"}
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)


def committed() -> list[Path]:
    """Every file of results that the repository has."""
    return sorted(RESULTS.glob("*.json"))


def origins(content: Any) -> list[dict[str, Any]]:
    """The parts of a result that name a command."""
    if not isinstance(content, dict):
        return []
    if "command" in content:
        return [content]
    return [origin for item in content.values() for origin in origins(item)]


@pytest.mark.parametrize("path", committed(), ids=lambda path: path.stem)
def test_a_result_is_short_and_states_its_origin(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    most = MOST_LINES_OF_A_SUMMARY if path.stem in MODULES else 1000
    assert len(lines) <= most
    assert max(map(len, lines)) <= WIDEST_LINE
    found = origins(json.loads("\n".join(lines)))
    assert found
    for origin in found:
        assert set(origin) >= ORIGIN, origin["command"]
        assert origin["command"].startswith("python -m benchmarks.")


def test_all_results_together_are_short() -> None:
    lines = [line for path in committed() for line in path.read_text().splitlines()]
    assert {*MODULES} <= {path.stem for path in committed()}
    assert len(lines) <= MOST_LINES


@given(JSON_VALUES)
def test_the_text_of_a_result_is_its_content(content: Any) -> None:
    assert json.loads(text_of(content)) == content


def test_records_fill_lines_and_are_not_wider() -> None:
    rows = {f"row {number}": {"values": [0.12345] * number} for number in range(80)}
    text = text_of({"rows": rows})
    assert max(map(len, text.splitlines())) <= WIDEST + 2
    # a record that fits stands on one line of its own, and a longer one goes on below
    lines = text.splitlines()
    assert ' "row 2": {"values": [0.12345, 0.12345]},' in lines
    (first_of_long,) = (line for line in lines if '"row 79": {' in line)
    assert first_of_long.count("0.12345") < 79
    assert json.loads(text) == {"rows": rows}


def test_records_by_column_and_back() -> None:
    records = [{"a": {"x": n, "y": [n, n]}, "b": str(n)} for n in range(3)]
    columns = by_column(records)
    assert columns == {
        COLUMNS: {"a": {"x": [0, 1, 2], "y": [[0, 0], [1, 1], [2, 2]]}, "b": ["0", "1", "2"]}
    }
    assert records_of({"part": {"seeds": columns}}) == {"part": {"seeds": records}}
    assert by_column([{"a": 1, "b": 2}, {"a": 3}]) == {COLUMNS: {"a": [1, 3]}}


@given(st.floats(-2, 2))
def test_a_shortened_number_is_shown_alike(value: float) -> None:
    short = shown_alike({"row": [value]})["row"][0]
    assert f"{short:+.3f}" == f"{value:+.3f}"
    assert abs(short - value) <= 5.01e-6


def test_a_number_next_to_a_tie_keeps_its_digits() -> None:
    assert shown_alike(0.8095000001) == 0.8095000001
    assert f"{shown_alike(0.8095000001):.3f}" == f"{0.8095000001:.3f}" == "0.810"
    assert shown_alike(0.1234567) == 0.12346


def test_a_summary_keeps_rows_that_only_the_earlier_one_has() -> None:
    earlier = {"rows": {"a": {"x": {"v": 1}}, "b": {"x": {"v": 2}}}, "command": "old"}
    later = {"rows": {"a": {"y": {"v": 3}}}, "command": "new"}
    assert merged(earlier, later, 3) == {
        "rows": {"a": {"x": {"v": 1}, "y": {"v": 3}}, "b": {"x": {"v": 2}}},
        "command": "new",
    }
    assert merged(earlier, later, 2)["rows"]["a"] == {"y": {"v": 3}}


def test_the_whole_result_stands_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    assert read_whole("x", {"rows": {}}) == {"rows": {}}
    assert read_result("x") == {}
    whole = {"command": "c", "rows": {"a": [{"seed": 0, "long": "text"}, {"seed": 1, "long": "t"}]}}

    def summarise(content: Any) -> dict[str, Any]:
        rows = {
            name: by_column([{"seed": row["seed"]} for row in rows])
            for name, rows in content["rows"].items()
        }
        return {**content, "rows": rows}

    write_result("x", whole, summarise)
    assert read_whole("x", {}) == whole
    assert read_result("x") == {"command": "c", "rows": {"a": [{"seed": 0}, {"seed": 1}]}}
    assert "long" not in (tmp_path / "x.json").read_text()
    assert (tmp_path / "whole" / "x.json").is_file()


def test_whole_results_are_ignored_by_git() -> None:
    ignored = (RESULTS.parents[1] / ".gitignore").read_text().splitlines()
    assert "/benchmarks/results/whole/" in ignored
