"""Two controls with a simple mitigation: reweighed rows, and no proxy features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from evenhand.fairlib.arrays import Float
from evenhand.fairlib.execution import derive_seed
from evenhand.fairlib.methods.registry import MethodSpec
from evenhand.tasks.evaluating.control_names import BLIND, LEAVE_OUT, METHOD, REWEIGH
from evenhand.tasks.execution.dataset import Dataset

NO_ATTRIBUTE = "the table has no sensitive attribute with two groups"
IN_FILES = "the training rows do not fit into memory, and each further control reads them all"


@dataclass
class SimpleMitigation:
    """Whether a control with a simple mitigation is trained, and why not.

    `same_as` names the model that the control equals; a control that is neither trained nor equal
    to one is left out. `columns` are table columns that it does without, besides the sensitive
    ones, which have an AUC of at least `threshold` against some group; `aucs` are those of all
    columns.
    """

    is_trained: bool = True
    same_as: str | None = None
    reason: str = ""
    columns: list[str] = field(default_factory=list)
    threshold: float | None = None
    aucs: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Give the choice as plain JSON types."""
        return asdict(self)


def simple_mitigations(
    data: Dataset, spec: MethodSpec, parameters: Mapping[str, Any]
) -> dict[str, SimpleMitigation]:
    """Decide which controls with a simple mitigation a mitigating method gets."""
    names = (REWEIGH, LEAVE_OUT)
    if "on_disk" in parameters:
        return {name: SimpleMitigation(False, reason=IN_FILES) for name in names}
    attributes = attributes_of(data, parameters)
    if not attributes:
        return {name: SimpleMitigation(False, reason=NO_ATTRIBUTE) for name in names}
    reweighed = SimpleMitigation()
    if spec.reweighs and not parameters["decision"]["equal"]:
        reweighed = SimpleMitigation(False, METHOD, "the method reweighs the rows itself")
    return {REWEIGH: reweighed, LEAVE_OUT: _left_out(data, attributes, parameters)}


def attributes_of(data: Dataset, parameters: Mapping[str, Any]) -> list[str]:
    """Sensitive attributes of the job that have two groups in the rows."""
    names = []
    for name in parameters.get("sensitive") or data.sensitive:
        if name in data.sensitive and len(np.unique(data.sensitive[name].astype(str))) > 1:
            names.append(name)
    return names


def reweighing(data: Dataset, attributes: list[str]) -> Float:
    """Weights with which the crossed groups of attributes and the label are independent."""
    from evenhand.fairlib.methods.preprocessed_gbdt import kamiran_calders_weights
    from evenhand.fairlib.methods.row_groups import joint_cells

    crossed = joint_cells(
        np.zeros(len(data.y)), [data.sensitive[name].astype(str) for name in attributes]
    )
    return kamiran_calders_weights(crossed, data.y)


def _left_out(
    data: Dataset, attributes: list[str], parameters: Mapping[str, Any]
) -> SimpleMitigation:
    from evenhand.fairlib.methods.proxy_features import columns_to_leave_out

    inputs = {name: at for name, at in data.groups.items() if name not in data.sensitive}
    if len(inputs) < 2:
        return SimpleMitigation(False, BLIND, "only one column is not sensitive")
    choice = columns_to_leave_out(
        data.X,
        data.y,
        inputs,
        {name: data.sensitive[name] for name in attributes},
        people=data.people,
        seed=derive_seed(parameters["seed"], "leave-out"),
    )
    aucs = {name: round(auc, 4) for name, auc in choice.aucs.items()}
    if choice.columns:
        return SimpleMitigation(columns=list(choice.columns), threshold=choice.threshold, aucs=aucs)
    reason = "no column predicts a group, or people are ordered worse within groups without these"
    return SimpleMitigation(False, BLIND, reason, aucs=aucs)
