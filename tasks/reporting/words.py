"""Metric names, methods and verdicts in plain words."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from evenhand.tasks.reporting import formats
from evenhand.tasks.reporting.context import Cell, Evaluation, GateResult, ReportContext
from evenhand.tasks.reporting.proxy_words import PROXIES, PROXY_METRICS

Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class MetricWords:
    """A metric for a reader: a short label, what it is about, one sentence, and which way is better."""

    label: str
    about: str
    meaning: str
    better: Better | None


# {about} is the attribute, or the name of the set of copies, that follows the dot in a metric's name.
METRICS: dict[str, tuple[str, str, Better | None]] = {
    "accuracy": (
        "Accuracy",
        "The share of people whose answer from the model is the one that turned out to be true.",
        "higher",
    ),
    "balanced_accuracy": (
        "Balanced accuracy",
        "The share of true positives found and the share of true negatives found, averaged, so that the "
        "rarer outcome counts as much as the commoner one.",
        "higher",
    ),
    "auc": (
        "Ranking (AUC)",
        "How often a truly positive person gets a higher score than a truly negative one; guessing "
        "gives 0.5.",
        "higher",
    ),
    "consistency": (
        "Same answer for copies",
        "The share of people whose answer stays the same in every copy of their row that differs only "
        "in “{about}”, as the job defines the copies.",
        "higher",
    ),
    "gap_max": (
        "Largest gap in right answers",
        "How much more often the model is right for one group than for another, by {about}; the larger of "
        "the gaps among true positives and among true negatives.",
        "lower",
    ),
    "gap_rms": (
        "Typical gap in right answers",
        "The gaps in right answers by {about} among true positives and among true negatives, combined "
        "into one number (root mean square).",
        "lower",
    ),
    "demographic_parity_difference": (
        "Gap in positive answers",
        "The largest difference by {about} in how often a group gets the positive answer, whatever is true.",
        "lower",
    ),
    "equal_opportunity_difference": (
        "Gap in positives found",
        "The largest difference by {about} in how often truly positive people get the positive answer.",
        "lower",
    ),
    "average_odds_difference": (
        "Gap in odds",
        "The average of two gaps by {about}: in how often true positives, and in how often true negatives, "
        "get the positive answer.",
        "lower",
    ),
    "balanced_accuracy_difference": (
        "Gap in balanced accuracy",
        "The largest difference by {about} in a group's balanced accuracy, the average of the shares of its "
        "true positives and of its true negatives that are found.",
        "lower",
    ),
    "theil_index": (
        "Inequality of errors (Theil)",
        "How unevenly wrong answers in people's favour and against them are spread over all "
        "people; 0 is even.",
        "lower",
    ),
    "features_asked": (
        "Features asked",
        "How many features the model asks of a person, on average, before it answers.",
        "lower",
    ),
    "certificate.dif": (
        "Worst change for similar people",
        "How much answers were found to change, on average, in a search that exchanges people for similar "
        "ones within the stated distance.",
        "lower",
    ),
    "certificate.drf": (
        "Worst loss for similar people",
        "How much the model's loss can rise when people are exchanged for similar ones within the stated "
        "distance.",
        "lower",
    ),
    **PROXY_METRICS,
}

METHODS: dict[str, str] = {
    **PROXIES,
    "gbdt": "gradient-boosted trees",
    "nn": "a neural network",
    "project": "gradient-boosted trees on data with the sensitive directions projected out",
    "reweigh": "gradient-boosted trees on reweighed rows",
    "budro": "gradient-boosted trees held against a fair-distance adversary (BuDRO)",
    "sensei": "a neural network trained to treat similar people alike (SenSeI)",
    "sensr": "a neural network trained against a fair-distance adversary (SenSR)",
    "dadi": "an agent that asks each person only for features that are fair to use (DADI)",
    "clp": "a neural network with paired-answer regularisation (CLP)",
}

STATUS: dict[str, tuple[str, str]] = {
    "published": ("\u2713", "Published"),
    "gated": ("\u2715", "Not published: a gate refused"),
    "insufficient_evidence": ("?", "Not published: not enough evidence"),
    "failed": ("!", "Did not finish"),
}

GATE_STATUS: dict[str, tuple[str, str]] = {
    "passed": ("\u2713", "Passed"),
    "refused": ("\u2715", "Refused"),
    "insufficient_evidence": ("?", "Not enough evidence"),
}


def attribute(name: str) -> str:
    """Name an attribute as people write it: 'personal_status' -> 'personal status', 'a&b' -> 'a and b'."""
    return name.replace("&", " and ").replace("_", " ").strip()


def crossed(name: str, attributes: Collection[str]) -> bool:
    """Tell whether a name such as 'sex&race' is an intersection of known attributes."""
    parts = name.split("&")
    return len(parts) > 1 and all(part in attributes for part in parts)


def metric(name: str) -> MetricWords:
    """Find the words for a metric's flat name; an unknown one keeps its name and has no direction."""
    if name in METRICS:
        label, meaning, better = METRICS[name]
        return MetricWords(label, "", meaning, better)
    stem, dot, rest = name.partition(".")
    if dot and stem in METRICS:
        label, meaning, better = METRICS[stem]
        about = attribute(rest)
        shown = f"by {about}" if better == "lower" else f"differing in {about}"
        return MetricWords(label, shown, meaning.replace("{about}", about), better)
    return MetricWords(name, "", "This metric has no plain-language description yet.", None)


