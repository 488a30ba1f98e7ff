"""The colours of charts and pages: every pair of the series colours differs for colour-blind
readers.
"""

from __future__ import annotations

# Marks of a series differ in shape as well as in colour.
SERIES = ("c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9")
SHAPES = (
    "circle",
    "diamond",
    "square",
    "triangle-up",
    "cross",
    "triangle-down",
    "stroke",
    "triangle-left",
)

# by name: the colour, and the one on a dark screen
_COLOURS = {
    "page": ("#fbfaf7", "#15171a"),
    "card": ("#ffffff", "#1b1e22"),
    "ink": ("#1c1e21", "#e9e7e2"),
    "muted": ("#595f66", "#a9aeb5"),
    "rule": ("#dedad1", "#363b42"),
    "faint": ("#ebe8e1", "#272b30"),
    "soft": ("#d3e5f1", "#20384a"),
    "band": ("#f3dcc2", "#4b3823"),
    "c0": ("#0b5f91", "#71b8e6"),
    "c1": ("#a04a06", "#f0a860"),
    "c2": ("#0a6849", "#62cba9"),
    "c3": ("#8a3a74", "#dfa0cc"),
    "c4": ("#595f67", "#a9aeb6"),
    "c5": ("#755600", "#e3c463"),
    "c6": ("#3f4fa8", "#a9b4ff"),
    "c7": ("#00727c", "#5fd0d6"),
    "c8": ("#b02a4e", "#ff9db0"),
    "c9": ("#566400", "#c0d068"),
}
LIGHT = {name: light for name, (light, _) in _COLOURS.items()}
"""By name in the page's style sheet; charts are drawn in these."""
DARK = {name: dark for name, (_, dark) in _COLOURS.items()}
"""What the style sheet puts in their place on a dark screen."""
