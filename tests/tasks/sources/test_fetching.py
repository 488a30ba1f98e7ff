"""One table in many wrappings: what is read is the same, and so is the model."""

from __future__ import annotations

import gzip
import io
import sqlite3
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import evenhand.tasks.steps.ingest_step
from evenhand.data_contracts.arrow import coerce
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.execution.step import StepContext
from evenhand.tasks.execution.store import Store
from evenhand.tasks.sources import fetching as sources
from evenhand.tasks.sources.fetching import QUERY_ROWS, fetch_source, needs_network
from evenhand.tasks.sources.table_reader import csv_options, open_table
from evenhand.tasks.steps.ingest_step import GROUP_ROWS, ingest, write_raw
from tests.chaos.odd_server import KINDS, odd_server

pytestmark = pytest.mark.usefixtures("flow_environment")

# nothing is published: what is compared comes before
STOP = ("--set", "gates={accuracy: {min: 1.5}}", "--json")


def read_table(path: Path, source: Mapping[str, Any]) -> pa.Table:
    return open_table(path, source).read_all()


def digest(done: Any, name: str) -> str:
    return Path(done.json["artifacts"][name]).name.partition(".")[0]


def csv_text(table: pa.Table, delimiter: str = ",", quoting: str = "needed") -> bytes:
    sink = io.BytesIO()
    options = pyarrow.csv.WriteOptions(delimiter=delimiter, quoting_style=quoting)
    pyarrow.csv.write_csv(table, sink, options)
    return sink.getvalue()


@pytest.fixture
def awkward(bench: Any) -> Any:
    """Texts with delimiters, quotes and line breaks, and a column name that is no ASCII."""
    bench.set("key", [f'a,b;c\t|"{index}" and\nnext line' for index in range(len(bench.table))])
    bench.table = bench.table.rename_columns(
        ["Beschäftigung, ü" if name == "job" else name for name in bench.table.column_names]
    )
    bench.properties["job"]["name"] = "Beschäftigung, ü"
    bench.job["evaluate"]["counterfactuals"] = {"work": {"Beschäftigung, ü": "all"}}
    return bench


def delimited(bench: Any, delimiter: str) -> None:
    bench.content = csv_text(bench.table, delimiter)


def all_quoted(bench: Any) -> None:
    bench.content = csv_text(bench.table, quoting="all_valid")


def crlf(bench: Any) -> None:
    bench.content = csv_text(bench.table).replace(b'"\n', b'"\r\n')


def byte_order_mark(bench: Any) -> None:
    bench.content = b"\xef\xbb\xbf" + csv_text(bench.table)


def zipped(bench: Any) -> None:
    bench.job["table"]["path"] = "people.csv.gz"
    bench.content = gzip.compress(csv_text(bench.table, ";"))


def parquet(bench: Any) -> None:
    bench.job["table"]["path"] = "people.parquet"
    pq.write_table(bench.table, bench.folder / "people.parquet")


def parquet_folder(bench: Any) -> None:
    folder = bench.folder / "people" / "deep"
    folder.mkdir(parents=True)
    pq.write_table(bench.table.slice(0, 150), folder / "part-0.parquet")
    pq.write_table(bench.table.slice(150), folder / "part-1.parquet")
    bench.job["table"]["path"] = "people"


def dictionaries(bench: Any) -> None:
    """Categories and pandas metadata, as pandas writes them."""
    frame = bench.table.to_pandas()
    frame["sex"] = frame["sex"].astype("category")
    bench.job["table"]["path"] = "people.parquet"
    frame.to_parquet(bench.folder / "people.parquet")


def file_url(bench: Any) -> None:
    parquet(bench)
    bench.job["table"]["path"] = f"file://{bench.folder}/people.parquet"


def memory_url(bench: Any) -> None:
    url = f"memory://{uuid.uuid4().hex}/people.csv"
    with fsspec.open(url, "wb") as stream:
        stream.write(csv_text(bench.table))
    bench.job["table"]["path"] = url