def glossary(names: list[str]) -> list[MetricWords]:
    """Explain each kind of metric once, for all the attributes that it is reported by."""
    abouts: dict[str, list[str]] = {}
    for name in names:
        stem, _, rest = name.partition(".")
        if name not in METRICS and stem in METRICS:
            abouts.setdefault(stem, []).append(attribute(rest))
        else:
            abouts.setdefault(name, [])
    entries = []
    for stem, about in abouts.items():
        words = metric(stem)
        comma, last = ("”, “", "” or “") if "“{about}”" in words.meaning else (", ", " or ")
        many = "several attributes, one at a time"
        listed = many
        if len(about) < 5:
            listed = last.join([comma.join(about[:-1]), about[-1]] if about[1:] else about)
        entries.append(MetricWords(words.label, "", words.meaning.replace("{about}", listed), words.better))
    return entries


def metric_phrase(name: str) -> str:
    """Give the label and what it is about, on one line."""
    words = metric(name)
    return f"{words.label} {words.about}".strip()


def method(name: str) -> str:
    """Put a method in words, or its own name."""
    return METHODS.get(name, f"the method {name}")


@dataclass(frozen=True)
class Rate:
    """A share of rows; null when there are fewer than the minimum to judge it by."""

    hits: int
    n: int
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class GroupRates:
    """How the model answers for one group: ``selected`` of all rows, ``tpr`` of true positives, ``tnr``."""

    group: str
    n: int
    selected: Rate
    tpr: Rate
    tnr: Rate


