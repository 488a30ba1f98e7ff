"""Filter runs in this process: what they write, print and answer, and nothing about anybody
in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from filelock import FileLock
from typer.testing import CliRunner, Result

from evenhand.flows.cli import app
from evenhand.flows.commands.filter_command import run_filter
from evenhand.flows.file_runs import execute
from evenhand.flows.filter import plan_filter
from evenhand.tasks.execution.store import Store

PLANTED_ID = "planted-person-4711"
PLANTED_GROUP = "planted-group"
PLANTED_NUMBER = 31415.92653
ANOTHER_PROXY = "filtered by another proxy"


@dataclass
class Desk:
    """A published proxy, and a folder of files to filter with it."""

    job: Path
    store: Path
    folder: Path
    people: Callable[..., pa.Table]

    @property
    def input(self) -> Path:
        return self.folder / "in"

    @property
    def output(self) -> Path:
        return self.folder / "out"

    def put(self, name: str, rows: int = 600, seed: int = 1, **cells: Any) -> pa.Table:
        """Write a file of people; `cells` replace the first value of their columns."""
        table = self.people(rows, seed)
        for column, value in cells.items():
            values = pa.array([value, *table[column].to_pylist()[1:]])
            table = table.set_column(table.column_names.index(column), column, values)
        path = self.input / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".csv":
            pyarrow.csv.write_csv(table, path)
        else:
            pq.write_table(table, path, row_group_size=200)
        return table

    def __call__(self, *arguments: str, **places: str | Path) -> Result:
        where = {"input": self.input, "output": self.output, **places}
        given = [part for name, place in where.items() for part in (f"--{name}", str(place))]
        done = CliRunner().invoke(
            app,
            ["filter", str(self.job), *given, "--direct", "--store", str(self.store), *arguments],
        )
        assert done.exception is None or isinstance(done.exception, SystemExit), repr(
            done.exception
        )
        return done

    def kept(self, folder: Path | None = None) -> pa.Table:
        """Rows of the output."""
        parts = sorted((folder or self.output).glob("part-*.parquet"))
        return pa.concat_tables([pq.read_table(part) for part in parts])

    def files(self, folder: Path | None = None) -> dict[str, bytes]:
        """Every file of the output."""
        place = folder or self.output
        return {
            str(path.relative_to(place)): path.read_bytes()
            for path in place.rglob("*")
            if path.is_file()
        }


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("published")


@pytest.fixture
def desk(proxies: Any, people: Callable[..., pa.Table], shelf: Path, tmp_path: Path) -> Desk:
    """One proxy for all tests, whose acceptance probabilities are not 0 and 1 alone."""
    proxies.folder = shelf
    proxies.job |= {"method": {"name": "naive-tree"}, "gates": {}}
    if not proxies.store.exists():
        assert proxies.run().code == 0
    return Desk(shelf / "job.yaml", proxies.store, tmp_path, people)


def verdict_of(done: Result) -> dict[str, Any]:
    """The one object on stdout."""
    assert len(done.stdout.splitlines()) == 1
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def refused(done: Result, *words: str, code: int = 2) -> str:
    """The one line on stderr."""
    assert done.exit_code == code, (done.exit_code, done.stdout, done.stderr)
    (line,) = done.stderr.splitlines()
    assert line.startswith("evenhand: ")
    for word in words:
        assert word in line, (word, line)
    return str(line)


def test_a_run_filters_and_says_so_in_one_object(desk: Desk) -> None:
    rows = [desk.put("a.parquet"), desk.put("more/b.csv", rows=400, seed=2)]
    done = desk("--json", "--set", "filter.key=[key, income]")
    assert (done.exit_code, done.stderr) == (0, "")
    verdict = verdict_of(done)
    assert (verdict["status"], verdict["exit_code"], verdict["error"]) == ("filtered", 0, None)
    assert verdict["model"]["uri"] == "models:/people-proxy@champion"
    kept, found = desk.kept(), verdict["metrics"]
    assert (found["rows_in"], found["rows_out"]) == (1000, len(kept))
    assert (found["files_filtered"], found["files_done_before"], found["files_failed"]) == (2, 0, 0)
    assert 100 < len(kept) < 900
    assert found["kept"] == len(kept) / 1000
    assert kept.column_names == [
        name for name in rows[0].column_names if name not in ("sex", "age")
    ]
    written = json.loads((desk.store / "runs" / verdict["run_id"] / "verdict.json").read_text())
    assert written == verdict
    filtered = json.loads(Path(verdict["artifacts"]["filter"]).read_text())
    assert filtered["summary"]["rows_out"] == len(kept)
    assert filtered["summary"]["left_out"] == ["age", "sex"]
    assert filtered["settings"]["key"] == ["key", "income"]
    assert {file["name"]: file["rows_in"] for file in filtered["summary"]["files"]} == {
        "a.parquet": 600,
        "more/b.csv": 400,
    }
    page = Path(verdict["artifacts"]["report"]).read_text()
    assert page.lower().startswith("<!doctype html>")
    assert ANOTHER_PROXY not in page


def test_a_person_reads_the_count_of_kept_rows_and_the_place(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.put("a.parquet")
    code = run_filter(
        str(desk.job),
        str(desk.input),
        None,
        str(desk.output),
        partition=None,
        since=None,
        overrides=[],
        as_json=False,
        store_url=str(desk.store),
        direct=True,
    )
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    said = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert said["files"] == "1 filtered"
    assert said["rows"].startswith(f"{len(desk.kept())} of 600 kept (")
    assert said["balance"].startswith("expected shares are ")
    assert said["proxy"] == "people-proxy version 1"
    assert said["output"] == str(desk.output)
    assert Path(said["report"]).is_file()
    assert "set aside" not in out


@pytest.mark.parametrize("option", [("--partition", "1..2"), ("--since", "1")])
def test_partitions_of_files_are_refused(desk: Desk, option: tuple[str, str]) -> None:
    desk.put("a.parquet")
    refused(desk(*option), "the input is files")
    assert not desk.output.exists() or list(desk.files()) == []


def test_what_was_done_before_is_not_done_again(desk: Desk) -> None:
    desk.put("a.parquet")
    desk.put("b.csv", seed=2)
    first = verdict_of(desk("--json"))
    before = desk.files()
    again = desk()
    assert again.exit_code == 0
    assert again.stdout.startswith("files     0 filtered, 2 done before\n")
    assert desk.files() == before
    # what is reported is the whole output
    rows = first["metrics"]["rows_out"], first["metrics"]["rows_in"]
    assert f"{rows[0]:,} of {rows[1]:,} kept" in again.stdout
    desk.put("c.parquet", seed=3)
    third = verdict_of(desk("--json"))
    assert (third["metrics"]["files_filtered"], third["metrics"]["files_done_before"]) == (1, 2)
    assert third["metrics"]["rows_in"] == 1800
    assert ANOTHER_PROXY not in Path(third["artifacts"]["report"]).read_text()
    assert before.items() <= desk.files().items()


def test_one_bad_file_is_named_and_the_others_are_filtered(desk: Desk) -> None:
    desk.put("good.parquet")
    desk.put("cut.parquet", seed=2)
    cut = desk.input / "cut.parquet"
    cut.write_bytes(cut.read_bytes()[:-100])
    desk.put("trade.csv", seed=3, job=PLANTED_GROUP)
    done = desk("--json")
    line = refused(
        done, "2 of 3 files", "cut.parquet is a damaged or truncated", "trade.csv: column 'job'"
    )
    verdict = verdict_of(done)
    assert (verdict["status"], verdict["exit_code"]) == ("filtered", 2)
    assert line == f"evenhand: {verdict['error']}"
    assert (verdict["metrics"]["files_filtered"], verdict["metrics"]["files_failed"]) == (1, 2)
    page = Path(verdict["artifacts"]["report"]).read_text()
    assert "2 of 3 files failed" in page
    kept = desk.kept()["key"].to_pylist()
    assert len(kept) == verdict["metrics"]["rows_out"]
    for name in ("cut.parquet", "trade.csv"):
        (desk.input / name).unlink()
    desk(output=desk.folder / "alone")
    assert desk.kept(desk.folder / "alone")["key"].to_pylist() == kept


def test_a_mended_file_is_filtered_by_the_next_run(desk: Desk) -> None:
    desk.put("a.parquet")
    desk.put("b.csv", seed=2, job="astronaut")
    assert "1 filtered, 1 failed" in desk().stdout
    desk.put("b.csv", seed=2)
    done = desk()
    assert done.exit_code == 0
    assert done.stdout.startswith("files     1 filtered, 1 done before\n")


def test_many_bad_files_are_counted(desk: Desk) -> None:
    """A run without a good one has failed."""
    for number in range(5):
        desk.put(f"{number}.csv", rows=50, job="astronaut")
    done = desk("--json")
    line = refused(done, "5 of 5 files", "0.csv", "1.csv", "2.csv", "and 2 more")
    assert "3.csv" not in line
    assert verdict_of(done)["status"] == "failed"
    assert "5 of 5 files failed" in Path(verdict_of(done)["artifacts"]["report"]).read_text()
    assert not list(desk.output.glob("part-*"))
    spoken = desk()
    assert spoken.stdout.startswith("files     0 filtered, 5 failed\n")
    assert "0 of 0 kept\n" in spoken.stdout


def test_nothing_but_the_parts_holds_a_persons_value(desk: Desk) -> None:
    """There is no id, row or sensitive value."""
    before = {path for path in desk.store.rglob("*") if path.is_file()}
    desk.put("a.parquet", key=PLANTED_ID, income=PLANTED_NUMBER, sex=PLANTED_GROUP)
    desk.put("b.csv", key=PLANTED_ID, income=PLANTED_NUMBER, sex=PLANTED_GROUP, job=PLANTED_ID)
    desk.put("c.csv", key=PLANTED_ID, sex=PLANTED_GROUP)
    broken = (desk.input / "c.csv").read_text().replace("p-00007", f'"{PLANTED_ID}"","x')
    (desk.input / "c.csv").write_text(broken)
    table = desk.people(50)
    texts = pa.array([PLANTED_ID, *map(str, table["income"].to_pylist()[1:])])
    pyarrow.csv.write_csv(table.set_column(3, "income", texts), desk.input / "d.csv")
    said = []
    for bad, arguments in ((4, ("--set", "filter.sensitive=refuse")), (3, ()), (3, ("--json",))):
        done = desk("--set", "filter.key=[key]", *arguments)
        assert f"{bad} of 4 files" in done.stderr
        said.append((done.stdout + done.stderr).encode())
    written = [path for path in desk.store.rglob("*") if path.is_file() and path not in before]
    assert {path.name for path in written} >= {"verdict.json", "filter.json", "report.html"}
    said += [path.read_bytes() for path in written]
    said += [content for name, content in desk.files().items() if not name.startswith("part-")]
    for content in said:
        for planted in (PLANTED_ID, PLANTED_GROUP, str(PLANTED_NUMBER)):
            assert planted.encode() not in content
    # nor is a sensitive value in the sample
    parts = [content for name, content in desk.files().items() if name.startswith("part-")]
    assert parts
    assert not any(PLANTED_GROUP.encode() in content for content in parts)
    assert PLANTED_GROUP.encode() in (desk.input / "a.parquet").read_bytes()


def test_secrets_of_an_address_are_not_written(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    monkeypatch.setenv("BOX_LOGIN", "user:pass-word")
    address = "memory://$BOX_LOGIN@box"
    refused(
        desk(input="memory://user:pass-word@box/in"), "--input looks like it holds a credential"
    )
    disk = fsspec.filesystem("memory")
    desk.put("a.parquet")
    disk.pipe_file("/user:pass-word@box/in/a.parquet", (desk.input / "a.parquet").read_bytes())
    done = desk("--json", input=f"{address}/in", output=f"{address}/out")
    assert done.exit_code == 0, done.stderr
    verdict = verdict_of(done)
    assert verdict["artifacts"]["output"] == "memory://box/out"
    run = desk.store / "runs" / verdict["run_id"]
    said = [done.stdout.encode(), *(path.read_bytes() for path in run.iterdir())]
    said += [disk.cat_file(path) for path in disk.find("/user:pass-word@box/out")]
    assert len(said) > 5
    assert not any(b"pass-word" in content for content in said)
    desk()
    assert disk.cat_file(disk.glob("/user:pass-word@box/out/part-*")[0]) in desk.files().values()
    refused(desk(input=f"{address}/nothing"), "memory://box/nothing holds no file")


@pytest.mark.long
def test_the_seed_is_the_jobs_unless_the_filter_has_its_own(desk: Desk) -> None:
    desk.put("a.parquet", rows=1500)
    key = ("--set", "filter.key=[key]")
    kept = {}
    for name, given in {
        "job": ("seed=5",),
        "own": ("filter.seed=5",),
        "both": ("seed=1", "filter.seed=5"),
        "other": ("filter.seed=6",),
    }.items():
        overrides = [part for item in given for part in ("--set", item)]
        assert desk(*key, *overrides, output=desk.folder / name).exit_code == 0
        kept[name] = desk.kept(desk.folder / name)["key"].to_pylist()
    assert kept["job"] == kept["own"] == kept["both"]
    assert len(kept["other"]) > 100
    assert kept["other"] != kept["own"]


def test_the_settings_of_the_section_reach_the_output(desk: Desk) -> None:
    table = desk.put("a.csv")
    (desk.input / "a.csv").rename(desk.input / "a.people")
    refused(desk(), "set filter.format")
    options = pyarrow.csv.WriteOptions(delimiter="|")
    pyarrow.csv.write_csv(table, desk.input / "a.people", options)
    settings = {"format": "csv", "delimiter": "'|'", "probability": "true", "compression": "zstd"}
    given = [
        part for name, value in settings.items() for part in ("--set", f"filter.{name}={value}")
    ]
    given += ["--set", "filter.rows_per_unit=250"]
    done = desk(*given, "--json")
    assert done.exit_code == 0, done.stderr
    assert "have drifted" not in Path(verdict_of(done)["artifacts"]["report"]).read_text()
    parts = sorted(desk.output.glob("part-*"))
    assert len(parts) == 3
    assert pq.read_metadata(parts[0]).row_group(0).column(0).compression == "ZSTD"
    chances = desk.kept()["acceptance_probability"]
    assert pc.min(chances).as_py() > 0
    assert pc.count_distinct(chances).as_py() == 2
    # the limit of drift is about the report alone
    done = desk(*given, "--set", "filter.max_drift=0", "--json")
    assert verdict_of(done)["metrics"]["files_done_before"] == 1
    assert "have drifted" in Path(verdict_of(done)["artifacts"]["report"]).read_text()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("filter.key=[nope]", ["a.parquet", "lacks the key column 'nope'"]),
        ("filter.key=[sex]", ["key may not hold the sensitive column 'sex'"]),
        (
            "filter.sensitive=refuse",
            ["a.parquet holds the sensitive column 'age'", "filter.sensitive: drop"],
        ),
    ],
)
def test_a_setting_that_does_not_fit_the_files_is_refused(
    desk: Desk, setting: str, words: list[str]
) -> None:
    desk.put("a.parquet")
    done = desk("--set", setting, "--json")
    refused(done, *words)
    assert verdict_of(done)["status"] == "failed"
    assert not list(desk.output.glob("part-*"))


def test_places_that_do_not_fit_are_refused(desk: Desk) -> None:
    refused(desk(), "there is no file or folder")
    desk.put("a.parquet")
    assert desk().exit_code == 0
    before = desk.files()
    other = desk.folder / "other"
    other.mkdir()
    (desk.input / "a.parquet").rename(other / "a.parquet")
    refused(desk(input=other), "holds the rows of", "choose another output")
    assert desk.files() == before
    refused(
        desk(input=other, output=other / "below"), "the input overlap", "choose a folder outside"
    )
    (desk.folder / "full").mkdir()
    (desk.folder / "full" / "letter.txt").write_text("mine")
    refused(desk(input=other, output=desk.folder / "full"), "holds other files already")


def test_an_output_that_another_run_writes_to_is_left_alone(desk: Desk) -> None:
    desk.put("a.parquet")
    (desk.output / "_evenhand").mkdir(parents=True)
    with FileLock(desk.output / "_evenhand" / "lock"):
        done = desk("--json")
    refused(done, "another run is writing to", code=4)
    assert (verdict_of(done)["status"], verdict_of(done)["exit_code"]) == ("failed", 4)
    assert list(desk.files()) == ["_evenhand/lock"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (KeyboardInterrupt(), ["interrupted", "run again with the same output"]),
        (RuntimeError(PLANTED_ID), ["internal fault (RuntimeError at flows/file_runs.py"]),
        (OSError(28, "No space left on device"), ["the disk is full", "free some space"]),
    ],
)
def test_a_run_that_breaks_off_says_so_in_one_line(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, fault: BaseException, words: list[str]
) -> None:
    def breaks(*_: Any, **__: Any) -> None:
        raise fault

    desk.put("a.parquet")
    monkeypatch.setattr("evenhand.flows.file_runs.process_files", breaks)
    done = desk("--json")
    assert PLANTED_ID not in refused(done, *words, code=4)
    verdict = verdict_of(done)
    assert (verdict["status"], verdict["exit_code"], verdict["metrics"]) == ("failed", 4, {})


class TestWatching:
    """`filter.settle_seconds`: an input that grows, looked at again and again."""

    WATCH = ("--set", "filter.settle_seconds=60", "--json")

    def age(self, desk: Desk, name: str, seconds: float) -> None:
        then = time.time() - seconds
        os.utime(desk.input / name, (then, then))

    def test_what_is_still_being_written_waits(self, desk: Desk) -> None:
        desk.put("old.parquet")
        self.age(desk, "old.parquet", 120)
        desk.put("new.parquet", seed=2)
        first = json.loads(desk(*self.WATCH).stdout)
        assert (first["status"], first["metrics"]["files_filtered"]) == ("filtered", 1)
        second = json.loads(desk(*self.WATCH).stdout)
        assert second["status"] == "up_to_date"
        assert second["notes"] == [
            "up to date: 1 files were filtered before, none is new; 1 changed a moment ago and "
            "wait."
        ]
        self.age(desk, "new.parquet", 61)
        third = json.loads(desk(*self.WATCH).stdout)
        assert (third["status"], third["metrics"]["files_filtered"]) == ("filtered", 1)
        assert third["metrics"]["files_done_before"] == 1

    def test_the_bytes_are_those_of_a_run_that_does_not_watch(self, desk: Desk) -> None:
        desk.put("a.parquet")
        self.age(desk, "a.parquet", 120)
        desk(*self.WATCH)
        other = desk.folder / "other"
        desk(output=other)
        assert desk.files() == desk.files(other)

    def test_an_empty_folder_is_no_error_and_leaves_nothing(self, desk: Desk) -> None:
        desk.input.mkdir()
        done = desk(*self.WATCH)
        assert (done.exit_code, json.loads(done.stdout)["status"]) == (0, "up_to_date")
        assert not desk.output.exists()
        # what comes then is filtered, wherever the first look found nothing
        desk.put("a.parquet")
        self.age(desk, "a.parquet", 120)
        assert json.loads(desk(*self.WATCH).stdout)["status"] == "filtered"

    def test_a_folder_that_is_not_there_is_an_error(self, desk: Desk) -> None:
        refused(desk(*self.WATCH[:2]), "there is no file or folder")

    def test_an_empty_prefix_of_a_bucket_is_none(self, desk: Desk) -> None:
        done = desk(*self.WATCH, input="memory://watched/prefix/")
        assert json.loads(done.stdout)["status"] == "up_to_date"

    def test_a_file_that_cannot_be_filtered_fails_the_run_each_time(self, desk: Desk) -> None:
        desk.input.mkdir()
        (desk.input / "bad.parquet").write_bytes(b"no table")
        self.age(desk, "bad.parquet", 120)
        for _ in range(2):
            assert desk(*self.WATCH).exit_code == 2

    def test_a_schedule_leaves_no_run_where_nothing_is_new(self, desk: Desk) -> None:
        """The flow without a run's name, as a deployment calls it; the command keeps its
        verdict.
        """
        desk.input.mkdir()
        before = set((desk.store / "runs").iterdir())
        job = plan_filter(
            str(desk.job), ["filter.settle_seconds=60"], str(desk.input), str(desk.output)
        )
        store = Store(str(desk.store))
        verdict = execute(job, store, "idle", lambda done, total, values: None, keep_idle=False)
        assert verdict.status == "up_to_date"
        assert set((desk.store / "runs").iterdir()) == before
        execute(job, store, "named", lambda done, total, values: None)
        assert {run.name for run in set((desk.store / "runs").iterdir()) - before} == {"named"}


def test_a_look_for_new_files_imports_no_heavy_library() -> None:
    # a process of its own (1 s): this one has imported everything
    modules = ["flows.file_runs", "flows.filter", "flows.predict", "flows.proxy_jobs"]
    modules += ["tasks.pages.fronts.filter_front", "tasks.pages.fronts.predict_front"]
    imports = "; ".join(f"import evenhand.{name}" for name in modules)
    heavy = {"sklearn", "scipy", "torch", "xgboost", "numba", "sqlalchemy", "mlflow", "prefect"}
    code = f"import sys; {imports}; print(*({heavy!r} & {{*sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
