"""Steps on a table that is larger than what this process may still allocate; run by
test_run_memory_limit.py.

The arguments are an empty folder, the bytes beside what the process has after its first, tiny
table, and blocks, columns and rows a block of the large one."""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenhand.data_contracts.column import Column
from evenhand.data_contracts.model import Contract
from evenhand.tasks.execution.step import StepContext
from evenhand.tasks.steps.contract_step import contract
from evenhand.tasks.steps.controls_step import controls
from evenhand.tasks.steps.preprocess_step import preprocess
from evenhand.tasks.steps.train_step import train

NUMBERS, BLOCK = 100, 16_384


def contract_of(numbers: int = NUMBERS) -> Contract:
    """The contract of a table with so many numbers."""
    names = [f"n{j}" for j in range(numbers)]
    return Contract(
        "people",
        "1.0.0",
        "",
        (
            *(
                Column(name, "number", True, "", is_feature=True, encoding="standard")
                for name in names
            ),
            Column("sex", "string", True, "", role="sensitive", allowed=("F", "M")),
            Column("paid", "boolean", True, "", role="label", positive=True),
        ),
    )


def write(path: Path, blocks: int, numbers: int = NUMBERS, rows: int = BLOCK) -> int:
    """Write a table in blocks; return its bytes in memory."""
    rng, size = np.random.default_rng(0), 0
    schema = pa.schema(
        [
            *((f"n{j}", pa.float64()) for j in range(numbers)),
            ("sex", pa.string()),
            ("paid", pa.bool_()),
        ]
    )
    with pq.ParquetWriter(path, schema) as writer:
        for _ in range(blocks):
            drawn = rng.integers(0, 50, (numbers, rows)) / 2.0
            columns = [*drawn, rng.choice(["F", "M"], rows), drawn[0] + drawn[1] > 24]
            table = pa.table([pa.array(column) for column in columns], schema=schema)
            writer.write_table(table)
            size += table.nbytes
    return size


def run(folder: Path, blocks: int, numbers: int = NUMBERS, rows: int = BLOCK) -> int:
    """Run the steps; return the bytes of the table."""
    folder.mkdir()
    size = write(folder / "raw.parquet", blocks, numbers, rows)

    def step(function: Any, parameters: dict[str, Any], **inputs: Path) -> Any:
        workdir = folder / function.__name__
        workdir.mkdir()
        return function(StepContext(parameters, inputs, workdir, lambda *progress: None)).outputs

    described = {"contract": contract_of(numbers).to_dict()}
    checked = step(contract, described, raw=folder / "raw.parquet")["checked"][0]
    split = {"split": {"test": 0.2, "stratify": True}, "seed": 0}
    parts = step(preprocess, {**described, **split}, checked=checked)
    shared = {
        "method": "gbdt",
        "arguments": {"n_steps": 2, "max_depth": 2, "n_jobs": 1},
        "seed": 0,
        "on_disk": "rows",
    }
    step(train, shared, train=parts["train"][0])
    rule = {"threshold": "own", "rate": None, "costs": None, "equal": None}
    step(controls, {**shared, "calibration": "none", "decision": rule}, train=parts["train"][0])
    return size


def main() -> None:
    """Load all libraries on a tiny table, then lower the limit, and run the large one."""
    folder, beside, *shape = Path(sys.argv[1]), *map(int, sys.argv[2:])
    run(folder / "tiny", 1)
    lines = Path("/proc/self/status").read_text().splitlines()
    used = next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (used + beside, used + beside))
    size = run(folder / "large", *shape)
    sys.stdout.write(f"{size / beside:.2f} times the limit\n")
    assert size > beside


if __name__ == "__main__":
    main()
