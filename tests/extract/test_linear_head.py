"""Embedding models of Hugging Face, built offline, and their last layers."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from openset import Outputs
from openset.cli import app
from openset.extract import LinearHead, load
from tests.clip import save_bert
from tests.vision import declare_operators

declare_operators()  # transformers imports torchvision

pytest.importorskip("transformers")
WORDS = "book a table now pay my bill sing"
TEXTS = ["book a table", "book now", "a table", "pay my bill", "pay now", "my bill"]
LABELS = ["food", "food", "food", "money", "money", "money"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    return folder, save_bert("BertModel", folder, WORDS)


def embedded(network, model, texts, pooling):
    """Return the embeddings text by text, without padding."""
    rows = []
    for text in texts:
        with torch.no_grad():
            states = model(**network.prepare([text])).last_hidden_state[0]
        rows.append((states[0] if pooling == "cls" else states.mean(dim=0)).numpy())
    return np.stack(rows)


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
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "1_Pooling").mkdir()
    stated = json.dumps({"pooling_mode_cls_token": True})
    (tmp_path / "1_Pooling/config.json").write_text(stated)
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


def test_from_a_table_of_texts_to_outputs_by_name(bert, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder, model = bert
    rows = [",".join(pair) for pair in zip(TEXTS, LABELS, strict=True)]
    Path("train.csv").write_text("\n".join(["text,label", *rows]), "utf-8")
    Path("test.csv").write_text("text,label\na table now,food\nsing,music", "utf-8")
    said = ""
    for words in (
        "train.csv --fit-head head.npz --out train.npz",
        "test.csv --head head.npz --out test.npz",
    ):
        command = ["extract", f"hf:{folder}", *words.split(), "--device", "cpu"]
        said += CliRunner().invoke(app, command, catch_exceptions=False).output
    said = " ".join(said.split())
    assert "last layer for 2 classes" in said
    assert "6 samples of known classes, accuracy 1.0000" in said
    head = LinearHead.load("head.npz")
    assert head.classes == ("food", "money")
    network = load(f"hf:{folder}", head=head)
    assert (network.classes, network.embeds) == (("food", "money"), False)
    for name, texts in (("train", TEXTS), ("test", ["a table now", "sing"])):
        found = Outputs.load(f"{name}.npz")
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
        losses[c] = log_loss(labels[held], model.predict_proba(scaled[held]))
    best = min(losses, key=losses.get)
    assert best < 1
    head = LinearHead.fit(Outputs(features=clean, labels=labels))
    expected = LogisticRegression(C=best).fit(scaled, labels)
    assert_allclose(
        clean @ head.weight.T + head.bias, expected.decision_function(scaled), atol=1e-3
    )


def test_what_does_not_fit_is_said():
    with pytest.raises(ValueError, match="two classes or more"):
        LinearHead.fit(Outputs(features=[[0.0], [1.0]], labels=[0, 0]))
    with pytest.raises(ValueError, match="features and labels"):
        LinearHead.fit(Outputs(features=[[0.0]]))
