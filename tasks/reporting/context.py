"""What a report is made from: plain JSON, checked before anything is drawn."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

Number = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[int, Field(ge=0)]
Status = Literal["published", "gated", "insufficient_evidence", "failed"]

# Characters that an HTML or XML reader refuses or shows as nothing, and halves of surrogate pairs,
# which cannot be written as UTF-8.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


class Part(BaseModel):
    """A part of a context: no unknown key, no change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Job(Part):
    """The job as the user wrote it."""

    name: str
    method: str
    parameters: dict[str, Any] = {}
    seed: int | None = None
    description: str | None = None


class Table(Part):
    """The table of people: its size, split, fingerprint and contract."""

    name: str
    rows: Share
    train_rows: Share
    test_rows: Share
    features: int | list[str]
    fingerprint: str
    contract_name: str
    contract_version: str
    contract_page: str | None = None


class Metric(Part):
    """One metric with its interval; ``value`` is null where the evidence is not enough."""

    value: Number | None = None
    low: Number | None = None
    high: Number | None = None
    status: str = "ok"
    reason: str | None = None


class Cell(BaseModel):
    """Rows of one group with one true label, and how many of them got the positive answer."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    group: str
    label: Literal[0, 1]
    n: Share
    predicted_positive: Share

    @model_validator(mode="after")
    def _no_more_than_there_are(self) -> Cell:
        if self.predicted_positive > self.n:
            raise ValueError("predicted_positive is above n; count both on the same rows")
        return self


class Settings(BaseModel):
    """How the evaluation was made: level of its intervals, draws behind them, rows that a rate needs."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    draws: int | None = None
    min_cell: Annotated[int, Field(ge=1)] = 5
    seed: int | None = None


class Evaluation(Part):
    """Metrics and the counts behind them, as an evaluation's ``to_json`` gives them."""

    n: Share
    metrics: dict[str, Metric] = {}
    counts: dict[str, list[Cell]] = {}
    settings: Settings = Settings()


class Paper(Part):
    """The row of a paper that the run is held against: metric -> (mean, standard deviation or null)."""

    source: str
    row: dict[str, tuple[Number, Number | None]]


class GateResult(Part):
    """
    One limit of one gate and what came of it.

    With ``no_worse_than_baseline`` the value is how much worse than a baseline, positive being worse.
    """

    metric: str
    kind: Literal["min", "max", "no_worse_than_baseline"]
    bound: Literal["point", "interval"] = "point"
    limit: Number
    value: Number | None = None
    passed: bool
    status: str
    shortfall: Number | None = None
    text: str = ""


class Gates(Part):
    """The verdict over all gates, as a decision's ``to_json`` gives it."""

    verdict: Literal["passed", "refused", "insufficient_evidence"]
    results: list[GateResult] = []
    passed: bool | None = None
    note: str | None = None


class Histogram(Part):
    """Counts of scores per bin and group; a group with null counts was too small to be shown."""

    edges: list[Number]
    groups: dict[str, list[Share] | None]

    @model_validator(mode="after")
    def _one_count_a_bin(self) -> Histogram:
        if len(self.edges) < 2 or any(b <= a for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise ValueError("edges must be at least two rising numbers")
        if any(counts is not None and len(counts) != len(self.edges) - 1 for counts in self.groups.values()):
            raise ValueError(f"every group needs {len(self.edges) - 1} counts, one a bin")
        return self


class Step(Part):
    """One step of the flow: its seconds, and whether its result came from an earlier run."""

    name: str
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    cached: bool = False


class Model(Part):
    """The registered model version."""

    name: str
    version: str | int
    alias: str | None = None
    uri: str


class Estimate(Part):
    """A number with the ends of its interval."""

    value: Number | None = None
    low: Number | None = None
    high: Number | None = None


class Champion(Part):
    """
    The version that had the alias before the run, and what its card tells of it.

    Without a card that could be read, ``metrics`` is empty and the rest is null.
    """

    version: str | int
    uri: str
    alias: str = "champion"
    created: str | None = None
    metrics: dict[str, Estimate] = {}
    data_fingerprint: str | None = None
    method: str | None = None
    parameters: dict[str, Any] = {}
    seed: int | None = None
    contract_version: str | None = None


class Grid(Part):
    """A plain table: a caption, column names and rows of cells; the first cell heads its row."""

    caption: str
    columns: list[str]
    rows: list[list[str | int | float | bool | None]]

    @model_validator(mode="after")
    def _as_wide_as_its_head(self) -> Grid:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"every row needs {len(self.columns)} cells, one a column")
        return self


