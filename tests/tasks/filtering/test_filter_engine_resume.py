"""An interrupted run goes on: the output has the bytes of an unbroken one, and nothing is done
twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import cloudpickle
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filelock import FileLock

from evenhand.tasks.errors import NotCarriedOut
from evenhand.tasks.filtering.checks import RowFilter
from evenhand.tasks.filtering.filter_bundle import FilterSettings, ProxyBundle
from evenhand.tasks.filtering.filter_engine import UnitResult, UnitSpec, process_unit, run_unit
from evenhand.tasks.filtering.output import OutputFolder, UnitRecord
from tests.tasks.filtering.judged import filter_files

Make = Callable[..., pa.Table]
Put = Callable[..., Path]
SETTINGS = FilterSettings(key=("id",), rows_per_unit=2000)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def run(bundle: ProxyBundle, tmp_path: Path, **settings: object) -> dict[str, str]:
    """Filter ``in`` to ``out``; status by file."""
    summary = filter_files(
        bundle, str(tmp_path / "in"), str(tmp_path / "out"), replace(SETTINGS, **settings)
    )
    return {file.name: file.status for file in summary.files}


class Interrupt(Exception):
    pass


def stops_after(
    count: int, bundle: ProxyBundle, done: list[UnitSpec]
) -> Callable[..., Iterable[object]]:
    """Workers that give up after some units."""

    def work(units: Sequence[UnitSpec]) -> Iterator[tuple[UnitSpec, UnitResult]]:
        for unit in units:
            if len(done) == count:
                raise Interrupt
            done.append(unit)
            yield unit, process_unit(unit, RowFilter(bundle, SETTINGS))

    return work


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_finished_units_are_not_done_again(
    ending: str, people: Make, put: Put, bundle: ProxyBundle, tmp_path: Path
) -> None:
    put(people(9000), tmp_path / "in" / f"a.{ending}")
    put(people(3000, 1, 9000), tmp_path / "in" / "b.parquet")
    filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "whole"), SETTINGS)
    first: list[UnitSpec] = []
    with pytest.raises(Interrupt):
        filter_files(
            bundle, str(tmp_path / "in"), str(tmp_path / "out"), SETTINGS,
            workers=stops_after(2, bundle, first),  # type: ignore[arg-type]
        )  # fmt: skip
    second: list[UnitSpec] = []
    filter_files(
        bundle, str(tmp_path / "in"), str(tmp_path / "out"), SETTINGS,
        workers=stops_after(-1, bundle, second),  # type: ignore[arg-type]
    )  # fmt: skip
    names = [(unit.file.name, unit.index) for unit in first + second]
    assert len(names) == len(set(names))
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_a_csv_file_goes_on_at_the_part_that_is_missing(
    people: Make, put: Put, bundle: ProxyBundle, tmp_path: Path
) -> None:
    put(people(9000), tmp_path / "in" / "a.csv")
    run(bundle, tmp_path)
    whole = contents(tmp_path / "out")
    records = sorted((tmp_path / "out" / "_evenhand" / "records").iterdir())
    assert len(records) == 5
    kept_at = records[1].stat().st_mtime_ns
    for record in records[2:]:
        record.unlink()
    done: list[UnitSpec] = []
    filter_files(
        bundle, str(tmp_path / "in"), str(tmp_path / "out"), SETTINGS,
        workers=stops_after(-1, bundle, done),  # type: ignore[arg-type]
    )  # fmt: skip
    assert [unit.index for unit in done] == [2]
    assert records[1].stat().st_mtime_ns == kept_at
    assert contents(tmp_path / "out") == whole


def test_only_new_files_are_done_on_the_next_run(
    people: Make, put: Put, bundle: ProxyBundle, tmp_path: Path
) -> None:
    put(people(2500), tmp_path / "in" / "a.parquet")
    put(people(1500, 1), tmp_path / "in" / "b.csv")
    assert run(bundle, tmp_path) == {"a.parquet": "done", "b.csv": "done"}
    assert run(bundle, tmp_path) == {"a.parquet": "skipped", "b.csv": "skipped"}
    put(people(100, 2), tmp_path / "in" / "c" / "d.parquet")
    assert run(bundle, tmp_path) == {
        "a.parquet": "skipped",
        "b.csv": "skipped",
        "c/d.parquet": "done",
    }
    (tmp_path / "in" / "a.parquet").unlink()
    summary = filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "out"), SETTINGS)
    assert summary.others == 1, "what was filtered stays, though its input is gone"
    assert summary.rows_in == 4100
    assert sum(file.rows_in for file in summary.files) == 1600


def test_a_changed_file_is_done_again_and_leaves_nothing_stale(
    people: Make, put: Put, bundle: ProxyBundle, tmp_path: Path
) -> None:
    put(people(9000), tmp_path / "in" / "a.parquet")
    put(people(500, 1), tmp_path / "in" / "b.parquet")
    run(bundle, tmp_path)
    before = contents(tmp_path / "out")
    put(people(3000, 7), tmp_path / "in" / "a.parquet")
    assert run(bundle, tmp_path) == {"a.parquet": "done", "b.parquet": "skipped"}
    filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "fresh"), SETTINGS)
    assert contents(tmp_path / "out") == contents(tmp_path / "fresh")
    assert len(before) > len(contents(tmp_path / "out"))


@pytest.mark.parametrize(
    "change", [{"seed": 9}, {"probability": True}, {"compression": "zstd"}, {"key": None}]
)
def test_other_settings_do_everything_again(
    change: dict[str, object], people: Make, put: Put, bundle: ProxyBundle, tmp_path: Path
) -> None:
    put(people(3000), tmp_path / "in" / "a.parquet")
    run(bundle, tmp_path)
    assert run(bundle, tmp_path, **change) == {"a.parquet": "done"}
    filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "fresh"), replace(SETTINGS, **change))
    assert contents(tmp_path / "out") == contents(tmp_path / "fresh")
    assert run(bundle, tmp_path, **change, workers=1, max_drift=9.0) == {"a.parquet": "skipped"}


def test_another_proxy_does_everything_again(
    people: Make,
    put: Put,
    bundle: ProxyBundle,
    make_bundle: Callable[..., ProxyBundle],
    tmp_path: Path,
) -> None:
    put(people(1500), tmp_path / "in" / "a.parquet")
    put(people(1500, 1), tmp_path / "in" / "b.parquet")
    run(bundle, tmp_path)
    (tmp_path / "in" / "b.parquet").unlink()
    other = make_bundle(seed=1)
    assert other.digest != bundle.digest
    summary = filter_files(other, str(tmp_path / "in"), str(tmp_path / "out"), SETTINGS)
    assert [file.status for file in summary.files] == ["done"]
    assert {key: value["files"] for key, value in summary.proxies.items()} == {
        bundle.digest: 1,
        other.digest: 1,
    }
    assert summary.rows_in == 3000
    assert sum(summary.masses) == pytest.approx(1500), "only rows that this proxy has judged"


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "record"])
def test_a_damaged_part_is_made_again(
    damage: str, people: Make, put: Put, bundle: ProxyBundle, tmp_path: Path
) -> None:
    put(people(5000), tmp_path / "in" / "a.parquet")
    run(bundle, tmp_path)
    whole = contents(tmp_path / "out")
    part = sorted((tmp_path / "out").glob("part-*"))[1]
    content = bytearray(part.read_bytes())
    if damage == "flip":
        content[100] ^= 1
        part.write_bytes(content)
    elif damage == "cut":
        part.write_bytes(content[:-1])
    elif damage == "gone":
        part.unlink()
    else:
        record = sorted((tmp_path / "out" / "_evenhand" / "records").iterdir())[1]
        record.write_text(record.read_text()[:-3])
    assert run(bundle, tmp_path) == {"a.parquet": "done"}
    assert contents(tmp_path / "out") == whole


def test_any_order_and_any_worker_gives_the_same_bytes(
    people: Make, put: Put, bundle: ProxyBundle, bundle_folder: Path, tmp_path: Path
) -> None:
    for file in range(3):
        put(people(5000, file, 5000 * file), tmp_path / "in" / f"{file}.parquet")
    put(people(5000, 3, 15_000), tmp_path / "in" / "3.csv")
    outputs = []
    for count in (1, 4):
        filter_files(
            bundle,
            str(tmp_path / "in"),
            str(tmp_path / f"{count}"),
            replace(SETTINGS, workers=count),
        )
        outputs.append(contents(tmp_path / f"{count}"))

    def elsewhere(units: Sequence[UnitSpec]) -> Iterator[tuple[UnitSpec, UnitResult]]:
        for unit in reversed(units):
            # as a cluster sends them
            sent = cloudpickle.loads(cloudpickle.dumps((unit, SETTINGS)))
            result = run_unit(sent[0], str(bundle_folder), sent[1], "7")
            yield unit, cloudpickle.loads(cloudpickle.dumps(result))

    filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "far"), SETTINGS, workers=elsewhere)
    outputs.append(contents(tmp_path / "far"))
    assert outputs[0] == outputs[1] == outputs[2]


def test_too_many_bad_rows_are_noticed_after_an_early_end(
    people: Make, put: Put, make_bundle: Callable[..., ProxyBundle], tmp_path: Path
) -> None:
    """The run ended before it could notice."""
    bundle = make_bundle(on_violation="quarantine", quarantine_share=0.01)
    table = people(3000)
    table = table.set_column(
        1, "age", pa.array([5] * 100 + table["age"].to_pylist()[100:], pa.int16())
    )
    put(table, tmp_path / "in" / "a.parquet")

    def dies_at_the_end(units: Sequence[UnitSpec]) -> Iterator[tuple[UnitSpec, UnitResult]]:
        for unit in units:
            assert process_unit(unit, RowFilter(bundle, SETTINGS)).failure is None
        raise Interrupt
        yield

    with pytest.raises(Interrupt):
        filter_files(
            bundle, str(tmp_path / "in"), str(tmp_path / "out"), SETTINGS, workers=dies_at_the_end
        )
    assert list((tmp_path / "out").glob("part-*"))
    assert run(bundle, tmp_path) == {"a.parquet": "failed"}
    assert [name for name in contents(tmp_path / "out") if "part-" in name] == []


def test_an_output_that_fills_up_ends_the_run_in_one_line(
    people: Make, put: Put, bundle: ProxyBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(people(5000), tmp_path / "in" / "a.parquet")
    write_record = OutputFolder.write_record

    def full(self: OutputFolder, record: UnitRecord) -> None:
        if record.index == 1:
            raise OSError(28, "No space left on device")
        write_record(self, record)

    monkeypatch.setattr(OutputFolder, "write_record", full)
    with pytest.raises(NotCarriedOut, match=r"cannot be written \(No space left on device\)"):
        run(bundle, tmp_path)
    monkeypatch.undo()
    assert run(bundle, tmp_path) == {"a.parquet": "done"}
    filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "whole"), SETTINGS)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_two_runs_do_not_write_to_one_output(
    people: Make, put: Put, bundle: ProxyBundle, tmp_path: Path
) -> None:
    put(people(100), tmp_path / "in" / "a.parquet")
    state = tmp_path / "out" / "_evenhand"
    state.mkdir(parents=True)
    with FileLock(state / "lock"), pytest.raises(NotCarriedOut, match="another run is writing to"):
        run(bundle, tmp_path)
    assert list(state.iterdir()) == [state / "lock"]
    assert run(bundle, tmp_path) == {"a.parquet": "done"}


def test_records_hold_counts_and_no_time_or_row(
    people: Make, put: Put, bundle: ProxyBundle, tmp_path: Path
) -> None:
    put(people(2500), tmp_path / "in" / "a.parquet")
    run(bundle, tmp_path)
    records = [
        json.loads(path.read_text())
        for path in (tmp_path / "out" / "_evenhand" / "records").iterdir()
    ]
    for record in records:
        part = tmp_path / "out" / record["part"]["name"]
        assert pq.read_metadata(part).num_rows == record["rows_out"]
        assert set(record) == {
            "format", "file", "size", "version", "index", "last", "proxy", "proxy_version", "settings",
            "rows_in", "rows_out", "quarantined", "dropped", "expected", "masses", "left_out", "part",
            "set_aside", "outside", "outside_columns",
        }  # fmt: skip
    assert sum(record["rows_in"] for record in records) == 2500
