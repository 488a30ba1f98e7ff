"""The Python reference: hook of MkDocs and extension of Griffe, which reads docstrings.

The folders of the packages lie at the repository's root and their import names begin with
``evenhand``, so the hook makes a copy under these names. The docstrings are
reStructuredText, so the extension turns their roles and formulas into Markdown.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import textwrap
import unicodedata
from pathlib import Path
from typing import Any

from griffe import Extension, Object
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority

ROOT = Path(__file__).resolve().parents[2]
ROLE = re.compile(r":\w+:`~?([^`]*\.)?([^`.]*)`")
INLINE_FORMULA = re.compile(r":math:`([^`]*)`")
FORMULA = re.compile(r"^( *)\.\. math::[ \t]*(.*(?:\n(?:\1[ \t]+.*|[ \t]*(?=\n)))*)", re.MULTILINE)
REFERENCE = re.compile(r"^( *)\.\. \[(\d+)\] ", re.MULTILINE)
GREEK = ("alpha", "beta", "gamma", "delta", "epsilon", "eta", "theta", "rho", "sigma", "phi")
_tree: tempfile.TemporaryDirectory[str] | None = None


@event_priority(100)  # before the plugin itself reads its settings
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Show the reference's reader where the packages are."""
    global _tree
    _tree = tempfile.TemporaryDirectory(prefix="evenhand-docs-")
    package = Path(_tree.name) / "evenhand"
    package.mkdir()
    shutil.copy(ROOT / "evenhand" / "__init__.py", package)
    # Griffe follows no links
    only_code = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
    shutil.copytree(ROOT / "fairlib", package / "fairlib", ignore=only_code)
    handlers: Any = config.plugins["mkdocstrings"].config.handlers
    handlers["python"]["paths"] = [_tree.name]
    return config


def on_post_build(config: MkDocsConfig) -> None:
    """Remove the copy."""
    if _tree is not None:
        _tree.cleanup()


class MarkdownDocstrings(Extension):
    """Turns the docstrings of every object into Markdown when it is read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Change the docstring of an object that has one."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(docstring: str) -> str:
    """Turn roles, formulas and references of reStructuredText into Markdown."""
    text = FORMULA.sub(_formula, docstring)
    text = INLINE_FORMULA.sub(_symbols, text)
    text = ROLE.sub(r"`\2`", text)
    return REFERENCE.sub(r"\1\2. ", text)


def _symbols(match: re.Match[str]) -> str:
    """Code with the Greek letters of a formula."""
    text = match[1]
    for name in GREEK:
        letter = unicodedata.lookup(f"GREEK SMALL LETTER {name.upper()}")
        text = re.sub(rf"\\{name}(?![a-z])", letter, text)
    return f"`{text}`"


def _formula(match: re.Match[str]) -> str:
    """A block of code with the lines of a formula."""
    indent = match[1]
    lines = textwrap.dedent(match[2]).strip().splitlines()
    block = ["", f"{indent}```tex"]
    block += [f"{indent}{line.strip()}" for line in lines]
    block += [f"{indent}```", ""]
    return "\n".join(block)
