"""Tables of Delta Lake and Iceberg in a bucket, by an S3 server on this machine: predicted by
partition, monitored and evaluated, with keys of the environment.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from evenhand.flows.cli import app
from tests.flows.people import Done, make_people

moto_server = pytest.importorskip("moto.server", reason="pip install 'moto[server]'")
s3fs = pytest.importorskip("s3fs")

# a server of its own, and every command twice
pytestmark = [pytest.mark.flow, pytest.mark.long]

DAYS = [datetime.date(2026, 11, 1 + row % 3) for row in range(300)]
ROWS = make_people(300, seed=5).append_column("day", pa.array(DAYS))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of an S3 server."""
    started = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    started.start()
    host, port = started.get_host_and_port()
    yield f"http://{host}:{port}"
    started.stop()


@pytest.fixture
def bucket(
    server: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The address of an empty bucket, whose keys are in the environment."""
    keys = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "us-east-1"}
    for name, value in {**keys, "AWS_ENDPOINT_URL": server}.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    name = request.node.name.replace("_", "-").translate({ord("["): "-", ord("]"): None})[-50:]
    s3fs.S3FileSystem().mkdir(name)
    yield f"s3://{name}"
    s3fs.S3FileSystem.clear_instance_cache()


def write(kind: str, bucket: str, folder: Path, server: str) -> str:
    """Write the rows by day; return the table's address."""
    if kind == "delta":
        from deltalake import write_deltalake

        options = {"aws_endpoint_url": server, "allow_http": "true"}
        write_deltalake(f"{bucket}/people", ROWS, partition_by=["day"], storage_options=options)
        return f"{bucket}/people"
    from pyiceberg.catalog.sql import SqlCatalog

    properties = {"s3.endpoint": server, "s3.region": "us-east-1"}
    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=bucket, **properties)
    catalog.create_namespace("n")
    table = catalog.create_table("n.people", schema=ROWS.schema)
    with table.update_spec() as spec:
        spec.add_identity("day")
    table.append(ROWS)
    return str(table.location())


def invoke(store: Path, *arguments: str) -> Result:
    done = CliRunner().invoke(app, [*arguments, "--store", str(store), "--direct"])
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    return done


def shown(done: Result) -> dict[str, Any]:
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_in_a_bucket_is_read_by_partition(
    published: Done, tmp_path: Path, server: str, bucket: str, kind: str
) -> None:
    store = published.copied_to(tmp_path / "store").store
    address = write(kind, bucket, tmp_path, server)
    output = f"{bucket}/scored"
    given = ["predict", "people-gbdt", "--input", address, "--output", output, "--json"]
    given += ["--set", "predict.partition_by=day"]
    first = shown(invoke(store, *given, "--partition", "2026-11-01..2026-11-02"))
    assert first["metrics"]["rows_in"] == 200
    # the third day is new, and the others are done before
    again = shown(invoke(store, *given))
    assert again["metrics"]["rows_in"] == 300
    parts = s3fs.S3FileSystem().glob(f"{output}/*.parquet")
    assert len(parts) == 3
    nothing = invoke(store, *given)
    assert shown(nothing)["metrics"]["rows_in"] == 300
    drift = shown(invoke(store, "monitor", "people-gbdt", "--data", address, "--json"))
    assert drift["rows"] == 300


def test_an_output_within_the_table_is_refused(
    published: Done, tmp_path: Path, server: str, bucket: str
) -> None:
    address = write("delta", bucket, tmp_path, server)
    given = ["predict", "people-gbdt", "--input", address, "--output", f"{address}/scored"]
    done = invoke(published.store, *given)
    assert done.exit_code == 2
    assert "is within the input: choose a folder outside" in done.stderr


def test_a_table_that_cannot_be_reached_is_one_line(
    published: Done, tmp_path: Path, server: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = write("delta", bucket, tmp_path, server)
    missing = invoke(
        published.store,
        "predict",
        "people-gbdt",
        "--input",
        f"{bucket}/x",
        "--output",
        f"{bucket}/y",
    )
    assert missing.exit_code == 2
    assert "holds no file" in missing.stderr
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    s3fs.S3FileSystem.clear_instance_cache()
    given = ["predict", "people-gbdt", "--input", address, "--output", str(tmp_path / "out")]
    done = invoke(published.store, *given)
    assert done.exit_code == 2
    assert "cannot be listed" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
