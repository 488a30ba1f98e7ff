"""Sentences and cells that several pages share: on gates, on the treatment of groups, on
metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from evenhand.fairlib.catalogue import is_intersection, spoken, title
from evenhand.fairlib.evaluation.group_selection import NAMED, is_missing, left_out_text
from evenhand.fairlib.methods.registry import METHODS, PROXIES
from evenhand.fairlib.outcome_words import outcome_in_words
from evenhand.tasks.evaluating.favoured_groups import LEAST_DIFFERENCE, named_rates
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.label_shares import shares_sentence
from evenhand.tasks.pages.page_model import Cell, Json

# Smaller numbers are due to rounding.
ROUNDING = 1e-9
# A smaller impact ratio counts as evidence of adverse impact (29 CFR 1607.4 D).
FOUR_FIFTHS = 0.8
# Attributes that a headline names.
MOST_NAMED = 3
Item = TypeVar("Item")
GATE_STATUS: dict[str, tuple[str, str]] = {
    "passed": ("\u2713", "Passed"),
    "refused": ("\u2715", "Refused"),
    "insufficient_evidence": ("?", "Not enough evidence"),
}


def interval_name(settings: Json) -> str:
    """Name of the intervals of one level: '95% interval'."""
    return f"{100 * settings.get('level', 0.95):g}% interval"


def called(model: Json) -> str:
    """Name, version and alias of a model or a proxy, as far as it has them."""
    text = str(model["name"])
    if model["version"] is not None:
        text += f", version {model['version']}"
    if model.get("alias"):
        text += f", {model['alias']}"
    return text


def summary_of(method: str) -> str:
    """What a model of this method is, as the registry says; the name itself if it is not ours."""
    spec = METHODS.get(method) or PROXIES.get(method)
    if spec is None:
        return method
    return spec.summary


def overlap(one: Json, other: Json) -> bool | None:
    """Whether the intervals of two estimates overlap; None where one has no interval."""
    for metric in (one, other):
        if metric.get("low") is None or metric.get("high") is None:
            return None
    return bool(one["low"] <= other["high"] and other["low"] <= one["high"])


def ends(metric: Json) -> dict[str, float | None]:
    """An estimate with both ends of its interval, and nothing else."""
    return {end: metric.get(end) for end in ("value", "low", "high")}


def lack(text: str, *below: str, span: int = 1) -> Cell:
    """A cell that says why there is no number."""
    return Cell(text, below, kind="lack", span=span)


def known(
    value: float | None, form: Callable[[float], str] = formats.number, why: str = "too few rows"
) -> Cell:
    """A number, or why there is none."""
    if value is None:
        return lack(why)
    return Cell(form(value))


def largest(items: Sequence[Item], most: int, size: Callable[[Item], float]) -> list[Item]:
    """The largest of many items, in their own order."""
    top = sorted(items, key=size, reverse=True)[:most]
    return [item for item in items if item in top]


def left_out(drawn: Sequence[Any], known: Sequence[Any], which: str) -> str:
    """Caption of a chart that does not show all; nothing where it does."""
    hidden = len(known) - len(drawn)
    if not hidden:
        return ""
    return f"{which}; {hidden} more are in the table."


def metric_cell(name: str, *below: str) -> Cell:
    """Head of a metric's row: its title, its name in code, further lines."""
    return Cell(title(name), below, code=name)


def estimate_cell(
    metric: Json | None, form: Callable[[float | None], str] = formats.number, *, span: int = 1
) -> Cell:
    """A value with its interval beneath; or why there is none."""
    if metric is None:
        return lack("not measured", span=span)
    if metric["value"] is None:
        return lack("not enough evidence", metric.get("reason") or "", span=span)
    return Cell(
        form(metric["value"]), (formats.interval(metric.get("low"), metric.get("high"), form),)
    )


def price_sentence(certificate: Json, raises: str, would: str) -> str:
    """Say by how much more a larger budget of fair distance would change a certificate at most."""
    budget = certificate["budget"]
    price = certificate["multiplier"]
    if price <= 0:
        return f"A larger budget would not {raises} further."
    if budget == 0:
        return (
            "The budget is 0: people may be exchanged only where the fair distance is 0. With a "
            f"budget, {would} by at most {formats.number(price)} per unit of it (the multiplier)."
        )
    # a certificate is concave in the budget, so that the present price bounds the further change
    return (
        f"At this budget the price is {formats.number(price)} per unit of further budget (the "
        "multiplier); "
        f"with twice the budget, {would} by at most {formats.number(price * budget)} more."
    )


def favourable_label(settings: Json) -> int:
    """Label, 1 or 0, that selection rates are of; 1 in files that do not say it."""
    return int(settings.get("favourable", 1))


def selected_as(settings: Json) -> str:
    """Words for getting the favourable outcome: 'predicted hired = 1, the favourable outcome'."""
    outcome = settings.get("outcome")
    if not outcome:
        return "predicted positive"
    status = "the favourable outcome" if outcome["stated"] else "taken as the favourable outcome"
    if outcome["favourable"] is None:
        return f"predicted {outcome_value(settings)}, {status}"
    return f"predicted {outcome_value(settings)}, {status}"


