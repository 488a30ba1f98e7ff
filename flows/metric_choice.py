"""The fair metric that `evenhand init` writes for a table: by evidence on which columns predict a
sensitive attribute.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from evenhand.data_contracts.arrow import group_labels
from evenhand.data_contracts.model import Contract
from evenhand.fairlib.distances.attribute_leak import MOST_ROWS, AttributeLeak, attribute_leak
from evenhand.fairlib.distances.group_readers import LEAST_TRAINING
from evenhand.fairlib.distances.metric_evidence import is_clear
from evenhand.fairlib.evaluation.group_selection import MISSING
from evenhand.fairlib.execution import generator, sample_rows
from evenhand.fairlib.methods.registry import MethodSpec
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.fairlib.preprocessing.leaks import StandIn, binned, told_groups
from evenhand.tasks.steps.preprocess_step import column_specs
from evenhand.tasks.steps.profile_step import codes_or_numbers

# AUC from which on a single column is named as a proxy feature.
NAMED_AUC = 0.55
NAMED = 6
# Share of a table's rows that train a model by default.
TRAINING_SHARE = 0.8
# Counterparts must not be treated less alike than by the baseline without sensitive features.
COUNTERPARTS = {"consistency.counterpart": {"better_than_blind": 0.0}}
# Largest leak that the gates of a starter job allow, unless more than half of a stronger one stays.
ALLOWED_LEAK = 0.65
PREDICTORS = {"linear": "logistic regression", "trees": "boosted trees"}


@dataclass(frozen=True)
class AttributeEvidence:
    """How well the other model inputs predict a sensitive attribute.

    Parameters
    ----------
    attribute : str
    leak : AttributeLeak
        From all of them together, cross-validated.
    columns : list of StandIn
        The strongest single ones, the highest AUC first.
    rows : int
        Rows that the evidence is from.
    """

    attribute: str
    leak: AttributeLeak
    columns: list[StandIn]
    rows: int

    @property
    def is_predicted(self) -> bool:
        """Whether the other inputs predict the attribute clearly better than chance."""
        return is_clear(self.leak)

    def sentence(self) -> str:
        """The evidence in plain words."""
        how = f"{PREDICTORS[self.leak.predictor]}, cross-validated on {self.rows:,} rows"
        if not self.is_predicted:
            return (
                f"the other columns together predict {self.attribute} no better than chance "
                f"(AUC {self.leak.auc:.2f} by {how}; 0.5 is chance)"
            )
        alone = ""
        if self.columns:
            listed = [f"{column.name} {column.auc:.2f}" for column in self.columns[:NAMED]]
            alone = f"; alone {', '.join(listed)}"
        return (
            f"the other columns together predict {self.attribute} with an AUC of "
            f"{self.leak.auc:.2f} by {how} (0.5 is chance, 1 is perfect){alone}"
        )


@dataclass(frozen=True)
class MetricChoice:
    """The section ``fair_metric`` of a starter job, and the notes on it.

    Parameters
    ----------
    section : mapping
        Empty where the default stays.
    comments : list of str
        Sentences above the section.
    gates : mapping
        Gates that a model with this metric can reach; empty where the default stays.
    notes : list of str
        For the terminal.
    """

    section: Mapping[str, Any] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)
    gates: Mapping[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def is_learned(self) -> bool:
        """Whether the metric is learned by evidence on the training rows."""
        return self.section.get("kind") == "learned"


def proxy_evidence(table: pa.Table, contract: Contract) -> list[AttributeEvidence]:
    """Measure how well the model inputs that are not sensitive predict each sensitive attribute.

    `table` has the contract's columns, typed. At most 6,000 rows are read.
    """
    chosen = sample_rows(table.num_rows, MOST_ROWS, generator(0, "proxy evidence"))
    sample = table.take(chosen)
    features = [column for column in contract.features if column.role == "feature"]
    names = [column.name for column in features]
    plain = contract.without_inputs([column.name for column in contract.sensitive])
    frame = sample.select(names).to_pandas()
    X = TableEncoder(column_specs(plain), "ignore").fit(frame).transform(frame)
    codes = {}
    for column in features:
        codes[column.name] = binned(codes_or_numbers(sample[column.name], column), 32)
    groups = {}
    for column in contract.sensitive:
        groups[column.name] = group_labels(sample[column.name], column)
    single = told_groups(codes, groups)
    evidence = []
    for name, labels in groups.items():
        columns = [item for item in single[name] if item.auc >= NAMED_AUC]
        columns.sort(key=lambda item: (-item.auc, item.name))
        present = labels != MISSING
        leak = attribute_leak(X[present], labels[present])
        evidence.append(AttributeEvidence(name, leak, columns, int(present.sum())))
    return evidence


def choose_metric(
    table: pa.Table,
    contract: Contract,
    groups: Mapping[str, Mapping[str, int]],
    spec: MethodSpec,
) -> MetricChoice:
    """Choose the fair metric of a starter job whose method takes one, or pairs people with copies.

    `groups` has the rows of each group, by sensitive column; `table` has the contract's columns,
    typed.
    """
    small = _small_group(groups)
    if small is not None:
        return MetricChoice(notes=[small])
    if any(column.is_text for column in contract.features):
        return MetricChoice()
    evidence = proxy_evidence(table, contract)
    sentences = [item.sentence() for item in evidence]
    hidden = [column.name for column in contract.sensitive if not column.is_feature]
    if any(item.is_predicted for item in evidence):
        return _learned(evidence, sentences, contract.legitimate, spec, hidden)
    names = " and ".join(column.name for column in contract.sensitive)
    enough = f"to leave {names} out is enough, as method gbdt with leave_out does"
    if hidden or not spec.needs_metric:
        return MetricChoice(notes=[*sentences, f"to leave {names} out is enough: use method gbdt"])
    closing = f"the fair metric ignores {names} and nothing else"
    return MetricChoice(
        section={"learned": []},
        comments=[*sentences, enough, closing],
        notes=[*sentences, enough],
    )


def _learned(
    evidence: Sequence[AttributeEvidence],
    sentences: Sequence[str],
    legitimate: Sequence[str],
    spec: MethodSpec,
    hidden: Sequence[str],
) -> MetricChoice:
    """The choice of a learned metric, with gates that its models can reach.

    `hidden` are the sensitive attributes that are no model inputs.
    """
    closing = (
        "so the fair metric is learned: a run removes or adapts the columns that predict an "
        "attribute, and says which"
    )
    if hidden and spec.needs_metric:
        closing = _unreadable(hidden)
    kept_anyway = (
        "legitimate lists columns whose differences between groups may count, such as experience"
    )
    section: dict[str, Any] = {"kind": "learned"}
    comments = [*sentences, closing]
    if legitimate:
        listed = ", ".join(legitimate)
        comments.append(f"differences explained by {listed} stay (legitimate in the contract)")
    else:
        section["legitimate"] = []
        comments.append(kept_anyway)
    if not spec.needs_metric:
        return MetricChoice(section, comments, COUNTERPARTS, [*sentences, closing])
    gates: dict[str, Any] = dict(COUNTERPARTS)
    for item in evidence:
        half = 0.5 + (item.leak.auc - 0.5) / 2
        most = max(ALLOWED_LEAK, math.ceil(20 * half) / 20)
        gates[f"metric_leak.{item.attribute}"] = {"max": most}
    return MetricChoice(section, comments, gates, [*sentences, closing])


def _small_group(groups: Mapping[str, Mapping[str, int]]) -> str | None:
    """Say which group is too small for a learned metric; None if none is."""
    least = math.ceil(LEAST_TRAINING / TRAINING_SHARE)
    for attribute, sizes in groups.items():
        for name, rows in sizes.items():
            if name != MISSING and rows < least:
                return (
                    f"the group {name} of {attribute} has {rows} rows, and a learned fair metric "
                    f"needs {least}: the default one is used, which leaves most proxy features in; "
                    "for a learned one join the group with another"
                )
    return None


def _unreadable(hidden: Sequence[str]) -> str:
    """Say what a learned metric does without people's groups, and how it could read them."""
    are = "are"
    if len(hidden) == 1:
        are = "is"
    return (
        "so the fair metric is learned: a run removes columns that predict an attribute, and the "
        "directions in which groups differ, and says which; with --use-sensitive it adapts columns "
        f"instead, which keeps more of what predicts the label, but {', '.join(hidden)} {are} no "
        "model input here"
    )
