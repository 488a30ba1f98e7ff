"""The front of a sweep's page: what was swept, what is traded for what, and the best value."""

from __future__ import annotations

from collections.abc import Sequence

from evenhand.fairlib.catalogue import better, title
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Documents, Front, Json


def front(documents: Documents) -> Front:
    """Build the front; a sweep whose goal no value meets is marked as refused."""
    run, sweep = documents["run"], documents["tradeoff"]
    failed = sum(value["failed"] for value in sweep["values"])
    status = "All runs finished"
    if failed:
        status = f"{failed} of {len(sweep['points'])} runs failed"
    elif sweep["goal"] and not sweep["best"]:
        status = "No value is good enough"
    good = status == "All runs finished"
    return Front(
        "sweep report",
        f"{sweep['job']} over {formats.join(sweep['keys'])}",
        [
            (f"Job {sweep['job']}", None),
            (f"sweep {run['id']}", None),
            (formats.moment(run["created"]), run["created"]),
        ],
        headline(sweep),
        badge=("passed" if good else "refused", "\u2713" if good else "\u2715", status),
    )


def interval_name(sweep: Json) -> str:
    """Name the intervals and say what they are of."""
    level = f"{100 * sweep['level']:g}% interval"
    if len(sweep["seeds"]) == 1:
        return f"{level} of the one run (bootstrap over its test rows)"
    return f"{level} of the mean over {len(sweep['seeds'])} seeds (Student’s t)"


def main_fairness(sweep: Json) -> str | None:
    """The fairness metric that the headline names: the goal's, else a consistency, a gap, or any."""
    names = [name for name in sweep["fronts"] if "&" not in name]
    limited = [name for name in names if name in sweep["limits"]]
    kinds = [name for kind in ("consistency.", "gap_max.") for name in names if name.startswith(kind)]
    return next(iter([*limited, *kinds, *names]), None)


def headline(sweep: Json) -> list[str]:
    """Say what was swept, which value is best under the limits, and what is traded for what."""
    runs = sum(value["runs"] for value in sweep["values"])
    failed = sum(value["failed"] for value in sweep["values"])
    seeds = formats.plural(len(sweep["seeds"]), "seed")
    text = f"{formats.plural(runs, 'run')} of {sweep['job']}: {formats.plural(len(sweep['values']), 'value')}"
    text += f" of {formats.join(sweep['keys'])}, {seeds}{' each' if len(sweep['values']) > 1 else ''}."
    sentences = [text + (f" {formats.plural(failed, 'run')} failed." if failed else "")]
    best = sweep["best"]
    if best:
        numbers = [
            f"{within(name)} {formats.number(best['metrics'][name]['mean'])}"
            for name in sweep["goal_metrics"]
        ]
        sentences.append(f"Best for “{sweep['goal']}”: {best['name']}, with {formats.join(numbers)}.")
    elif sweep["miss"]:
        sentences.append(f"{sweep['miss'][0].upper()}{sweep['miss'][1:]}")
    sentences += _ends(sweep)
    if best:
        sentences.append(
            "The value was chosen on the rows that also measure it, so its numbers are too good: measure it "
            "again on seeds that had no part in the choice."
        )
    return sentences


def _ends(sweep: Json) -> list[str]:
    """The value with the best performance, the fairest one, and the difference between them."""
    performance, fairness = sweep["performance"], main_fairness(sweep)
    known = [
        value
        for value in sweep["values"]
        if fairness
        and all((value["metrics"].get(n) or {}).get("mean") is not None for n in (performance, fairness))
    ]
    if fairness is None or len(known) < 2:
        return []
    good, fair = _top(known, performance), _top(known, fairness)
    label, other = title(performance), within(fairness)
    if good is fair:
        return [
            f"{good['name']} has both the best {within(performance)} ({_shown(good, performance)}) and the "
            f"best “{other}” ({_shown(good, fairness)}): here there is no trade-off between the two."
        ]
    sentence = (
        f"{label} is best at {good['name']} ({_shown(good, performance)}), where “{other}” is "
        f"{_shown(good, fairness)}; that is best at {fair['name']} ({_shown(fair, fairness)}), where "
        f"{within(performance)} is {_shown(fair, performance)}."
    )
    close = [within(n) for n in (performance, fairness) if _overlap(good["metrics"][n], fair["metrics"][n])]
    if close:
        sentence += f" Their intervals overlap in {formats.join(close)}: that difference may be chance."
    return [sentence]


def within(name: str) -> str:
    """A metric's title within a sentence."""
    text = title(name)
    return text if text[1:2].isupper() else text[0].lower() + text[1:]


def _top(values: Sequence[Json], name: str) -> Json:
    sign = 1.0 if better(name) == "higher" else -1.0
    return max(values, key=lambda value: sign * value["metrics"][name]["mean"])


def _shown(value: Json, name: str) -> str:
    return formats.number(value["metrics"][name]["mean"])


def _overlap(one: Json, other: Json) -> bool:
    if one["low"] is None or other["low"] is None:
        return False
    return bool(one["low"] <= other["high"] and other["low"] <= one["high"])
