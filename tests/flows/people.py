"""A made-up table of people, its contract and jobs, and the command line run in this process."""

from __future__ import annotations

import contextlib
import copy
import datetime as dt
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import yaml
from typer.testing import CliRunner

ROWS = 400
# Arguments of boosting that is trained in no time.
SMALL = {"n_steps": 4, "max_depth": 2, "n_iter_no_change": None, "n_jobs": 1}
SECRET_GROUP = "zzyzx-group"  # never in the contract; wherever a message shows it, it has leaked
SECRET_ID = "ID-77-SECRET"


# in a process that has the libraries and nothing of this project
PREDICT = """
import json, sys
import mlflow, pandas as pd, pyarrow.parquet as pq
ours = ("evenhand.flows", "evenhand.tasks", "evenhand.data_contracts")
assert not [name for name in sys.modules if name.startswith(ours)]
mlflow.set_tracking_uri(sys.argv[1])
for uri, *paths in json.loads(sys.argv[2]):
    model = mlflow.pyfunc.load_model(uri)
    for path in paths:
        if path.endswith(".csv"):
            raw = pd.read_csv(path, dtype={"zip": str}, keep_default_na=False, na_values=[""])
        else:
            raw = pq.read_table(path).to_pandas()
        print(json.dumps(model.predict(raw).to_dict("list")))
ours = ("evenhand.flows", "evenhand.tasks", "evenhand.data_contracts")
assert not [name for name in sys.modules if name.startswith(ours)]
"""


def property_of(name: str, kind: str, role: str, **more: Any) -> dict[str, Any]:
    """One column of a contract."""
    custom = {"role": role} | {
        key: more.pop(key) for key in ("use", "positive", "favourable", "bins") if key in more
    }
    column: dict[str, Any] = {"name": name, "logicalType": kind, "required": True}
    if "values" in more:
        column["quality"] = [
            {"type": "library", "rule": "validValues", "validValues": more.pop("values")}
        ]
    column["customProperties"] = [
        {"property": key, "value": value} for key, value in custom.items()
    ]
    return column | more


# Steps of a classifier's run, in order.
STEPS = [
    *("ingest", "contract", "preprocess", "profile", "controls", "train", "decide", "evaluate"),
    *("gate", "publish"),
]
CONTRACT: dict[str, Any] = {
    "apiVersion": "v3.0.2",
    "kind": "DataContract",
    "id": "people",
    "name": "people",
    "version": "1.0.0",
    "status": "active",
    "description": {"purpose": "Made-up people."},
    "schema": [
        {
            "name": "people",
            "logicalType": "object",
            "properties": [
                property_of("key", "string", "id"),
                property_of("age", "integer", "sensitive", bins=[40]),
                property_of("sex", "string", "sensitive", values=["F", "M"]),
                property_of("income", "number", "feature"),
                property_of("job", "string", "feature", values=["clerk", "smith", "cook"]),
                property_of("owner", "boolean", "feature"),
                property_of("since", "date", "feature"),
                property_of(
                    "paid",
                    "string",
                    "label",
                    values=["no", "yes"],
                    positive="yes",
                    favourable="yes",
                ),
            ],
        }
    ],
}
JOB: dict[str, Any] = {
    "name": "people-gbdt",
    "table": {"name": "people", "path": "people.csv"},
    "contract": "people.contract.yaml",
    "method": {"name": "gbdt", "n_steps": 4, "max_depth": 2, "n_jobs": 1},
    "evaluate": {"draws": 20, "counterfactuals": {"work": {"job": "all"}}},
    "gates": {"auc": {"min": 0.3}},
    "publish": {"without_policy": True},
}


PROXY_JOB: dict[str, Any] = {
    "name": "people-proxy",
    "table": {"name": "people", "path": "people.csv"},
    "contract": "people.contract.yaml",
    "sensitive": ["sex"],
    "split": {"test": 0.4},
    "method": {"name": "proxy", "alpha": 0.3, "progress": 0.05, "min_leaf": 20},
    "evaluate": {"draws": 20},
    "gates": {"disclosivity": {"max": 0.6}},
    "publish": {"without_policy": True},
}


