"""Memory that a training is expected to need, and where its rows are: in memory, or in files."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.data_contracts.model import Contract
from evenhand.fairlib.execution import free_memory
from evenhand.fairlib.methods.registry import METHODS
from evenhand.flows.checked_job import CheckedJob
from evenhand.flows.engine import Steps
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.execution.store import Store, default_store_url
from evenhand.tasks.sources.lakes import lake_of

GB = 1e9
UNITS = {"MB": 1e6, "GB": GB, "TB": 1e12, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
# Of a process with the libraries, after the steps before.
PROCESS = 0.7 * GB
# Bytes of a row in addition to the matrix: its label and position; with its groups; and what trees
# add, gradients, margins and places. With 40 million rows they give 3.94 GB for trees with bins in
# files, which took 3.37.
LABEL_ROW = 24
ROW = 48
TREE_ROW = 52
# Bytes of a neighbour in a list: its row and distance.
NEIGHBOUR = 12
# Of the pages of XGBoost's external memory that are written, or read ahead.
PAGES = 0.2 * GB
# A table needs no message before a run whose training needs less.
WORTH_SAYING = 2 * GB
LARGE_FILES = 64e6
# Bytes of the artifacts `raw`, `checked` and `dataset`, in those of the table's Parquet files.
COPIES = 3.3
DASK_VARIABLE = "DASK_SCHEDULER_ADDRESS"


@dataclass(frozen=True)
class Place:
    """Where a training has its rows."""

    kind: str  # memory; rows: in a mapped file; pages: also the bins of trees in files
    needed: float  # bytes of memory
    note: str | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the steps; none for rows in memory, whose keys are those without a
        limit.
        """
        if self.kind == "memory":
            return {}
        return {"on_disk": self.kind}


def budget(memory: str | None, workers_free: Sequence[float] = ()) -> float:
    """Bytes that a run may use: the job's key ``memory``, or what is free next to this process or a
    worker.
    """
    if memory is None:
        return PROCESS + min(workers_free or [free_memory()])
    match = re.fullmatch(r"([\d.]+) ?(\w+)", memory)
    assert match is not None, "the job's key has a number and a unit"
    number, unit = match.groups()
    return float(number) * UNITS[unit]


def training_workers(method: str, workers_free: Sequence[float]) -> int:
    """Workers that train such a method together where its rows are in files, each with a share of
    them.
    """
    if not METHODS[method].paged:
        return 1
    return max(len(workers_free), 1)


def place_for(
    method: str,
    rows: int,
    width: int,
    memory: str | None,
    arguments: Mapping[str, Any] | None = None,
    *,
    workers_free: Sequence[float] = (),
) -> Place:
    """Choose where so many encoded training rows are: in memory where they fit.

    `workers_free` are the bytes that each worker of the run's cluster may still take. Raises
    `InputError` if the method cannot train on them within the memory.
    """
    limit = budget(memory, workers_free)
    matrix = 4.0 * rows * width
    workers = training_workers(method, workers_free)
    options = _options(method, rows, width, arguments, workers=workers)
    chosen = next((kind for kind, needed in options.items() if needed <= limit), None)
    size = f"{rows:,} training rows of {width:,} numbers"
    if chosen is None:
        least = min(options.values())
        cure = _cure(method, rows, width, limit, workers_free)
        raise InputError(
            f"method {method} needs {_text(least)} of memory for {size}, and "
            f"{_limit(memory, limit)}: {cure}, or give it more memory."
        )
    if chosen == "memory":
        return Place(chosen, options[chosen])
    where = "in files"
    if chosen == "pages":
        where = "in files, and so are XGBoost's bins"
    note = (
        f"{size}, {_text(matrix)}, were {where}: training in memory would need "
        f"{_text(options['memory'])}, and {_limit(memory, limit)}"
    )
    return Place(chosen, options[chosen], note)


def _cure(method: str, rows: int, width: int, limit: float, workers_free: Sequence[float]) -> str:
    """Name a similar method that can train on the rows within the limit, or else a sample."""
    for name in (METHODS[method].plain, "reweigh", "gbdt"):
        workers = training_workers(name, workers_free)
        least = min(_options(name, rows, width, workers=workers).values())
        if name != method and least <= limit:
            return f"use {name}"
    return "draw a sample of the table by a query"


def _options(
    method: str,
    rows: int,
    width: int,
    arguments: Mapping[str, Any] | None = None,
    *,
    workers: int = 1,
) -> dict[str, float]:
    """Bytes that a training needs, by where its rows are; the places that the method knows."""
    spec = METHODS[method]
    matrix = 4.0 * rows * width
    most, nearest = spec.lists
    neighbours = (arguments or {}).get("neighbours", "auto")
    if neighbours != "auto":
        most = rows
        nearest = neighbours or 0
    options = {"memory": PROCESS + (ROW + spec.row_bytes) * rows + spec.matrices * matrix}
    options["memory"] += NEIGHBOUR * nearest * min(most, rows)
    row_bytes = LABEL_ROW
    if spec.needs_groups:
        row_bytes = ROW
    base = PROCESS + row_bytes * rows
    if spec.mapped is not None:
        options["rows"] = base + spec.mapped * matrix / workers
    if spec.paged:
        options["rows"] += TREE_ROW * rows / workers
        options["pages"] = base + TREE_ROW * rows / workers + PAGES
    return options


