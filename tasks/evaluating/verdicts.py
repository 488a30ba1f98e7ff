"""The gates of an evaluation: read from a file, and checked against the metrics that it will have."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.fairlib.catalogue import names_of
from evenhand.fairlib.evaluation.gates import Gate, parse_gates
from evenhand.fairlib.evaluation.metrics import GROUP_METRICS
from evenhand.fairlib.methods.registry import METHODS
from evenhand.tasks.errors import InputError
from evenhand.tasks.gate import check_metric
from evenhand.tasks.inputs import as_number, read_yaml

if TYPE_CHECKING:
    from evenhand.tasks.bundle import Bundle

__all__ = [
    "check_gates",
    "digest_of_gates",
    "known_metrics",
    "read_gates",
    "read_limits",
]

NO_CERTIFICATES = (
    "certificates are measured where a model is trained: the fair metric that they need is not published"
)


def read_limits(
    gates: Mapping[str, Any] | str | None, *, baseline: bool
) -> tuple[dict[str, Any] | None, tuple[Gate, ...]]:
    """
    Gates as given: a mapping, the path of a YAML file, or None; and their limits.

    Raises
    ------
    InputError
        A file that cannot be read, a wrong gate, or one that needs a baseline although there is none.
    """
    if gates is None:
        return None, ()
    chosen = read_gates(Path(gates).expanduser()) if isinstance(gates, str) else dict(gates)
    chosen = as_number(chosen)
    try:
        limits = tuple(parse_gates(chosen))
    except ValueError as error:
        raise InputError(f"gates: {error}.") from None
    for gate in () if baseline else limits:
        if gate.no_worse_than_baseline is not None:
            raise InputError(
                f"the gate {gate.metric!r} has no_worse_than_baseline: give --baseline, or take it out."
            )
    return chosen, limits


def read_gates(path: Path) -> dict[str, Any]:
    """
    Read a file of gates: metrics and their limits, or a mapping that has them under ``gates``.

    Raises
    ------
    InputError
        The file cannot be read, or holds something else.
    """
    content = read_yaml(path, "the gates file")
    if isinstance(content, dict) and "gates" in content:
        content = content["gates"]
    if not isinstance(content, dict) or not content:
        raise InputError(
            f"the gates file {path} holds no gates: write metrics with limits, such as auc: {{min: 0.7}}."
        )
    return content


def known_metrics(model: Bundle, counterfactuals: Sequence[str]) -> list[str]:
    """Metrics that an evaluation of the model will have, without those of intersections."""
    attributes = [column.name for column in model.contract.sensitive]
    known = [name for name in names_of("classifier") if "." not in name and name != "features_asked"]
    known += [f"consistency.{name}" for name in counterfactuals]
    known += [f"{kind}.{attribute}" for kind in GROUP_METRICS for attribute in attributes]
    method = METHODS.get(str(model.evaluation.get("method")))
    return [*known, "features_asked"] if method is not None and method.asks else known


def check_gates(gates: Sequence[Gate], model: Bundle, settings: Mapping[str, Any]) -> None:
    """
    Check gates against the metrics that the contract and the settings allow.

    Raises
    ------
    InputError
        A gate on a metric that this evaluation cannot have.
    """
    known = known_metrics(model, list(settings["counterfactuals"]))
    for gate in gates:
        kind, _, subject = gate.metric.partition(".")
        if kind == "certificate":
            raise InputError(f"the gate {gate.metric!r} cannot be judged here: {NO_CERTIFICATES}.")
        if gate.metric == "features_asked" and gate.no_worse_than_baseline is not None:
            raise InputError(
                "the gate 'features_asked' has no paired difference: give it a max in place of "
                "no_worse_than_baseline."
            )
        # Only the data shows which intersections exist.
        if not (settings["intersections"] and kind in GROUP_METRICS and "&" in subject):
            check_metric(gate, known, "this evaluation", known)


def digest_of_gates(gates: Mapping[str, Any]) -> str:
    """sha256 of the gates, whatever the layout of their file."""
    return hashlib.sha256(json.dumps(gates, sort_keys=True).encode()).hexdigest()
