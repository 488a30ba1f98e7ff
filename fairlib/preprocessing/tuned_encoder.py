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

    .. math:: \min_{\theta, W, b} \; \frac1n \sum_i
        -\log \operatorname{softmax}(W f_\theta(s_i) + b)_{y_i}

    over the parameters :math:`\theta` of the last layers of the encoder f, by AdamW in single
    precision and without dropout. Weights are saved as safetensors.

    Parameters
    ----------
    name : str
        The model, as of :func:`.sentences.model_folder`.
    sentences : sequence of str, length n
        Training sentences.
    labels : array-like of int, shape (n,)
        Class of each sentence, from 0.
    target : pathlib.Path
        Folder of the trained model.
    layers : int
        Number of the last layers to train, at least 1.
    epochs : int, default 1
        Passes over the sentences.
    device : str, default "cuda"
        Device of torch.
    seed : int, default 0
        Of the order of sentences.
    callback : callable, optional
        ``callback(done, total)`` counts sentences of all epochs.

    Returns
    -------
    float
        Mean loss of the last epoch.

    Raises
    ------
    ValueError
        As of :func:`.sentences.model_folder`; if there is no sentence, no CUDA device where one is
        asked for, or the model has too few layers.
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
    trained = _last_layers(model, name, layers)
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
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            scores = head(_embeddings(model, [sentences[i] for i in rows], device))
            batch_labels = y[torch.as_tensor(rows, device=device)]
            loss = torch.nn.functional.cross_entropy(scores, batch_labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses += [float(loss.detach())] * len(rows)
            done += len(rows)
            callback(done, epochs * len(order))
    model.save(str(target), create_model_card=False)
    return float(np.mean(losses))


def _last_layers(model: Any, name: str, layers: int) -> list[Any]:
    """Parameters of the last layers, the only ones of the model that are trained."""
    import torch

    # the transformer's layers are the longest list of modules
    lists = [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]
    blocks = max(lists, key=len, default=())
    if len(blocks) < layers:
        raise ValueError(
            f"the sentence encoder {name} has {len(blocks)} layers, and {layers} are to be trained."
        )
    model.requires_grad_(False)
    parameters = []
    for block in blocks[-layers:]:
        parameters += [parameter.requires_grad_() for parameter in block.parameters()]
    return parameters


def _embeddings(model: Any, sentences: Sequence[str], device: str) -> Any:
    """Vectors of sentences, with gradients; a tensor of shape (n, size)."""
    batch = model.preprocess([sentence[:MAX_CHARACTERS] for sentence in sentences])
    inputs = {}
    for key, value in batch.items():
        inputs[key] = value.to(device) if hasattr(value, "to") else value
    return model(inputs)["sentence_embedding"]