def outcome_value(settings: Json) -> str:
    """The favourable outcome as column and value, for headings and sentences on base rates."""
    outcome = settings.get("outcome")
    if not outcome:
        return "the positive label"
    if outcome["favourable"] is None:
        return f"other than {outcome_in_words(outcome['column'], outcome['adverse'])}"
    if outcome.get("name"):
        return f"“{outcome['name']}”"
    return outcome_in_words(outcome["column"], outcome["favourable"])


def adverse_value(settings: Json) -> str:
    """The unfavourable outcome as column and value, or by its name, for headings and sentences."""
    outcome = settings.get("outcome")
    if not outcome:
        return "the negative label" if favourable_label(settings) == 1 else "the positive label"
    if outcome["adverse"] is None:
        return f"other than {outcome_value(settings)}"
    if outcome.get("adverse_name"):
        return f"“{outcome['adverse_name']}”"
    return outcome_in_words(outcome["column"], outcome["adverse"])


def positive_means(settings: Json) -> str:
    """Say which outcome is the positive label where it is the adverse one: ", where ..."."""
    outcome = settings.get("outcome")
    if not outcome or outcome["code"] == 1 or outcome["adverse"] is None:
        return ""
    return f", where positive means {outcome_in_words(outcome['column'], outcome['adverse'])}"


def positive_label(metrics: Json) -> str:
    """Write the positive label as column and value, such as ``denied = yes``."""
    outcome = metrics["settings"].get("outcome")
    if not outcome:
        return "positive label"
    value = outcome["adverse"]
    if outcome["code"] == 1:
        value = outcome["favourable"]
    if value is None:
        return f"positive value of {outcome['column']}"
    return outcome_in_words(outcome["column"], value)


def overall_rates(metrics: Json) -> str:
    """Say how many people get the positive label, predicted and observed; empty for other than two
    labels.
    """
    rates = metrics.get("rates")
    if not rates:
        return ""
    predicted = formats.percent(rates["predicted"])
    observed = formats.percent(rates["observed"])
    positive = positive_label(metrics)
    return (
        f"The prediction is “{positive}” for {predicted} of people; {observed} have it in the data."
    )


def treatment(metrics: Json) -> list[str]:
    """Say how often groups get the favourable outcome, widest differences first, and how
    consistently.
    """
    counts = metrics["counts"]
    findings: list[tuple[float, str]] = []
    if "classes" in metrics["settings"]:
        for name, cells in counts.items():
            if "&" not in name:
                gap, recalls = _of_labels(name, cells)
                shares = shares_sentence(name, cells)
                if shares:
                    # one attribute, named once
                    recalls = recalls.removeprefix(f"By {spoken(name)}: ")
                    recalls = recalls[:1].upper() + recalls[1:]
                findings.append((gap, f"{shares} {recalls}".strip()))
    else:
        # intersections repeat what their parts say, with smaller groups
        attributes = [name for name in counts if not is_intersection(name, counts)]
        for name in attributes or list(counts):
            findings.append(_of_selections(name, metrics))
    findings.sort(key=lambda pair: -pair[0])
    sentences = [text for _, text in findings[:MOST_NAMED]]
    if len(findings) > MOST_NAMED:
        hidden = formats.plural(len(findings) - MOST_NAMED, "further attribute")
        sentences.append(f"{hidden} with smaller differences: see the tables below.")
    return sentences + consistency_sentences(metrics)


def consistency_sentences(metrics: Json) -> list[str]:
    """Say how many people have one prediction on all counterfactual copies of their row."""
    sentences = []
    for name, value in metrics["metrics"].items():
        kind, _, subject = name.partition(".")
        if kind != "consistency" or value["value"] is None:
            continue
        copies = f"every counterfactual copy of their row that differs only in “{spoken(subject)}”"
        if subject in metrics["settings"].get("adapted", ()):
            copies = f"all their counterparts in the other groups (“{spoken(subject)}”)"
        share = formats.percent(value["value"])
        sentences.append(f"{share} of people have the same prediction on {copies}.")
    return sentences