def memory_folder(bench: Any) -> None:
    url = f"memory://{uuid.uuid4().hex}/people"
    for name, part in (("a", bench.table.slice(0, 77)), ("b", bench.table.slice(77))):
        with fsspec.open(f"{url}/{name}.parquet", "wb") as stream:
            pq.write_table(part, stream)
    bench.job["table"]["path"] = url


def query(bench: Any) -> None:
    frame = bench.table.to_pandas()
    frame["since"] = frame["since"].astype(str)
    with sqlite3.connect(bench.folder / "people.db") as opened:
        frame.to_sql("people", opened, index=False)
    opened.close()
    bench.job["table"] = {
        "name": "people",
        "sql": "select * from people",
        "connection": "${PEOPLE_DB}",
    }


WRAPPINGS: dict[str, Any] = {
    "semicolon": lambda bench: delimited(bench, ";"),
    "tab": lambda bench: delimited(bench, "\t"),
    "bar": lambda bench: delimited(bench, "|"),
    "all quoted": all_quoted,
    "CRLF": crlf,
    "byte order mark": byte_order_mark,
    "gzip": zipped,
    "Parquet": parquet,
    "Parquet folder": parquet_folder,
    "pandas categories": dictionaries,
    "file URL": file_url,
    "memory URL": memory_url,
    "memory folder": memory_folder,
    "SQL": query,
}


@pytest.mark.long
def test_every_wrapping_gives_the_same_table_and_model(
    awkward: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEOPLE_DB", f"sqlite:///{awkward.folder / 'people.db'}")
    first = awkward.run(*STOP)
    assert first.code == 1, first.err
    names = ("contract.checked", "train.model", "evaluate.metrics", "evaluate.predictions")
    expected = {name: digest(first, name) for name in names}
    checked = pq.read_table(first.json["artifacts"]["contract.checked"].removeprefix("file://"))
    store = Store(str(awkward.folder / "another store"))
    job = dict(awkward.job["table"])
    for wrapping, wrap in WRAPPINGS.items():
        awkward.job["table"], awkward.content = dict(job), None
        wrap(awkward)
        resolved = resolve(*load_job(str(awkward.write())))
        (artifact,) = fetch_source(store, resolved.source()).values()
        table = read_table(store.fetch(artifact), resolved.source())
        assert coerce(table, resolved.contract).equals(checked), wrapping
        if wrapping in ("pandas categories", "SQL"):  # the raw bytes of these have other types
            done = awkward.run(*STOP)
            assert done.code == 1, (wrapping, done.err)
            assert {name: digest(done, name) for name in names} == expected, wrapping
            assert {"preprocess", "train", "evaluate", "gate"} <= set(done.json["cached"]), wrapping


def test_the_same_bytes_elsewhere_are_the_same_raw_table(bench: Any) -> None:
    first = bench.run(*STOP)
    (bench.folder / "away").mkdir()
    (bench.folder / "people.csv").rename(bench.folder / "away" / "people.csv")
    bench.job["table"]["path"] = "away/people.csv"
    again = bench.run(*STOP)
    assert digest(again, "ingest.raw") == digest(first, "ingest.raw")
    assert again.json["cached"][:2] == ["ingest", "contract"]


def test_the_block_in_which_a_file_is_read_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"a": range(5000), "b": [f"text {i}" for i in range(5000)]})
    pyarrow.csv.write_csv(table, tmp_path / "t.csv")
    whole = read_table(tmp_path / "t.csv", {})
    monkeypatch.setattr("evenhand.tasks.sources.table_reader.BLOCK_BYTES", 2000)
    pieces = read_table(tmp_path / "t.csv", {})
    assert pieces.column("a").num_chunks > 1
    for name, got in (("whole", whole), ("pieces", pieces)):
        pq.write_table(got.combine_chunks(), tmp_path / name)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "pieces").read_bytes()


# Late values are beyond the first block.
EARLY = [
    "",
    "7",
    "true",
    "1",
    "2024-02-03",
    "12:30:00",
    "2024-02-03 10:00:00",
    "2.5",
    "2024-02-03T10:00:00Z",
]
LATE = [
    *EARLY,
    "text",
    "2024-02-03 10:00:00.5",
    "2024-02-03T10:00:00.5Z",
    "99999999999999999999",
    "-1",
    "é",
]


