"""Files of every kind: which are found, which are refused, and that a bad one spoils no other."""

from __future__ import annotations

import gzip
import uuid
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.filtering.filter_bundle import FilterSettings, ProxyBundle
from evenhand.tasks.filtering.filter_inputs import list_inputs
from evenhand.tasks.filtering.summary import FilterSummary
from tests.tasks.filtering.judged import filter_files

Make = Callable[..., pa.Table]
Put = Callable[..., Path]
SETTINGS = FilterSettings(key=("id",), rows_per_unit=1000)


def run(bundle: ProxyBundle, tmp_path: Path, settings: FilterSettings = SETTINGS) -> FilterSummary:
    return filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "out"), settings)


def reason_of(summary: FilterSummary, name: str) -> str:
    (file,) = [file for file in summary.files if file.name == name]
    assert file.status == "failed"
    return str(file.reason)


# what is found


def test_a_folder_is_searched_to_any_depth(tmp_path: Path) -> None:
    """Hidden places are left out."""
    for name in (
        "b.parquet", "a/y.csv.gz", "a/x.csv", "z.PARQUET", "_SUCCESS", "_tmp/c.parquet", ".hidden.csv",
        "a/.x/d.csv", "notes.md", "e.tsv",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    found = list_inputs(str(tmp_path))
    assert [(file.name, file.format) for file in found.files] == [
        ("a/x.csv", "csv"), ("a/y.csv.gz", "csv"), ("b.parquet", "parquet"), ("e.tsv", "csv"),
        ("z.PARQUET", "parquet"),
    ]  # fmt: skip
    assert found.ignored == ("notes.md",)
    assert {file.name for file in list_inputs(f"{tmp_path}/*.parquet").files} == {"b.parquet"}
    assert {file.name for file in list_inputs(f"{tmp_path}/a*/*").files} == {
        "a/x.csv",
        "a/y.csv.gz",
    }
    assert {file.name for file in list_inputs(f"{tmp_path}/**/*.csv").files} == {"a/x.csv"}
    assert [file.name for file in list_inputs(str(tmp_path / "a" / "x.csv")).files] == ["x.csv"]
    assert list_inputs(str(tmp_path / "notes.md"), "csv").files[0].format == "csv"


def test_a_files_own_name_may_look_like_a_glob(tmp_path: Path) -> None:
    (tmp_path / "a[1].csv").write_text("x")
    assert [file.name for file in list_inputs(str(tmp_path / "a[1].csv")).files] == ["a[1].csv"]


def test_nothing_to_filter_is_an_error_that_says_so(tmp_path: Path) -> None:
    for location in (tmp_path, tmp_path / "*.csv"):
        with pytest.raises(InputError, match="holds no file"):
            list_inputs(str(location))
    with pytest.raises(InputError, match=r"there is no file or folder .*missing\.csv\.$"):
        list_inputs(str(tmp_path / "missing.csv"))
    (tmp_path / "x.md").write_text("x")
    with pytest.raises(InputError, match=r"no ending of a known format: set filter\.format"):
        list_inputs(str(tmp_path / "x.md"))


def test_an_output_within_the_input_is_refused(
    bundle: ProxyBundle, people: Make, put: Put, tmp_path: Path
) -> None:
    put(people(10), tmp_path / "in" / "a.parquet")
    for output in ("in/out", "in", "."):
        with pytest.raises(InputError, match="overlap"):
            filter_files(bundle, str(tmp_path / "in"), str(tmp_path / output), SETTINGS)
    for output in ("in/_out", "out"):
        filter_files(bundle, str(tmp_path / "in"), str(tmp_path / output), SETTINGS)


def test_an_output_with_other_things_in_it_is_refused(
    bundle: ProxyBundle, people: Make, put: Put, tmp_path: Path
) -> None:
    put(people(10), tmp_path / "in" / "a.parquet")
    put(people(10), tmp_path / "other" / "a.parquet")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("x")
    with pytest.raises(InputError, match="holds other files already"):
        run(bundle, tmp_path)
    (tmp_path / "out" / "mine.txt").unlink()
    run(bundle, tmp_path)
    with pytest.raises(InputError, match="holds the rows of"):
        filter_files(bundle, str(tmp_path / "other"), str(tmp_path / "out"), SETTINGS)
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotCarriedOut, match="cannot be written"):
        filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "file"), SETTINGS)


