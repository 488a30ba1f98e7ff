"""Limits on metrics, as jobs, policies and files of gates write them: read, checked before anything
is measured, and applied to measured metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.fairlib.catalogue import classifier_metrics, group_metrics, term_metrics
from evenhand.fairlib.evaluation.gates import CONTROLS, Decision, Gate, decide, parse_gates
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.written_input import as_number, listed_metrics, nearest, read_yaml

if TYPE_CHECKING:
    from evenhand.data_contracts.model import Contract
    from evenhand.tasks.registry.bundle import Bundle

NO_CERTIFICATES = (
    "certificates are measured where a model is trained: the fair metric that they need is not "
    "published"
)
NO_ADAPTATION = (
    "the model reads no adapted columns, so that it does not contain what makes adapted copies"
)
# Metrics that only the run which trains a model has.
OF_RUNS = (
    "adapted_consistency",
    "features_asked",
    "leak_suspected",
    "membership_auc",
    "probability_spread",
    "reasons_kept",
)


def judge(
    evaluation: Mapping[str, Any],
    gates: Mapping[str, Any],
    comparison: Mapping[str, Any] | None = None,
) -> Decision:
    """Decide on an evaluation, and its comparison with a baseline.

    Raises `InputError` for a gate on a metric that was not measured.
    """
    # imported lazily: a job's gates are checked without a numeric library
    from evenhand.fairlib.evaluation.evaluate import Evaluation
    from evenhand.fairlib.evaluation.paired import Comparison

    compared = None
    if comparison is not None:
        compared = Comparison.from_json(comparison)
    with input_errors("gates: "):
        return decide(Evaluation.from_json(evaluation), parse_gates(gates), compared)


def read_limits(
    gates: Mapping[str, Any] | str | None, *, baseline: bool
) -> tuple[dict[str, Any] | None, tuple[Gate, ...]]:
    """Read gates from a mapping or the path of a YAML file; return them and their limits.

    Raises `InputError` for a file that cannot be read, a wrong gate, or a gate that needs a
    baseline where there is none.
    """
    if gates is None:
        return None, ()
    if isinstance(gates, str):
        gates = read_gates(Path(gates).expanduser())
    chosen = as_number(dict(gates))
    with input_errors("gates: ", end="."):
        limits = tuple(parse_gates(chosen))
    for limit in limits:
        controlled = next((kind for kind in CONTROLS if getattr(limit, kind) is not None), None)
        if controlled is not None:
            raise InputError(
                f"the gate {limit.metric!r} has {controlled}, and only the run that trains a model "
                "has controls: take it out."
            )
        if not baseline and limit.no_worse_than_baseline is not None:
            raise InputError(
                f"the gate {limit.metric!r} has no_worse_than_baseline: give --baseline, or take "
                "it out."
            )
    return chosen, limits


def read_gates(path: Path) -> dict[str, Any]:
    """Read a file of gates: a mapping of metrics to limits, at the top or under ``gates``.

    Raises `InputError` if the file cannot be read or holds no gates.
    """
    content = read_yaml(path, "the gates file")
    if isinstance(content, dict) and "gates" in content:
        content = content["gates"]
    if not isinstance(content, dict) or not content:
        raise InputError(
            f"the gates file {path} holds no gates: write metrics with limits, such as auc: {{min: "
            f"0.7}}."
        )
    return content


def check_metric(
    gate: Gate, metrics: Sequence[str], of: str, listed: Sequence[str] | None = None
) -> None:
    """Refuse a gate on a metric that is none of `metrics`; the message lists these, or `listed`."""
    if gate.metric not in metrics:
        raise InputError(
            f"the gate {gate.metric!r} names no metric of {of}{nearest(gate.metric, metrics)}; "
            f"there are {listed_metrics(listed or metrics)}."
        )


def check_groups(gate: Gate, contract: Contract) -> None:
    """Refuse a gate that names a group which the contract does not list, if it lists any."""
    if not gate.groups:
        return
    # imported lazily: few gates name groups, and a run that finds nothing new needs no Arrow
    from evenhand.data_contracts.arrow import known_groups

    attribute = gate.metric.partition(".")[2]
    for column in contract.sensitive:
        listed = sorted(known_groups(column))
        if column.name != attribute or not listed:
            continue
        for group in gate.groups:
            if group not in listed:
                raise InputError(
                    f"the gate {gate.metric!r} names the group {group!r}, which the contract does "
                    "not list"
                    f"{nearest(group, listed)}; the groups of {attribute!r} are "
                    f"{', '.join(listed)}."
                )


def check_evaluation_gates(
    gates: Sequence[Gate], model: Bundle, settings: Mapping[str, Any]
) -> None:
    """Raise `InputError` for a gate on a metric that an evaluation with these settings
    cannot have.
    """
    classes = model.contract.label.classes
    attributes = [column.name for column in model.contract.sensitive]
    copies = [*settings["counterfactuals"]]
    if model.adapts_columns:
        copies += settings.get("adapted", [])
    measured = classifier_metrics(attributes, classes, copies)
    metrics = [name for name in measured if name not in OF_RUNS]
    # metrics without a paired difference from a baseline
    alone = term_metrics(settings.get("terms", ()), any_classes=bool(classes))
    if model.asks_features:
        alone.append("features_asked")
    if model.adapts_columns:
        alone.append("adapted_consistency")
    metrics += alone
    for gate in gates:
        if gate.groups:
            check_groups(gate, model.contract)
        kind, _, subject = gate.metric.partition(".")
        if kind == "certificate":
            raise InputError(f"the gate {gate.metric!r} cannot be judged here: {NO_CERTIFICATES}.")
        if gate.metric in alone and gate.no_worse_than_baseline is not None:
            raise InputError(
                f"the gate {gate.metric!r} has no paired difference: give it a max or a min in "
                "place of no_worse_than_baseline."
            )
        if not model.adapts_columns and gate.metric in _of_adapted_copies(settings):
            raise InputError(f"the gate {gate.metric!r} cannot be judged here: {NO_ADAPTATION}.")
        # Only the data shows which intersections exist.
        if not (settings["intersections"] and kind in group_metrics() and "&" in subject):
            check_metric(gate, metrics, "this evaluation")


def _of_adapted_copies(settings: Mapping[str, Any]) -> list[str]:
    """Metrics of adapted copies."""
    consistencies = [f"consistency.{name}" for name in settings.get("adapted", ())]
    return ["adapted_consistency", *consistencies]
