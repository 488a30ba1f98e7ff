"""YAML that is read strictly: every key occurs once in its mapping, and aliases cannot make it
grow.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

# Values and keys of a document after its aliases are followed.
MAX_NODES = 200_000
# Characters of a document: the reader needs a second, and some megabytes, for 100,000.
MAX_CHARACTERS = 4_000_000


# Digits of a whole number that a float still holds.
MOST_DIGITS = 300
# Halves of a pair of UTF-16, which no file in UTF-8 can hold.
_HALF_CHARACTERS = re.compile("[\ud800-\udfff]")


class StrictError(yaml.YAMLError):
    """A key is given twice, or aliases make the document too large; the message is part of a
    sentence.
    """


class StrictLoader(yaml.SafeLoader):
    """YAML's safe types. Raises :class:`StrictError`."""

    def get_single_node(self) -> Any:
        """Read the document's nodes, and count them with every alias followed."""
        node = super().get_single_node()
        if node is not None:
            _size(node, {})
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping, after all its keys were compared.

        Parameters
        ----------
        node : yaml.MappingNode
            The mapping in the document.
        deep : bool, default False
            Whether nested values are built at once, as PyYAML has it.

        Returns
        -------
        dict

        Raises
        ------
        StrictError
            If a key is given twice.
        """
        lines: dict[Any, int] = {}
        for key_node, _ in node.value:
            if (
                not isinstance(key_node, yaml.ScalarNode)
                or key_node.tag == "tag:yaml.org,2002:merge"
            ):
                continue
            key = self.construct_object(key_node)
            line = key_node.start_mark.line + 1
            if key in lines:
                raise StrictError(
                    f"key {key!r} is given twice (lines {lines[key]} and {line}): keep one of them"
                )
            lines[key] = line
        return super().construct_mapping(node, deep=deep)


def _size(node: yaml.Node, sizes: dict[int, int | None]) -> int:
    """Number of nodes below and with this one; each is counted once and added wherever an alias
    names it.

    `sizes` has the nodes that were counted, by identity, and None for those in progress.
    """
    if id(node) in sizes:
        known_size = sizes[id(node)]
        if known_size is None:
            raise StrictError("an alias contains itself: write the value out")
        return known_size
    sizes[id(node)] = None
    if isinstance(node, yaml.ScalarNode) and _HALF_CHARACTERS.search(node.value):
        line = node.start_mark.line + 1
        raise StrictError(
            f"line {line} has half of a character, a code from \\ud800 to \\udfff: write the "
            "character itself"
        )
    if node.tag == "tag:yaml.org,2002:int" and len(node.value) > MOST_DIGITS:
        line = node.start_mark.line + 1
        raise StrictError(f"line {line} has a number of more than {MOST_DIGITS} digits: shorten it")
    children: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            children += [key, value]
    elif isinstance(node, yaml.SequenceNode):
        children = node.value
    size = 1 + sum(_size(child, sizes) for child in children)
    if size > MAX_NODES:
        raise StrictError(f"it has more than {MAX_NODES:,} values: shorten it")
    sizes[id(node)] = size
    return size


def load_strictly(text: str) -> Any:
    """Read a YAML document in which every key occurs once in its mapping.

    Parameters
    ----------
    text : str
        The document.

    Returns
    -------
    object
        Its value, of YAML's safe types.

    Raises
    ------
    yaml.YAMLError, ValueError, RecursionError
        If the document is not valid.
    """
    if len(text) > MAX_CHARACTERS:
        raise StrictError(f"it has more than {MAX_CHARACTERS:,} characters: shorten it")
    return yaml.load(text, Loader=StrictLoader)  # noqa: S506 (a SafeLoader)
