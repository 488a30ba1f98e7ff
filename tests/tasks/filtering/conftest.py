"""People, their contract and a proxy on disk, shared by the filter's tests."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from evenhand.data_contracts.model import Column, Contract
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.fairlib.proxies.graph import SplittingGraph
from evenhand.fairlib.proxies.tree import ProxyTree
from evenhand.tasks.filtering.filter_bundle import ProxyBundle
from evenhand.tasks.steps.preprocess_step import column_specs

FEATURES = ["age", "income", "job", "member", "since", "region"]


def _contract(**options: Any) -> Contract:
    feature: dict[str, Any] = {"role": "feature", "is_feature": True}
    return Contract(
        name="people",
        version="1",
        description="Hand-made people.",
        columns=(
            Column("id", "integer", role="id"),
            Column("age", "integer", True, minimum=18, maximum=90, **feature),
            Column("income", "number", minimum=0, **feature),
            Column("job", "string", True, allowed=("clerk", "smith", "baker"), **feature),
            Column("member", "boolean", True, encoding="binary", **feature),
            Column("since", "date", minimum=dt.date(2000, 1, 1), **feature),
            Column("region", "string", **feature),
            Column("sex", "string", role="sensitive"),
            Column("paid", "boolean", True, role="label", positive=True),
        ),
        **{"unseen_categories": "ignore", **options},
    )


def _people(rows: int, seed: int = 0, start: int = 0) -> pa.Table:
    rng = np.random.default_rng([seed, start])

    def gaps(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
        return pa.array(
            [None if hole else v for v, hole in zip(values, rng.random(rows) < 0.05, strict=True)],
            kind,
        )

    return pa.table(
        {
            "id": pa.array(np.arange(start, start + rows)),
            "age": pa.array(rng.integers(18, 91, rows), pa.int16()),
            "sex": pa.array(rng.choice(["F", "M"], rows).tolist()),
            "income": gaps(np.round(rng.exponential(1000.0, rows), 2).tolist(), pa.float64()),
            "job": pa.array(rng.choice(["clerk", "smith", "baker"], rows).tolist()),
            "member": pa.array(rng.random(rows) < 0.3),
            "since": gaps(
                rng.integers(11000, 19000, rows).astype("datetime64[D]").tolist(), pa.date32()
            ),
            "region": gaps(rng.choice(["north", "south", "west"], rows).tolist(), pa.string()),
            "note": pa.array([f"note {i % 11}" for i in range(rows)], pa.large_string()),
        }
    )


def _write_bundle(folder: Path, contract: Contract, seed: int = 0) -> Path:
    """A proxy as publishing leaves it: a random tree of nine proxy groups in place of a learned
    one.
    """
    rng = np.random.default_rng(seed)
    training = _people(500, 99).select(FEATURES).to_pandas()
    encoder = TableEncoder(column_specs(contract), contract.unseen_categories).fit(training)  # type: ignore[arg-type]
    matrix = encoder.transform(training)
    proxy = ProxyTree().fit(matrix, sensitive_features={"sex": rng.choice(["F", "M"], 500)})
    nodes = 8
    one = [2 * i + 1 if 2 * i + 1 < nodes else -1 - (2 * i + 1 - nodes) for i in range(nodes)]
    zero = [2 * i + 2 if 2 * i + 2 < nodes else -1 - (2 * i + 2 - nodes) for i in range(nodes)]
    sizes = rng.integers(1, 4, nodes)
    width = matrix.shape[1]
    proxy.graph_ = SplittingGraph(
        coefficients=rng.normal(size=(sizes.sum(), width)),
        intercepts=rng.normal(size=sizes.sum()),
        mixture=np.concatenate([rng.dirichlet(np.ones(size)) for size in sizes]),
        starts=np.append(0, np.cumsum(sizes)).astype(np.int64),
        one=np.array(one),
        zero=np.array(zero),
    )
    groups = proxy.graph_.groups
    proxy.acceptance_ = rng.random(groups)
    proxy.masses_ = proxy.graph_.shares(matrix).mean(axis=0)
    proxy.compositions_ = rng.dirichlet([1.0, 1.0], groups)
    folder.mkdir(parents=True, exist_ok=True)
    proxy.save(folder / "model")
    encoder.save(folder / "encoder.json")
    inputs = {
        "features": FEATURES,
        "booleans": ["member"],
        "sensitive": ["sex"],
        "contract": contract.to_dict(),
    }
    (folder / "inputs.json").write_text(json.dumps(inputs))
    balance = {
        "groups": ["sex=F", "sex=M"],
        "compositions": proxy.compositions_.tolist(),
        "rows": [40.0] * groups,
        "target": [0.5, 0.5],
    }
    (folder / "balance.json").write_text(json.dumps(balance))
    return folder


@pytest.fixture(scope="session")
def people() -> Callable[..., pa.Table]:
    """``people(rows, seed, start)``: a table that keeps the contract; ids run from `start`."""
    return _people


@pytest.fixture(scope="session")
def make_contract() -> Callable[..., Contract]:
    """The contract, with other options."""
    return _contract


@pytest.fixture(scope="session")
def make_bundle(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., ProxyBundle]:
    """A loaded proxy under a contract with other options."""
    known: dict[str, ProxyBundle] = {}

    def make(seed: int = 0, **options: Any) -> ProxyBundle:
        name = repr((seed, sorted(options.items())))
        if name not in known:
            folder = tmp_path_factory.mktemp("bundle")
            known[name] = ProxyBundle.load(_write_bundle(folder, _contract(**options), seed), "7")
        return known[name]

    return make


@pytest.fixture(scope="session")
def bundle_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A proxy on disk."""
    return _write_bundle(tmp_path_factory.mktemp("proxy"), _contract())


@pytest.fixture(scope="session")
def bundle(bundle_folder: Path) -> ProxyBundle:
    """The proxy of `bundle_folder`."""
    return ProxyBundle.load(bundle_folder, "7")


@pytest.fixture(scope="session")
def put() -> Callable[..., Path]:
    """Write a table as the format that a path's ending says."""

    def write(table: pa.Table, path: Path, row_group: int = 1000) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".parquet":
            pq.write_table(table, path, row_group_size=row_group)
        else:
            with pa.output_stream(path) as stream:  # compresses by the ending
                pyarrow.csv.write_csv(table, stream)
        return path

    return write


@pytest.fixture(scope="session")
def kept() -> Callable[[Path], pa.Table]:
    """All parts of an output, in the order of their names."""

    def read(folder: Path) -> pa.Table:
        parts = [pq.read_table(path) for path in sorted(Path(folder).glob("part-*.parquet"))]
        return pa.concat_tables(parts, promote_options="permissive")

    return read