def test_types_of_csv_are_those_of_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenhand.tasks.sources.table_reader.BLOCK_BYTES", 1 << 14)
    pairs = [(early, late) for early in EARLY for late in LATE]
    names = ",".join(f"c{j}" for j in range(len(pairs)))
    rows = [",".join(pair[row in (90, 95)] for pair in pairs) for row in range(100)]
    (tmp_path / "t.csv").write_text("\n".join([names, *rows]))
    expected = pyarrow.csv.read_csv(
        tmp_path / "t.csv", convert_options=pyarrow.csv.ConvertOptions(**csv_options(None))
    )
    blocks = open_table(tmp_path / "t.csv", {})
    assert blocks.schema.equals(expected.schema)
    assert len({*map(str, expected.schema.types)}) == 11
    first = blocks.read_next_batch()
    assert 0 < first.num_rows < 50
    found = pa.Table.from_batches([first, *blocks])
    assert found.combine_chunks().equals(expected.combine_chunks())
    # and in a folder, of which one file is in another order, lacks columns, or has codes and
    # fractions
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "0.csv").write_text("a,b,c\n1,2,3\n")
    (tmp_path / "d" / "1.csv").write_text("b,a\n2.5,01\n")
    rows = [{"a": "1", "b": 2.0, "c": 3}, {"a": "01", "b": 2.5, "c": None}]
    assert read_table(tmp_path / "d", {}).to_pylist() == rows


def test_arrow_files_are_read_batch_by_batch(tmp_path: Path) -> None:
    table = pa.table({"a": range(30), "b": pa.array(["x", None, "z"] * 10).dictionary_encode()})
    for kind, new in (("file", pa.ipc.new_file), ("stream", pa.ipc.new_stream)):
        path = tmp_path / f"{kind}.arrow"
        with new(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=10)
        assert [len(block) for block in open_table(path, {})] == [10, 10, 10]
        assert read_table(path, {}).equals(table)
        path.write_bytes(path.read_bytes()[:-300])
        with pytest.raises(
            InputError, match=f"^{kind}.arrow is no Arrow or Feather file, or damaged"
        ):
            read_table(path, {})


