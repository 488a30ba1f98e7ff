"""Fine-tuning of a sentence-transformers model: its last layers, on the labels of training
sentences.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.execution import Progress
from evenhand.fairlib.preprocessing.sentences import MAX_CHARACTERS, model_folder

BATCH = 32
# Learning rates of AdamW: of pretrained layers, and of the head, which begins at 0.
LAYER_RATE = 5e-5
HEAD_RATE = 1e-2
NO_DEVICE = (
    "there is no CUDA device, and on a processor the training of its layers takes long: set "
    "text.tune_device: cpu to do it there, or text.tune_layers: 0."
)


def tune_encoder(
    name: str,
    sentences: Sequence[str],
    labels: ArrayLike,
    target: Path,
    *,
    layers: int,
    epochs: int = 1,
    device: str = "cuda",
    seed: int = 0,
    callback: Progress = lambda done, total: None,
) -> float:
    r"""Train the last layers of a model with a linear head, and save the model without it into
    `target`.

    .. math:: \min_{\theta, W, b} \; \frac1n \sum_i -\log \operatorname{softmax}(W f_\theta(s_i) + b)_{y_i}

    over the parameters :math:`\theta` of the last layers of the encoder f, by AdamW in single
    precision and without dropout, on n sentences with integer labels, shape (n,). Weights are saved
    as safetensors. Returns the mean loss of the last epoch. `name` is as of
    :func:`.sentences.model_folder`.

    ValueError: as of that function, no sentence, no CUDA device where one is asked for, too few
    layers.
    """
    if not sentences:
        raise ValueError("the training rows have no sentence.")
    folder = model_folder(name)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    from sentence_transformers import SentenceTransformer

    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError(NO_DEVICE)
    model: Any = SentenceTransformer(str(folder), device=device, local_files_only=True).eval()
    # the transformer's layers are the longest list of modules
    blocks = max(
        (m for m in model.modules() if isinstance(m, torch.nn.ModuleList)), key=len, default=()
    )
    if len(blocks) < layers:
        raise ValueError(
            f"the sentence encoder {name} has {len(blocks)} layers, and {layers} are to be trained."
        )
    model.requires_grad_(False)
    trained = [
        parameter.requires_grad_() for block in blocks[-layers:] for parameter in block.parameters()
    ]
    y = torch.as_tensor(np.asarray(labels, dtype=np.int64), device=device)
    head = torch.nn.Linear(int(model.get_embedding_dimension()), int(y.max()) + 1, device=device)
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.zeros_(head.bias)
    optimiser = torch.optim.AdamW(
        [{"params": trained, "lr": LAYER_RATE}, {"params": head.parameters(), "lr": HEAD_RATE}]
    )
    random = np.random.default_rng(seed)
    done = 0
    losses = [0.0]
    for _ in range(epochs):
        losses.clear()
        order = random.permutation(len(sentences))
        for rows in (order[i : i + BATCH] for i in range(0, len(order), BATCH)):
            batch = model.preprocess([sentences[i][:MAX_CHARACTERS] for i in rows])
            moved = {
                key: value.to(device) if hasattr(value, "to") else value
                for key, value in batch.items()
            }
            scores = head(model(moved)["sentence_embedding"])
            loss = torch.nn.functional.cross_entropy(
                scores, y[torch.as_tensor(rows, device=device)]
            )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses += [float(loss.detach())] * len(rows)
            done += len(rows)
            callback(done, epochs * len(order))
    model.save(str(target), create_model_card=False)
    return float(np.mean(losses))
