"""Writing a part: the input's types, whatever form the rows had on their way."""

from __future__ import annotations

import base64
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["PartWriter"]

# A row group is written once it holds this many bytes or rows.
GROUP_BYTES = 32 << 20
GROUP_ROWS = 1 << 19


class PartWriter:
    """
    Writes batches as one Parquet file, or none if no row comes.

    Parameters
    ----------
    path : Path
    schema : pyarrow.Schema
        The types that readers will find. Text may arrive as dictionaries: these are written as they are,
        which is much quicker than decoding them, and Parquet's own types are the same for both.
    compression : str
    dictionaries : list of str or True
        Columns for which a dictionary is worth trying.

    Notes
    -----
    The bytes depend on the rows alone, not on how they are cut into batches beyond the row groups.
    """

    def __init__(
        self, path: Path, schema: pa.Schema, compression: str, dictionaries: list[str] | bool = True
    ) -> None:
        self.path, self.schema = path, schema
        self.rows = 0
        self._options = {"compression": compression, "use_dictionary": dictionaries}
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._size = [0, 0]

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows."""
        if not batch.num_rows:
            return
        self.rows += batch.num_rows
        self._waiting.append(batch)
        self._size[0] += batch.num_rows
        self._size[1] += batch.nbytes
        if self._size[0] >= GROUP_ROWS or self._size[1] >= GROUP_BYTES:
            self._flush()

    def close(self) -> bool:
        """Finish the file; False if there is none."""
        if self._waiting:
            self._flush()
        if self._writer is None:
            return False
        # readers take the types from here where Parquet has fewer
        types = base64.b64encode(self.schema.remove_metadata().serialize().to_pybytes()).decode()
        self._writer.add_key_value_metadata({"ARROW:schema": types})
        self._writer.close()
        return True

    def _flush(self) -> None:
        table = _with_one_dictionary(pa.Table.from_batches(self._waiting))
        if self._writer is None:
            self._writer = pq.ParquetWriter(self.path, table.schema, store_schema=False, **self._options)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._waiting, self._size = [], [0, 0]


def _with_one_dictionary(table: pa.Table) -> pa.Table:
    """One dictionary a column, without which the writer would fall back to plain text."""
    try:
        return table.unify_dictionaries()
    except pa.ArrowException:  # more values than the type of the indices can count
        return table
