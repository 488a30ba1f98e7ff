"""Tests of the names of columns where the header has empty or repeated ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.tasks.errors import InputError
from evenhand.tasks.sources.headers import check_unique, headers_note, numbered_names
from evenhand.tasks.sources.table_reader import infer_table_forms, open_table


@given(st.lists(st.sampled_from(["a", "b", "a_2", "", " ", "unnamed", "unnamed_2"]), max_size=9))
def test_numbered_names_are_unique_and_keep_the_first(names: list[str]) -> None:
    unique = numbered_names(names)
    assert len(set(unique)) == len(names)
    for place, name in enumerate(names):
        if name.strip() and name not in names[:place]:
            assert unique[place].startswith(name)
    check_unique(unique, "here")


def test_a_number_that_is_taken_is_left_out() -> None:
    assert numbered_names(["a", "a", "a_2", "a"]) == ["a", "a_3", "a_2", "a_4"]


def test_names_without_a_repetition_stay() -> None:
    assert numbered_names(["a", " b"]) == ["a", " b"]
    assert headers_note(["a", "b"]) is None


def test_a_csv_file_with_repeated_names_is_read(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text('\n"x;\ny";a;;a;\n1;2;3;4;\n5;6;7;8;\n')
    with pytest.raises(InputError, match="occurs more than once"):
        open_table(path, {})
    forms = infer_table_forms(path, {})
    assert forms.keys == {"headers": "numbered"}
    assert forms.repeated == {"a", "unnamed"}
    assert any("column 4, another 'a', is a_2" in note for note in forms.notes)
    table = open_table(path, forms.keys).read_all()
    assert table.column_names == ["x;\ny", "a", "unnamed", "a_2", "unnamed_2"]
    assert table["a_2"].to_pylist() == [4, 8]
    assert table["unnamed_2"].null_count == 2


def test_a_header_alone_is_a_table_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("a;a")
    assert open_table(path, {"headers": "numbered"}).read_all().column_names == ["a", "a_2"]


def test_a_header_after_rows_of_empty_fields_is_found(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(";;\n\na;b;c\n1;2;3\n")
    forms = infer_table_forms(path, {})
    assert forms.keys == {"headers": "numbered"}
    assert open_table(path, forms.keys).read_all().to_pydict() == {"a": [1], "b": [2], "c": [3]}