def place_of(resolved: CheckedJob, steps: Steps) -> Place:
    """Choose the place of a run's training rows, once they are encoded.

    Raises `NotCarriedOut` if the disk has no room for them.
    """
    facts = steps.facts("preprocess")
    rows = facts["train_rows"]
    width = facts["features"]
    rows = steps.facts("balance").get("rows_after", rows)
    workers_free = steps.engine.execution.workers_free
    place = place_for(
        resolved.method,
        rows,
        width,
        resolved.job.memory,
        resolved.arguments,
        workers_free=workers_free,
    )
    if place.kind != "memory":
        workers = training_workers(resolved.method, workers_free)
        needed = workers * _on_disk(resolved, place, rows, width)
        _check_disk(needed, "the training rows need", steps.store.scratch())
    return place


def _on_disk(resolved: CheckedJob, place: Place, rows: int, width: int) -> float:
    """Bytes of temporary files of a training at most.

    These are the rows, half of a copy with joined one-hot columns, and bins; a copy where a control
    is blind to some inputs, and one where a second training holds rows out for the calibration.
    """
    copies = {"memory": 0.0, "rows": 1.5, "pages": 1.75}[place.kind]
    blind = any(column.is_feature for column in resolved.contract.sensitive)
    folds = resolved.job.decision.folds is not None
    again = resolved.job.decides and resolved.arguments.get("n_iter_no_change", 0) is None
    return 4.0 * width * rows * (copies + bool(copies) * max(blind + again, folds))


def _check_disk(needed: float, what: str, folder: Path) -> None:
    folder = folder.absolute()
    free = shutil.disk_usage(next(part for part in (folder, *folder.parents) if part.exists())).free
    if needed > free:
        raise NotCarriedOut(
            f"{what} {_text(needed)} of disk while steps run, and {folder} has {_text(free)}: free "
            "some, or set EVENHAND_STORE to a larger disk."
        )


def expected(resolved: CheckedJob, store_url: str | None = None) -> str | None:
    """One line about a large table's training and time, before anything runs; None for other
    tables.

    The table's rows are known beforehand only of local Parquet files, and the time by the job's
    last run in a local store that had to run every step: it grows about as the rows do. Raises
    `InputError` as :func:`place_for` does, and `NotCarriedOut` if the store's disk has no room for
    what the steps write.
    """
    on_cluster = resolved.job.engine.dask or os.environ.get(DASK_VARIABLE)
    if resolved.is_proxy or (on_cluster and resolved.job.memory is None):
        return None  # the cluster's workers are not asked yet
    rows, size = _rows_before(resolved.source())
    if rows is None:
        return None
    trained = round(rows * (1 - resolved.job.split.test))
    width = encoded_width(resolved.contract)
    place = place_for(resolved.method, trained, width, resolved.job.memory, resolved.arguments)
    written = COPIES * size + _on_disk(resolved, place, trained, width)
    folder = Store.local_folder(store_url or default_store_url())
    _check_disk(written, f"{rows:,} rows need about", folder)
    needed = _options(resolved.method, trained, width, resolved.arguments)["memory"]
    if needed < WORTH_SAYING:
        return None
    message = f"{rows:,} rows: training will need about {_text(needed)} of memory"
    if place.kind != "memory":
        message = (
            f"{rows:,} rows: training in memory would need about {_text(needed)}; its rows will be "
            f"in files, and it will need {_text(place.needed)}"
        )
    return message + _time_estimate(folder, resolved.job.name, rows)


def _time_estimate(folder: Path, job: str, rows: int) -> str:
    """Estimate the time by the job's last run that ran every step; empty if there was none."""
    # imported lazily, as it imports a library of templates
    from evenhand.tasks.pages import formats

    paths = (folder / "runs").glob(f"*-{job}-??????/verdict.json")
    for path in sorted(paths, reverse=True):
        verdict = json.loads(path.read_text())
        if verdict.get("rows") and not verdict["cached"] and not verdict["error"]:
            took = sum(verdict["seconds"].values())
            about = formats.seconds(took * rows / verdict["rows"])
            return (
                f"; {verdict['rows']:,} rows took {formats.seconds(took)}, so expect about {about}"
            )
    return ""


def _rows_before(source: dict[str, Any]) -> tuple[int | None, float]:
    """Rows of local Parquet files by their metadata, None for other and for small ones; and their
    bytes.
    """
    path = Path(source["path"] or "")
    if not source["path"] or not path.exists() or lake_of(path):
        # a lake also has files of other versions
        return None, 0.0
    files = _files(path)
    size = sum(file.stat().st_size for file in files)
    if size < LARGE_FILES or path.suffix not in (".parquet", ".pq", ""):
        return None, size
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return sum(pq.read_metadata(file).num_rows for file in files), size
    except (pa.ArrowException, OSError):
        return None, size  # ingest reports it


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(path.rglob("*.parquet"))


def encoded_width(contract: Contract) -> int:
    """Columns of the encoded matrix, as far as the contract states them."""
    widths = {"onehot": None, "calendar": 3}
    return sum(widths.get(c.encoding or "", 1) or len(c.allowed or "x") for c in contract.features)


def _limit(memory: str | None, limit: float) -> str:
    if memory:
        return f"memory is {memory}"
    return f"there are {_text(limit)}"


def _text(size: float) -> str:
    if size >= GB:
        return f"{size / GB:,.1f} GB"
    return f"{size / 1e6:,.0f} MB"
