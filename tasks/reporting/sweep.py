"""A sweep as one HTML page: what was traded for what, in words, plots and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from evenhand.tasks.reporting import formats, sweep_words, words
from evenhand.tasks.reporting.page import environment
from evenhand.tasks.reporting.proxy_words import PROXY_METRICS
from evenhand.tasks.reporting.sweep_asked import asked_part
from evenhand.tasks.reporting.sweep_balance import share_panels, tell_panels
from evenhand.tasks.reporting.sweep_methods import methods_part
from evenhand.tasks.reporting.sweep_panels import best_value, better, estimate, is_of_proxies, panels
from evenhand.tasks.reporting.sweep_plots import profile_plot

__all__ = ["render_sweep"]

OVERALL = ("accuracy", "balanced_accuracy", "auc", "theil_index", "features_asked", *PROXY_METRICS)


def render_sweep(
    document: Mapping[str, Any],
    *,
    balances: Sequence[Mapping[str, Any]] = (),
    created: str,
    made: Sequence[tuple[str, str]],
    files: Sequence[tuple[str, str]],
) -> str:
    """Write the report of a sweep.

    Parameters
    ----------
    document : mapping
        Content of ``tradeoff.json``.
    balances : sequence of mapping
        Points of ``balances.json``, if there are proxies among the runs.
    created : str
        ISO time.
    made : sequence of (str, str)
        How it was made: names and values.
    files : sequence of (str, str)
        Names and relative addresses of the files beside the report.

    Returns
    -------
    str
        A whole HTML document.
    """
    failed = sum(value["failed"] for value in document["values"])
    good = not failed and (document["best"] or not document["goal"])
    status = "All runs finished"
    if failed:
        status = f"{failed} of {len(document['points'])} runs failed"
    elif not good:
        status = "No value is good enough"
    return (
        environment()
        .get_template("sweep.html.j2")
        .render(
            title=f"{document['job']} over {formats.join(document['keys'])}",
            d=document,
            created=created,
            kind="passed" if good else "refused",
            symbol="\u2713" if good else "\u2715",
            status=status,
            headline=sweep_words.headline(document),
            interval=sweep_words.interval_name(document),
            plain=[name for name in document["metrics"] if "&" not in name],
            of_proxies=is_of_proxies(document),
            methods=methods_part(document),
            panels=panels(document),
            shares=share_panels(document, balances),
            tells=tell_panels(document, balances),
            asked=asked_part(document),
            profiles=_profiles(document),
            tables=_tables(document),
            named_rows=any(len(value["label"]) > 20 for value in document["values"]),
            runs=_runs(document),
            made=made,
            files=files,
        )
    )


def _profiles(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every metric against the swept key, where that is one number."""
    key, *others = document["keys"]
    swept = [value["settings"][key] for value in document["values"]]
    if others or len(swept) < 2 or not all(type(item) in (int, float) for item in swept):
        return []
    order = sorted(range(len(swept)), key=lambda index: swept[index])
    values = [document["values"][index] for index in order]
    best = best_value(document)
    drawn = []
    for number, name in enumerate(document["metrics"]):
        if "&" in name:
            continue
        plot = profile_plot(
            [value["label"] for value in values],
            [estimate(document, value, name) for value in values],
            uid=f"profile-{number}",
            title=f"{words.metric_phrase(name)} by {key}",
            description=f"The metric with its interval at {len(values)} values of {key}, in rising order.",
            axis=key,
            best=None if best is None else order.index(best),
            limits=document["limits"].get(name, ()),
        )
        phrase = f"{words.metric_phrase(name)} ({better(document, name)})"
        drawn.append({"name": name, "phrase": phrase, "plot": Markup(plot)})
    return drawn


def _tables(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All metrics by what they are about, so that each table is narrow enough to read."""
    groups: dict[str, list[str]] = {}
    for name in document["metrics"]:
        stem, _, about = name.partition(".")
        if name in OVERALL:
            caption = "Overall"
        elif stem == "consistency":
            caption = words.METRICS["consistency"][0]
        else:
            caption = f"By {words.attribute(about)}" if stem != "certificate" else "Certificate"
        groups.setdefault(caption, []).append(name)
    return [
        {
            "caption": caption,
            "columns": [(name, _head(name, caption), better(document, name)) for name in names],
        }
        for caption, names in groups.items()
    ]


def _head(name: str, caption: str) -> str:
    """A metric's column head: the caption need not be said again."""
    word = words.metric(name)
    return word.label if caption.startswith("By ") else words.metric_phrase(name)


def _runs(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    verdicts = {name: text for name, (_, text) in words.GATE_STATUS.items()}
    return [
        {
            "label": document["values"][point["value"]]["label"],
            "seed": point["seed"],
            "metrics": point["metrics"],
            "gates": verdicts.get(point["verdict"], "") if point["status"] == "done" else "Failed",
            "error": point["error"],
            "seconds": sum(point["seconds"].values()),
            "cached": f"{len(point['cached'])} of {len(point['seconds'])}",
        }
        for point in document["points"]
    ]
