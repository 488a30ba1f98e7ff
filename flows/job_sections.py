"""Sections of a job: what stands under its keys."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from evenhand.fairlib.evaluation.evaluate import MIN_DRAWS
from evenhand.flows.section import Section

__all__ = [
    "NAME",
    "Balance",
    "Evaluate",
    "Filter",
    "Paper",
    "Publish",
    "Split",
    "Sweep",
    "TableSource",
    "plain_alias",
]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
ALIAS = "^[A-Za-z0-9_-]{1,80}$"


def plain_alias(value: str) -> str:
    """
    Give back an alias that the registry accepts.

    Raises
    ------
    ValueError
        It does not.
    """
    if not re.fullmatch(ALIAS.strip("^$"), value):
        raise ValueError("use letters, digits, dashes and underscores")
    if re.fullmatch(r"latest|v\d+", value, re.IGNORECASE):
        raise ValueError("the registry keeps `latest` and version numbers for itself: take another word")
    return value


class TableSource(Section):
    """Where the table is: a known name, a file or folder or URL, or a query."""

    name: str
    """A known table (`evenhand datasets`), or what the table is to be called."""
    path: str | None = None
    """File, folder of Parquet files or URL; relative to the job file. A known table needs none."""
    format: Literal["csv", "parquet"] | None = None
    """Default: told by the file's ending."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """Of a CSV file; default: found in its header."""
    null_values: list[str] | None = None
    """What counts as missing in a CSV file; default: the usual spellings."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """Digest that the file must have."""
    sql: str | None = None
    """Query to read instead of a file."""
    connection: str | None = None
    """SQLAlchemy URL for the query, or `$NAME` of the environment variable that has it."""
    rows: Annotated[int, Field(ge=10)] | None = None
    """How many rows to generate, for the table `loans` alone; default: 20,000."""


class Split(Section):
    """Share of test rows, and whether shares (of the label; for a proxy of the groups) are kept equal."""

    test: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """Share of the rows that are held out for all measurements."""
    stratify: bool = True
    """Keep the shares of the label, or of a proxy's groups, alike on both sides."""


class Certificate(Section):
    """The audit of comparable treatment: mean squared fair distance that its adversary may move people."""

    budget: Annotated[float, Field(ge=0)]
    """Mean squared fair distance that the adversary may move people."""


class Evaluate(Section):
    """What is measured."""

    counterfactuals: dict[str, dict[str, list[str | int | float | bool] | Literal["all"]]] = {}
    """By name the columns that a copy changes, with values or `all`; measured as `consistency.NAME`."""
    draws: Annotated[int, Field(ge=0, le=100_000)] = 1000
    """Bootstrap draws of the intervals; 0 for none."""
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Coverage of the intervals."""
    min_cell: Annotated[int, Field(ge=1)] = 5
    """Fewer people than this in a group, and its metrics have not enough evidence."""
    intersections: bool = False
    """Measure the crossed groups of all sensitive attributes too."""
    certificate: Certificate | None = None
    """Audit of comparable treatment; default: at the budget that the method trained with."""

    @field_validator("draws")
    @classmethod
    def _enough_draws(cls, value: int) -> int:
        if 0 < value < MIN_DRAWS:
            raise ValueError(f"expected at least {MIN_DRAWS} draws for an interval, or 0 for none")
        return value


class Paper(Section):
    """The row of a paper that the report shows beside ours."""

    source: str
    """Paper and table."""
    row: dict[str, tuple[float, float | None]]
    """By metric the printed mean and standard deviation; null where none is printed."""


class Publish(Section):
    """Name in the model registry and the alias that a passing model takes."""

    model: Annotated[str, Field(pattern=f"^{NAME.pattern}$")] | None = None
    """Name in the registry; default: the job's."""
    alias: Annotated[str, Field(pattern=ALIAS)] = "champion"
    """Alias that a passing model takes."""
    intended_use: str | None = None
    """A sentence for the model card."""

    @field_validator("alias")
    @classmethod
    def _free_alias(cls, value: str) -> str:
        return plain_alias(value)


class _InParallel(Section):
    """Who carries work out, and how many at a time; `address` is that of a running Dask scheduler."""

    engine: str
    """Who carries the work out."""
    workers: Annotated[int, Field(ge=1)] | None = None
    """How many at a time; default: one a core."""
    address: str | None = None
    """Of a running Dask scheduler; default: a cluster on this machine."""

    @model_validator(mode="after")
    def _address_of_dask(self) -> Self:
        if self.address is not None and self.engine != "dask":
            raise ValueError("address is that of a Dask scheduler: set engine to dask, or leave it out")
        return self


class Sweep(_InParallel):
    """Who carries out a grid of runs: worker processes of this machine, or Dask."""

    engine: Literal["processes", "dask"] = "processes"
    """Worker processes of this machine, or Dask."""


class Balance(Section):
    """A published proxy that decides which training rows a classifier learns from."""

    proxy: Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
    """Name of the published proxy."""
    alias: Annotated[str, Field(pattern=ALIAS)] = "champion"
    """Which version of it."""


class Filter(_InParallel):
    """How a published proxy filters files, and who carries it out: threads of this process, or Dask."""

    seed: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    """Of the rows' uniform numbers; default: the job's."""
    key: Annotated[list[str], Field(min_length=1)] | None = None
    """Columns that identify a row; default: all model inputs that are not sensitive."""
    probability: bool = False
    """Add the column `acceptance_probability`, which tells more than the kept row does."""
    sensitive: Literal["drop", "refuse"] = "drop"
    """Leave sensitive columns out of the output, or refuse a file that has one."""
    format: Literal["parquet", "csv"] | None = None
    """Of the input; default: by each file's ending."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """Of CSV input; default: found in the header."""
    null_values: list[str] | None = None
    """What counts as missing in CSV input; default: the usual spellings."""
    compression: Literal["snappy", "zstd", "gzip", "lz4", "none"] = "snappy"
    """Of the output."""
    rows_per_unit: Annotated[int, Field(ge=1)] = 1_000_000
    """Rows of an output part at most; a Parquet row group is never divided."""
    max_drift: Annotated[float, Field(ge=0)] = 0.2
    """Population stability index above which the report warns."""
    settle_seconds: Annotated[float, Field(ge=0)] | None = None
    """The input is watched: files changed within so many seconds wait, and nothing new is no error."""
    engine: Literal["threads", "dask"] = "threads"
    """Threads of this process, or Dask."""
