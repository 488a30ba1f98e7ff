"""What the report of an evaluation is made from: plain JSON, checked before anything is drawn."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from evenhand.tasks.reporting.context import (
    Environment,
    Evaluation,
    File,
    Gates,
    Histogram,
    Metric,
    Part,
    Settings,
    Share,
)

__all__ = ["Comparison", "EvaluationContext", "JudgedModel"]

Value = str | bool | int | float


class Contract(Part):
    """The contract that a model was made under."""

    name: str
    version: str


class JudgedModel(Part):
    """A model that was judged; ``content`` is the SHA-256 of its files."""

    name: str
    version: str | int | None = None
    uri: str
    method: str
    contract: Contract
    content: str

    @property
    def called(self) -> str:
        """Its name, and its version if it has one."""
        return self.name if self.version is None else f"version {self.version} of {self.name}"


class JudgedData(Part):
    """The rows on which it was judged; ``shown`` is their address without secrets."""

    shown: str
    rows: Share
    rows_set_aside: Share = 0
    fingerprint: str


class Label(Part):
    """The column that was predicted, and its two values."""

    name: str
    positive: Value
    negative: Value


class Comparison(Part):
    """Model less baseline on the same rows, metric by metric."""

    differences: dict[str, Metric]
    n: Share
    settings: Settings = Settings()


class EvaluationContext(Part):
    """Everything on the page; ``baseline`` and what belongs to it are null without one."""

    run_id: str
    created: str
    status: Literal["passed", "refused", "insufficient_evidence", "no_gates"]
    model: JudgedModel
    baseline: JudgedModel | None = None
    data: JudgedData
    label: Label
    evaluation: Evaluation
    baseline_evaluation: Evaluation | None = None
    comparison: Comparison | None = None
    gates: Gates | None = None
    histograms: dict[str, Histogram] = {}
    notes: list[str] = []
    seconds: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = {}
    cached: list[str] = []
    environment: Environment
    files: list[File] = []

    @property
    def interval(self) -> str:
        """The name of the intervals: '95% interval'."""
        return f"{100 * self.evaluation.settings.level:g}% interval"

    @model_validator(mode="after")
    def _nothing_of_no_baseline(self) -> EvaluationContext:
        if self.baseline is None and (self.baseline_evaluation or self.comparison):
            raise ValueError("baseline_evaluation and comparison need the baseline that they are of")
        return self
