"""Text of others (names of columns, values, descriptions) in each language that people read.

One function for each language: `plain_text` for SVG, XML and templates of HTML, whose libraries
escape markup themselves, `html_text` for other HTML, `markdown_text` and `markdown_code` for
Markdown, and `PlainLines` and `terminal_text` for terminals. YAML has
`evenhand.data_contracts.yaml_writer`. No command writes CSV, whose cells could be formulas.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

# Characters that XML 1.0 forbids, and the controls U+007F to U+009F.
_CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff"
# Unicode's Bidi_Control characters, which show text in another order than it is read by a program.
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
UNPRINTABLE = re.compile(f"[{_CONTROLS}{_BIDI}]")
"""Characters that are not shown, or that reorder what is shown."""
# A terminal moves its cursor at a carriage return, and then overwrites what it has shown.
_UNPRINTABLE_AT_TERMINAL = re.compile(f"[{_CONTROLS}{_BIDI}\r]")
# Characters that mean something in Markdown; an underscore within a word does not.
_MARKS = re.compile(r"[\\`*\[\]{}|~#!]|(?<![^\W_])_|_(?![^\W_])|^[-+=]")
# A number before these begins a list.
_NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")
# Platforms link these, and notify people, also behind a backslash: @team, #12, !34, https://, www.
_LINKED = re.compile(
    r"@(?=\w)|(?<=\\[#!~])(?=\w)|\w:(?=//)|\b(?:mailto|xmpp|javascript|vbscript)(?=:)|\bwww(?=\.)",
    re.IGNORECASE,
)
# A space of no width, written so that readers of the source see it.
_BREAK = "&#8203;"
_SCRIPT_LINK = re.compile(r"\b(javascript|vbscript|data)(?=\s*\\?\s*:)", re.IGNORECASE)


def plain_text(text: str) -> str:
    """Replace controls and characters that reorder text by U+FFFD; keep tabs and line breaks."""
    return UNPRINTABLE.sub("\ufffd", text)


def plain_texts(value: Any) -> Any:
    """Return lists and mappings with each of their texts, keys too, as `plain_text`."""
    if isinstance(value, Mapping):
        return {plain_texts(key): plain_texts(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_texts(item) for item in value]
    return plain_text(value) if isinstance(value, str) else value


def html_text(value: Any) -> str:
    """Write a value as text of an HTML page, or of an attribute in quotes."""
    return html.escape(plain_text(str(value)))


def terminal_text(text: str) -> str:
    """Replace what a terminal would obey, also carriage returns, by a question mark."""
    return _UNPRINTABLE_AT_TERMINAL.sub("?", text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Write a text on one line: a line break of others begins no line of ours."""
    return " ".join(text.splitlines())


def markdown_text(value: Any) -> str:
    """Write a value on one line that Markdown and HTML show as it is: no markup, link, mention or
    tag.
    """
    line = plain_text(" ".join(str(value).split()))
    line = _MARKS.sub(r"\\\g<0>", line)
    line = _NUMBERED.sub(r"\1\\\2", line)
    line = html.escape(line, quote=False)
    return _LINKED.sub(rf"\g<0>{_BREAK}", line)


def markdown_paragraphs(text: str) -> str:
    """Write a text of several paragraphs as `markdown_text` writes each of them."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(markdown_text(paragraph) for paragraph in paragraphs)


def markdown_code(value: Any) -> str:
    """Write a value, such as a path, on one line as code, which links and notifies nobody."""
    line = plain_text(" ".join(str(value).split()))
    return f"`{line.replace('`', chr(39)) or ' '}`"


def markdown_of_person(text: str) -> str:
    """Let a text of a person keep its Markdown, but no HTML and no link that runs a script."""
    escaped = plain_text(text).replace("&", "&amp;").replace("<", "&lt;")
    return _SCRIPT_LINK.sub(rf"\1{_BREAK}", escaped)


class PlainLines:
    """A text stream that passes on what is written as `terminal_text`; all else is that of the
    stream.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the text without what a terminal would obey; return the length of what was
        given.
        """
        self.stream.write(terminal_text(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of the texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
