"""The process that looks at an uploaded table before its audit: names of columns, and the values of
those with few.

Started as ``python -m evenhand.flows.app.columns_process TABLE`` within the limits of an audit. It
writes one JSON object on stdout, and nothing else anywhere.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from evenhand.flows.app.audit_process import limit

# Rows that are looked at, and values that are offered as choices.
MOST_ROWS = 20_000
MOST_VALUES = 12
MOST_COLUMNS = 500
LONGEST_VALUE = 80


def main() -> None:
    """Describe the table of the first argument."""
    limit()
    from evenhand.tasks.errors import EvenhandError

    try:
        document = {"columns": described_columns(Path(sys.argv[1]))}
    except EvenhandError as error:
        document = {"error": str(error)}
    sys.stdout.write(json.dumps(document))


def described_columns(table: Path) -> list[dict[str, Any]]:
    """Describe each column: its name, whether it has numbers, whether these are shares from 0 to 1,
    and its values if they are few.
    """
    import pyarrow as pa

    from evenhand.tasks.sources.table_reader import infer_table_forms, open_table

    source: dict[str, Any] = {"path": str(table)}
    source |= infer_table_forms(table, source).keys
    batches = []
    rows = 0
    reader = open_table(table, source)
    for batch in reader:
        batches.append(batch)
        rows += len(batch)
        if rows >= MOST_ROWS:
            break
    head = pa.Table.from_batches(batches, reader.schema).slice(0, MOST_ROWS)
    names = head.column_names[:MOST_COLUMNS]
    return [_described(name, head.column(name)) for name in names]


def _described(name: str, values: Any) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    from evenhand.data_contracts.column import value_text

    is_number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    is_share = False
    if is_number and len(values) > values.null_count:
        ends = pc.min_max(values).as_py()
        is_share = ends["min"] >= 0 and ends["max"] <= 1
    texts: list[str] = []
    distinct = values.unique().drop_null()
    if 0 < len(distinct) <= MOST_VALUES:
        texts = sorted(value_text(item) for item in distinct.to_pylist())
    if any(len(text) > LONGEST_VALUE for text in texts):
        texts = []
    return {"name": name, "is_number": is_number, "is_share": is_share, "values": texts}


if __name__ == "__main__":
    main()
