"""Measure what a classifier does: performance, group differences and consistency, with bootstrap intervals.

Everything follows from counts per group, label and prediction; a cell with too few rows yields
"insufficient evidence", never a number. Gates then turn an evaluation into one verdict.
"""

from __future__ import annotations

from evenhand.fairlib.catalogue import better
from evenhand.fairlib.evaluation.counts import GroupCounts, group_counts
from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue, evaluate
from evenhand.fairlib.evaluation.gates import Decision, Gate, GateResult, decide, parse_gates
from evenhand.fairlib.evaluation.histograms import score_histograms
from evenhand.fairlib.evaluation.outcomes import Outcomes, with_intersections
from evenhand.fairlib.evaluation.paired import Comparison, Difference, compare

__all__ = [
    "Comparison",
    "Decision",
    "Difference",
    "Evaluation",
    "Gate",
    "GateResult",
    "GroupCounts",
    "MetricValue",
    "Outcomes",
    "better",
    "compare",
    "decide",
    "evaluate",
    "group_counts",
    "parse_gates",
    "score_histograms",
    "with_intersections",
]