def _rate(hits: int, n: int, min_cell: int, z: float) -> Rate:
    if n < max(min_cell, 1):
        return Rate(hits, n, None, None, None)
    # Wilson's score interval (1927), which stays inside [0, 1] and does not shrink to a point at 0 or n.
    share = hits / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * ((share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5)
    return Rate(hits, n, share, min(max(centre - half, 0.0), share), max(min(centre + half, 1.0), share))


def group_rates(cells: list[Cell], min_cell: int, level: float = 0.95) -> list[GroupRates]:
    """Turn counts per group and true label into rates.

    Parameters
    ----------
    cells : list of Cell
        At most one cell per group and true label; an absent cell counts no rows.
    min_cell : int
        Rates over fewer rows are null.
    level : float
        Of the intervals, Wilson's.

    Returns
    -------
    list of GroupRates
        In the order in which the groups first occur; no group is left out.
    """
    z = NormalDist().inv_cdf(0.5 + level / 2)
    tally: dict[str, list[list[int]]] = {}
    for cell in cells:
        rows = tally.setdefault(cell.group, [[0, 0], [0, 0]])
        rows[cell.label][0] += cell.n
        rows[cell.label][1] += cell.predicted_positive
    rates = []
    for group, ((n0, p0), (n1, p1)) in tally.items():
        rates.append(
            GroupRates(
                group,
                n0 + n1,
                _rate(p0 + p1, n0 + n1, min_cell, z),
                _rate(p1, n1, min_cell, z),
                _rate(n0 - p0, n0, min_cell, z),
            )
        )
    return rates


def margin(result: GateResult) -> float | None:
    """Tell how far the value is on the right side of the limit (negative: how much is missing)."""
    if result.status == "insufficient_evidence":
        return None
    if result.value is not None:
        return result.value - result.limit if result.kind == "min" else result.limit - result.value
    return -abs(result.shortfall) if result.shortfall is not None else None


@dataclass(frozen=True)
class GateWords:
    """A gate for a reader: what it asked, what was found, and which number was compared."""

    asked: str
    found: str
    compared: str


def gate_words(result: GateResult, interval: str = "95% interval") -> GateWords:
    """Put a gate in words; a missing value is found "not available"."""
    if result.kind == "no_worse_than_baseline":
        found, asked = formats.apart(None if result.value is None else abs(result.value), result.limit)
        if result.value is not None:
            found = (
                "no worse" if result.value == 0 else f"{found} {'worse' if result.value > 0 else 'better'}"
            )
        compared = "the estimate" if result.bound == "point" else f"unfavourable end of the {interval}"
        than = f"at most {asked} worse than the baseline" if result.limit else "no worse than the baseline"
        return GateWords(than, found, compared)
    found, asked = formats.apart(result.value, result.limit)
    least = result.kind == "min"
    end = "lower" if least else "upper"
    compared = "the estimate" if result.bound == "point" else f"{end} end of the {interval}"
    return GateWords(f"{'at least' if least else 'at most'} {asked}", found, compared)


def gate_sentence(result: GateResult, interval: str = "95% interval", reason: str | None = None) -> str:
    """Say what a gate asked, what it found, and by how much it differs (or the reason why it cannot tell)."""
    said = gate_words(result, interval)
    name = metric_phrase(result.metric)
    if result.status == "insufficient_evidence":
        why = f"; {reason}" if reason else ""
        return f"{name}: not enough evidence to judge ({said.asked} was asked){why}."
    seen = said.found
    if result.bound == "interval":
        seen = f"the {said.compared} is {seen}"
    gap = margin(result)
    if result.passed:
        return f"{name}: {seen}, where {said.asked} was asked."
    missing = "" if gap is None else f": {formats.number(abs(gap))} {too(result)}"
    return f"{name}: {seen}, where {said.asked} was asked{missing}."


def too(result: GateResult) -> str:
    """Name the way in which a value fails this gate."""
    return {"min": "too low", "max": "too high", "no_worse_than_baseline": "too much"}[result.kind]


def gates_passed(count: int) -> str:
    """Say that all gates let a model pass."""
    every = {1: "its one gate", 2: "both gates"}.get(count, f"all {count} gates")
    return f"It passes {every}"


def gate_findings(
    results: Sequence[GateResult], evaluation: Evaluation | None, interval: str, lead: str
) -> list[str]:
    """Say which gates refused and by how much, and which could not tell; ``lead`` starts it."""
    refused = [r for r in results if not r.passed and r.status != "insufficient_evidence"]
    unclear = [r for r in results if r.status == "insufficient_evidence"]
    if refused:
        of = f"{len(refused)} of {formats.plural(len(results), 'gate')}"
        sentences = [f"{lead}: {of} refused it."]
        sentences += [gate_sentence(result, interval) for result in refused]
    else:
        sentences = [f"{lead}: there is not enough evidence to decide."]
    metrics = evaluation.metrics if evaluation else {}
    for result in unclear:
        known = metrics.get(result.metric)
        sentences.append(gate_sentence(result, interval, known.reason if known else None))
    return sentences


def outcome(context: ReportContext) -> list[str]:
    """Say whether the model is published, and if not why."""
    gates = context.gates
    if context.status == "failed":
        return ["The run did not finish, and nothing was published."]
    if context.refusal is not None:
        return [f"It is not published: {context.refusal}"]
    results = gates.results if gates else []
    if context.status == "published":
        model = context.model
        where = ""
        if model is not None:
            alias = f", as its {model.alias}" if model.alias else ""
            where = f" and is published as version {model.version} of {model.name}{alias}"
        if not results:
            return [f"No gate was set; the model was not held to any limit{where}."]
        return [f"{gates_passed(len(results))}{where}."]
    return gate_findings(results, context.evaluation, context.interval, "It is not published")


def treatment(evaluation: Evaluation, interval: str, most: int = 3) -> list[str]:
    """Say which groups get the positive answer how often, widest gaps first, and who is answered alike."""
    said: list[tuple[float, str]] = []
    # Intersections repeat what their parts say, with smaller groups: they are for the tables.
    plain = [a for a in evaluation.counts if not crossed(a, evaluation.counts)] or list(evaluation.counts)
    for name in plain:
        about = attribute(name)
        metric_value = evaluation.metrics.get(f"demographic_parity_difference.{name}")
        rates = group_rates(evaluation.counts[name], evaluation.settings.min_cell)
        known = [(r.selected.value, r.group) for r in rates if r.selected.value is not None]
        few = [r.group for r in rates if r.selected.value is None]
        lacking = metric_value is not None and metric_value.value is None
        if len(known) < 2 or lacking or few:
            reason = f": {metric_value.reason}" if metric_value is not None and metric_value.reason else ""
            said.append((2.0, f"By {about}: not enough evidence to compare the groups{reason}."))
            continue
        (low, least), (high, favoured) = min(known), max(known)
        if high - low < 0.0005:
            same = formats.percent(high)
            said.append((0.0, f"By {about}: every group gets the positive answer equally often, {same}."))
            continue
        text = (
            f"By {about}: {formats.percent(high)} of “{favoured}” get the positive answer and "
            f"{formats.percent(low)} of “{least}”, a difference of {formats.points(high - low)}"
        )
        if metric_value is not None and metric_value.low is not None and metric_value.high is not None:
            text += f" ({interval} {100 * metric_value.low:.1f} to {100 * metric_value.high:.1f})"
        said.append((high - low, text + "."))
    said.sort(key=lambda pair: -pair[0])
    sentences = [text for _, text in said[:most]]
    if len(said) > most:
        rest = len(said) - most
        further = "attribute differs" if rest == 1 else "attributes differ"
        sentences.append(f"{rest} further {further} less; the tables below have all.")
    for name, value in evaluation.metrics.items():
        if name.startswith("consistency.") and value.value is not None:
            about = attribute(name.partition(".")[2])
            sentences.append(
                f"{formats.percent(value.value)} of people get the same answer in every copy of their row "
                f"that differs only in “{about}”."
            )
    return sentences


def headline(context: ReportContext) -> list[str]:
    """Answer in sentences: what was trained on what, does it pass, who is treated differently.

    Parameters
    ----------
    context : ReportContext

    Returns
    -------
    list of str
        Plain text; the first sentence says what was done and what came of it.
    """
    table = context.table
    rows = (
        f"{formats.count(table.train_rows)} of the {formats.count(table.rows)} rows of the table {table.name}"
    )
    if context.evaluation is None:
        # The run may have ended before training.
        trained = f"The job was to train {method(context.job.method)}, on {rows}"
    else:
        judged = formats.count(context.evaluation.n)
        trained = (
            f"The model, {method(context.job.method)}, learned from {rows} and was judged on {judged} rows "
            "that it had not seen"
        )
    treated = treatment(context.evaluation, context.interval) if context.evaluation else []
    return [trained + ".", *outcome(context), *(context.findings or treated)]
