"""The colours of charts and pages: every pair of the series colours differs for colour-blind readers."""

from __future__ import annotations

# Marks of a series differ in shape as well as in colour.
SERIES = ("c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9")
SHAPES = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down", "stroke", "triangle-left")

LIGHT = {
    "page": "#fbfaf7",
    "card": "#ffffff",
    "ink": "#1c1e21",
    "muted": "#595f66",
    "rule": "#dedad1",
    "faint": "#ebe8e1",
    "soft": "#d3e5f1",
    "band": "#f3dcc2",
    "c0": "#0b5f91",
    "c1": "#a04a06",
    "c2": "#0a6849",
    "c3": "#8a3a74",
    "c4": "#595f67",
    "c5": "#755600",
    "c6": "#3f4fa8",
    "c7": "#00727c",
    "c8": "#b02a4e",
    "c9": "#566400",
}
"""By name in the page's style sheet; charts are drawn in these."""

DARK = {
    "page": "#15171a",
    "card": "#1b1e22",
    "ink": "#e9e7e2",
    "muted": "#a9aeb5",
    "rule": "#363b42",
    "faint": "#272b30",
    "soft": "#20384a",
    "band": "#4b3823",
    "c0": "#71b8e6",
    "c1": "#f0a860",
    "c2": "#62cba9",
    "c3": "#dfa0cc",
    "c4": "#a9aeb6",
    "c5": "#e3c463",
    "c6": "#a9b4ff",
    "c7": "#5fd0d6",
    "c8": "#ff9db0",
    "c9": "#c0d068",
}
"""What the style sheet puts in their place on a dark screen."""
