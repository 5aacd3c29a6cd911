"""What every detector in the registry keeps to; new ones are covered by being there."""

import re
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from openset import Outputs, Rejector
from openset.detectors import find, make, score_all
from openset.detectors.base import REGISTRY
from openset.outputs import replaced
from openset.testing import check_detector, in_library
from openset.testing import example_outputs as split
from tests.extras import torch


@dataclass(frozen=True)
class Traits:
    """What one detector promises beyond the common contract.

    Invariances: ``shift`` (adding a number to a sample's logits), ``stretch``
    (multiplying all features by a number), ``rotate`` (turning all features), ``order``
    (multiplying all logits by a number keeps the ranking).
    """

    params: dict = field(default_factory=dict)
    invariances: frozenset = frozenset()
    float32: float = 1e-4  # error of float32, relative to the spread of the scores
    exact: float = 1e-9  # the same between libraries, batch sizes and sample orders


def traits(*invariances, **options):
    return Traits(invariances=frozenset(invariances), **options)


# SVM solvers stop at their own tolerance, which depends on the order of the samples.
SOLVER = {"exact": 1e-2, "float32": 1e-2}

TRAITS = {
    "msp": traits("shift", "stretch", "rotate"),
    "mcm": traits("shift", "stretch", "rotate"),
    "maxlogit": traits("stretch", "rotate", "order"),
    "energy": traits("stretch", "rotate"),
    "gen": traits("shift", "stretch", "rotate"),
    "postmax": traits("rotate", "order"),
    "openmax": traits("stretch", "rotate"),
    "nnguide": traits("stretch", "rotate"),
    "scale": traits("stretch"),
    "ash": traits("shift", "order"),
    "react": traits("shift", "order"),
    "vim": traits(float32=1e-3),
    "knn": traits("shift", "stretch", "rotate", "order", params={"k": 5}, float32=1e-3),
    "mahalanobis": traits("shift", "stretch", "rotate", "order", float32=1e-3),
    "rmds": traits("shift", "stretch", "rotate", "order", float32=1e-3),
    "fdbd": traits("shift", "order"),
    "nci": traits("shift", "order"),
    "evm": traits("shift", "stretch", "rotate", "order"),
    "osnn": traits("shift", "stretch", "rotate", "order"),
    "nno": traits("shift", "stretch", "rotate", "order"),
    "wsvm": traits(**SOLVER),
    "pisvm": traits(**SOLVER),
    "entropy": traits("shift", "stretch", "rotate"),
    "klm": traits("shift", "stretch", "rotate"),
    "temperature": traits("shift", "stretch", "rotate"),
    "gradnorm": traits("shift"),
    "lts": traits("stretch"),
    "she": traits("shift", "rotate", "order"),
    "dice": traits("shift", "order"),
    "vra": traits("shift", "order"),
    "core": traits(),
    "gmm": traits("shift", "rotate", "order", float32=1e-3),
    "relation": traits("shift", "stretch", "rotate", float32=1e-3),
    "pnml": traits("shift", "order", float32=1e-3),
    # Histograms are not continuous: a value near an edge changes its bin.
    "weiper": traits("shift", "order", float32=3e-2, params={"repeats": 20}),
    "residual": traits("shift", "order", float32=1e-3),
}


NAMES = REGISTRY.built_in()
TRAIN, TEST = split(240, seed=1), split(90, seed=2, unknown=0.4)


def trait(name):
    return TRAITS.get(name, Traits())


def fitted_on(name, train):
    return make(name, **trait(name).params).fit(train)


@cache
def scores_of(name):
    """Return what is expected where nothing changes."""
    return fitted_on(name, TRAIN).score(TEST).known


def close(actual, expected, tolerance):
    """Compare scores by their spread; infinities must sit in the same places."""
    finite = expected[np.isfinite(expected)]
    spread = np.ptp(finite) if finite.size else 0.0
    assert_allclose(actual, expected, rtol=0, atol=tolerance * max(spread, 1e-300))


def declared(invariance):
    kept = [name for name in NAMES if invariance in trait(name).invariances]
    return pytest.mark.parametrize("name", kept)


everyone = pytest.mark.parametrize("name", NAMES)


