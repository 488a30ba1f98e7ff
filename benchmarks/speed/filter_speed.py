"""Speed and memory of the batch filter on rows like Adult's, beside Arrow's own reading and
writing.

Run ``python -m benchmarks.speed.filter_speed --rows 2e6 20e6 60e6 --folder SCRATCH`` with ``EVENHAND_DATA``
set. For each size a Parquet file is made by resampling Adult with a running id, and deleted
afterwards. The engine and a plain read and rewrite of the same file take turns in one process;
times are medians. Peak memory is that of a fresh process per size that filters once.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenhand.data_contracts.odcs import load_contract
from evenhand.fairlib.datasets.recipes import RECIPES
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder
from evenhand.fairlib.proxies.graph import SplittingGraph
from evenhand.fairlib.proxies.raw import RawAcceptance
from evenhand.tasks.filtering.checks import RowFilter
from evenhand.tasks.filtering.filter_bundle import FilterSettings, ProxyBundle, sensitive_columns
from evenhand.tasks.filtering.filter_engine import process_files

SETTINGS = FilterSettings(seed=0, key=("id",))
NODES, HALFSPACES = 20, 6
BATCH_ROWS = 1 << 17


def main() -> None:
    """Measure everything and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, nargs="+", default=[2e6, 20e6, 60e6])
    parser.add_argument("--row-group", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("filter-benchmark"))
    parser.add_argument("--proxy", help="folder of a published proxy; default: a random one")
    parser.add_argument("--once", type=Path, help="filter this file once and print the peak memory")
    arguments = parser.parse_args()
    if arguments.once is not None:
        print(json.dumps(_once(arguments.once, arguments.folder / "once", arguments.proxy)))
        return
    from benchmarks.common import provenance, write_result

    result = provenance("python -m benchmarks.speed.filter_speed " + " ".join(sys.argv[1:]))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    result["sizes"] = [_measure(int(rows), arguments) for rows in arguments.rows]
    write_result("filtering", result)
    print(json.dumps({key: result[key] for key in ("machine", "sizes")}, indent=1))


def _measure(rows: int, arguments: argparse.Namespace) -> dict[str, Any]:
    file = arguments.folder / f"adult-{rows}.parquet"
    out, copy = arguments.folder / "filtered", arguments.folder / "copy.parquet"
    print(f"{rows:,} rows", file=sys.stderr)
    make_file(file, rows, arguments.row_group)
    bundle = _bundle(arguments.proxy)

    def filtered() -> None:
        shutil.rmtree(out, ignore_errors=True)
        summary = process_files(RowFilter(bundle, SETTINGS), str(file), str(out))
        assert summary.rows_in == rows, summary

    filtered()  # compile
    pairs = [
        (_timed(filtered), _timed(lambda: rewrite(file, copy))) for _ in range(arguments.repeats)
    ]
    ours, plain = (statistics.median(times) for times in zip(*pairs, strict=True))
    command = [sys.executable, "-m", "benchmarks.speed.filter_speed", "--once", str(file)]
    command += [
        "--folder",
        str(arguments.folder),
        *(["--proxy", arguments.proxy] if arguments.proxy else []),
    ]
    once = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    size = file.stat().st_size
    for place in (out, arguments.folder / "once"):
        shutil.rmtree(place, ignore_errors=True)
    for path in (file, copy):
        path.unlink(missing_ok=True)
    return {
        "rows": rows,
        "file_mb": round(size / 1e6, 1),
        "row_group": arguments.row_group,
        "repeats": arguments.repeats,
        "proxy_groups": len(bundle.masses),
        "halfspaces": len(bundle.raw.graph.intercepts),
        "matrix_columns": len(bundle.raw.encoder.feature_names_),
        "filter_s": round(ours, 2),
        "filter_rows_per_s": round(rows / ours),
        "rewrite_s": round(plain, 2),
        "rewrite_rows_per_s": round(rows / plain),
        "share_of_rewrite_throughput": round(statistics.median(b / a for a, b in pairs), 2),
        **once,
    }


def _once(file: Path, out: Path, proxy: str | None) -> dict[str, Any]:
    shutil.rmtree(out, ignore_errors=True)
    summary = process_files(RowFilter(_bundle(proxy), SETTINGS), str(file), str(out))
    return {"rows_out": summary.rows_out, "peak_memory_mb": round(_peak_mib())}


def _peak_mib() -> float:
    """Peak resident memory of this program (MiB)."""
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    # not ru_maxrss, which on Linux begins with the peak of the process that started this one
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def make_file(path: Path, rows: int, row_group: int) -> None:
    """Write resampled Adult rows with a running id, one row group at a time."""
    table = pa.Table.from_pandas(_adult(), preserve_index=False).replace_schema_metadata(None)
    rng = np.random.default_rng(0)
    writer = None
    for start in range(0, rows, row_group):
        count = min(row_group, rows - start)
        part = table.take(pa.array(rng.integers(0, len(table), count)))
        part = part.add_column(0, "id", pa.array(np.arange(start, start + count)))
        writer = writer or pq.ParquetWriter(path, part.schema)
        writer.write_table(part, row_group_size=row_group)
    if writer is not None:
        writer.close()


def rewrite(source: Path, target: Path) -> None:
    """Read and write every row as Arrow does by default, in the engine's batches and
    compression.
    """
    with pq.ParquetFile(source) as file, pq.ParquetWriter(target, file.schema_arrow) as writer:
        for batch in file.iter_batches(BATCH_ROWS):
            writer.write_batch(batch)


def _adult() -> Any:
    folder = Path(os.environ["EVENHAND_DATA"])
    recipe = RECIPES["adult"]
    return recipe.read({raw.name: folder / raw.name for raw in recipe.files})


def _bundle(folder: str | None) -> ProxyBundle:
    return ProxyBundle.load(folder) if folder else _random_bundle()


def _random_bundle() -> ProxyBundle:
    """A random tree of randomised splits over all of Adult's encoded features."""
    contract = load_contract("adult")
    specs = []
    for column in sorted(contract.features, key=lambda column: column.encoding != "standard"):
        if column.role != "sensitive":
            specs.append(ColumnSpec(column.name, column.encoding, None))  # type: ignore[arg-type]
    encoder = TableEncoder(specs).fit(_adult())
    rng = np.random.default_rng(0)
    one, zero = np.zeros(NODES, np.int64), np.zeros(NODES, np.int64)
    node = leaf = 1
    for parent in range(NODES):
        for children in (one, zero):
            if node < NODES:
                children[parent], node = node, node + 1
            else:
                children[parent], leaf = -leaf, leaf + 1
    sizes = rng.integers(1, HALFSPACES + 1, NODES)
    graph = SplittingGraph(
        coefficients=rng.normal(size=(sizes.sum(), len(encoder.feature_names_))),
        intercepts=rng.normal(size=sizes.sum()),
        mixture=np.concatenate([rng.dirichlet(np.ones(size)) for size in sizes]),
        starts=np.append(0, np.cumsum(sizes)).astype(np.int64),
        one=one,
        zero=zero,
    )
    acceptance = rng.random(graph.groups)
    return ProxyBundle(
        encoder=encoder,
        raw=RawAcceptance(encoder, graph, acceptance / acceptance.max()),
        masses=np.full(graph.groups, 1 / graph.groups),
        contract=contract,
        features=tuple(spec.name for spec in specs),
        sensitive=sensitive_columns(contract, []),
        digest="random",
    )


def _timed(action: Callable[[], Any]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
