"""Gates on drift: the metrics that they may name, and the default gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.fairlib.catalogue import names_of
from evenhand.fairlib.evaluation.gates import Gate
from evenhand.tasks.gate import check_metric

__all__ = ["MAX_PSI", "MAX_UNSEEN", "check_gates", "default_gates", "known_metrics"]

MAX_PSI = 0.2
MAX_UNSEEN = 0.01


def known_metrics(reference: Mapping[str, Any], *, predicts: bool) -> list[str]:
    """Metrics of a comparison with this reference, in order; a proxy has none about predictions."""
    columns = list(reference["columns"])
    categories = [name for name, column in reference["columns"].items() if column["kind"] == "category"]
    subjects = {"<column>": columns, "<attr>": list(reference["groups"])}
    names = []
    for metric in names_of("drift"):
        kind, _, subject = metric.partition(".")
        if kind.startswith("prediction") and not predicts:
            continue
        listed = categories if kind == "unseen" else subjects.get(subject, ())
        names += [f"{kind}.{name}" for name in listed] if subject else [metric]
    return names


def default_gates(reference: Mapping[str, Any]) -> dict[str, Any]:
    """
    Limit each model input's index to 0.2, and each category's share of unseen values to 1%.

    By column, not by `psi_max`: one column that changed refuses, even if another has too few rows to tell.
    """
    gates: dict[str, Any] = {f"psi.{name}": {"max": MAX_PSI} for name in reference["columns"]}
    for name, column in reference["columns"].items():
        if column["kind"] == "category":
            gates[f"unseen.{name}"] = {"max": MAX_UNSEEN}
    return gates


def check_gates(gates: Sequence[Gate], reference: Mapping[str, Any], *, predicts: bool) -> None:
    """
    Check gates against the metrics that there will be, before any data is read.

    Raises
    ------
    InputError
        A gate on another metric, with the nearest one.
    """
    known = known_metrics(reference, predicts=predicts)
    for gate in gates:
        check_metric(gate, known, "drift", names_of("drift"))
