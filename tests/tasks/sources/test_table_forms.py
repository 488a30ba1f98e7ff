"""Encodings, decimal marks and orders of dates of a file: inferred, stated, applied, and
refused.
"""

from __future__ import annotations

import datetime as dt
import gzip
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenhand.tasks.errors import InputError
from evenhand.tasks.sources.table_reader import infer_table_forms, open_table

GERMAN = (
    "Name;Betrag;Quote;Datum;Geburt\n"
    "Müller;1.234,56;14,168;12.03.2024;16/08/1980\n"
    "Jörg;584,56;1,500;13.03.2024;01/08/1980\n"
)


def written(folder: Path, text: str, encoding: str = "utf-8", name: str = "t.csv") -> Path:
    path = folder / name
    content = text.encode(encoding)
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def read(path: Path, **stated: Any) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """The inferred keys, and the rows as a run reads them."""
    forms = infer_table_forms(path, stated)
    return forms.keys, open_table(path, {**stated, **forms.keys}).read_all().to_pydict()


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_western_european_file_is_read(tmp_path: Path, name: str) -> None:
    keys, rows = read(written(tmp_path, GERMAN, "cp1252", name))
    assert keys == {"encoding": "cp1252", "decimal": "comma", "dates": "day-first"}
    assert rows["Name"] == ["Müller", "Jörg"]
    assert rows["Betrag"] == [1234.56, 584.56]
    # the other column proves that its comma is a decimal one
    assert rows["Quote"] == [14.168, 1.5]
    assert rows["Datum"] == [dt.date(2024, 3, 12), dt.date(2024, 3, 13)]
    assert rows["Geburt"] == [dt.date(1980, 8, 16), dt.date(1980, 8, 1)]


def test_an_ordinary_file_has_nothing_to_state(tmp_path: Path) -> None:
    text = 'a,b,c,d\n"14,168",x,1.5,2024-01-31\n"1,500",é,2,2024-02-28\n'
    assert infer_table_forms(written(tmp_path, text), {}).keys == {}


