"""A trained network: outputs for given sets of known groups, acquisition, and its file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from threadpoolctl import threadpool_limits

from evenhand.fairlib.arrays import Bool, Float, Float32, Int
from evenhand.fairlib.execution import Progress
from evenhand.fairlib.methods.base import read_tensors
from evenhand.fairlib.methods.dadi._inference import acquire, head_outputs, read_sets
from evenhand.fairlib.methods.dadi.network import Columns, Layout, Network, NetworkShape, Rows

CHUNK_ROWS = 1024
FEW_ROWS = 64
Known = NDArray[np.uint8]


@dataclass(frozen=True)
class SetNetwork:
    """A network that reads sets of known groups."""

    shape: NetworkShape
    vector: Float32  # shape (parameters,)
    layout: Layout
    steps: int  # of the processing block

    def _for_kernels(self) -> tuple[Network, Columns]:
        """Network and columns as kernels take them.

        Read-only arrays, as those of a model in shared memory, are copied: kernels would be compiled anew.
        """
        columns = Columns(*(np.require(part, requirements=["C", "W"]) for part in self.layout.columns))
        return self.shape.network(np.require(self.vector, requirements=["C", "W"])), columns

    def head_outputs(self, head: str, rows: Rows, known: Known) -> Float32:
        """Outputs of ``classify`` or ``policy`` for people of whom groups are known, shape (n, outputs)."""
        network, columns = self._for_kernels()
        # always the same memory layout: kernels are compiled anew for every other one
        readings = read_sets(network.encoder, columns, rows, np.ascontiguousarray(known), self.steps)
        return head_outputs(getattr(network, head), readings)

    def outputs(self, head: str, X: Float32, known: Known) -> Float32:
        """:meth:`head_outputs` for rows of a matrix, shape (n, d)."""
        parts = [self.head_outputs(head, self.layout.rows(X[part]), known[part]) for part in _chunks(len(X))]
        return np.concatenate(parts)

    def acquire(
        self, allowed: Bool, X: Float32, known: Known, callback: Progress | None = None
    ) -> tuple[Int, Float]:
        """Ask group after group until the policy stops.

        X, shape (n, d), holds the answers. `allowed`, shape (G,), says which groups may be asked. `known`,
        uint8 of shape (n, G), are those known at first, and afterwards also those asked. ``callback(done,
        total)`` counts rows. The results are the groups in the order in which they were asked, then -1, shape
        (n, G), and the probabilities of both classes, shape (n, 2).
        """
        n = len(X)
        order = np.full(known.shape, -1, np.int64)
        logits = np.zeros((n, self.shape.classes), np.float32)
        network, columns = self._for_kernels()
        may_ask = np.require(allowed, requirements=["C", "W"])
        # setting the limit takes longer than asking a few people, whose products are too small to divide
        with threadpool_limits(1, "blas") if n > FEW_ROWS else nullcontext():
            for part in _chunks(n):
                rows = self.layout.rows(X[part])
                acquire(network, columns, rows, may_ask, self.steps, known[part], order[part], logits[part])
                if callback is not None:
                    callback(min(part.stop, n), n)
        return order, probabilities(logits)

    def save(self, path: Path, more: Mapping[str, Any]) -> None:
        """Write parameters, layout, and `more` (plain JSON types) into one safetensors file."""
        from safetensors.numpy import save_file

        description = {
            "groups": list(self.layout.groups.items()),  # their order is that of the actions
            "layout": self.layout.state(),
            "hidden": list(self.shape.hidden),
            "memory_size": self.shape.memory,
            **more,
        }
        tensors = {name: np.ascontiguousarray(view) for name, view in self.shape.named(self.vector).items()}
        save_file(tensors, str(path), metadata={"dadi": json.dumps(description, sort_keys=True)})

    @classmethod
    def load(cls, path: Path, steps: int) -> tuple[SetNetwork, dict[str, Any]]:
        """Read the network and the description that :meth:`save` wrote."""
        metadata, tensors = read_tensors(path, "numpy")
        description = json.loads(metadata["dadi"])
        layout = Layout.restore(dict(description["groups"]), description["layout"])
        first, second = description["hidden"]
        columns = sum(len(listed) for listed in layout.groups.values())
        shape = NetworkShape(columns, 2, len(layout.groups) + 1, (first, second), description["memory_size"])
        vector = np.zeros(shape.size, np.float32)
        for name, view in shape.named(vector).items():
            view[...] = tensors[name]
        return cls(shape, vector, layout, steps), description


def _chunks(n: int) -> Iterator[slice]:
    """Parts of n rows."""
    return (slice(start, start + CHUNK_ROWS) for start in range(0, n, CHUNK_ROWS))


def probabilities(logits: Float32) -> Float:
    """Softmax of each row, in float64."""
    return softmax(logits.astype(np.float64), axis=1)
