"""Sections of a job: what stands under its keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from evenhand.fairlib.evaluation.evaluate import MIN_DRAWS

__all__ = [
    "DEFAULT_KIND",
    "METRIC_KINDS",
    "NAME",
    "Balance",
    "ComparableMetric",
    "Evaluate",
    "FairMetric",
    "Filter",
    "Paper",
    "Publish",
    "Section",
    "Split",
    "SubspaceMetric",
    "Sweep",
    "TableSource",
    "check_alias",
]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
ALIAS = "^[A-Za-z0-9_-]{1,80}$"


class Section(BaseModel):
    """
    A section of a job: unknown keys and numbers that are not finite are refused.

    The line below a key says what it means; the reference is made from these lines.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)


def check_alias(value: str) -> str:
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
    """How many rows to generate, for the tables `loans` (default: 20,000) and `hiring` (8,000) alone."""


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
        return check_alias(value)


class ParallelSection(Section):
    """Who carries work out, and how many at a time; `address` is that of a running Dask scheduler."""

    engine: str
    """Who carries the work out."""
    workers: Annotated[int, Field(ge=1)] | None = None
    """How many at a time; default: one a core."""
    address: str | None = None
    """Of a running Dask scheduler; default: a cluster on this machine."""

    @field_validator("address")
    @classmethod
    def _address_of_dask(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("engine") != "dask":
            raise ValueError("address is that of a Dask scheduler: set engine to dask, or leave it out")
        return value


class Sweep(ParallelSection):
    """Who carries out a grid of runs: worker processes of this machine, or Dask."""

    engine: Literal["processes", "dask"] = "processes"
    """Worker processes of this machine, or Dask."""


class Balance(Section):
    """A published proxy that decides which training rows a classifier learns from."""

    proxy: Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
    """Name of the published proxy."""
    alias: Annotated[str, Field(pattern=ALIAS)] = "champion"
    """Which version of it."""


class Filter(ParallelSection):
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


# the section `fair_metric`: one set of keys for each kind of metric

DEFAULT_KIND = "sensitive-subspace"
Names = Annotated[list[str], Field(min_length=1)]


class SubspaceMetric(Section):
    """The sensitive subspace; None means every sensitive attribute."""

    kind: Literal["sensitive-subspace"] = "sensitive-subspace"
    """How the metric is learned."""
    indicators: list[str] | None = None
    """Model inputs whose own columns are ignored; default: every sensitive one among them."""
    learned: list[str] | None = None
    """Attributes whose predictive direction is ignored; default: every sensitive one."""
    strength: Annotated[float, Field(gt=0)] = 0.1
    """Penalty of the logistic models that find the directions."""


class ComparableMetric(Section):
    """A metric learned from comparable people: counterfactual copies, or rows that share some values."""

    kind: str
    """How the metric is learned."""
    counterfactuals: Names | None = None
    """Learn from people and these copies of `evaluate.counterfactuals`; default: all of them."""
    comparable_by: Names | None = None
    """Or from people who share the values of these model inputs."""

    @model_validator(mode="after")
    def _one_source(self) -> ComparableMetric:
        if self.counterfactuals and self.comparable_by:
            raise ValueError("has both counterfactuals and comparable_by: keep one")
        return self

    def copies(self, defined: Mapping[str, Any]) -> dict[str, Any]:
        """Definitions of the counterfactuals to learn from, out of the job's; none with `comparable_by`."""
        if self.comparable_by:
            return {}
        return {name: defined[name] for name in self.counterfactuals or defined}


class FaceMetric(ComparableMetric):
    """FACE; without a number of directions, as many as explain 95% of the differences."""

    kind: Literal["face"]
    """How the metric is learned."""
    n_directions: Annotated[int, Field(ge=1)] | None = None
    """How many directions are ignored; default: as many as `explained_variance` needs."""
    explained_variance: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of the squared differences to ignore; default: 0.95."""

    @model_validator(mode="after")
    def _one_size(self) -> FaceMetric:
        if self.n_directions is not None and self.explained_variance is not None:
            raise ValueError("has both n_directions and explained_variance: keep one")
        return self


class ExploreMetric(ComparableMetric):
    """EXPLORE; `pairs` is the most that are drawn of each sort."""

    kind: Literal["explore"]
    """How the metric is learned."""
    strength: Annotated[float, Field(gt=0)] = 0.01
    """Penalty on the trace; larger ignores more."""
    pairs: Annotated[int, Field(ge=1)] = 20_000
    """The most pairs that are drawn of each sort."""


METRIC_KINDS: dict[str, type[Section]] = {
    "sensitive-subspace": SubspaceMetric,
    "face": FaceMetric,
    "explore": ExploreMetric,
}
FairMetric = Annotated[SubspaceMetric | FaceMetric | ExploreMetric, Field(discriminator="kind")]