@everyone
def test_the_public_contract_holds(name):
    check_detector(
        name,
        params=trait(name).params,
        exact=max(trait(name).exact, 1e-8),
        float32=trait(name).float32,
        libraries=("torch", "array_api_strict"),
    )


@everyone
def test_it_is_exported_as_a_graph(name, tmp_path):
    pytest.importorskip("onnx")
    from openset.integrations import onnx  # noqa: PLC0415  # an extra

    single = [in_library(part, np, np.float32) for part in (split(240), TEST)]
    known, other = (single[1].take((TEST.labels < 0) == side) for side in (False, True))
    fitted = fitted_on(name, single[0])
    rejector = Rejector.calibrate(fitted, known=known, surrogate=other)
    path = onnx.export(rejector, tmp_path / "rejector.onnx")
    session = pytest.importorskip("onnxruntime").InferenceSession(path.read_bytes())
    inputs = [one.name for one in session.get_inputs() if one.name != "threshold"]
    found = session.run(["knownness"], {n: getattr(single[1], n) for n in inputs})[0]
    close(found.astype(float), rejector.known(single[1]), trait(name).float32)


@everyone
def test_facts_for_people_are_filled_in(name):
    kind = find(name)
    assert kind.name == name
    assert "-" not in {kind.paper, kind.costs[1], kind.score_scale}


@everyone
def test_a_fit_does_not_depend_on_how_the_data_are_cut_up(name, monkeypatch):
    expected = scores_of(name)
    monkeypatch.setattr("openset.detectors.batch.batch_rows", lambda outputs: 70)
    found = scores_of(name)
    close(found, expected, trait(name).exact)


def test_random_choices_are_the_same_every_time_unless_a_seed_is_given():
    seeds = {name: make(name).params().get("seed", 0) for name in NAMES}
    assert set(seeds.values()) == {0}


@declared("shift")
def test_adding_a_number_to_a_samples_logits_changes_nothing(name, rng):
    shifted = replaced(TEST, logits=TEST.logits + rng.normal(size=(len(TEST), 1)))
    close(fitted_on(name, TRAIN).score(shifted).known, scores_of(name), 1e-9)


@declared("order")
def test_multiplying_all_logits_keeps_the_ranking(name):
    before = scores_of(name)
    scaled = [replaced(part, logits=part.logits * 2) for part in (TRAIN, TEST)]
    after = fitted_on(name, scaled[0]).score(scaled[1]).known
    assert_array_equal(np.argsort(after), np.argsort(before))


@declared("stretch")
def test_multiplying_all_features_changes_nothing(name):
    before = scores_of(name)
    scaled = [replaced(part, features=part.features * 8) for part in (TRAIN, TEST)]
    close(fitted_on(name, scaled[0]).score(scaled[1]).known, before, 1e-8)


@declared("rotate")
def test_turning_all_features_changes_nothing(name, rng):
    turn, _ = np.linalg.qr(rng.normal(size=(TRAIN.features.shape[1],) * 2))
    before = scores_of(name)
    turned = [replaced(part, features=part.features @ turn) for part in (TRAIN, TEST)]
    close(fitted_on(name, turned[0]).score(turned[1]).known, before, 1e-8)


@everyone
def test_torch_scores_outputs_of_another_precision_than_in_fitting(name):
    double = [in_library(part, torch, np.float64) for part in (TRAIN, TEST)]
    single = [in_library(part, torch, np.float32) for part in (TRAIN, TEST)]
    expected = scores_of(name)
    for a, b in ((double, single), (single, double)):
        close(fitted_on(name, a[0]).score(b[1]).known, expected, trait(name).float32)


@everyone
def test_nan_in_a_memory_map_is_found_when_it_is_read(name, tmp_path):
    fitted = fitted_on(name, TRAIN)
    for array in find(name).score_needs:
        folder = TEST.save(tmp_path / array)
        values = np.load(folder / f"{array}.npy")
        values[17, 3] = np.nan
        np.save(folder / f"{array}.npy", values)
        broken = Outputs.load(folder)
        with pytest.raises(ValueError, match=f"{array} must be free of NaN.*row 17"):
            fitted.score(broken, batch_size=8)