DADI_JOB: dict[str, Any] = {
    "name": "people-dadi",
    "table": {"name": "people", "path": "people.csv"},
    "contract": "people.contract.yaml",
    # gamma 1 asks for whatever helps, so that even a short training asks for something
    "method": {
        "name": "dadi",
        "gamma": 1,
        "attributes": ["sex"],
        "hidden": [8, 8],
        "memory_size": 4,
        "agents": 16,
        "pretrain_iterations": 200,
        "n_iterations": 400,
        "learning_rate": 0.005,
    },
    "evaluate": {"draws": 20},
    "gates": {"features_asked": {"max": 5}},
    "publish": {"without_policy": True},
}


@dataclass
class Answer:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.out)
        return content


def make_people(rows: int = ROWS, seed: int = 0) -> pa.Table:
    """People whose income, job and ownership tell something about the label."""
    rng = np.random.default_rng(seed)
    income = rng.normal(3000, 800, rows).round(2)
    owner = rng.random(rows) < 0.5
    paid = income + 800 * owner + rng.normal(0, 500, rows) > 3400
    first = dt.date(2020, 1, 1)
    return pa.table(
        {
            "key": [f"p-{index:05d}" for index in range(rows)],
            "age": rng.integers(20, 65, rows),
            "sex": rng.choice(["F", "M"], rows).tolist(),
            "income": income,
            "job": rng.choice(["clerk", "smith", "cook"], rows).tolist(),
            "owner": owner,
            "since": [first + dt.timedelta(days=int(days)) for days in rng.integers(0, 1000, rows)],
            "paid": np.where(paid, "yes", "no").tolist(),
        }
    )


def make_uneven(rows: int = 1000, seed: int = 3) -> pa.Table:
    """People of whom a quarter are women, who have other jobs and incomes than men."""
    table = make_people(rows, seed)
    rng = np.random.default_rng(seed)
    income = np.array(table["income"].to_pylist())
    clerk = np.array(table["job"].to_pylist()) == "clerk"
    woman = rng.random(rows) < np.where(clerk, 0.5, 0.1) * np.where(income < 3000, 1.3, 0.7)
    index = table.column_names.index("sex")
    return table.set_column(index, "sex", pa.array(np.where(woman, "F", "M").tolist()))


@dataclass
class Done:
    """What a run left."""

    code: int
    out: str
    err: str
    store: Path

    @property
    def verdict(self) -> dict[str, Any]:
        """The newest run's verdict file."""
        newest = max(
            (self.store / "runs").iterdir(),
            key=lambda run: (run / "verdict.json").stat().st_mtime_ns,
        )
        content: dict[str, Any] = json.loads((newest / "verdict.json").read_text())
        return content

    @property
    def json(self) -> dict[str, Any]:
        """The one object on stdout."""
        content: dict[str, Any] = json.loads(self.out)
        return content

    def copied_to(self, store: Path) -> Done:
        """The same in a copy of its store, for a test that changes it."""
        copy_store(self.store, store)
        before, after = str(self.store.resolve()), str(store.resolve())
        return replace(self, out=self.out.replace(before, after), store=store)


