"""Charts of results as :class:`altair.Chart` objects, for pages, docs and notebooks alike."""

from functools import partial
from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import list_names, load_name

if TYPE_CHECKING:
    from evenhand.fairlib.plots.curves import (
        budget_curve,
        decision_curve,
        reliability,
        training_curves,
    )
    from evenhand.fairlib.plots.group_charts import (
        group_rates,
        group_shares,
        heat_map,
        histogram,
        score_distribution,
    )
    from evenhand.fairlib.plots.intervals import (
        asked_features,
        differences,
        metric_intervals,
        ranked_bars,
    )
    from evenhand.fairlib.plots.tradeoffs import tradeoff

__all__ = [
    "asked_features",
    "budget_curve",
    "decision_curve",
    "differences",
    "group_rates",
    "group_shares",
    "heat_map",
    "histogram",
    "metric_intervals",
    "ranked_bars",
    "reliability",
    "score_distribution",
    "tradeoff",
    "training_curves",
]

if not TYPE_CHECKING:
    _MODULES = {
        "asked_features": "evenhand.fairlib.plots.intervals",
        "budget_curve": "evenhand.fairlib.plots.curves",
        "decision_curve": "evenhand.fairlib.plots.curves",
        "differences": "evenhand.fairlib.plots.intervals",
        "group_rates": "evenhand.fairlib.plots.group_charts",
        "group_shares": "evenhand.fairlib.plots.group_charts",
        "heat_map": "evenhand.fairlib.plots.group_charts",
        "histogram": "evenhand.fairlib.plots.group_charts",
        "metric_intervals": "evenhand.fairlib.plots.intervals",
        "ranked_bars": "evenhand.fairlib.plots.intervals",
        "reliability": "evenhand.fairlib.plots.curves",
        "score_distribution": "evenhand.fairlib.plots.group_charts",
        "tradeoff": "evenhand.fairlib.plots.tradeoffs",
        "training_curves": "evenhand.fairlib.plots.curves",
    }
    __getattr__ = partial(load_name, __name__, _MODULES)
    __dir__ = partial(list_names, __name__, _MODULES)
