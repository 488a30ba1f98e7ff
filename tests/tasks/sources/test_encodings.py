"""Encodings of files: one stray byte, marks, and what has to be stated."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from evenhand.tasks.errors import InputError
from evenhand.tasks.sources.encodings import encoding_of, encoding_of_file
from evenhand.tasks.sources.table_reader import encoding_notes, infer_table_forms, open_table


def written(folder: Path, text: str, encoding: str = "utf-8", name: str = "t.csv") -> Path:
    path = folder / name
    content = text.encode(encoding)
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def read(path: Path, **stated: Any) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """The inferred keys, and the rows as a run reads them."""
    forms = infer_table_forms(path, stated)
    return forms.keys, open_table(path, {**stated, **forms.keys}).read_all().to_pydict()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-32"])
def test_a_byte_order_mark_tells_the_encoding(tmp_path: Path, encoding: str) -> None:
    path = written(tmp_path, "a;Größe\n1;ü\n2;ß\n", encoding)
    assert read(path)[1] == {"a": [1, 2], "Größe": ["ü", "ß"]}


@pytest.mark.parametrize("encoding", ["cp1251", "cp1250", "utf-16-le"])
def test_what_is_not_western_asks_for_the_encoding(tmp_path: Path, encoding: str) -> None:
    words = "привет\nдень" if encoding == "cp1251" else "Wąsak\nKąsik"
    path = written(tmp_path, f"a\n{words}\n", encoding)
    with pytest.raises(InputError, match="--encoding"):
        infer_table_forms(path, {})
    stated = infer_table_forms(path, {"encoding": encoding})
    assert stated.keys == {}
    table = open_table(path, {"encoding": encoding}).read_all()
    assert table["a"].to_pylist() == words.split("\n")


def test_one_stray_byte_is_a_mistake_and_no_other_encoding(tmp_path: Path) -> None:
    rows = "Straße,Geschlecht\n" + "Köln,männlich\n" * 20
    content = rows.encode() + "Bonn,männlich\n".encode("latin-1")
    file = tmp_path / "a.csv"
    file.write_bytes(content)
    with pytest.raises(InputError, match="a.csv is UTF-8 but for a byte in line 22: correct it"):
        encoding_of([file])
    file.write_bytes(rows.encode("latin-1"))
    assert encoding_of([file]) == "cp1252"


@pytest.mark.parametrize(
    ("written_as", "stated", "read_as"),
    [
        ("utf-8", "cp1252", None),
        ("utf-8-sig", "cp1252", None),
        ("utf-16", "cp1252", "utf-16"),
        ("utf-16", None, "utf-16"),
        ("cp1252", "cp1252", "cp1252"),
        ("utf-8", None, None),
        ("cp1250", "cp1250", "cp1250"),
    ],
)
def test_the_bytes_of_a_file_prove_its_encoding(
    tmp_path: Path, written_as: str, stated: str | None, read_as: str | None
) -> None:
    path = written(tmp_path, "a;Größe\n1;ü\n2;ß\n", written_as)
    assert encoding_of_file(path, stated) == read_as
    table = open_table(path, {"encoding": stated}).read_all()
    assert table.to_pydict() == {"a": [1, 2], "Größe": ["ü", "ß"]}


def test_a_file_without_letters_beyond_ascii_proves_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, "a;b\n1;2\n")
    assert encoding_of_file(path, "cp1252") == "cp1252"
    assert encoding_notes([path], "cp1252") == []


def test_a_note_names_the_file_that_is_read_otherwise(tmp_path: Path) -> None:
    path = written(tmp_path, "a;ü\n1;2\n")
    (note,) = encoding_notes([path], "cp1252")
    assert note == "t.csv is UTF-8, not cp1252: it was read so"