@dataclass
class Bench:
    """A folder with a table, a contract and a job, each a plain object that a test may change
    first.
    """

    folder: Path
    table: Any = field(default_factory=make_people)
    contract: dict[str, Any] = field(default_factory=lambda: copy.deepcopy(CONTRACT))
    job: dict[str, Any] = field(default_factory=lambda: copy.deepcopy(JOB))
    content: bytes | None = None  # of the table's file, in place of `table`
    database: Path | None = None  # a registry with its tables made, which takes seconds

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def properties(self) -> dict[str, dict[str, Any]]:
        """Columns of the contract by name."""
        return {item["name"]: item for item in self.contract["schema"][0]["properties"]}

    def put(self, column: str, row: int, value: Any) -> None:
        """Change one cell; the column's type follows."""
        values = self.table[column].to_pylist()
        values[row] = value
        self.set(column, values)

    def set(self, column: str, values: Any) -> None:
        """Replace a column."""
        index = self.table.column_names.index(column)
        self.table = self.table.set_column(index, column, pa.array(values))

    def write(self) -> Path:
        """Write the three files and give the job's path."""
        path = self.folder / self.job["table"].get("path", "people.csv")
        if self.content is not None:
            path.write_bytes(self.content)
        elif (
            path.suffix == ".csv"
            and not path.exists()
            and "://" not in self.job["table"].get("path", "://")
        ):
            pyarrow.csv.write_csv(self.table, path)
        (self.folder / "people.contract.yaml").write_text(
            yaml.safe_dump(self.contract, allow_unicode=True)
        )
        job = self.folder / "job.yaml"
        job.write_text(yaml.safe_dump(self.job, allow_unicode=True))
        return job

    def run(
        self, *arguments: str, job: str | Path | None = None, store: str | Path | None = None
    ) -> Done:
        """Run the job directly, in this process."""
        from evenhand.flows.cli import app

        given = self.write() if job is None else job
        if self.database is not None and not self.store.exists():
            self.store.mkdir(mode=0o700)
            shutil.copyfile(self.database, self.store / "mlflow.db")
        done = CliRunner().invoke(
            app, ["run", str(given), "--direct", "--store", str(store or self.store), *arguments]
        )
        assert done.exception is None or isinstance(done.exception, SystemExit), repr(
            done.exception
        )
        return Done(done.exit_code, done.stdout, done.stderr, self.store)


def copy_store(source: Path, target: Path) -> Path:
    """
    Copy a finished store; addresses in its records, verdicts and registry are those of the copy.

    What a test does with a copy, the store that others read from does not notice.
    """
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("locks", "tmp"))
    return move_store(target, str(source.resolve()))


def move_store(target: Path, before: str) -> Path:
    """Replace the address that a store had before in its records, verdicts and registry."""
    after = str(target.resolve())
    for path in [*target.glob("steps/*/*.json"), *target.glob("runs/*/*.json")]:
        written = path.stat()
        path.write_text(path.read_text().replace(before, after))
        os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))
    with contextlib.closing(sqlite3.connect(target / "mlflow.db")) as registry, registry:
        for (table,) in registry.execute(
            "select name from sqlite_master where type = 'table'"
        ).fetchall():
            for column in registry.execute(f"pragma table_info({table})").fetchall():
                name = f'"{column[1]}"'
                registry.execute(
                    f"update {table} set {name} = replace({name}, ?, ?) where instr({name}, ?)",
                    (before, after, before),
                )
    return target


@contextlib.contextmanager
def clean_environment() -> Iterator[None]:
    """
    Begin without the user's addresses, and undo what runs set.

    MLflow adds the folder of a published model's code to the path: a later worker would import that
    copy."""
    before, path = dict(os.environ), list(sys.path)
    for name in ("MLFLOW_TRACKING_URI", "EVENHAND_STORE", "PREFECT_API_URL", "EVENHAND_LOG"):
        os.environ.pop(name, None)
    try:
        yield
    finally:
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(before)


def run_all(bench: Bench, *jobs: dict[str, Any]) -> Done:
    """Run jobs one after another in one store, and give the last one's result."""
    with clean_environment(), contextlib.chdir(bench.folder):
        for job in jobs:
            bench.job = copy.deepcopy(job)
            done = bench.run("--json")
            assert done.code == 0, done.err
    return done


def predict(store: Path, *wanted: tuple[Any, ...]) -> list[dict[str, list[Any]]]:
    """Predictions in a fresh process: of each published model for each of its files of raw rows."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    given = json.dumps([list(map(str, item)) for item in wanted])
    finished = subprocess.run(
        [sys.executable, "-c", PREDICT, f"sqlite:///{store / 'mlflow.db'}", given],
        cwd=store.parent.parent,
        env={**environment, "MLFLOW_DISABLE_TELEMETRY": "true"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    return [json.loads(line) for line in finished.stdout.splitlines() if line.startswith("{")]
