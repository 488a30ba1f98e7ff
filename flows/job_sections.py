"""Sections of a job: what stands under its keys."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from fairlib.evaluation.evaluate import MIN_DRAWS
from flows.section import Section

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
]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
ALIAS = "^[A-Za-z0-9_-]{1,80}$"


class TableSource(Section):
    """Where the table is: a known name, a file or folder or URL, or a query."""

    name: str
    path: str | None = None
    format: Literal["csv", "parquet"] | None = None
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    null_values: list[str] | None = None
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    sql: str | None = None
    connection: str | None = None
    rows: Annotated[int, Field(ge=10)] | None = None


class Split(Section):
    """Share of test rows, and whether shares (of the label; for a proxy of the groups) are kept equal."""

    test: Annotated[float, Field(gt=0, lt=1)] = 0.2
    stratify: bool = True


class Certificate(Section):
    """The audit of comparable treatment: mean squared fair distance that its adversary may move people."""

    budget: Annotated[float, Field(ge=0)]


class Evaluate(Section):
    """What is measured."""

    counterfactuals: dict[str, dict[str, list[str | int | float | bool] | Literal["all"]]] = {}
    draws: Annotated[int, Field(ge=0, le=100_000)] = 1000
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    min_cell: Annotated[int, Field(ge=1)] = 5
    intersections: bool = False
    certificate: Certificate | None = None

    @field_validator("draws")
    @classmethod
    def _enough_draws(cls, value: int) -> int:
        if 0 < value < MIN_DRAWS:
            raise ValueError(f"expected at least {MIN_DRAWS} draws for an interval, or 0 for none")
        return value


class Paper(Section):
    """The row of a paper that the report shows beside ours."""

    source: str
    row: dict[str, tuple[float, float | None]]


class Publish(Section):
    """Name in the model registry and the alias that a passing model takes."""

    model: Annotated[str, Field(pattern=f"^{NAME.pattern}$")] | None = None
    alias: Annotated[str, Field(pattern=ALIAS)] = "champion"
    intended_use: str | None = None

    @field_validator("alias")
    @classmethod
    def _free_alias(cls, value: str) -> str:
        if re.fullmatch(r"latest|v\d+", value, re.IGNORECASE):
            raise ValueError("the registry keeps `latest` and version numbers for itself: take another word")
        return value


class _InParallel(Section):
    """Who carries work out, and how many at a time; `address` is that of a running Dask scheduler."""

    engine: str
    workers: Annotated[int, Field(ge=1)] | None = None
    address: str | None = None

    @model_validator(mode="after")
    def _address_of_dask(self) -> Self:
        if self.address is not None and self.engine != "dask":
            raise ValueError("address is that of a Dask scheduler: set engine to dask, or leave it out")
        return self


class Sweep(_InParallel):
    """Who carries out a grid of runs: worker processes of this machine, or Dask."""

    engine: Literal["processes", "dask"] = "processes"


class Balance(Section):
    """A published proxy that decides which training rows a classifier learns from."""

    proxy: Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
    alias: Annotated[str, Field(pattern=ALIAS)] = "champion"


class Filter(_InParallel):
    """How a published proxy filters files, and who carries it out: threads of this process, or Dask."""

    seed: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    key: Annotated[list[str], Field(min_length=1)] | None = None
    probability: bool = False
    sensitive: Literal["drop", "refuse"] = "drop"
    format: Literal["parquet", "csv"] | None = None
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    null_values: list[str] | None = None
    compression: Literal["snappy", "zstd", "gzip", "lz4", "none"] = "snappy"
    rows_per_unit: Annotated[int, Field(ge=1)] = 1_000_000
    max_drift: Annotated[float, Field(ge=0)] = 0.2
    engine: Literal["threads", "dask"] = "threads"