@pytest.mark.parametrize("groups", [3000, 70_000, 1 << 20])
def test_the_row_groups_of_a_source_leave_no_trace(tmp_path: Path, groups: int) -> None:
    """Whatever its row groups and files, a table of some blocks gives the same bytes."""
    n = 2 * GROUP_ROWS + 7
    table = pa.table({"a": pa.array(range(n)), "b": pa.array(["x", None, "z"] * n)[:n]})
    pq.write_table(table, tmp_path / "one.parquet", row_group_size=1 << 22)
    folder = tmp_path / "many"
    folder.mkdir()
    for part, (start, end) in enumerate([(0, 5), (5, n // 3), (n // 3, n)]):
        pq.write_table(table[start:end], folder / f"{part}.parquet", row_group_size=groups)
    written = []
    for path in (tmp_path / "one.parquet", folder):
        workdir = tmp_path / f"of-{path.name}"
        workdir.mkdir()
        source = {"name": "t", "path": path.name}
        parameters = {"source": source, "seed": None}
        result = ingest(StepContext(parameters, {path.name: path}, workdir, lambda *progress: None))
        assert result.facts == {"rows": n, "columns": 2}
        written.append((workdir / "raw.parquet").read_bytes())
    assert written[0] == written[1]
    assert pq.read_table(tmp_path / "of-many" / "raw.parquet").equals(table)


@pytest.mark.parametrize("change", ["append", "add"])
def test_a_file_that_changes_while_it_is_read_ends_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    folder, read = tmp_path / "people", evenhand.tasks.steps.ingest_step._row_groups
    folder.mkdir()
    for name in ("a", "b"):
        pq.write_table(pa.table({"x": [1, 2]}), folder / f"{name}.parquet")

    def reading(blocks: pa.RecordBatchReader) -> Iterator[pa.Table]:
        yield from read(blocks)
        target = folder / "b.parquet" if change == "append" else folder / "c.parquet"
        with target.open("ab") as stream:
            stream.write(b"more")

    monkeypatch.setattr("evenhand.tasks.steps.ingest_step._row_groups", reading)
    (tmp_path / "work").mkdir()
    parameters = {"source": {"name": "people", "path": "people"}, "seed": None}
    what = "b.parquet" if change == "append" else "the table"
    with pytest.raises(NotCarriedOut, match=f"^{what} changed while it was read"):
        ingest(
            StepContext(parameters, {"people": folder}, tmp_path / "work", lambda *progress: None)
        )


def test_an_arrow_file_with_changed_bytes_is_read_or_refused(tmp_path: Path) -> None:
    table = pa.table(
        {"a": [f"text {i}" for i in range(200)], "b": list(range(200)), "c": [0.5] * 200}
    )
    with (
        pa.OSFile(str(tmp_path / "whole.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, table.schema) as writer,
    ):
        writer.write_table(table)
    whole = (tmp_path / "whole.arrow").read_bytes()
    refused = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        changed = bytearray(whole)
        for place in rng.integers(8, len(whole), 30):
            changed[place] = rng.integers(256)
        path = tmp_path / f"{seed}.arrow"
        path.write_bytes(changed)
        try:
            write_raw(open_table(path, {}), tmp_path / f"raw-{seed}")
        except InputError:
            refused += 1
    assert refused > 20


def test_a_damaged_file_of_many_is_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        table = pa.table({"x": list(range(50_000))})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=30_000)
    content = bytearray((tmp_path / "b.parquet").read_bytes())
    second = pq.read_metadata(tmp_path / "b.parquet").row_group(1).column(0).dictionary_page_offset
    for start, place in ((second, " in row group 2"), (4, " in row group 1")):
        content[start : start + 1996] = bytes(1996)
        (tmp_path / "b.parquet").write_bytes(content)
        with pytest.raises(
            InputError, match=f"/b.parquet is a damaged or truncated Parquet file{place}:"
        ):
            read_table(tmp_path, {})


def test_a_column_that_a_file_lacks_is_missing_there(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": pa.nulls(1)}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"b": ["x"], "a": [2]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [3]}), tmp_path / "2.parquet")
    rows = [{"a": 1, "b": None}, {"a": 2, "b": "x"}, {"a": 3, "b": None}]
    assert read_table(tmp_path, {}).to_pylist() == rows
    pq.write_table(pa.table({"a": ["no number"]}), tmp_path / "3.parquet")
    with pytest.raises(InputError, match="have different columns or types"):
        read_table(tmp_path, {})


def test_a_file_that_is_damaged_within_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(
        pa.table({"a": list(range(100_000))}), path, compression="none", use_dictionary=False
    )
    content = bytearray(path.read_bytes())
    content[4:200] = b"\xff" * 196  # the header of the first page
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"^t.parquet is a damaged or truncated Parquet file"):
        read_table(path, {})


def sqlite(path: Path, rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    """A table t of columns a to d with no declared types, and the source that reads it."""
    with sqlite3.connect(path) as opened:
        opened.execute("create table t (a, b, c, d)")
        opened.executemany("insert into t values (?, ?, ?, ?)", rows)
    return {"name": "t", "sql": "select * from t order by a", "connection": f"sqlite:///{path}"}


def test_a_query_is_read_in_parts(store: Store, tmp_path: Path) -> None:
    """Of a column, one part may have no value, and another no gap."""
    n = 2 * QUERY_ROWS + 3
    rows = [(i, None if i == n - 1 else i, "x" if i > QUERY_ROWS else None, 0.5) for i in range(n)]
    (artifact,) = fetch_source(store, sqlite(tmp_path / "t.db", rows)).values()
    table = pq.read_table(store.fetch(artifact))
    assert table.schema.types == [pa.int64(), pa.float64(), pa.large_string(), pa.float64()]
    assert [tuple(row.values()) for row in table.to_pylist()] == rows
    (none,) = fetch_source(store, sqlite(tmp_path / "none.db", [])).values()
    assert pq.read_table(store.fetch(none)).to_pylist() == []


@pytest.mark.long
def test_parts_of_other_types_are_refused(store: Store, tmp_path: Path) -> None:
    rows = [(i, i if i < QUERY_ROWS else "text", 0, 0) for i in range(QUERY_ROWS + 5)]
    with pytest.raises(InputError, match=r"^the column 'b' of table.sql mixes types of values"):
        fetch_source(store, sqlite(tmp_path / "t.db", rows))


def test_codes_keep_their_zeros_and_numbers_stay_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "zip,n,f,d,g\n01234,10,0.5,2020-01-01,0\n99999,-7,1e-05,2020-01-02,-0.25\n,0,,,100\n"
    )
    table = read_table(path, {})
    assert table["zip"].to_pylist() == ["01234", "99999", None]
    kinds = {
        name: str(kind) for name, kind in zip(table.column_names, table.schema.types, strict=True)
    }
    assert kinds == {
        "zip": "string",
        "n": "int64",
        "f": "double",
        "d": "date32[day]",
        "g": "double",
    }


def test_missing_values_are_what_the_job_says(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('a,b\n?,x\n3,NA\n"",?\n')
    assert read_table(path, {"null_values": ["?", ""]}).to_pylist() == [
        {"a": None, "b": "x"},
        {"a": 3, "b": "NA"},
        {"a": None, "b": None},
    ]


def test_the_delimiter_is_read_off_the_header(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('"a;b|c";d\n"1,5;2";3\n')
    assert read_table(path, {}).to_pylist() == [{"a;b|c": "1,5;2", "d": 3}]
    path.write_text("a#b\n1#2\n")
    assert read_table(path, {"delimiter": "#"}).to_pylist() == [{"a": 1, "b": 2}]


def test_one_column_is_a_table_too(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n2\n")
    assert read_table(path, {}).to_pylist() == [{"a": 1}, {"a": 2}]


def test_a_cell_may_be_large(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f'a,b\n1,"{"x" * 3_000_000}"\n2,y\n')
    table = read_table(path, {})
    assert pc.utf8_length(table["b"]).to_pylist() == [3_000_000, 1]


@pytest.mark.parametrize("message", ["Expected 2 columns", "quoting"])
def test_a_ragged_row_is_not_quoted(tmp_path: Path, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\nsecret-word,3,4\n")
    with pytest.raises(InputError, match=f"(?i){message}") as caught:
        read_table(path, {})
    assert "got 3 in row #3)" in str(caught.value)
    assert "secret" not in str(caught.value)


# where bytes come from


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


def source(**given: Any) -> dict[str, Any]:
    return {"name": "people", **given}


def test_what_needs_the_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert needs_network(source(path="https://h/x.csv"))
    assert needs_network(source(path="s3://b/x.csv"))
    assert needs_network(source(sql="select 1"))
    assert not needs_network(source(path="/x.csv"))
    assert not needs_network(source(path="file:///x.csv"))
    assert not needs_network({"name": "loans"})
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    assert needs_network({"name": "german"})


def test_the_digest_of_the_job_is_checked(store: Store, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    found = fetch_source(store, source(path=str(tmp_path / "a.csv")))["a.csv"]
    again = fetch_source(store, source(path=str(tmp_path / "a.csv"), sha256=found.sha256))["a.csv"]
    assert again == found
    with pytest.raises(InputError, match=r"a\.csv has sha256 .*expected 000000000000"):
        fetch_source(store, source(path=str(tmp_path / "a.csv"), sha256="0" * 64))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x.parquet").touch()
    with pytest.raises(InputError, match="pins one file"):
        fetch_source(store, source(path=str(tmp_path / "folder"), sha256="0" * 64))


def test_a_download_leaves_no_half_file(store: Store) -> None:
    with pytest.raises(InputError, match="cannot be reached"):
        fetch_source(store, source(path="http://127.0.0.1:9/x.csv"))
    assert list(store.scratch().iterdir()) == []
    assert not (store.local / "artifacts").exists()


def test_what_is_fetched_is_named_by_its_content(store: Store) -> None:
    url = f"memory://{uuid.uuid4().hex}/x.csv"
    digests = []
    for content in (b"a\n1\n", b"a\n2\n", b"a\n1\n"):
        with fsspec.open(url, "wb") as stream:
            stream.write(content)
        artifact = fetch_source(store, source(path=url))["x.csv"]
        assert store.fetch(artifact).read_bytes() == content
        digests.append(artifact.sha256)
    assert digests[0] == digests[2] != digests[1]


def test_a_download_counts_what_has_come(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenhand.tasks.sources.fetching.COPY_BYTES", 2500)
    url = f"memory://{uuid.uuid4().hex}/x.csv"
    content = b"a\n" + b"1\n" * 3000
    with fsspec.open(url, "wb") as stream:
        stream.write(content)
    told: list[tuple[int, int]] = []
    found = fetch_source(
        store, source(path=url), progress=lambda done, total: told.append((done, total))
    )
    artifact = found["x.csv"]
    assert store.fetch(artifact).read_bytes() == content
    assert told == [(3, 7), (5, 7), (7, 7)]


def test_a_token_in_an_address_is_not_shown(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASS", "pass-word")
    monkeypatch.setenv("TOKEN", "a/b-c")
    bench.job["table"]["path"] = "http://me:$PASS@127.0.0.1:9/data.csv?token=$TOKEN"
    done = bench.run("--json")
    assert done.code == 2
    assert "127.0.0.1:9/data.csv" in done.err
    said = done.err + done.out + "".join(p.read_text() for p in bench.store.rglob("*.json"))
    assert "pass-word" not in said
    assert "a/b-c" not in said


def test_a_password_in_a_connection_stays_out_of_the_run_folder(bench: Any) -> None:
    query(bench)
    bench.job["table"]["connection"] = f"sqlite:///{bench.folder}/people.db?timeout=31"
    done = bench.run(*STOP)
    assert done.code == 1, done.err
    files = [path for path in (bench.store / "runs").rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert "timeout=31" not in path.read_text(), path.name


def test_an_address_with_a_slash_in_its_query_has_an_ending(bench: Any) -> None:
    """It is read by that ending."""

    class Listed(fsspec.AbstractFileSystem):  # a server that serves one file under any query
        protocol = "listed"

        def isdir(self, path: str) -> bool:
            return False

        def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
            return io.BytesIO(csv_text(bench.table))

    fsspec.register_implementation("listed", Listed, clobber=True)
    bench.job["table"]["path"] = "listed://host/people.csv?signed=x/y.z"
    assert bench.run(*STOP).code == 1


def test_pandas_reads_what_the_flow_reads(tmp_path: Path, people: Any) -> None:
    """An independent reader agrees, cell by cell."""
    table = people(50)
    (tmp_path / "t.csv").write_bytes(csv_text(table, ";"))
    ours = read_table(tmp_path / "t.csv", {}).to_pandas()
    theirs = pd.read_csv(tmp_path / "t.csv", sep=";", parse_dates=["since"])
    ours["since"] = pd.to_datetime(ours["since"]).astype(theirs["since"].dtype)
    pd.testing.assert_frame_equal(ours, theirs, check_dtype=False)


def test_an_answer_that_does_not_end_is_given_up(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "LARGEST_DOWNLOAD", 1 << 20)
    monkeypatch.setattr(sources, "COPY_BYTES", 1 << 18)
    with odd_server(b"a,b\n1,2\n" * 1000) as address:
        url = f"{address}/{KINDS.index('endless')}/people.csv"
        with pytest.raises(InputError, match=r"does not end: its server sent more than 1 MiB"):
            fetch_source(store, source(path=url))
    assert list((Path(store.url) / "tmp").glob("*")) == []


def test_a_server_that_sends_nothing_is_given_up(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "STALL_S", 0.2)
    with odd_server(b"a,b\n1,2\n" * 1000) as address:
        url = f"{address}/{KINDS.index('hanging')}/people.csv"
        with pytest.raises(InputError, match="cannot be reached or holds nothing"):
            fetch_source(store, source(path=url))
