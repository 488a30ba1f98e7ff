"""Limits on drift: those of a monitor that is given none, and the metrics that limits may name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evenhand.fairlib.catalogue import EXCHANGED, names_of
from evenhand.fairlib.evaluation.gates import Gate
from evenhand.tasks.evaluating.limits import check_metric

# The stability index from which a column counts as changed, and the share of values that training
# did not have.
MAX_PSI = 0.2
MAX_UNSEEN = 0.01


def drift_metrics(
    reference: Mapping[str, Any],
    *,
    predicts: bool,
    terms: Iterable[str] = (),
    adapts: bool = False,
) -> list[str]:
    """Metrics of a comparison with this ``reference.json``, in order; a proxy has none about
    predictions.

    Lists of `terms` have those of exchanged terms, and a model that adapts columns has the
    consistency on adapted copies. More than two labels have no selection rate, and
    no base rates by group.
    """
    columns = list(reference["columns"])
    classes = "classes" in reference.get("label", {})
    subjects = {"<column>": columns, "<attr>": list(reference["groups"])}
    names = []
    for metric in names_of("drift"):
        kind, _, subject = metric.partition(".")
        if kind.startswith("prediction") and not predicts:
            continue
        if classes and metric in ("prediction_rate", "label_rate_change.<attr>"):
            continue
        if not subject:
            names.append(metric)
            continue
        listed = subjects.get(subject, ())
        if kind == "unseen":
            listed = _categorical(reference)
        names += [f"{kind}.{name}" for name in listed]
    for name in terms:
        names += [f"{kind}.{name}" for kind in EXCHANGED]
    if adapts:
        names.append("adapted_consistency")
    return names


def default_drift_gates(reference: Mapping[str, Any]) -> dict[str, Any]:
    """Limit each model input's stability index to 0.2, and each category's share of unseen values
    to 1%.

    The limits are per column, not on `psi_max`: a column that changed is refused even if another
    column has too few rows to be judged.
    """
    gates: dict[str, Any] = {f"psi.{name}": {"max": MAX_PSI} for name in reference["columns"]}
    return gates | {f"unseen.{name}": {"max": MAX_UNSEEN} for name in _categorical(reference)}


def check_drift_gates(gates: Sequence[Gate], metrics: Sequence[str]) -> None:
    """Raise `InputError` for a gate on a metric that is none of those `metrics`, of
    :func:`drift_metrics`.
    """
    for gate in gates:
        check_metric(gate, metrics, "drift", names_of("drift"))


def _categorical(reference: Mapping[str, Any]) -> list[str]:
    return [name for name, column in reference["columns"].items() if column["kind"] == "category"]
