"""The dataset folder that steps exchange: X, y, S of one part of the table, in the same row order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

__all__ = ["Dataset", "filter_dataset", "read_dataset", "write_dataset"]

METADATA = b"evenhand"
PARTS = ("X.parquet", "y.parquet", "S.parquet")


@dataclass(frozen=True)
class Dataset:
    """
    One part of a table.

    `X` is float32 of shape (n, d) with `names` and, per table column, the positions of its `groups`;
    `y` is 1 for the label's positive value; `rows` are positions in the checked table; `sensitive` holds the
    group of every row per attribute, `numbers` the value of numeric attributes.
    """

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    rows: NDArray[np.int64]
    names: list[str]
    groups: dict[str, list[int]]
    sensitive: dict[str, NDArray[np.object_]]
    numbers: dict[str, NDArray[np.float64]]


def write_dataset(
    folder: Path,
    *,
    X: NDArray[np.float32],
    y: NDArray[np.int64],
    rows: NDArray[np.int64],
    names: Sequence[str],
    groups: Mapping[str, Sequence[int]],
    kinds: Mapping[str, str],
    sensitive: Mapping[str, NDArray[np.str_]],
    numbers: Mapping[str, NDArray[np.float64]],
) -> None:
    """Write ``X.parquet`` (float32, groups and kinds in its metadata), ``y.parquet`` and ``S.parquet``."""
    folder.mkdir(parents=True)
    description = json.dumps({"groups": groups, "kinds": kinds}, sort_keys=True)
    features = pa.table([pa.array(X[:, j]) for j in range(X.shape[1])], names=list(names))
    pq.write_table(features.replace_schema_metadata({METADATA: description.encode()}), folder / "X.parquet")
    pq.write_table(pa.table({"row": rows, "label": y.astype(np.int8)}), folder / "y.parquet")
    columns = {f"group:{name}": pa.array(values.tolist(), pa.string()) for name, values in sensitive.items()}
    columns |= {f"value:{name}": pa.array(values) for name, values in numbers.items()}
    pq.write_table(pa.table(columns or {"row": rows}), folder / "S.parquet")


def read_dataset(folder: Path) -> Dataset:
    """Read what :func:`write_dataset` wrote."""
    features = pq.read_table(folder / "X.parquet")
    description = json.loads(features.schema.metadata[METADATA])
    target = pq.read_table(folder / "y.parquet")
    attributes: pd.DataFrame = pq.read_table(folder / "S.parquet").to_pandas()
    return Dataset(
        X=np.stack([column.to_numpy() for column in features.columns], axis=1),
        y=target["label"].to_numpy().astype(np.int64),
        rows=target["row"].to_numpy(),
        names=features.column_names,
        groups=description["groups"],
        sensitive={
            name.removeprefix("group:"): attributes[name].to_numpy(dtype=object)
            for name in map(str, attributes)
            if name.startswith("group:")
        },
        numbers={
            name.removeprefix("value:"): attributes[name].to_numpy(dtype=np.float64)
            for name in map(str, attributes)
            if name.startswith("value:")
        },
    )


def filter_dataset(source: Path, target: Path, keep: NDArray[np.bool_]) -> None:
    """Write the rows of a dataset for which `keep` is true as another."""
    target.mkdir(parents=True)
    for name in PARTS:
        table = pq.read_table(source / name)
        pq.write_table(table.filter(pa.array(keep)), target / name)
