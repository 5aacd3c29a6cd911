"""Feature magnitudes: by brute force, and on disk."""

import numpy as np
import pytest

from openset import ArtefactError, Outputs
from openset.magnitudes import FeatureMagnitudes, measure


@pytest.fixture
def outputs(rng):
    """Three classes; unknowns of two kinds, "far" with longer features."""
    labels = np.repeat([0, 1, 2, -1, -1], [40, 40, 40, 30, 50])
    groups = np.repeat(["a", "b", "c", "near", "far"], [40, 40, 40, 30, 50])
    features = rng.normal(size=(200, 8))
    features[:120] += 4 * np.eye(8)[labels[:120]]
    features[groups == "far"] *= 3
    weight = np.eye(8)[:3]
    return Outputs(
        logits=features @ weight.T,
        features=features,
        labels=labels,
        groups=groups,
        classes=["ant", "bee", "cat"],
    )


def pairs(of, than):
    return np.mean([(a > b) + (a == b) / 2 for a in of for b in than])


def test_lengths_and_shares_are_those_of_all_pairs(outputs):
    found = measure(outputs)
    assert found.groups == ("known", "far", "near")
    norms = np.linalg.norm(outputs.features, axis=1)
    assert found.lengths == pytest.approx(norms)
    known, far = norms[:120], norms[150:]
    assert found.of("far") == pytest.approx(far)
    assert found.longer("far") == pytest.approx(pairs(far, known))
    assert found.longer() == pytest.approx(pairs(norms[120:], known))
    top = outputs.logits.max(axis=1)
    assert found.auroc(divided=False) == pytest.approx(pairs(top[:120], top[120:]))
    ratio = top / norms
    assert found.auroc(divided=True, group="far") == pytest.approx(
        pairs(ratio[:120], ratio[150:])
    )


def test_the_sentence_tells_the_direction(outputs, rng):
    text = measure(outputs).sentence()
    assert "that of the unknown sample is larger" in text
    assert f"to {measure(outputs).auroc(divided=True):.3f}." in text
    features = np.where(outputs.labels[:, None] < 0, 0.01, outputs.features)
    short = Outputs(features=features, labels=outputs.labels)
    assert (
        measure(short)
        .sentence()
        .endswith("in 100 % of pairs that of the unknown sample is smaller.")
    )


def test_sets_by_name_are_groups_and_zero_features_divide_to_the_least(outputs):
    parts = {
        "val": outputs.take(outputs.labels >= 0),
        "birds": outputs.take(outputs.labels < 0),
        "known": Outputs(logits=[[9.0, 0, 0]], features=np.zeros((1, 8)), labels=[-1]),
    }
    found = measure(parts)
    assert found.groups == ("known", "birds", "unknown: known")
    assert found.auroc(divided=True, group="unknown: known") == 1.0
    with pytest.raises(ValueError, match="must be one of 'known', 'birds'"):
        found.longer("cars")


def test_magnitudes_are_read_back(outputs, tmp_path):
    found = measure(outputs)
    path = found.save(tmp_path / "m.npz", key={"protocol": "p", "seed": 1})
    again, key = FeatureMagnitudes.load(path)
    assert key == {"protocol": "p", "seed": 1}
    assert again.sentence() == found.sentence()
    assert again.of("far") == pytest.approx(found.of("far"), rel=1e-6)
    np.savez(path, lengths=np.zeros(2))
    with pytest.raises(ArtefactError, match="is damaged"):
        FeatureMagnitudes.load(path)


def test_what_cannot_be_measured_is_refused(outputs):
    with pytest.raises(ValueError, match="outputs with features"):
        measure(Outputs(logits=[[1.0, 0.0]], labels=[0]))
    with pytest.raises(ValueError, match="unknown"):
        measure(outputs.take(outputs.labels >= 0))
