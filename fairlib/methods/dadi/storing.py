"""A network and what it reads, in one file of tensors with their description."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.fairlib.methods.dadi.inference import Reader
from evenhand.fairlib.methods.dadi.layout import Layout
from evenhand.fairlib.methods.dadi.parameters import NetworkShape

__all__ = ["read_network", "write_network"]


def write_network(path: Path, reader: Reader, more: Mapping[str, Any]) -> None:
    """
    Write a network's parameters, its layout, and `more`.

    Parameters
    ----------
    more : mapping
        Of plain JSON types.
    """
    from safetensors.numpy import save_file

    kept = {
        "groups": list(reader.layout.groups.items()),  # their order is that of the actions
        "layout": reader.layout.kept(),
        "hidden": list(reader.shape.hidden),
        "memory_size": reader.shape.memory,
        **more,
    }
    tensors = reader.shape.named(reader.vector)
    save_file(
        {name: np.ascontiguousarray(view) for name, view in tensors.items()},
        str(path),
        metadata={"dadi": json.dumps(kept, sort_keys=True)},
    )


def read_network(path: Path, steps: int) -> tuple[Reader, dict[str, Any]]:
    """What :func:`write_network` wrote; `steps` are those of the processing block."""
    from safetensors import safe_open

    with safe_open(str(path), "numpy") as stored:
        kept = json.loads(stored.metadata()["dadi"])
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - no mapping
    layout = Layout.restore(dict(kept["groups"]), kept["layout"])
    first, second = kept["hidden"]
    columns = sum(len(listed) for listed in layout.groups.values())
    shape = NetworkShape(columns, 2, len(layout.groups) + 1, (first, second), kept["memory_size"])
    vector = np.zeros(shape.size, np.float32)
    for name, view in shape.named(vector).items():
        view[...] = tensors[name]
    return Reader(shape, vector, layout, steps), kept
