"""An employer of one person is in no file but the tables, from `init` to exports."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from evenhand.flows.cli import app

CANARY = "Quxzy Canary Works"
QUICK = ("--set", "method.n_steps=20", "--set", "evaluate.draws=20")
ASKED = ("--label", "hired", "--sensitive", "sex", "--into", "job")


def command(*arguments: str) -> Any:
    done = CliRunner().invoke(app, [*arguments])
    assert done.exit_code == 0, done.output
    return done


def people() -> pa.Table:
    """People of three employers, four employers of one person each, and one of the canary."""
    rng = np.random.default_rng(0)
    rows = 400
    employer = rng.choice(["Acme", "Globex", "Initech"], rows).astype(object)
    employer[7::100] = ["Bakery Moe", "Studio Ann", "Law Office Li", "Farm Ruiz"]
    employer[100] = CANARY
    age = rng.integers(20, 60, rows)
    hired = rng.random(rows) < 0.1 + 0.4 * (age > 40) + 0.4 * (employer == "Acme")
    return pa.table(
        {
            "sex": rng.choice(["f", "m"], rows),
            "age": age,
            "employer": pa.array(employer, pa.string()),
            "hired": np.where(hired, "yes", "no"),
        }
    )


def stored_bytes(path: Path) -> bytes:
    """Content of a file; of a Parquet file its rows and metadata, uncompressed."""
    content = path.read_bytes()
    if path.suffix == ".parquet":
        rows = pq.read_table(path)
        content += repr([rows.to_pydict(), rows.schema.metadata]).encode()
    return content


def holders(folder: Path) -> set[str]:
    """The first folders below the store, or the names, of files that have the canary."""
    names = set()
    for path in folder.rglob("*"):
        if path.is_file() and CANARY.encode() in stored_bytes(path):
            names.add("/".join(path.relative_to(folder).parts[:3]))
    return names


def test_a_rare_employer_is_in_the_raw_table_alone(
    tmp_path: Path, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # ten seconds: a training and five commands, of which each could name the employer
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENHAND_STORE", str(tmp_path / "store"))
    (tmp_path / "store").mkdir()
    shutil.copyfile(registry, tmp_path / "store/mlflow.db")
    pyarrow.csv.write_csv(people(), "people.csv")

    said = command("init", "people.csv", *ASKED).output
    assert "5 of employer; give --keep-rare to keep them" in said
    assert CANARY not in said
    said = command("run", "job/people.yaml", "--direct", *QUICK).output
    assert CANARY not in said
    model = "models:/people@champion"
    command("evaluate", model, "--data", "people.csv", "--direct")
    command("monitor", model, "--data", "people.csv", "--direct")
    command("export", model, "--to", "sql", "--table", "people", "--output", "people.sql")
    names = {name for name in holders(tmp_path) if not name.startswith("store/artifacts/raw")}
    assert names == {"people.csv"}

    command("predict", model, "--input", "people.csv", "--output", "predicted", "--direct")
    predicted = pq.read_table("predicted")
    with duckdb.connect() as database:
        database.register("people", people())
        queried = database.execute(Path("people.sql").read_text()).fetchnumpy()
    assert queried["prediction"].tolist() == predicted["prediction"].to_pylist()
    np.testing.assert_allclose(queried["probability"], predicted["probability"], atol=1e-6)
    assert predicted["employer"].to_pylist() == people()["employer"].to_pylist()
    # the search can fail: this file has the employer, as it keeps the columns of its input
    assert any(name.startswith("predicted/") for name in holders(tmp_path))


def test_rare_values_are_kept_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pyarrow.csv.write_csv(people(), "people.csv")
    said = command("init", "people.csv", *ASKED, "--keep-rare").output
    contract = (tmp_path / "job" / "people.contract.yaml").read_text()
    assert CANARY in contract
    described = contract.partition("schema:\n- name")[2]
    assert described
    assert "property: other" not in described
    assert "--keep-rare" not in said
