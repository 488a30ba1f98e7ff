"""A table to which rows were appended: what was read before is not read again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from evenhand.data_contracts.column import Column
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.scanning import MAX_NOTED, NOTE_BYTES, Scan, noted_scan, scan
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.dataset import StoredTable, take_over
from evenhand.tasks.execution.step import STEPS, run_step, step_key
from evenhand.tasks.execution.store import Artifact, StepRecord, Store
from evenhand.tasks.sources.fetching import local_file
from evenhand.tasks.steps import contract_step as checking
from evenhand.tasks.steps import ingest_step as ingesting

CONTRACT = Contract(
    "people",
    "1.0.0",
    "",
    (
        Column("sex", "string", True, role="sensitive", allowed=("F", "M")),
        Column("income", "number", False, is_feature=True, minimum=0),
        Column("since", "date", True, is_feature=True, encoding="calendar"),
        Column("paid", "string", True, role="label", allowed=("no", "yes"), positive="yes"),
    ),
    on_violation="quarantine",
    quarantine_share=0.9,
)


def people(seed: int, rows: int = 60, **changes: Any) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns = {
        "sex": rng.choice(["F", "M"], rows).tolist(),
        "income": [None, *rng.gamma(2.0, 20.0, rows - 1).tolist()],
        "since": [f"20{row % 20:02d}-0{1 + row % 9}-11" for row in range(rows)],
        "paid": rng.choice(["no", "yes"], rows).tolist(),
    }
    return pa.table(columns | changes)


class Runs:
    """Runs steps in a store, and counts what they read."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store, self.read = Store(str(folder)), 0
        write, coerce = ingesting._write_run, checking.coerce_batch

        def counted(function: Any) -> Any:
            def call(*arguments: Any) -> Any:
                self.read += 1
                return function(*arguments)

            return call

        monkeypatch.setattr(ingesting, "_write_run", counted(write))
        monkeypatch.setattr(checking, "coerce_batch", counted(coerce))

    def __call__(
        self, name: str, parameters: dict[str, Any], **inputs: Artifact
    ) -> tuple[StepRecord, int]:
        self.read, step = 0, STEPS[name]
        record, known = run_step(
            self.store, step, step_key(step, parameters, inputs), parameters, inputs
        )
        assert not known
        return record, self.read

    def table(self, folder: Path) -> tuple[StepRecord, int]:
        source = {"name": "people", "path": str(folder)}
        return self("ingest", {"source": source, "seed": 0}, people=local_file(folder))

    def rows(self, record: StepRecord) -> pa.Table:
        return pq.read_table(self.store.fetch(record.outputs["raw"]))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setattr(ingesting, "GROUP_ROWS", 50)
    monkeypatch.setattr(ingesting, "RUN_GROUPS", 2)
    return Runs(tmp_path / "store", monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """270 rows: parts of 100 have rows of a and b, of b and c, and of c and d."""
    (tmp_path / "people").mkdir()
    for seed, (name, rows) in enumerate({"a": 60, "b": 60, "c": 120, "d": 30}.items()):
        pq.write_table(people(seed, rows), tmp_path / "people" / f"{name}.parquet")
    return tmp_path / "people"


def test_files_that_were_read_before_are_not_read_again(
    runs: Runs, folder: Path, tmp_path: Path
) -> None:
    first, read = runs.table(folder)
    assert read == 3
    assert first.facts["rows"] == 270
    pq.write_table(people(9), folder / "e.parquet")
    appended, read = runs.table(folder)
    assert read == 2  # rows 200 to 299, and 300 to 329
    assert runs.rows(appended).equals(pa.concat_tables([runs.rows(first), people(9)]))
    # the artifact is that of a first run
    runs.store = Store(str(tmp_path / "other"))
    fresh, read = runs.table(folder)
    assert read == 4
    assert fresh.outputs["raw"].sha256 == appended.outputs["raw"].sha256


def test_the_artifact_does_not_depend_on_the_division_into_files(runs: Runs, folder: Path) -> None:
    found = {runs.table(folder)[0].outputs["raw"].sha256}
    rows = pq.read_table(folder)
    for number, ends in enumerate(([270], [0, 100, 200, 270], [7, 7, 150, 270])):
        other = folder.parent / f"other-{number}"
        other.mkdir()
        for end, start in zip(ends, [0, *ends], strict=False):
            pq.write_table(
                rows[start:end], other / f"{end:03d}-{start:03d}.parquet", row_group_size=33
            )
        found.add(runs.table(other)[0].outputs["raw"].sha256)
    pa.csv.write_csv(rows, folder.parent / "people.csv")
    pq.write_table(rows, folder.parent / "people.parquet", row_group_size=201)
    found.add(runs.table(folder.parent / "people.parquet")[0].outputs["raw"].sha256)
    assert len(found) == 1
    assert len(runs.rows(runs.table(folder.parent / "people.csv")[0])) == 270


def test_a_folder_may_move(runs: Runs, folder: Path) -> None:
    runs.table(folder)
    pq.write_table(people(9), folder / "e.parquet")
    source, moved = {"name": "people", "path": str(folder)}, folder.rename(folder.parent / "copied")
    record, read = runs("ingest", {"source": source, "seed": 0}, people=local_file(moved))
    assert (record.facts["rows"], read) == (330, 2)


def test_values_in_the_path_count(runs: Runs, folder: Path) -> None:
    parts = {}
    for year in (2024, 2025):
        (folder / f"year={year}").mkdir()
        for name in "ac":
            (folder / f"{name}.parquet").rename(folder / f"year={year}" / f"{name}.parquet")
        for name in "bd":
            (folder / f"{name}.parquet").unlink(missing_ok=True)
        record, _ = runs.table(folder)
        parts[year] = runs.rows(record)["year"].unique().to_pylist()
        for name in "ac":
            (folder / f"year={year}" / f"{name}.parquet").rename(folder / f"{name}.parquet")
    assert parts == {2024: [2024], 2025: [2025]}


def test_what_was_changed_is_read_again(runs: Runs, folder: Path) -> None:
    first, _ = runs.table(folder)
    pq.write_table(people(7, 30), folder / "d.parquet")
    changed, read = runs.table(folder)
    assert read == 1
    assert runs.rows(changed)[240:].equals(people(7, 30))
    assert runs.rows(changed)[:240].equals(runs.rows(first)[:240])
    # a column that is new in one file is missing in the others
    pq.write_table(people(8, region=["north"] * 60), folder / "e.parquet")
    wider, read = runs.table(folder)
    assert read == 4
    assert runs.rows(wider)["region"].null_count == 270
    # files that come first move the others
    pq.write_table(people(9, 100, region=["south"] * 100), folder / "0.parquet")
    moved, read = runs.table(folder)
    assert read == 5 - 4
    assert runs.rows(moved)[100:].equals(runs.rows(wider))


def test_a_comment_in_the_first_file_is_no_reason_to_read_again(runs: Runs, folder: Path) -> None:
    runs.table(folder)
    table = people(0, 60)
    pq.write_table(table.replace_schema_metadata({"pandas": "x" * 500}), folder / "a.parquet")
    assert runs.table(folder)[1] == 1


def test_a_generated_table_is_not_the_folder_where_it_is_made(
    runs: Runs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    made, read = runs("ingest", {"source": {"name": "loans", "rows": 150}, "seed": 0})
    assert (made.facts["rows"], read, made.facts.get("parts")) == (150, 2, None)


def test_files_of_csv_are_read_as_one(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "csv").mkdir()
    for name in ("a", "b"):
        pa.csv.write_csv(people(0, 150), tmp_path / "csv" / f"{name}.csv")
    made, read = runs.table(tmp_path / "csv")
    assert (made.facts["rows"], read, made.facts.get("parts")) == (300, 3, None)


def test_a_table_without_rows_is_one_file(runs: Runs, folder: Path) -> None:
    for file in folder.iterdir():
        pq.write_table(people(0)[:0], file)
    record, read = runs.table(folder)
    assert (record.facts["rows"], read) == (0, 1)
    assert record.outputs["raw"].uri.endswith(".parquet")


@pytest.mark.parametrize("how", ["damaged", "removed"])
def test_a_file_that_is_not_whole_is_not_taken_over(runs: Runs, folder: Path, how: str) -> None:
    first, _ = runs.table(folder)
    part = Path(first.outputs["raw"].uri) / "000001.parquet"
    content = part.read_bytes()
    part.unlink()
    if how == "damaged":
        part.write_bytes(content[:-1] + b"?")
    pq.write_table(people(9), folder / "e.parquet")
    appended, read = runs.table(folder)
    assert read == 3
    assert runs.rows(appended)[60:120].equals(people(1, 60))


def test_what_is_freed_counts_files_of_two_artifacts_once(runs: Runs, folder: Path) -> None:
    runs.table(folder)
    pq.write_table(people(9), folder / "e.parquet")
    last, _ = runs.table(folder)
    kept = {path.name: path.stat().st_size for path in Path(last.outputs["raw"].uri).iterdir()}
    _, freed = runs.store.prune(1)
    assert freed < kept["000002.parquet"] + 1 < sum(kept.values())
    assert runs.store.prune(0)[1] == sum(kept.values())


def test_a_file_that_vanishes_is_named_in_one_line(
    runs: Runs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(path: Path) -> str:
        raise FileNotFoundError(2, "No such file or directory", str(path))

    monkeypatch.setattr(ingesting, "sha256_of_file", gone)
    with pytest.raises(
        InputError, match=r"^people cannot be opened \(No such file or directory\): check it"
    ):
        runs.table(folder)


def test_a_file_is_taken_over_only_with_its_digest(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("one")
    digest = local_file(tmp_path / "one").sha256
    assert not take_over(None, tmp_path / "to", "0")
    assert not take_over((tmp_path / "one", digest[::-1]), tmp_path / "to", "0")
    assert not take_over((tmp_path / "two", digest), tmp_path / "to", "0")
    assert take_over((tmp_path / "one", digest), tmp_path / "to", "0")
    assert take_over((tmp_path / "one", digest), tmp_path / "to", "0")  # a unit may be repeated
    assert (tmp_path / "to" / "0").read_text() == "one"


def checked(
    runs: Runs, tables: list[pa.Table], contract: Contract = CONTRACT
) -> tuple[StepRecord, int]:
    """The contract's step on a table with these blocks, and the number of blocks that it read."""
    with runs.store.workdir() as folder:
        with pq.ParquetWriter(folder / "raw.parquet", tables[0].schema) as writer:
            for table in tables:
                writer.write_table(table)
        raw = runs.store.put(folder / "raw.parquet", "raw")
    return runs("contract", {"contract": contract.to_dict()}, raw=raw)


def outputs(runs: Runs, record: StepRecord) -> dict[str, Any]:
    found = {name: runs.store.fetch(artifact) for name, artifact in record.outputs.items()}
    return {
        name: json.loads(path.read_text()) if path.suffix == ".json" else pq.read_table(path)
        for name, path in found.items()
    }


@pytest.mark.parametrize("bad", [False, True], ids=["clean", "with a row to set aside"])
def test_blocks_that_were_checked_before_are_not_checked_again(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: bool
) -> None:
    tables = [people(0), people(1, income=[-1.0] * 60 if bad else [1.0] * 60), people(2), people(3)]
    assert checked(runs, tables)[1] == 4
    tables.append(people(4, sex=["F"] * 59 + ["X"]))  # a value that no block had
    appended, read = checked(runs, tables)
    assert read == 1 + bad  # a block with bad rows is checked again
    other = Runs(tmp_path / "other", monkeypatch)
    fresh, read = checked(other, tables)
    assert read == 5
    assert appended.facts.items() >= {"rows": 300, "rows_kept": 299 - 60 * bad}.items()
    assert outputs(runs, appended) == outputs(other, fresh)
    assert {name: item.sha256 for name, item in appended.outputs.items()} == {
        name: item.sha256 for name, item in fresh.outputs.items()
    }


def test_another_contract_checks_all_blocks_again(runs: Runs) -> None:
    tables = [people(0), people(1)]
    checked(runs, tables)
    stricter = replace(CONTRACT, version="2.0.0", quarantine_share=0.8)
    assert checked(runs, [*tables, people(2)], stricter)[1] == 3
    assert checked(runs, [*tables, people(3)], stricter)[1] == 1
    assert checked(runs, [people(3), *tables, people(4)], CONTRACT)[1] == 2


def facts(found: Scan) -> dict[str, Any]:
    return {
        name: (item.column, item.missing, item.decisive.type, item.decisive.to_pylist())  # type: ignore[union-attr]
        for name, item in found.facts.items()
    }


@pytest.mark.parametrize("rows", [1, 60])
def test_a_note_holds_the_whole_scan(tmp_path: Path, rows: int) -> None:
    table = checking.coerce_batch(people(5, rows), CONTRACT)[0]
    found = scan(table, CONTRACT.columns, CONTRACT)
    pq.write_table(found.noted(table), tmp_path / "noted.parquet")
    noted = noted_scan(tmp_path / "noted.parquet", CONTRACT.columns)
    assert noted is not None
    assert facts(noted) == facts(found)
    assert noted.facts["income"].missing == 1
    assert noted.schema == table.schema
    assert (len(noted.bad), noted.bad.any(), noted.dropped.any()) == (rows, False, False)
    assert pq.read_table(tmp_path / "noted.parquet").equals(table)


def test_no_note_of_many_or_long_values_or_none(tmp_path: Path) -> None:
    many = people(0, MAX_NOTED + 1, sex=[str(row) for row in range(MAX_NOTED + 1)])
    long = people(0, 60, sex=["F" * NOTE_BYTES] * 60)
    for table in (many, long, people(0)[:0]):
        typed = checking.coerce_batch(table, CONTRACT)[0]
        pq.write_table(scan(typed, CONTRACT.columns, CONTRACT).noted(typed), tmp_path / "t.parquet")
        assert noted_scan(tmp_path / "t.parquet", CONTRACT.columns) is None


def test_a_blocks_digest_depends_on_its_rows_and_types_alone(tmp_path: Path) -> None:
    one, two = people(0), people(1)
    orders = {"a": [one, two], "b": [two, one], "c": [two, one[:59]]}
    digests = {}
    for name, tables in orders.items():
        with pq.ParquetWriter(tmp_path / name, one.schema) as writer:
            for table in tables:
                writer.write_table(table)
        digests[name] = [place.digest() for place in StoredTable(tmp_path / name).places()]
    assert digests["a"] == digests["b"][::-1]
    assert digests["c"][0] == digests["b"][0]
    assert digests["c"][1] != digests["b"][1]
    found = set()
    for name, kind in (
        ("n", pa.uint64()),
        ("n", pa.int64()),
        ("n", pa.timestamp("us")),
        ("m", pa.int64()),
    ):
        pq.write_table(pa.table({name: pa.array([1, 2], kind)}), tmp_path / "t")
        found.add(StoredTable(tmp_path / "t").places()[0].digest())
    assert len(found) == 4
