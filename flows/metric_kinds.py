"""The section `fair_metric` of a job: one set of keys for each kind of metric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from evenhand.flows.section import Section

__all__ = ["METRIC_KINDS", "ComparableMetric", "FairMetric", "SubspaceMetric"]

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


def _kind_of(value: Any) -> str:
    """Kind of a section as written; a section without one is a sensitive subspace."""
    kind = (
        value.get("kind", DEFAULT_KIND) if isinstance(value, dict) else getattr(value, "kind", DEFAULT_KIND)
    )
    return str(kind)


METRIC_KINDS: dict[str, type[Section]] = {
    "sensitive-subspace": SubspaceMetric,
    "face": FaceMetric,
    "explore": ExploreMetric,
}
FairMetric = Annotated[
    Annotated[SubspaceMetric, Tag("sensitive-subspace")]
    | Annotated[FaceMetric, Tag("face")]
    | Annotated[ExploreMetric, Tag("explore")],
    Discriminator(_kind_of),
]
