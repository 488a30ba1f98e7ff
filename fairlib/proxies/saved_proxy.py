"""What decides about rows in a saved proxy, read without scikit-learn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from evenhand.fairlib.arrays import Float
from evenhand.fairlib.methods.registry import PROXIES
from evenhand.fairlib.proxies.graph import SplittingGraph

FORMAT = 1
DESCRIPTION_FILE = "proxy.json"
GRAPH_FILE = "graph.safetensors"


class SavedProxy(NamedTuple):
    """The parts of a proxy with l groups that give rows their acceptance."""

    graph: SplittingGraph
    acceptance: Float  # shape (l,)
    masses: Float  # share of the training rows in each proxy group, shape (l,)


def read_saved_proxy(folder: str | Path) -> SavedProxy:
    """Read the deciding parts of a proxy that :meth:`BalancingProxy.save` wrote.

    Parameters
    ----------
    folder : str or pathlib.Path

    Returns
    -------
    SavedProxy

    Raises
    ------
    ValueError
        If the folder holds no proxy of a known class and this format, or its parts do not belong
        together.
    """
    where = Path(folder)
    try:
        content = json.loads((where / DESCRIPTION_FILE).read_text())
        class_name = content["class"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"{where} holds no proxy.") from None
    known_classes = [spec.class_name for spec in PROXIES.values()]
    if class_name not in known_classes:
        raise ValueError(f"{where} holds a proxy of the unknown class {class_name!r}.")
    if content.get("format") != FORMAT:
        raise ValueError(f"{where} holds no {class_name} of format {FORMAT}.")
    graph = SplittingGraph.load(where / GRAPH_FILE)
    acceptance = np.array(content["acceptance"], dtype=np.float64)
    if graph.groups != len(acceptance):
        raise ValueError(f"{where} holds a proxy whose parts do not belong together.")
    masses = np.array(content["masses"], dtype=np.float64)
    return SavedProxy(graph, acceptance, masses)