def test_scoring_all_at_once_equals_scoring_one_by_one(xp):
    train, test = in_library(TRAIN, xp), in_library(TEST, xp)
    fitted = [fitted_on(name, train) for name in NAMES]
    together = score_all(fitted, test, batch_size=32)
    assert list(together) == NAMES
    for one in fitted:
        alone = one.score(test, batch_size=32)
        assert_array_equal(together[one.detector.name].known, alone.known)
        assert_array_equal(together[one.detector.name].predicted, alone.predicted)


def small(n=60, n_classes=3, width=6, *, seed=0, labels=None):
    """Positive features and logits, in whatever shape a test wants."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % n_classes if labels is None else labels
    centre = np.eye(max(n_classes, width))[:n_classes, :width] * 4
    features = centre[labels] + rng.uniform(0.1, 1.0, size=(n, width))
    weight = centre + rng.uniform(0.0, 0.5, size=(n_classes, width))
    head = {"weight": weight, "bias": rng.uniform(0.5, 1.0, size=n_classes)}
    logits = features @ weight.T + head["bias"]
    return Outputs(logits=logits, features=features, labels=labels, **head)


def with_features(outputs, features):
    logits = features @ outputs.weight.T + outputs.bias
    return replaced(outputs, features=features, logits=logits)


def constant():
    return with_features(small(), np.full((60, 6), 0.7))


def with_zero_vector(outputs):
    return with_features(outputs, outputs.features * (np.arange(60) > 0)[:, None])


ONE_CLASS = small(n_classes=1)
DEGENERATE = {
    "one class": (ONE_CLASS, ONE_CLASS),
    "two classes": (small(n_classes=2), small(n_classes=2, seed=1)),
    "one feature": (small(n_classes=2, width=1), small(n_classes=2, width=1, seed=1)),
    "constant features": (constant(), small(seed=1)),
    "a zero feature vector": (small(), with_zero_vector(small(seed=1))),
    "a zero vector in fitting": (with_zero_vector(small()), small(seed=1)),
    "few samples": (small(n=3), small(seed=1)),
    "one sample": (small(n=1), small(seed=1)),
    "a class without samples": (
        small(labels=np.arange(60) % 2),
        small(seed=1, labels=np.arange(60) % 2),
    ),
}

# What the documentation says happens; what is not listed scores without complaint.
FLAT, FEW, ONE = "constant features", "few samples", "one sample"
REFUSED = {
    (name, case): words
    for names, cases, words in [
        ("fdbd", ["one class"], "FDBD.fit: number of classes must be two or more"),
        ("rmds", ["one class", ONE], "RMDS.fit: labels must be of two classes or more"),
        ("rmds", [FLAT, FEW], "features must be spread out"),
        ("mahalanobis gmm", [FLAT, FEW, ONE], "features must be spread out"),
        ("vim residual", [FLAT, FEW, ONE], "features must be spread over more than"),
        ("knn nnguide", [FEW], "k must be at most 3, the size of the bank, got"),
        ("knn nnguide", [ONE], "k must be at most 1, the size of the bank, got"),
        ("postmax", [FLAT], "correctly classified samples must be at least"),
        ("postmax", [FEW, ONE], "correctly classified samples must be at least 30"),
        ("openmax", [FEW, ONE], "correctly classified samples must be enough"),
        ("evm", [FLAT], "features must be different for different classes"),
        ("evm osnn wsvm pisvm", ["one class", ONE], "be of at least two classes"),
        ("nno", [FLAT, FEW, ONE], "features must be spread around their class means"),
    ]
    for name in names.split()
    for case in cases
}


@everyone
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_data_scores_or_raises_as_documented(name, case):
    train, test = DEGENERATE[case]
    problem = scores = None
    try:
        scores = fitted_on(name, train).score(test)
    except ValueError as error:
        problem = str(error)
    if scores is not None:
        assert (name, case) not in REFUSED
        assert scores.known.shape == (len(test),)
        assert not np.isnan(scores.known).any()
        return
    assert re.match(r"[A-Za-z_]+(\.\w+)?: .*(must|needs)", problem)
    assert REFUSED.get((name, case), "no refusal") in problem


def test_every_declared_trait_and_refusal_belongs_to_a_known_name():
    assert set(TRAITS) <= set(NAMES)
    assert {name for name, _ in REFUSED} <= set(TRAITS)
