"""What an evaluation found, in sentences: does the model pass, whom does it treat how, is it better."""

from __future__ import annotations

from typing import Literal

from evenhand.tasks.reporting import formats, words
from evenhand.tasks.reporting.context import Metric
from evenhand.tasks.reporting.evaluation_context import Comparison, EvaluationContext

__all__ = ["FOLLOWS", "STATUS", "Finding", "compared", "finding", "headline"]

Finding = Literal["better", "worse", "other", "same", "unclear", "lacking"]

STATUS: dict[str, tuple[str, str]] = {
    "passed": ("\u2713", "Passes its gates"),
    "refused": ("\u2715", "Refused by a gate"),
    "insufficient_evidence": ("?", "Not enough evidence"),
    "no_gates": ("\u2022", "Judged without gates"),
}

FOLLOWS: dict[Finding, str] = {
    "better": "better",
    "worse": "worse",
    "other": "differs",
    "same": "the same",
    "unclear": "no difference can be told",
    "lacking": "not enough evidence",
}

MOST_NAMED = 4


def finding(name: str, difference: Metric) -> Finding:
    """
    Tell what follows from the difference of one metric, model less baseline.

    Only an interval that leaves out 0 tells the two apart.
    """
    if difference.value is None:
        return "lacking"
    if difference.low is None or difference.high is None:
        return "unclear"
    if difference.low == difference.high == 0:
        return "same"
    if difference.low <= 0 <= difference.high:
        return "unclear"
    way = words.metric(name).better
    if way is None:
        return "other"
    return "better" if (difference.value > 0) == (way == "higher") else "worse"


def headline(context: EvaluationContext) -> list[str]:
    """Answer in sentences: what was judged on what, does it pass, who is treated how, is it better.

    Parameters
    ----------
    context : EvaluationContext

    Returns
    -------
    list of str
        Plain text; the second sentence says whether the model passes.
    """
    return [
        _judged(context),
        *_outcome(context),
        *(f"Note: {note if note.endswith('.') else note + '.'}" for note in context.notes),
        *words.treatment(context.evaluation, context.interval),
        *compared(context),
    ]


def _judged(context: EvaluationContext) -> str:
    model, data = context.model, context.data
    subject = (
        f"The model {model.name}" if model.version is None else f"Version {model.version} of {model.name}"
    )
    sentence = (
        f"{subject}, {words.method(model.method)}, was judged on "
        f"{formats.plural(context.evaluation.n, 'row')} of {data.shown}"
    )
    if context.baseline is not None:
        sentence += f", beside the baseline {context.baseline.called}"
    if data.rows_set_aside:
        aside = data.rows_set_aside
        which = "row that breaks" if aside == 1 else "rows that break"
        sentence += f"; {aside:,} {which} the data contract {'was' if aside == 1 else 'were'} set aside"
    return sentence + "."


def _outcome(context: EvaluationContext) -> list[str]:
    results = context.gates.results if context.gates else []
    if context.status == "no_gates" or not results:
        return ["No gate was set; the model was not held to any limit."]
    if context.status == "passed":
        return [f"{words.gates_passed(len(results))}."]
    return words.gate_findings(results, context.evaluation, context.interval, "It does not pass")


def compared(context: EvaluationContext) -> list[str]:
    """Say in what the model is better or worse than the baseline: only what the paired intervals tell."""
    comparison = context.comparison
    if context.baseline is None:
        return []
    if comparison is None or not comparison.differences:
        return ["The model and the baseline were not compared."]
    # intersections of attributes are for the tables
    names = [
        n for n in comparison.differences if not words.crossed(n.partition(".")[2], context.evaluation.counts)
    ]
    found: dict[Finding, list[str]] = {}
    for name in names:
        found.setdefault(finding(name, comparison.differences[name]), []).append(name)
    if set(found) == {"same"}:
        return ["The model and the baseline have the same numbers in every measure."]
    sentences = [
        _list(lead, found[kind], comparison, context.interval)
        for kind, lead in (
            ("better", "Better than the baseline"),
            ("worse", "Worse than the baseline"),
            ("other", "Other than the baseline"),
        )
        if kind in found
    ]
    told = sum(len(found.get(kind, [])) for kind in ("better", "worse", "other"))
    untold = len(found.get("unclear", [])) + len(found.get("same", []))
    if not told:
        which = "any measure" if untold != 1 or len(names) > 1 else words.metric_phrase(names[0])
        sentences.append(f"No difference from the baseline can be told in {which}.")
    elif untold:
        sentences.append(f"In {formats.plural(untold, 'other measure')} no difference can be told.")
    if "lacking" in found:
        lacking = formats.plural(len(found["lacking"]), "measure")
        sentences.append(f"In {lacking} there is not enough evidence to compare the two.")
    return sentences


def _list(lead: str, names: list[str], comparison: Comparison, interval: str) -> str:
    said = []
    for i, name in enumerate(names[:MOST_NAMED]):
        difference = comparison.differences[name]
        assert difference.value is not None
        sizes = sorted(abs(end) for end in (difference.low, difference.high) if end is not None)
        span = formats.interval(*sizes)
        of = f" ({interval} {span})" if not i else f" ({span})"
        said.append(f"{words.metric_phrase(name)}, by {formats.number(abs(difference.value))}{of}")
    more = len(names) - len(said)
    text = "; ".join(said) + (f"; and {formats.plural(more, 'more measure')}" if more > 0 else "")
    return f"{lead}: {text}."