def test_a_run_without_the_key_names_it(tmp_path: Path) -> None:
    path = written(tmp_path, GERMAN, "cp1252")
    with pytest.raises(InputError, match=r"table\.encoding"):
        open_table(path, {}).read_all()
    with pytest.raises(
        InputError, match=r"is not text of the encoding ascii: correct table\.encoding"
    ):
        open_table(path, {"encoding": "ascii"}).read_all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a;b\n14,168;x\n1,500;y\n", "'a' has two readings .line 2 .*--decimal comma"),
        ("a;b\n1.234;1\n584;2\n", "'a' has two readings .line 2 .*--decimal comma"),
        ("a;b\n1,5;2\n2.5;3\n", "'a' mixes .*comma .first in line 2.*point .first in line 3"),
        ("a,d\n1,02/03/2024\n2,04/05/2024\n", "'d' have two readings .line 2 .*--dates day-first"),
        ("a,d\n1,16/08/1980\n2,08/16/1980\n", "mixes dates: day-first in line 2 and month-first in line 3"),
        ("a,d\n1,31.01.24\n2,02.03.24\n", "two digits for the year .first in line 2"),
    ],
)  # fmt: skip
def test_what_has_two_readings_is_asked_for(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        infer_table_forms(written(tmp_path, text), {})


@pytest.mark.parametrize(
    ("text", "stated", "column"),
    [
        ("a;b\n14,168;x\n1,500;y\n", {"decimal": "comma"}, [14.168, 1.5]),
        ("a;b\n14,168;x\n1,500;y\n", {"decimal": "point"}, [14168, 1500]),
        ("a;b\n1.234;1\n584;2\n", {"decimal": "comma"}, [1234, 584]),
        ("a;b\n14,168;12.5\n1,500;3.25\n", {}, [14168, 1500]),
        ("a;b\n0,168;1\n1,500;2\n", {}, [0.168, 1.5]),
        ("a;b\n1,234,567;1\n14,168;2\n", {}, [1234567, 14168]),
        ("a;b\n123,45-;1\n-1,5;2\n", {}, [-123.45, -1.5]),
        ("a;b\n1 234,5 €;1\n€ 2,5;2\n", {}, [1234.5, 2.5]),
        ("a;b\n1'234.50 CHF;1\n2.5;2\n", {}, [1234.5, 2.5]),
        ("a;b\n12,5 %;1\n3 %;2\n", {}, [12.5, 3.0]),
        ('"a";"b"\n"12,5";"1"\n"3,25";"2"\n', {}, [12.5, 3.25]),
        ("a;d\n1,5;02/03/2024\n2,5;04/05/2024\n", {"dates": "month-first"}, [1.5, 2.5]),
    ],
)
def test_a_column_is_read_by_all_of_its_values(
    tmp_path: Path, text: str, stated: dict[str, str], column: list[float]
) -> None:
    assert read(written(tmp_path, text), **stated)[1]["a"] == column


def test_columns_may_differ(tmp_path: Path) -> None:
    path = written(
        tmp_path, "a;lat;d;e\n1,5;52.52;16/08/1980;08/16/1980\n2,5;48.1;17/08/1980;08/17/1980\n"
    )
    keys, rows = read(path)
    assert keys == {"decimal": {"a": "comma"}, "dates": {"d": "day-first", "e": "month-first"}}
    assert (rows["a"], rows["lat"]) == ([1.5, 2.5], [52.52, 48.1])
    assert rows["d"] == rows["e"] == [dt.date(1980, 8, 16), dt.date(1980, 8, 17)]
    with pytest.raises(InputError, match="decimal point in line 2 .and 1 more.*lat: point"):
        open_table(path, {"decimal": "comma"}).read_all()
    with pytest.raises(InputError, match="table.decimal names the column 'x', which t.csv lacks"):
        open_table(path, {"decimal": {"x": "comma"}}).read_all()


def test_a_later_file_of_another_form_is_not_read_in_another_way(tmp_path: Path) -> None:
    stated = {"decimal": "comma", "dates": "day-first"}
    path = written(tmp_path, "a;d\n12.5;12.03.2024\n1.234;13.03.2024\n")
    with pytest.raises(
        InputError, match=re.escape("decimal point in line 2, but table.decimal is comma")
    ):
        open_table(path, stated).read_all()
    path = written(tmp_path, "a;d\n1,5;12.03.2024\n2,5;03/25/2024\n")
    # the contract refuses a text that is no date
    assert open_table(path, stated).read_all()["d"].to_pylist() == ["2024-03-12", "03/25/2024"]


def test_a_comma_of_two_readings_is_refused_in_a_run_too(tmp_path: Path) -> None:
    path = written(tmp_path, "a;b\n14,168;x\n1,500;y\n")
    with pytest.raises(InputError, match=r"line 2 .* set table\.decimal to comma or point"):
        open_table(path, {}).read_all()
    assert open_table(path, {"decimal": "point"}).read_all()["a"].to_pylist() == [14168, 1500]
    # text, and thousands that are proven, are what they were
    path = written(tmp_path, "a;b\n1,234,567;14,168 km\n14,168;far\n")
    assert open_table(path, {}).read_all()["a"].to_pylist() == ["1,234,567", "14,168"]


def test_missing_and_wrong_values_leave_a_column_text(tmp_path: Path) -> None:
    path = written(tmp_path, "a;b\n1.234,5;1\nk.A.;2\n584,5;3\nabc;4\n;5\n")
    forms = infer_table_forms(path, {})
    assert forms.keys == {"decimal": "comma"}
    assert forms.partly == {"a": "1 of 3 values of a are no number (first in line 5)"}
    column = open_table(path, forms.keys).read_all()["a"]
    assert column.to_pylist() == ["1234.5", "k.A.", "584.5", "abc", None]


def test_codes_and_categories_stay(tmp_path: Path) -> None:
    path = written(tmp_path, "plz;a;wort\n01234;1,5;x\n99999;2,5;y,z\n")
    assert read(path)[1] == {"plz": ["01234", "99999"], "a": [1.5, 2.5], "wort": ["x", "y,z"]}


def test_files_of_a_folder_are_one_table(tmp_path: Path) -> None:
    written(tmp_path, "a;d\n584;12.03.2024\n", name="1.csv")
    written(tmp_path, "a;d\n1.234,5;16.03.2024\n", name="2.csv")
    keys, rows = read(tmp_path)
    assert keys == {"decimal": "comma", "dates": "day-first"}
    assert rows == {"a": [584.0, 1234.5], "d": [dt.date(2024, 3, 12), dt.date(2024, 3, 16)]}


def test_text_of_other_formats_is_read_too(tmp_path: Path) -> None:
    table = pa.table({"a": ["1.234,5", "584"], "b": [1.5, 2.5], "d": ["2024/08/16", "2024/08/17"]})
    pq.write_table(table, tmp_path / "t.parquet")
    keys, rows = read(tmp_path / "t.parquet")
    assert keys == {"decimal": "comma", "dates": "year-first"} or keys["decimal"] == {"a": "comma"}
    assert (rows["a"], rows["b"]) == ([1234.5, 584.0], [1.5, 2.5])
    assert rows["d"] == [dt.date(2024, 8, 16), dt.date(2024, 8, 17)]


def test_many_rows_are_judged_as_a_whole(tmp_path: Path) -> None:
    """The only proof stands in the last of 200,000 rows, of several blocks: two seconds of
    reading.
    """
    body = "".join(f"{1 + row % 900},{row % 1000:03d};{row}\n" for row in range(200_000))
    path = written(tmp_path, f"a;b\n{body}0,5;7\n")
    keys, rows = read(path)
    assert keys == {"decimal": "comma"}
    assert (rows["a"][1], rows["a"][-1], len(rows["a"])) == (2.001, 0.5, 200_001)


@pytest.mark.parametrize(
    ("text", "decimal", "values"),
    [
        # 4500 has no separator of thousands, so the mark is decimal
        ("a;b\n14,168;x\n4500;y\n", "comma", [14.168, 4500.0]),
        ("a;b\n1.234;x\n4500;y\n", None, [1.234, 4500.0]),
        # 900 has no decimals, and 1,050 would be written 1,05
        ("a;b\n1,050;x\n900;y\n", "point", [1050, 900]),
        ("a;b\n1.050;x\n900;y\n", "comma", [1050, 900]),
    ],
)
def test_the_whole_column_decides_what_one_value_does_not(
    tmp_path: Path, text: str, decimal: str | None, values: list[float]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    forms = infer_table_forms(path, {})
    assert forms.keys.get("decimal") == decimal
    assert open_table(path, forms.keys).read_all()["a"].to_pylist() == values


def test_a_preview_shows_values_before_and_after(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"{k},5 €;{k:02}.01.2024;14,168;x" for k in range(1, 8)]
    path.write_text("\n".join(["a;d;e;f", *rows, "1.234,5 €;01.02.2024;1,5;x", ""]))
    forms = infer_table_forms(path, {})
    shown = {item.column: (item.before, item.after) for item in forms.previews}
    assert set(shown) == {"a", "d", "e"}
    assert shown["a"] == (
        ["1,5 €", "2,5 €", "3,5 €", "4,5 €", "5,5 €"],
        ["1.5", "2.5", "3.5", "4.5", "5.5"],
    )
    assert shown["d"][1][0] == "2024-01-01"
    # a value with two readings comes first
    assert shown["e"] == (["14,168", "1,5"], ["14.168", "1.5"])