class Section(Part):
    """
    An extra part of the report (a certificate, a transport plan, a comparison).

    ``svg_narrow`` stands in for ``svg`` on a narrow page; ``folded`` is a table that the reader opens.
    """

    title: str
    html_safe_paragraphs: list[str] = []
    table: Grid | None = None
    folded: Grid | None = None
    svg: str | None = None
    svg_narrow: str | None = None

    @model_validator(mode="after")
    def _narrow_beside_wide(self) -> Section:
        if self.svg_narrow is not None and self.svg is None:
            raise ValueError("svg_narrow needs svg, the same plot for a wide page")
        return self


class Training(Part):
    """Curves over the steps of training; a null point leaves a gap."""

    steps: list[int]
    series: dict[str, list[float | None]]

    @model_validator(mode="before")
    @classmethod
    def _gaps(cls, data: Any) -> Any:
        # A loss may overflow; the curve then has a gap there, and the report is still written.
        if isinstance(data, Mapping) and isinstance(data.get("series"), Mapping):
            series = {
                name: [None if isinstance(v, float) and not math.isfinite(v) else v for v in values]
                for name, values in data["series"].items()
            }
            return {**data, "series": series}
        return data

    @model_validator(mode="after")
    def _as_long_as_the_steps(self) -> Training:
        if any(len(values) != len(self.steps) for values in self.series.values()):
            raise ValueError(f"every series needs {len(self.steps)} values, one a step")
        return self


class Environment(Part):
    """What computed the run."""

    python: str
    packages: dict[str, str] = {}
    git_commit: str | None = None
    git_dirty: bool | None = None
    machine: str | None = None


class File(Part):
    """A file beside the report."""

    name: str
    href: str


class ReportContext(Part):
    """
    Everything on the page. ``evaluation`` and ``gates`` are null when the run ended before them.

    ``refusal`` is why nothing is published whatever the gates say; ``findings`` are sentences of the headline
    in place of those about the treatment of groups; ``champion`` is null where there was none.
    """

    title: str
    job: Job
    run_id: str
    created: str
    status: Status
    headline: list[str] = []
    refusal: str | None = None
    findings: list[str] = []
    champion: Champion | None = None
    table: Table
    evaluation: Evaluation | None = None
    paper: Paper | None = None
    gates: Gates | None = None
    histograms: dict[str, Histogram] = {}
    steps: list[Step] = []
    model: Model | None = None
    sections: list[Section] = []
    training: Training | None = None
    environment: Environment
    files: list[File] = []

    @property
    def interval(self) -> str:
        """The name of the intervals: '95% interval'."""
        level = self.evaluation.settings.level if self.evaluation else 0.95
        return f"{100 * level:g}% interval"


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return _UNPRINTABLE.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {_printable(key): _printable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(item) for item in value]
    return value


def _place(location: tuple[int | str, ...]) -> str:
    # Below "groups" the keys are values of a sensitive column: they stay out of messages.
    parts = list(location)
    if "groups" in parts:
        parts = parts[: parts.index("groups") + 1]
    return ".".join(str(part) for part in parts) or "context"


Context = TypeVar("Context", bound=BaseModel)


def parse_context(context: Mapping[str, Any]) -> ReportContext:
    """Check a run report's context and return it typed; see :func:`parse`."""
    return parse(ReportContext, context)


def parse(kind: type[Context], context: Mapping[str, Any]) -> Context:
    """Check a report's context and return it typed.

    Parameters
    ----------
    kind : type
        The model that the context must fit.
    context : mapping
        The keys of the model, values as JSON gives them. Characters that no reader can show are replaced by
        U+FFFD.

    Returns
    -------
    BaseModel
        Of type ``kind``.

    Raises
    ------
    ValueError
        The first key that is missing, unknown or of the wrong kind, in one line, without its value.
    """
    try:
        return kind.model_validate(_printable(context))
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        first = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        message = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"report context, {_place(first['loc'])}: {message}{more}") from None
