"""Pictures of charts: drawn once by their arguments' digest, for a wide and for a narrow page."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from markupsafe import Markup, escape

from evenhand.fairlib.cores import available_cores
from evenhand.tasks.fingerprint import code_digest, library_versions
from evenhand.tasks.pages.model import Chart
from evenhand.tasks.store import Store

__all__ = ["BOTH", "SMALL", "Figures"]

# Widths in CSS pixels. The page's style sheet shows the wide or the narrow form; small charts have one form.
WIDTHS = {"wide": 680, "narrow": 330, "small": 330}
BOTH, SMALL = ("wide", "narrow"), ("small",)
ROOT = re.compile(r"<svg [^>]*?width=\"([\d.]+)\" height=\"([\d.]+)\" viewBox=\"([^\"]+)\"[^>]*>")


class Figures:
    """
    The figures of one page.

    Parameters
    ----------
    store : Store or None
        Keeps pictures below ``charts/`` by the digest of what they are drawn from.
    """

    def __init__(self, store: Store | None) -> None:
        self.store = store

    def draw(self, charts: Sequence[tuple[Chart, Sequence[str]]]) -> dict[int, Markup]:
        """
        Draw charts, each in its forms, several at a time, unless the store has them.

        Returns
        -------
        dict of int to Markup
            By the chart's ``id``: an accessible inline image in each of its forms.
        """
        wanted = [(chart, form) for chart, forms in charts for form in forms]
        keys = [_key(chart, form) for chart, form in wanted]
        found = {
            key: self.store.read_text("charts", f"{key}.svg") if self.store else None for key in set(keys)
        }
        missing = {key: item for key, item in zip(keys, wanted, strict=True) if found[key] is None}
        if missing:
            # imported here, before the threads: two threads must not import at once
            importlib.import_module("vl_convert")
            with ThreadPoolExecutor(available_cores()) as threads:
                drawn = dict(
                    zip(missing, threads.map(lambda item: _svg(*item), missing.values()), strict=True)
                )
            for key, text in drawn.items():
                found[key] = text
                if self.store is not None:
                    self.store.write_text(text, "charts", f"{key}.svg")
        images: dict[int, Markup] = {}
        for place, ((chart, form), key) in enumerate(zip(wanted, keys, strict=True)):
            image = _accessible(str(found[key]), chart, form, f"figure-{place}")
            images[id(chart)] = images.get(id(chart), Markup("")) + image
        return images


@cache
def _code(module: str) -> str:
    """Digest of the code and libraries that draw the charts of a module."""
    versions = library_versions(("altair", "vl-convert-python"))
    return f"{code_digest([f'evenhand.fairlib.plots.{module}'])} {versions}"


def _key(chart: Chart, form: str) -> str:
    content = {"plot": chart.plot, "data": chart.data, "width": WIDTHS[form]}
    text = json.dumps(content, sort_keys=True, default=str) + _code(chart.plot.partition(".")[0])
    return hashlib.sha256(text.encode()).hexdigest()


def _svg(chart: Chart, form: str) -> str:
    import vl_convert

    module, _, name = chart.plot.partition(".")
    function = getattr(importlib.import_module(f"evenhand.fairlib.plots.{module}"), name)
    found: str = vl_convert.vegalite_to_svg(function(**chart.data, width=WIDTHS[form]).to_dict())
    return found


def _accessible(svg: str, chart: Chart, form: str, uid: str) -> Markup:
    """The picture as an image with a title and a description; the hidden form is hidden from readers too."""
    found = ROOT.search(svg)
    if found is None:
        raise ValueError(f"the chart {chart.plot} is no SVG image")
    width, height, box = found.groups()
    # definitions of two inline images must not share a name
    body = svg[found.end() :].replace('id="', f'id="{uid}-').replace("url(#", f"url(#{uid}-")
    head = (
        f'<svg class="plot {form}" role="img" aria-labelledby="{uid}-t {uid}-d" viewBox="{box}" '
        f'width="{width}" height="{height}"><title id="{uid}-t">{escape(chart.title)}</title>'
        f'<desc id="{uid}-d">{escape(chart.description)}</desc>'
    )
    return Markup(head + body)
