"""Embedding models of Hugging Face, built offline, and their last layers."""

import json

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from openset import Outputs
from openset.cli import app
from openset.extract import LinearHead, load
from tests.vision import declare_operators

declare_operators()  # transformers imports torchvision

TRANSFORMERS = pytest.importorskip("transformers")
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "book", "a", "table", "now",
         "pay", "my", "bill", "sing"]  # fmt: skip
TEXTS = ["book a table", "book now", "a table", "pay my bill", "pay now", "my bill"]
LABELS = ["food", "food", "food", "money", "money", "money"]


def run(*words):
    done = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    (folder / "words.txt").write_text("\n".join(WORDS), encoding="utf-8")
    TRANSFORMERS.BertTokenizer(str(folder / "words.txt")).save_pretrained(folder)
    config = TRANSFORMERS.BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=32,
    )  # fmt: skip
    torch.manual_seed(0)
    model = TRANSFORMERS.BertModel(config).eval()
    model.save_pretrained(folder)
    return folder, model


def embedded(network, model, texts, pooling):
    """Return the embeddings text by text, without padding."""
    rows = []
    for text in texts:
        with torch.no_grad():
            states = model(**network.prepare([text])).last_hidden_state[0]
        rows.append((states[0] if pooling == "cls" else states.mean(dim=0)).numpy())
    return np.stack(rows)


def table(path, texts, labels):
    lines = [f"{text},{label}" for text, label in zip(texts, labels, strict=True)]
    path.write_text("\n".join(["text,label", *lines]), encoding="utf-8")
    return path


def test_without_a_head_there_are_features_and_labels(bert):
    folder, model = bert
    network = load(f"hf:{folder}")
    assert (network.kind, network.embeds) == ("text", True)
    found = network.apply(
        TEXTS, labels=[0, 0, 0, 1, 1, -1], groups="mail", batch_size=4, device="cpu",
        progress=False,
    )  # fmt: skip
    expected = embedded(network, model, TEXTS, "mean")
    assert_allclose(found.features, expected, atol=1e-5)
    assert found.logits is None
    assert_array_equal(found.labels, [0, 0, 0, 1, 1, -1])
    assert set(found.groups) == {"mail"}


def test_the_pooling_of_sentence_transformers_is_read(bert, tmp_path):
    folder, model = bert
    for name in folder.iterdir():
        if name.is_file():
            (tmp_path / name.name).write_bytes(name.read_bytes())
    (tmp_path / "1_Pooling").mkdir()
    stated = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (tmp_path / "1_Pooling/config.json").write_text(json.dumps(stated))
    network = load(f"hf:{tmp_path}")
    found = network.apply(TEXTS, device="cpu", progress=False)
    expected = embedded(network, model, TEXTS, "cls")
    assert_allclose(found.features, expected, atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_fitted_head_is_a_logistic_regression(n_classes, rng):
    labels = rng.integers(-1, n_classes, 60)
    # Classes far apart, for which the weakest penalty is best: that of scikit-learn.
    features = (rng.normal(size=(60, 5)) + 4 * np.eye(5)[labels]) * [1, 10, 0.1, 1, 1]
    known = labels >= 0
    oracle = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    oracle.fit(features[known], labels[known])
    head = LinearHead.fit(Outputs(features=features, labels=labels))
    logits = head.applied(Outputs(features=features)).logits.astype(float)
    found = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert_allclose(found, oracle.predict_proba(features), atol=1e-4)


def test_from_a_table_of_texts_to_outputs_by_name(bert, tmp_path):
    folder, model = bert
    train = table(tmp_path / "train.csv", TEXTS, LABELS)
    test = table(tmp_path / "test.csv", ["a table now", "sing"], ["food", "music"])
    said = run(
        "extract", f"hf:{folder}", train, "--fit-head", tmp_path / "head.npz",
        "--out", tmp_path / "train.npz", "--device", "cpu",
    )  # fmt: skip
    assert "last layer for 2 classes" in said
    assert "6 samples of known classes, accuracy 1.0000" in said
    run(
        "extract", f"hf:{folder}", test, "--head", tmp_path / "head.npz",
        "--out", tmp_path / "test.npz", "--device", "cpu",
    )  # fmt: skip
    head = LinearHead.load(tmp_path / "head.npz")
    assert head.classes == ("food", "money")
    network = load(f"hf:{folder}", head=head)
    assert (network.classes, network.embeds) == (("food", "money"), False)
    for name, texts in (("train", TEXTS), ("test", ["a table now", "sing"])):
        found = Outputs.load(tmp_path / f"{name}.npz")
        rows = embedded(network, model, texts, "mean")
        assert_allclose(found.features, rows, atol=1e-5)
        assert_allclose(found.logits, rows @ head.weight.T + head.bias, atol=1e-4)
        assert_allclose(found.weight, head.weight)
        assert found.classes == ("food", "money")
    assert_array_equal(found.labels, [0, -1])
    assert_array_equal(found.groups, ["food", "music"])


def test_the_penalty_is_chosen_on_samples_that_are_held_out():
    """Few samples of many noisy features: a weak penalty would be sure of the noise."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    clean = rng.normal(size=(60, 40)) + np.eye(3, 40)[labels]
    losses = {}
    fitted, held = train_test_split(
        np.arange(60), test_size=0.2, stratify=labels, random_state=0
    )
    scaled = StandardScaler().fit_transform(clean)
    for c in (1.0, 0.1, 0.01, 0.001):
        model = LogisticRegression(C=c).fit(scaled[fitted], labels[fitted])
        sure = model.predict_proba(scaled[held])[range(held.size), labels[held]]
        losses[c] = -np.log(sure).mean()
    best = min(losses, key=losses.get)
    assert best < 1
    head = LinearHead.fit(Outputs(features=clean, labels=labels))
    expected = LogisticRegression(C=best).fit(scaled, labels)
    assert_allclose(
        clean @ head.weight.T + head.bias, expected.decision_function(scaled), atol=1e-3
    )


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: LinearHead.fit(Outputs(features=[[0.0], [1.0]], labels=[0, 0])),
            "two classes or more",
        ),
        (lambda: LinearHead.fit(Outputs(features=[[0.0]])), "features and labels"),
    ],
)
def test_what_does_not_fit_is_said(call, said):
    with pytest.raises(ValueError, match=said):
        call()
