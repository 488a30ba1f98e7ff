"""Markup that a step hands to the report: only plain inline elements and plain drawings get through."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

from markupsafe import Markup

_INLINE = frozenset({"b", "br", "code", "em", "i", "strong", "sub", "sup"})
_DRAWING = frozenset(
    {"svg", "title", "desc", "defs", "pattern", "g", "text", "tspan"}
    | {"path", "line", "rect", "circle", "ellipse", "polyline", "polygon"}
)
_NAMESPACE = "{http://www.w3.org/2000/svg}"


class _Inline(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _INLINE:
            self.parts.append(html.escape(self.get_starttag_text() or ""))
            return
        self.parts.append(f"<{tag}>")
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()
            self.parts.append(f"</{tag}>")
        elif tag not in _INLINE:
            self.parts.append(html.escape(f"</{tag}>"))

    def handle_data(self, data: str) -> None:
        self.parts.append(html.escape(data))


def paragraph(text: str) -> Markup:
    """Keep bold, italic, code, sub- and superscript without attributes; show all other markup as text.

    Parameters
    ----------
    text : str
        A paragraph's HTML.

    Returns
    -------
    markupsafe.Markup
        Balanced HTML.
    """
    parser = _Inline()
    parser.feed(text)
    parser.close()
    closing = "".join(f"</{tag}>" for tag in reversed(parser.open))
    return Markup("".join(parser.parts) + closing)


def drawing(svg: str) -> Markup:
    """Let an SVG through if it only draws.

    Parameters
    ----------
    svg : str
        One ``<svg>`` element with ``role="img"`` and a ``<title>``.

    Returns
    -------
    markupsafe.Markup

    Raises
    ------
    ValueError
        If it is not well formed, has no title, or holds scripts, links, handlers or outside references.
    """
    if "<!" in svg or "<?" in svg:
        raise ValueError("section svg: got a declaration or comment, expected one plain <svg> element")
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise ValueError(
            "section svg: not well-formed XML; draw it with evenhand.tasks.reporting.draw"
        ) from error
    if root.tag.removeprefix(_NAMESPACE) != "svg" or root.get("role") != "img":
        raise ValueError('section svg: expected <svg role="img">; draw it with evenhand.tasks.reporting.draw')
    names = {child.tag.removeprefix(_NAMESPACE) for child in root}
    if "title" not in names:
        raise ValueError("section svg: expected a <title> for people who do not see it")
    for element in root.iter():
        tag = element.tag.removeprefix(_NAMESPACE)
        if tag not in _DRAWING:
            raise ValueError(f"section svg: got <{tag[:40]}>, expected only shapes and text")
        for name, value in element.attrib.items():
            outside = re.search(r"url\((?!\s*#)|javascript:|@import", value, re.IGNORECASE)
            if name.lower().startswith("on") or name.rpartition("}")[2] in {"href", "src"} or outside:
                raise ValueError(f"section svg: got {name[:40]}=..., expected nothing that acts or loads")
    return Markup(svg)
