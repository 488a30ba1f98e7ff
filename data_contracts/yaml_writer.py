"""YAML whose text is what a reader sees: characters that are not shown, or that reorder what is
shown, are written as escapes.
"""

from __future__ import annotations

from typing import Any

import yaml

from evenhand.fairlib.escaping import UNPRINTABLE, plain_text


class PlainDumper(yaml.SafeDumper):
    r"""YAML's safe types; a text with such a character is in double quotes, with ``\u202E`` for
    it.
    """

    def analyze_scalar(self, scalar: str) -> Any:
        """Say how a text may be written.

        Parameters
        ----------
        scalar : str
            The text.

        Returns
        -------
        yaml.emitter.ScalarAnalysis
        """
        analysis = super().analyze_scalar(scalar)
        if UNPRINTABLE.search(scalar):
            analysis.allow_flow_plain = False
            analysis.allow_block_plain = False
            analysis.allow_single_quoted = False
            analysis.allow_block = False
        return analysis

    def write_double_quoted(self, text: str, split: bool = True) -> None:
        """Write a text in double quotes.

        Parameters
        ----------
        text : str
            The text.
        split : bool, default True
            Whether it may be broken into lines.
        """
        allowed = self.allow_unicode
        if UNPRINTABLE.search(text):
            self.allow_unicode = False
        super().write_double_quoted(text, split)
        self.allow_unicode = allowed


def dump_plainly(document: Any, **options: Any) -> str:
    r"""Write a document as YAML, its keys in their order and its letters as they are.

    Parameters
    ----------
    document : object
        Values of YAML's safe types.
    **options
        Further options of :func:`yaml.dump`, such as ``width``.

    Returns
    -------
    str

    Examples
    --------
    >>> from evenhand.data_contracts.yaml_writer import dump_plainly
    >>> print(dump_plainly({"name": "Zürich", "file": "a\u202eb"}), end="")
    name: Zürich
    file: "a\u202Eb"
    """
    settings = {"sort_keys": False, "allow_unicode": True, **options}
    text: str = yaml.dump(document, Dumper=PlainDumper, **settings)
    return text


def comment(text: str) -> str:
    """Write a text as one comment, which no character of it ends.

    Parameters
    ----------
    text : str
        The text, perhaps with names of columns.

    Returns
    -------
    str
        A line with its end.
    """
    return f"# {plain_text(' '.join(text.split()))}\n"
