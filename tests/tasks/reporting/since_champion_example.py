"""A run's context with the champion that was there before it; the numbers are made up."""

from __future__ import annotations

import copy
from typing import Any

from report_example import example


def with_champion(**changes: Any) -> dict[str, Any]:
    """Build a fresh context of a refused run; `changes` are of the champion."""
    context = example()
    before = copy.deepcopy(context["evaluation"]["metrics"])
    for name, shift in (("balanced_accuracy", -0.05), ("consistency.spouse", 0.008), ("gap_max.sex", 0.0)):
        for end in ("value", "low", "high"):
            before[name][end] += shift
    del before["gap_rms.race"]
    parameters = copy.deepcopy(context["job"]["parameters"])
    parameters["boosting"]["eta"] = 0.01
    del parameters["solver"]
    champion = {
        "version": "3",
        "uri": "models:/adult-budro/3",
        "alias": "champion",
        "metrics": {
            name: {end: entry[end] for end in ("value", "low", "high")} for name, entry in before.items()
        },
        "data_fingerprint": context["table"]["fingerprint"],
        "method": "budro",
        "parameters": parameters,
        "seed": 7,
        "contract_version": "1.0.0",
    }
    context["champion"] = {**champion, **changes}
    return context
