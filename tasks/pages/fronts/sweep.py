"""The front of a sweep's page, and the numbers that several of its sections show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from evenhand.fairlib.catalogue import better, describe, direction, spoken, title
from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.model import Chart, Documents, Front, Json


def front(documents: Documents) -> Front:
    """Build the front; a sweep whose goal no value meets is marked as refused."""
    run, sweep = documents["run"], documents["tradeoff"]
    failed = sum(value["failed"] for value in sweep["values"])
    badge = ("passed", "\u2713", "All runs finished")
    if failed:
        badge = ("refused", "\u2715", f"{failed} of {len(sweep['points'])} runs failed")
    elif sweep["goal"] and not sweep["best"]:
        badge = ("refused", "\u2715", "No value is good enough")
    named = f"{sweep['job']} over {formats.join(sweep['keys'])}"
    meta = [f"Job {sweep['job']}", f"sweep {run['id']}"]
    return Front("sweep report", named, meta, headline(sweep), run["created"], badge=badge)


def interval_name(sweep: Json) -> str:
    """Name the intervals and say what they are of."""
    if len(sweep["seeds"]) == 1:
        return f"{texts.interval_name(sweep)} of the one run (bootstrap over its test rows)"
    return f"{texts.interval_name(sweep)} of the mean over {len(sweep['seeds'])} seeds (Student’s t)"


def headline(sweep: Json) -> list[str]:
    """Say what was swept, which value is best under the limits, and what is traded for what."""
    values, best = sweep["values"], sweep["best"]
    failed = sum(value["failed"] for value in values)
    runs = formats.plural(sum(value["runs"] for value in values), "run")
    seeds = formats.plural(len(sweep["seeds"]), "seed") + (" each" if len(values) > 1 else "")
    swept = f"{formats.plural(len(values), 'value')} of {formats.join(sweep['keys'])}, {seeds}."
    lost = f" {formats.plural(failed, 'run')} failed." if failed else ""
    sentences = [f"{runs} of {sweep['job']}: {swept}{lost}"]
    if best:
        means = {name: formats.number(best["metrics"][name]["mean"]) for name in sweep["goal_metrics"]}
        numbers = [f"{within(name)} {mean}" for name, mean in means.items()]
        sentences.append(f"Best for “{sweep['goal']}”: {best['name']}, with {formats.join(numbers)}.")
    elif sweep["miss"]:
        sentences.append(formats.sentence(sweep["miss"]))
    sentences += _ends(sweep)
    if best:
        sentences.append(
            "The value was chosen on the rows that also measure it, so its numbers are too good: measure it "
            "again on seeds that had no part in the choice."
        )
    return sentences


def _ends(sweep: Json) -> list[str]:
    """The value with the best performance, the fairest one, and the difference between them.

    Fairness is that of the goal, else of a consistency, a gap, or any metric.
    """
    names = plain_metrics(sweep["fronts"])
    limited = [name for name in names if name in sweep["limits"]]
    kinds = [name for kind in ("consistency.", "gap_max.") for name in names if name.startswith(kind)]
    performance, fairness = sweep["performance"], next(iter([*limited, *kinds, *names]), "")
    pair = (performance, fairness)
    known = [value for value in sweep["values"] if all(estimate(value, name) for name in pair)]
    if len(known) < 2:
        return []
    good, fair = (
        max(known, key=lambda v: (1 if better(n) == "higher" else -1) * v["metrics"][n]["mean"]) for n in pair
    )
    # the performance and the fairness of the value that performs best, and of the fairest
    best, cost, price, fairest = (
        formats.number(value["metrics"][name]["mean"]) for value in (good, fair) for name in pair
    )
    label, other = within(performance), within(fairness)
    if good is fair:
        return [
            f"{good['name']} has both the best {label} ({best}) and the best “{other}” ({cost}): here there "
            "is no trade-off between the two."
        ]
    sentence = (
        f"{title(performance)} is best at {good['name']} ({best}), where “{other}” is {cost}; that is best "
        f"at {fair['name']} ({fairest}), where {label} is {price}."
    )
    close = [within(name) for name in pair if texts.overlap(good["metrics"][name], fair["metrics"][name])]
    if close:
        sentence += f" Their intervals overlap in {formats.join(close)}: that difference may be chance."
    return [sentence]


def within(name: str) -> str:
    """A metric's title within a sentence."""
    text = title(name)
    return text if text[1:2].isupper() else text[0].lower() + text[1:]


def is_of_proxies(sweep: Json) -> bool:
    """Whether all that was swept are proxies."""
    return bool(sweep["performance"] == "imbalance")


def plain_metrics(names: Iterable[str]) -> list[str]:
    """Metrics that charts show: those of intersections stand in tables only."""
    return [name for name in names if "&" not in name]


def of_axis(name: str, *, short: bool = False) -> str:
    """Title of an axis or a column: the metric, `short` without its subject, and which way it is better."""
    way = direction(name)
    text = describe(name)[0].title if short and "." in name else title(name)
    return f"{text} ({f'{way} is better' if way else 'to compare with'})"


def by_subject(names: Iterable[str]) -> dict[str, list[str]]:
    """Metrics by what they are about, so that each table is narrow enough to read."""
    groups: dict[str, list[str]] = {}
    for name in names:
        info, subject = describe(name)
        about = f"By {spoken(subject)}" if info.subject == "attribute" else info.title
        about = about if subject else "Overall"
        groups.setdefault("Certificate" if info.name.startswith("certificate") else about, []).append(name)
    return groups


def estimate(value: Json, name: str) -> dict[str, float | None] | None:
    """A mean with its interval, cut where the metric cannot be; None where no run has the number."""
    found = value["metrics"].get(name)
    if found is None or found["mean"] is None:
        return None
    low, high = found["low"], found["high"]
    if low is None or high is None:
        return {"value": found["mean"], "low": None, "high": None}
    bottom, top = describe(name)[0].domain
    low, high = low if bottom is None else max(low, bottom), high if top is None else min(high, top)
    return {"value": found["mean"], "low": low, "high": high}


def mark(label: str, kind: str, x: Json, y: Json, series: str = "") -> dict[str, object]:
    """A mark of a trade-off chart: two estimates with their intervals."""
    ends = {f"{axis}_{end}": found[end] for axis, found in (("x", x), ("y", y)) for end in ("low", "high")}
    return {"label": label, "series": series, "kind": kind, "x": x["value"], "y": y["value"], **ends}


def tradeoff_chart(
    x: str, y: str, rows: list[dict[str, Any]], said: str, caption: str = "", *, limits: Json, **more: Any
) -> Chart:
    """Marks of one metric against another, with lines across at the `limits` of each."""
    data = {"rows": rows, "x_title": of_axis(x), "y_title": of_axis(y), **more}
    data |= {"x_limits": limits.get(x, ()), "y_limits": limits.get(y, ())}
    return Chart("tradeoffs.tradeoff", data, f"{title(y)} against {title(x)}", said, caption)


def mean(values: Iterable[float | None]) -> float | None:
    """Mean of the known numbers; None where none is known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
