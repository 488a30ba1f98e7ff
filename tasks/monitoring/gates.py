"""Gates on drift: which metrics there are, and what is asked where nobody says."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.fairlib.catalogue import names_of
from evenhand.fairlib.evaluation.gates import Gate
from evenhand.tasks.errors import InputError

__all__ = ["MAX_PSI", "MAX_UNSEEN", "check_gates", "default_gates", "known_metrics"]

MAX_PSI = 0.2
MAX_UNSEEN = 0.01


def known_metrics(reference: Mapping[str, Any], *, predicts: bool) -> list[str]:
    """Metrics that a comparison with this reference has, in order; of a proxy none about predictions."""
    columns = list(reference["columns"])
    categories = [name for name, column in reference["columns"].items() if column["kind"] == "category"]
    of = {"<column>": columns, "<attr>": list(reference["groups"])}
    names = []
    for metric in names_of("drift"):
        kind, _, subject = metric.partition(".")
        if kind.startswith("prediction") and not predicts:
            continue
        if kind == "unseen":
            names += [f"unseen.{name}" for name in categories]
        elif subject:
            names += [f"{kind}.{name}" for name in of[subject]]
        else:
            names.append(metric)
    return names


def default_gates(reference: Mapping[str, Any]) -> dict[str, Any]:
    """
    Ask of every model input an index of at most 0.2, and of every category that at most 1% of rows are new.

    By column, not by `psi_max`: one column that changed refuses, even if another has too few rows to tell.
    """
    gates: dict[str, Any] = {f"psi.{name}": {"max": MAX_PSI} for name in reference["columns"]}
    for name, column in reference["columns"].items():
        if column["kind"] == "category":
            gates[f"unseen.{name}"] = {"max": MAX_UNSEEN}
    return gates


def check_gates(gates: Sequence[Gate], reference: Mapping[str, Any], *, predicts: bool) -> None:
    """
    Hold gates against the metrics that there will be, before any data is read.

    Raises
    ------
    InputError
        A gate on another metric, with the nearest one.
    """
    known = known_metrics(reference, predicts=predicts)
    for gate in gates:
        if gate.metric not in known:
            close = difflib.get_close_matches(gate.metric, known, n=1, cutoff=0.5)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            kinds = ", ".join(names_of("drift"))
            raise InputError(f"the gate {gate.metric!r} names no metric of drift{hint}; there are {kinds}.")