# other file systems


@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz"])
def test_input_and_output_may_be_anywhere(
    ending: str,
    bundle: ProxyBundle,
    people: Make,
    put: Put,
    kept: Callable[[Path], pa.Table],
    tmp_path: Path,
) -> None:
    put(people(3000), tmp_path / "in" / f"a.{ending}")
    local = run(bundle, tmp_path)
    name = uuid.uuid4().hex
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "in"), f"/{name}/in", recursive=True)
    there = filter_files(bundle, f"memory://{name}/in", f"memory://{name}/out", SETTINGS)
    assert (there.rows_in, there.rows_out) == (local.rows_in, local.rows_out)
    memory.get(f"/{name}/out", str(tmp_path / "copy"), recursive=True)
    assert kept(tmp_path / "copy").equals(kept(tmp_path / "out"))
    again = filter_files(bundle, f"memory://{name}/in", f"memory://{name}/out", SETTINGS)
    assert [file.status for file in again.files] == ["skipped"]
    part = memory.glob(f"/{name}/out/part-*-00001.parquet")[0]
    memory.pipe_file(part, b"short")
    repaired = filter_files(bundle, f"memory://{name}/in", f"memory://{name}/out", SETTINGS)
    assert [file.status for file in repaired.files] == ["done"]
    assert memory.size(part) > 100


# bad files


