"""Balance: keep those training rows that a batch filter with a published proxy would keep."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenhand.data_contracts.arrow import decode
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.execution.dataset import filter_dataset
from evenhand.tasks.execution.step import StepContext, StepResult
from evenhand.tasks.filtering.filter_bundle import FilterSettings, ProxyBundle, key_columns
from evenhand.tasks.registry.client import fetch_bundle

MIN_ROWS = 20


def balance(context: StepContext) -> StepResult:
    """Write `train/`, the accepted training rows; test rows are not filtered.

    A row's uniform number is a hash of the seed and of the batch filter's default key.
    """
    parameters = context.parameters
    name = parameters["proxy"]
    version = parameters["version"]
    folder = fetch_bundle(parameters["tracking_uri"], name, version, context.workdir / "published")
    if not (folder / "balance.json").exists():
        raise InputError(
            f"balance.proxy {name!r} names a published model that is no proxy: give the name that "
            "a proxy's job publishes."
        )
    bundle = ProxyBundle.load(folder, f"{name} {version}")
    labels = pq.read_table(context.inputs["train"] / "y.parquet")
    table = pq.read_table(context.inputs["checked"])
    for column in bundle.features:
        if column not in table.column_names:
            raise InputError(
                f"balance.proxy {name!r} needs the column {column!r}, which this job's table "
                "lacks: use a proxy of this table."
            )
    rows = pa.table({column: decode(table[column]) for column in bundle.features}).take(
        labels["row"]
    )
    with input_errors(f"balance.proxy {name!r} does not fit this table: "):
        accepted = bundle.raw.evaluate(rows).probabilities
        numbers = bundle.uniforms(rows, key_columns(bundle, FilterSettings()), parameters["seed"])
    keep = numbers < accepted
    kept_labels = labels["label"].to_numpy()[keep]
    cure = "use a proxy that keeps more, or more rows."
    if len(kept_labels) < MIN_ROWS:
        few = f"{len(kept_labels)} of {len(keep)} training rows, too few to learn from"
        raise InputError(f"balance.proxy {name!r} keeps {few}: {cure}")
    if np.unique(kept_labels).size < 2:
        raise InputError(
            f"balance.proxy {name!r} keeps training rows of one value of the label only: {cure}"
        )
    filter_dataset(context.inputs["train"], context.workdir / "train", keep)
    return StepResult(
        {"train": (context.workdir / "train", "dataset")},
        {
            "proxy": name,
            "version": version,
            "rows_before": len(keep),
            "rows_after": int(keep.sum()),
            "rows_expected": float(accepted.sum()),
        },
    )