def _of_selections(name: str, metrics: Json) -> tuple[float, str]:
    """The widest difference of an attribute's selection rates, and a sentence on it.

    Without enough evidence the difference is 2, more than any, so that the sentence comes first.
    """
    settings = metrics["settings"]
    metric = f"demographic_parity_difference.{name}"
    measured = metrics["metrics"].get(metric, {})
    about = f"By {spoken(name)}"
    groups, named = named_rates(name, metrics)
    shares = [(rate.selected.value or 0.0, rate.group) for rate in named]
    if len(shares) < 2 or (measured and measured["value"] is None):
        text = f"{about}: not enough evidence to compare the groups"
        if measured.get("reason"):
            text += f": {measured['reason']}"
        return 2.0, f"{text}."
    low, least = min(shares)
    high, favoured = max(shares)
    without = _without(metrics, metric)
    if high - low < LEAST_DIFFERENCE:
        same = f"{formats.percent(high)} of every group are {selected_as(settings)}"
        return 0.0, f"{about}: {same}{without}."
    text = (
        f"{about}: {formats.percent(high)} of “{favoured}” and {formats.percent(low)} of "
        f"“{least}” are {selected_as(settings)}; a difference of {formats.points(high - low)}"
    )
    if measured.get("low") is not None and len(named) == len(groups):
        ends = f"{100 * measured['low']:.1f} to {100 * measured['high']:.1f}"
        text += f" ({interval_name(settings)} {ends})"
    if low < FOUR_FIFTHS * high:
        text += f"; the impact ratio {formats.number(low / high)} is below four fifths"
    if len(named) < len(groups):
        tiny = [f"“{rate.group}” ({rate.n:,})" for rate in groups if rate.n < NAMED]
        text += f"; not named, with fewer than {NAMED} rows: {formats.shortlist(tiny, MOST_NAMED)}"
    return high - low, f"{text}{without}."


def _without(metrics: Json, name: str) -> str:
    """End of a sentence that names the groups which a metric leaves out."""
    groups = metrics.get("groups", {}).get(name, {}).get("left_out", [])
    if not groups:
        return ""
    return f"; not compared: {left_out_text(groups, metrics['settings'].get('unit', 'rows'))}"


def groups_left_out(metrics: Json, name: str) -> str:
    """Say which groups a metric leaves out; empty where it compares all."""
    return _without(metrics, name).removeprefix("; ")


def label_gap(cells: Sequence[Json]) -> tuple[Json, Json] | None:
    """Groups with the lowest and the highest share of a label predicted right; None with fewer than
    two.
    """
    cells = [cell for cell in cells if cell["enough"] and not is_missing(cell["group"])]
    if len(cells) < 2:
        return None
    return min(cells, key=lambda cell: cell["rate"]), max(cells, key=lambda cell: cell["rate"])


def by_label(cells: Sequence[Json]) -> dict[str, list[Json]]:
    """Counts of one attribute's groups, label by label."""
    labels: dict[str, list[Json]] = {}
    for cell in cells:
        labels.setdefault(cell["label"], []).append(cell)
    return labels


def _of_labels(name: str, cells: Sequence[Json]) -> tuple[float, str]:
    """Say of which of more than two labels an attribute's groups are predicted right most
    differently.
    """
    labels = by_label(cells)
    gaps = {}
    for label, label_cells in labels.items():
        gap = label_gap(label_cells)
        if gap is not None:
            gaps[label] = gap
    if not gaps:
        return 2.0, f"By {spoken(name)}: not enough evidence to compare the groups."
    widest = max(gaps, key=lambda label: gaps[label][1]["rate"] - gaps[label][0]["rate"])
    least, most = gaps[widest]
    few = ""
    if len(gaps) < len(labels):
        hidden = formats.plural(len(labels) - len(gaps), "label")
        few = f"; {hidden} with too few rows left out"
    text = (
        f"By {spoken(name)}: of the label “{spoken(widest)}” {formats.percent(most['rate'])} of "
        f"“{most['group']}” and {formats.percent(least['rate'])} of “{least['group']}” are "
        f"predicted right, the widest difference of {formats.plural(len(gaps), 'label')}{few}."
    )
    return most["rate"] - least["rate"], text


def gate_results(documents: Json) -> Sequence[Json]:
    """Results of the gates; none where the job has none."""
    decision = documents.get("decision") or {"results": []}
    results: Sequence[Json] = decision["results"]
    return results


def gate_kind(result: Json) -> str:
    """Which of :data:`GATE_STATUS` a gate's result is."""
    if result["status"] == "insufficient_evidence":
        return "insufficient_evidence"
    return "passed" if result["passed"] else "refused"


def gate_findings(results: Sequence[Json], lead: str) -> list[str]:
    """Say which gates refused and by how much, and which could not be judged; `lead` starts it,
    as in "Not published, because".
    """
    refused = [result for result in results if gate_kind(result) == "refused"]
    unclear = [result for result in results if gate_kind(result) == "insufficient_evidence"]
    reason = "there is not enough evidence to decide"
    if refused:
        reason = f"{len(refused)} of {formats.plural(len(results), 'gate')} refused it"
    sentences = [f"{lead} {reason}."]
    for result in (*refused, *unclear):
        text = result["text"].replace(result["metric"], title(result["metric"]), 1)
        sentences.append(f"{text}.")
    return sentences


def gates_passed(results: Sequence[Json]) -> str:
    """Say that all gates passed; of one or two, also what they asked and found."""
    count = len(results)
    if count > 2:
        return f"It passes all {count} gates"
    findings = []
    for result in results:
        text = result["text"].replace(result["metric"], title(result["metric"]), 1)
        findings.append(text.removesuffix(": passed"))
    start = "It passes its one gate" if count == 1 else "It passes both gates"
    return f"{start}: {'; '.join(findings)}"