def test_a_truncated_file_leaves_no_part_and_spoils_no_other(
    bundle: ProxyBundle, people: Make, put: Put, tmp_path: Path
) -> None:
    for name in "abcdef":
        put(people(3000, ord(name)), tmp_path / "in" / f"{name}.parquet", row_group=500)
    whole = (tmp_path / "in" / "c.parquet").read_bytes()
    (tmp_path / "in" / "c.parquet").write_bytes(whole[: len(whole) // 2])
    # the footer is whole, a page in the middle is not
    torn = bytearray((tmp_path / "in" / "e.parquet").read_bytes())
    middle = len(torn) // 2
    torn[middle : middle + 4000] = b"\xff" * 4000
    (tmp_path / "in" / "e.parquet").write_bytes(torn)
    summary = run(bundle, tmp_path)
    assert [file.status for file in summary.files] == [
        "done",
        "done",
        "failed",
        "done",
        "failed",
        "done",
    ]
    for name in ("c.parquet", "e.parquet"):
        assert (
            reason_of(summary, name)
            == f"{name} is a damaged or truncated Parquet file: write it again."
        )
    stems = {path.name[5:21] for path in (tmp_path / "out").glob("part-*")}
    assert len(stems) == 4
    assert {
        path.name[:16] for path in (tmp_path / "out" / "_evenhand" / "records").iterdir()
    } == stems
    (tmp_path / "in" / "c.parquet").write_bytes(whole)
    put(people(3000, ord("e")), tmp_path / "in" / "e.parquet")
    mended = run(bundle, tmp_path)
    assert [file.status for file in mended.files] == ["skipped"] * 2 + [
        "done",
        "skipped",
        "done",
        "skipped",
    ]


def test_every_unreadable_file_is_named_with_its_reason(
    bundle: ProxyBundle, people: Make, put: Put, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    text = put(people(2000), folder / "good.csv").read_bytes()
    lines = text.splitlines(keepends=True)
    cases = {
        "empty.parquet": (b"", "is empty"),
        "empty.csv": (b"", "is empty"),
        "blank.csv": (b"\n\n", "has no header line"),
        "text.parquet": (text, "is a damaged or truncated Parquet file"),
        "parquet.csv": (b"PAR1" + text, "is Parquet, not CSV"),
        "zip.csv": (b"PK\3\4" + text, "is a zip archive, not CSV"),
        "plain.csv.gz": (text, "is not compressed by gzip"),
        "cut.csv.gz": (gzip.compress(text)[:-2000], "is damaged, truncated or no CSV"),
        "ragged.csv": (
            b"".join([*lines[:900], b"secret,secret\n", *lines[900:]]),
            "expected 9 columns, got 2",
        ),
        "latin.csv": (text.replace(b"note 7", b"n\xf6te 7"), "is not UTF-8 text"),
        "latin-header.csv": (text.replace(b"note", b"n\xf6te", 1), "is not UTF-8 text"),
        "twice.csv": (text.replace(b'"note"', b'"age"', 1), "'age' occurs more than once"),
        "lacking.csv": (
            text.replace(b'"age"', b'"name"', 1),
            "column 'age': expected the column to be there, found none; add the column",
        ),
        "no-id.csv": (text.replace(b'"id"', b'"key"', 1), "lacks the key column 'id'"),
    }
    for name, (content, _) in cases.items():
        (folder / name).write_bytes(content)
    summary = run(bundle, tmp_path)
    for name, (_, expected) in cases.items():
        assert expected in reason_of(summary, name), name
        assert "secret" not in reason_of(summary, name)
    assert "did you mean" not in reason_of(summary, "lacking.csv")
    assert [file.name for file in summary.files if file.status == "done"] == ["good.csv"]
    assert summary.rows_in == 2000
    assert len({path.name[5:21] for path in (tmp_path / "out").glob("part-*")}) == 1


def test_a_missing_feature_names_the_likely_one(
    bundle: ProxyBundle, people: Make, put: Put, tmp_path: Path
) -> None:
    table = people(50)
    names = ["regoin" if name == "region" else name for name in table.column_names]
    put(table.rename_columns(names), tmp_path / "in" / "a.parquet")
    put(table.drop_columns(["age", "job"]), tmp_path / "in" / "b.parquet")
    summary = run(bundle, tmp_path)
    assert "column 'region': expected the column to be there" in reason_of(summary, "a.parquet")
    assert "did you mean 'regoin'?" in reason_of(summary, "a.parquet")
    assert "column 'age'" in reason_of(summary, "b.parquet")
    assert "and 1 more violation" in reason_of(summary, "b.parquet")


def test_a_file_that_is_gone_is_named(
    bundle: ProxyBundle, people: Make, put: Put, tmp_path: Path
) -> None:
    put(people(50), tmp_path / "in" / "a.parquet")
    for name in ("b.parquet", "c.csv"):
        (tmp_path / "in" / name).symlink_to(tmp_path / "nowhere")
    summary = run(bundle, tmp_path)
    assert [file.status for file in summary.files] == ["done", "failed", "failed"]
    for name in ("b.parquet", "c.csv"):
        assert (
            reason_of(summary, name)
            == f"{name} cannot be opened (No such file or directory): check it."
        )


# no rows


def test_files_without_rows_are_done_and_leave_no_part(
    bundle: ProxyBundle, people: Make, put: Put, tmp_path: Path
) -> None:
    none = people(0)
    put(none, tmp_path / "in" / "a.parquet")
    put(none, tmp_path / "in" / "b.csv")
    put(none, tmp_path / "in" / "d.csv.gz")
    (tmp_path / "in" / "c.csv").write_text(",".join(none.column_names))
    summary = run(bundle, tmp_path)
    assert [file.status for file in summary.files] == ["done"] * 4
    assert (summary.rows_in, summary.rows_out, summary.expected_out) == (0, 0, 0.0)
    assert summary.drift is None
    assert summary.balance is None
    assert list((tmp_path / "out").glob("part-*")) == []
    assert [file.status for file in run(bundle, tmp_path).files] == ["skipped"] * 4
    put(none.drop_columns("age"), tmp_path / "in" / "e.parquet")
    assert "column 'age'" in reason_of(run(bundle, tmp_path), "e.parquet")


def test_empty_row_groups_and_empty_columns_are_no_obstacle(
    bundle: ProxyBundle, people: Make, tmp_path: Path
) -> None:
    table = people(40)
    table = table.set_column(table.column_names.index("region"), "region", pa.nulls(40))
    (tmp_path / "in").mkdir()
    with pq.ParquetWriter(tmp_path / "in" / "a.parquet", table.schema) as writer:
        writer.write_table(table.slice(0, 0))
        writer.write_table(table)
        writer.write_table(table.slice(0, 0))
    summary = run(bundle, tmp_path)
    assert summary.failed == []
    assert summary.rows_in == 40


# CSV dialects


@pytest.mark.parametrize(
    "dialect",
    ["plain", "semicolons", "tabs", "windows", "bom", "no last newline", "quoted newline"],
)
def test_csv_dialects_keep_the_same_rows(
    dialect: str,
    bundle: ProxyBundle,
    people: Make,
    put: Put,
    kept: Callable[[Path], pa.Table],
    tmp_path: Path,
) -> None:
    table = people(1500)
    text = put(table, tmp_path / "plain" / "a.csv").read_text()
    if dialect == "semicolons":
        text = text.replace(",", ";")
    elif dialect == "tabs":
        text = text.replace(",", "\t")
    elif dialect == "windows":
        text = text.replace("\n", "\r\n")
    elif dialect == "bom":
        text = "\ufeff" + text
    elif dialect == "no last newline":
        text = text.rstrip("\n")
    elif dialect == "quoted newline":
        text = text.replace("note 3", "note\n3,;")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_bytes(text.encode())
    summary = run(bundle, tmp_path)
    assert summary.failed == []
    filter_files(bundle, str(tmp_path / "plain"), str(tmp_path / "expected"), SETTINGS)
    found, expected = kept(tmp_path / "out"), kept(tmp_path / "expected")
    assert summary.rows_in == 1500
    assert found.drop_columns("note").equals(expected.drop_columns("note"))


def test_text_that_parses_counts_as_the_contracts_type(
    bundle: ProxyBundle, people: Make, put: Put, kept: Callable[[Path], pa.Table], tmp_path: Path
) -> None:
    table = people(400)
    put(table, tmp_path / "plain" / "a.parquet")
    written = table.set_column(
        1, "age", pa.array([f" {age}.0" for age in table["age"].to_pylist()])
    )
    member = pa.array(["yes" if value else "no" for value in table["member"].to_pylist()])
    written = written.set_column(written.column_names.index("member"), "member", member)
    put(written, tmp_path / "in" / "a.csv")
    run(bundle, tmp_path)
    filter_files(bundle, str(tmp_path / "plain"), str(tmp_path / "expected"), SETTINGS)
    assert kept(tmp_path / "out")["id"].to_pylist() == kept(tmp_path / "expected")["id"].to_pylist()


def test_the_settings_say_what_stands_for_missing(
    bundle: ProxyBundle, people: Make, put: Put, tmp_path: Path
) -> None:
    text = put(people(50), tmp_path / "in" / "a.csv").read_text()
    lines = text.splitlines()
    lines[3] = ",".join("?" if i == 3 else cell for i, cell in enumerate(lines[3].split(",")))
    (tmp_path / "in" / "a.csv").write_text("\n".join(lines))
    assert "text that is no number" in reason_of(run(bundle, tmp_path), "a.csv")
    settings = FilterSettings(key=("id",), null_values=("?", ""))
    assert run(bundle, tmp_path, settings).failed == []


# settings


def test_settings_that_mean_nothing_are_refused() -> None:
    for wrong in ((), ("a", "a")):
        with pytest.raises(InputError, match=r"filter\.key"):
            FilterSettings(key=wrong)
    settings = FilterSettings(seed=2, key=("b", "a"), null_values=("?",))
    assert FilterSettings(**asdict(settings)) == settings


def test_a_key_that_cannot_be_hashed_is_named(
    bundle: ProxyBundle, people: Make, put: Put, tmp_path: Path
) -> None:
    put(people(10).append_column("tags", pa.array([["x"]] * 10)), tmp_path / "in" / "a.parquet")
    summary = run(bundle, tmp_path, FilterSettings(key=("tags",)))
    assert "column 'tags' of type list" in reason_of(summary, "a.parquet")


def test_a_broken_bundle_is_refused(bundle_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"lacks encoder\.json"):
        ProxyBundle.load(tmp_path)
    for item in ("encoder.json", "inputs.json", "balance.json"):
        (tmp_path / item).write_bytes((bundle_folder / item).read_bytes())
    (tmp_path / "model").mkdir()
    with pytest.raises(InputError, match="cannot be used"):
        ProxyBundle.load(tmp_path)
