"""Hand-made people and the contract that they keep, shared by the tests beside this file."""

from __future__ import annotations

import pyarrow as pa

PEOPLE = """
apiVersion: v3.0.2
kind: DataContract
id: people
name: people
version: 1.2.0
status: active
description:
  purpose: Hand-made people.
schema:
- name: people
  logicalType: object
  quality:
  - {type: library, rule: rowCount, mustBeBetween: [4, 1000]}
  properties:
  - name: key
    logicalType: string
    required: true
    customProperties:
    - {property: role, value: id}
  - name: age
    logicalType: integer
    required: true
    logicalTypeOptions: {minimum: 18, maximum: 99}
    customProperties:
    - {property: role, value: sensitive}
    - {property: use, value: feature}
    - {property: bins, value: [25, 60]}
  - name: sex
    logicalType: string
    quality:
    - {type: library, rule: validValues, validValues: [Male, Female]}
    customProperties:
    - {property: role, value: sensitive}
  - name: income
    logicalType: number
    required: true
    logicalTypeOptions: {minimum: 0}
    customProperties:
    - {property: role, value: feature}
  - name: job
    logicalType: string
    required: true
    quality:
    - {type: library, rule: validValues, validValues: [clerk, smith, 'no']}
    customProperties:
    - {property: role, value: feature}
  - name: since
    logicalType: date
    logicalTypeOptions: {minimum: 2000-01-01}
    customProperties:
    - {property: role, value: feature}
  - name: paid
    logicalType: boolean
    required: true
    customProperties:
    - {property: role, value: label}
    - {property: positive, value: true}
"""


def make_people(rows: int = 20) -> pa.Table:
    """A table that keeps the contract."""
    days = pa.array([11000 + i for i in range(rows)], pa.int32()).cast(pa.date32())
    return pa.table(
        {
            "key": [f"secret-{i}" for i in range(rows)],
            "age": pa.array([20 + i % 50 for i in range(rows)], pa.int64()),
            "sex": [("Male", "Female")[i % 2] for i in range(rows)],
            "income": [1000.0 + i for i in range(rows)],
            "job": [("clerk", "smith", "no")[i % 3] for i in range(rows)],
            "since": days,
            "paid": [i % 4 == 0 for i in range(rows)],
        }
    )


def put(
    table: pa.Table, name: str, values: dict[int, object], kind: pa.DataType | None = None
) -> pa.Table:
    """Replace single values of a column."""
    index = table.column_names.index(name)
    column = table.column(name).to_pylist()
    for row, value in values.items():
        column[row] = value
    return table.set_column(index, name, pa.array(column, kind or table.column(name).type))
