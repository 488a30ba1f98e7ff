"""Counterfactual sentences: one term in place of another, with its case and its plural."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evenhand.fairlib.arrays import Int

PLURAL = re.compile(r"(?:s|x|z|ch|sh)$", re.IGNORECASE)
# Letters of scripts that put no space between words: from Thai to Khmer, of Japanese and of
# Chinese.
UNSPACED = r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]"


@dataclass(frozen=True)
class Terms:
    """Groups of terms that are exchanged for each other, and the column of sentences.

    A term is a whole word, and in scripts without spaces between words any part of the sentence.
    Version j of a sentence has term j of the group in place of each of the group's terms. So a list
    of identity terms is one group, and pairs of pronouns are groups of two.

    Parameters
    ----------
    column : str
        The column of sentences.
    groups : tuple of tuple of str
        All groups have one size, at least two.

    Raises
    ------
    ValueError
        If there is no group, a group has one term, groups have several sizes, or a term is repeated
        or empty.

    Examples
    --------
    >>> terms = Terms.read("text", "he, she")
    >>> [version[0] for version in terms.copies(["she teaches"])]
    ['he teaches', 'she teaches']
    """

    column: str
    groups: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        """Refuse no group, groups of one term or of several sizes, and repeated or empty terms."""
        if not self.groups or min(map(len, self.groups)) < 2:
            raise ValueError("a list or a group of terms has one entry or none: give at least two.")
        if len(set(map(len, self.groups))) > 1:
            raise ValueError("groups of terms have different sizes: give each as many terms.")
        for group in self.groups:
            names = [term.strip().lower() for term in group]
            if not all(names) or len(set(names)) < len(names):
                raise ValueError("a group of terms has an empty or a repeated term: remove it.")

    @classmethod
    def read(cls, column: str, text: str) -> Terms:
        """Read a list: a term a line, or a group a line, with commas. ``#`` begins a note.

        Parameters
        ----------
        column : str
            The column of sentences.
        text : str
            Content of the file.

        Returns
        -------
        Terms

        Raises
        ------
        ValueError
            As of :class:`Terms`.
        """
        groups = []
        for line in text.lstrip("\ufeff").splitlines():
            content = line.partition("#")[0].strip()
            if content:
                groups.append(tuple(term.strip() for term in content.split(",")))
        if all(len(group) == 1 for group in groups):
            groups = [tuple(group[0] for group in groups)]
        return cls(column, tuple(groups))

    @property
    def names(self) -> list[str]:
        """Name of each version: its terms, of more than three groups the first three."""
        more = ""
        if len(self.groups) > 3:
            more = "/…"
        return ["/".join(version) + more for version in zip(*self.groups[:3], strict=True)]

    @cached_property
    def _places(self) -> dict[str, tuple[int, int]]:
        """Group and version of each term; of a term in several groups the first."""
        places: dict[str, tuple[int, int]] = {}
        for number, group in enumerate(self.groups):
            for version, term in enumerate(group):
                places.setdefault(term.lower(), (number, version))
        return places

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        # the longest term first: "african american" is no mention of "african"
        terms = sorted(self._places, key=len, reverse=True)
        listed = "|".join(map(re.escape, terms))
        unspaced = rf"(?={UNSPACED})|(?<={UNSPACED})"
        return re.compile(
            rf"(?:(?<!\w)|{unspaced})({listed})(es|s)?(?:(?!\w)|{unspaced})", re.IGNORECASE
        )

    def versions_of(self, sentences: Sequence[str | None]) -> Int:
        """Version of the first term in each sentence.

        Parameters
        ----------
        sentences : sequence of str or None, length n

        Returns
        -------
        ndarray of int, shape (n,)
            -1 for a sentence without a term, or a missing one.
        """
        versions = np.full(len(sentences), -1, dtype=int)
        for row, sentence in enumerate(sentences):
            match = self._pattern.search(sentence) if sentence else None
            if match is not None:
                _, versions[row] = self._places[match[1].lower()]
        return versions

    def replaced(self, sentence: str, version: int) -> str:
        """Sentence with the terms of a version in place of all terms that it has.

        Parameters
        ----------
        sentence : str
        version : int
            Position of the terms in their groups.

        Returns
        -------
        str
        """
        return self._pattern.sub(lambda match: self._replacement(match, version), sentence)

    def _replacement(self, match: re.Match[str], version: int) -> str:
        """The term of a version for one that was matched, with its plural and its case."""
        group, _ = self._places[match[1].lower()]
        term = self.groups[group][version]
        if match[2]:
            term += "es" if PLURAL.search(term) else "s"
        if match[0].isupper() and len(match[0]) > 1:
            return term.upper()
        if match[0][0].isupper():
            return term[0].upper() + term[1:]
        return term

    def copies(self, sentences: Sequence[str]) -> Iterator[list[str]]:
        """Every version of the sentences, one after the other.

        Parameters
        ----------
        sentences : sequence of str, length n

        Yields
        ------
        list of str, length n
            The sentences of one version.
        """
        for version in range(len(self.groups[0])):
            yield [self.replaced(sentence, version) for sentence in sentences]
