"""Where a run's training rows are: by the memory that the job allows, or that is free."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from evenhand.fairlib.execution import free_memory
from evenhand.fairlib.methods import budro
from evenhand.fairlib.methods.registry import METHODS
from evenhand.flows import memory
from evenhand.flows.job import Job
from evenhand.flows.job_file import load_job
from evenhand.flows.memory import budget, encoded_width, expected, place_for
from evenhand.flows.resolved_job import resolve
from evenhand.tasks.errors import InputError, NotCarriedOut

MILLION = 1_000_000


def test_sizes_are_read_with_their_unit() -> None:
    assert budget("4GB") == 4e9
    assert budget("1.5 GiB") == 1.5 * 2**30
    assert budget("300MB") == 3e8
    assert budget(None) == pytest.approx(memory.PROCESS + free_memory(), rel=0.5)
    given = {"name": "a", "table": "adult", "method": "gbdt"}
    assert Job(**given, memory="2 TB").memory == "2 TB"
    for wrong in ("4", "GB", "4 gigabytes", "-1GB", "4GB and more", 4):
        with pytest.raises(ValidationError):
            Job(**given, memory=wrong)


def test_rows_leave_the_memory_step_by_step() -> None:
    # 10 million rows of 100 numbers are 4 GB
    def kind(limit: str, method: str = "gbdt") -> str:
        return place_for(method, 10 * MILLION, 100, limit).kind

    assert kind("100GB") == "memory"
    assert kind("8GB") == "rows"
    assert kind("2.5GB") == "pages"
    assert kind("8GB", "nn") == "rows"
    assert kind("100GB", "project") == "memory"
    found = place_for("gbdt", 10 * MILLION, 100, "2.5GB")
    assert found.parameters == {"on_disk": "pages"}
    assert found.needed < 2.5e9
    assert found.note is not None
    assert "10,000,000 training rows of 100 numbers, 4.0 GB, were in files" in found.note
    assert place_for("gbdt", 1000, 100, "8GB").parameters == {}
    assert all(
        (spec.mapped is not None) == (name in ("gbdt", "reweigh", "nn"))
        for name, spec in METHODS.items()
    )


def test_workers_of_a_cluster_share_the_bins_of_trees() -> None:
    free = [3e9, 2.5e9, 4e9]
    assert budget(None, free) == memory.PROCESS + 2.5e9
    # 0.7 GB and 24 bytes a row, and in each worker a third of 52 a row and of the bins of 3 GB
    found = place_for("gbdt", 10 * MILLION, 100, "2.2GB", workers_free=free)
    assert (found.kind, found.needed) == ("rows", pytest.approx(0.94e9 + (0.52e9 + 3e9) / 3))
    assert place_for("gbdt", 10 * MILLION, 100, "2GB", workers_free=free).kind == "pages"
    # a network does not: 0.74 + 4 GB
    with pytest.raises(InputError, match=r"method nn needs .* use reweigh"):
        place_for("nn", 10 * MILLION, 100, "2.2GB", workers_free=free)
    assert memory.training_workers("reweigh", free) == 3
    assert memory.training_workers("budro", free) == 1
    assert place_for("gbdt", 10 * MILLION, 100, "2.2GB").kind == "pages"
    assert memory.training_workers("gbdt", ()) == 1


def test_the_memory_of_budro_is_a_little_more_than_it_took() -> None:
    # measured, with 41 numbers a row: MiB of a process
    for rows, took in ((120_000, 928), (MILLION, 2031), (10 * MILLION, 15_382)):
        assert took * 2**20 < place_for("budro", rows, 41, "20GB").needed < 1.5 * took * 2**20
    default, none, many = (
        place_for("budro", MILLION, 41, "20GB", {"neighbours": given}).needed
        for given in ("auto", None, 250)
    )
    assert (default - none, many - none) == (0.3e9, 3e9)
    assert METHODS["budro"].lists == (budro.LISTED[-1], budro.NEIGHBOURS)


def test_a_method_that_needs_all_rows_gets_an_alternative() -> None:
    """It is refused."""
    with pytest.raises(
        InputError, match=r"^method project needs .* GB of memory .* memory is 8GB: use gbdt"
    ):
        place_for("project", 10 * MILLION, 100, "8GB")
    with pytest.raises(InputError, match="draw a sample of the table by a query"):
        place_for("logistic", 10 * MILLION, 100, "800MB")
    with pytest.raises(InputError, match="method nn .* use reweigh"):
        place_for("nn", 10 * MILLION, 100, "3GB")


def test_a_small_table_is_never_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 20e6)
    assert place_for("project", 10_000, 50, None).kind == "memory"
    with pytest.raises(InputError, match="and there are 720 MB: use gbdt"):
        place_for("project", 100_000, 10, None)


def test_the_limits_of_the_process_count() -> None:
    code = (
        "import resource; from evenhand.fairlib.execution import free_memory; before = "
        "free_memory();"
        "resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, 3 << 30)); print(before, free_memory())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = map(float, done.stdout.split())
    assert 1 << 30 < after < 3 << 30
    assert after <= before


def test_a_large_table_is_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"a": range(1000)}), tmp_path / "people.parquet")

    def said(*overrides: str, **changes: Any) -> str | None:
        resolved = resolve(*load_job("adult-gbdt", overrides))
        table = resolved.job.table.model_copy(update={"path": str(tmp_path / "people.parquet")})
        changes["job"] = resolved.job.model_copy(update={"table": table})
        return expected(resolved.model_copy(update=changes))

    assert said() is None  # a small file
    monkeypatch.setattr(memory, "LARGE_FILES", 1)
    assert said() is None  # little memory
    monkeypatch.setattr(pq, "read_metadata", lambda path: type("M", (), {"num_rows": 20 * MILLION}))
    told = said("memory=100GB")
    assert told is not None
    assert told.startswith("20,000,000 rows: training will need about ")
    assert "its rows will be in files, and it will need" in str(said("memory=4GB"))
    # the last run of the job that had to run every step; one of another job does not count
    ends = [(MILLION, 30.0, [], None), (MILLION, 9.0, ["ingest"], None), (1, 1.0, [], "failed")]
    for number, (rows, seconds, cached, error) in enumerate([*ends, (1, 1.0, [], None)]):
        name = "adult-gbdt" if number < 3 else "adult-gbdt-2"
        folder = tmp_path / "store" / "runs" / f"20260101-00000{number}-{name}-00000{number}"
        folder.mkdir(parents=True)
        verdict = {
            "rows": rows,
            "seconds": {"a": 1.0, "b": seconds},
            "cached": cached,
            "error": error,
        }
        (folder / "verdict.json").write_text(json.dumps(verdict))
    monkeypatch.setenv("EVENHAND_STORE", str(tmp_path / "store"))
    assert (
        said("memory=100GB") == f"{told}; 1,000,000 rows took 31.0 s, so expect about 10 min 20 s"
    )
    monkeypatch.delenv("EVENHAND_STORE")
    monkeypatch.setenv(memory.DASK_VARIABLE, "tcp://scheduler:8786")
    assert said() is None  # the workers, whose memory counts, are not asked yet
    monkeypatch.delenv(memory.DASK_VARIABLE)
    with pytest.raises(InputError, match="of memory for 16,000,000 training rows"):
        said("memory=1GB")
    contract = resolve(*load_job("adult-gbdt")).contract
    assert encoded_width(contract) == 41
    # 2.75 times 16 million rows of 41 numbers of 4 bytes
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: type("U", (), {"free": 5e9}))
    with pytest.raises(
        NotCarriedOut, match=r"^20,000,000 rows need about 7.2 GB of disk .* has 5.0 GB: fr"
    ):
        said("memory=2.5GB")
    assert said("memory=100GB") == told
    # without a blind control, and rows held out once, no copy of the rows: 1.75 times
    kinds = {"sensitive": {"is_feature": False, "encoding": None, "positive": None}}
    unseen = replace(
        contract, columns=tuple(replace(c, **kinds.get(c.role, {})) for c in contract.columns)
    )
    once = "memory=2.5GB", "method.n_iter_no_change=20", "calibration=sigmoid"
    assert said(*once, contract=unseen) is not None
    assert said("memory=2.5GB", contract=unseen) is not None  # nothing is calibrated
    for second in ("decision.folds=3", "method.n_iter_no_change=null"):
        with pytest.raises(NotCarriedOut, match="need about 6.9 GB of disk"):
            said(*once, second, contract=unseen)
    # a copy for the blind control, and of it one without the rows held out: 3.75 times
    with pytest.raises(NotCarriedOut, match="need about 9.8 GB of disk"):
        said(*once, "method.n_iter_no_change=null")
