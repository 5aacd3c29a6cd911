"""What every detector in the registry keeps to; new ones are covered by being there."""

import re
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from openset import Outputs
from openset.detectors import REGISTRY, Fitted, make, names, score_all
from tests.unit.detectors.synthetic import N_CLASSES, in_library, split


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
}


def trait(name):
    return TRAITS[name]


def fitted_on(name, train):
    return make(name, **trait(name).params).fit(train)


def close(actual, expected, tolerance):
    """Compare scores by their spread; infinities must sit in the same places."""
    finite = expected[np.isfinite(expected)]
    spread = np.ptp(finite) if finite.size else 0.0
    assert_allclose(actual, expected, rtol=0, atol=tolerance * max(spread, 1e-300))


def declared(invariance):
    kept = [name for name in names() if invariance in trait(name).invariances]
    return pytest.mark.parametrize("name", kept)


everyone = pytest.mark.parametrize("name", names())


@pytest.fixture(scope="module")
def train():
    return split(240, seed=1)


@pytest.fixture(scope="module")
def test():
    return split(90, seed=2, unknown=0.4)


@everyone
def test_facts_about_the_detector_are_filled_in(name):
    kind = REGISTRY[name]
    assert kind.name == name
    assert kind.paper
    assert kind.score_cost
    assert kind.fit_cost
    assert kind.score_needs
    assert set(kind.score_needs) <= {"logits", "features"}
    assert set(kind.fit_needs) <= {"logits", "features", "labels", "head"}


@everyone
def test_known_samples_score_higher_than_unknown_ones(name, train, test):
    scores = fitted_on(name, train).score(test)
    known = scores.known[~scores.is_unknown]
    unknown = scores.known[scores.is_unknown]
    beaten = np.mean(known[:, None] > unknown[None, :])
    assert beaten > 0.95


@everyone
def test_the_predicted_class_is_the_argmax_of_the_logits(name, train, test):
    scores = fitted_on(name, train).score(test)
    assert_array_equal(scores.predicted, np.argmax(test.logits, axis=1))


@everyone
def test_a_missing_input_is_named(name, train):
    needs = REGISTRY[name].score_needs
    fitted = fitted_on(name, train)
    other = {"logits": "features", "features": "logits"}
    for need in needs:
        only = {other[need]: getattr(train, other[need])}
        with pytest.raises(ValueError, match=f"must have {need}, got none"):
            fitted.known(Outputs(**only))


@everyone
def test_unknown_samples_are_refused_in_fitting(name, test):
    with pytest.raises(ValueError, match="must be known samples only"):
        make(name).fit(test)


@everyone
def test_the_order_of_samples_does_not_matter(name, train, test, rng):
    before = fitted_on(name, train).score(test).known
    shuffled, order = rng.permutation(len(train)), rng.permutation(len(test))
    after = fitted_on(name, train.take(shuffled)).score(test.take(order)).known
    close(after, before[order], max(trait(name).exact, 1e-8))


@everyone
def test_the_numbering_of_classes_does_not_matter(name, train, test):
    order = np.array([2, 0, 3, 1])  # new class c is old class order[c]

    def renumbered(outputs):
        place = np.append(np.argsort(order), -1)  # label -1 stays -1
        return Outputs(
            logits=outputs.logits[:, order],
            features=outputs.features,
            labels=place[outputs.labels],
            weight=outputs.weight[order],
            bias=outputs.bias[order],
        )

    before = fitted_on(name, train).score(test).known
    after = fitted_on(name, renumbered(train)).score(renumbered(test)).known
    close(after, before, max(trait(name).exact, 1e-8))


def changed(outputs, *, logits=None, features=None):
    return Outputs(
        logits=outputs.logits if logits is None else logits,
        features=outputs.features if features is None else features,
        labels=outputs.labels,
        weight=outputs.weight,
        bias=outputs.bias,
    )


@declared("shift")
def test_adding_a_number_to_a_samples_logits_changes_nothing(name, train, test, rng):
    shifted = changed(test, logits=test.logits + rng.normal(size=(len(test), 1)))
    fitted = fitted_on(name, train)
    close(fitted.score(shifted).known, fitted.score(test).known, 1e-9)


@declared("order")
def test_multiplying_all_logits_keeps_the_ranking(name, train, test):
    before = fitted_on(name, train).score(test).known
    scaled = [changed(part, logits=part.logits * 2) for part in (train, test)]
    after = fitted_on(name, scaled[0]).score(scaled[1]).known
    assert_array_equal(np.argsort(after), np.argsort(before))


@declared("stretch")
def test_multiplying_all_features_changes_nothing(name, train, test):
    before = fitted_on(name, train).score(test).known
    scaled = [changed(part, features=part.features * 8) for part in (train, test)]
    close(fitted_on(name, scaled[0]).score(scaled[1]).known, before, 1e-8)


@declared("rotate")
def test_turning_all_features_changes_nothing(name, train, test, rng):
    turn, _ = np.linalg.qr(rng.normal(size=(train.features.shape[1],) * 2))
    before = fitted_on(name, train).score(test).known
    turned = [changed(part, features=part.features @ turn) for part in (train, test)]
    close(fitted_on(name, turned[0]).score(turned[1]).known, before, 1e-8)


@everyone
def test_float32_is_close_to_float64(name, train, test):
    double = fitted_on(name, train).score(test).known
    small = [in_library(part, np, np.float32) for part in (train, test)]
    close(fitted_on(name, small[0]).score(small[1]).known, double, trait(name).float32)


@everyone
def test_half_precision_inputs_are_computed_in_float32(name, train, test):
    half = [in_library(part, np, np.float16) for part in (train, test)]
    single = [in_library(part, np, np.float32) for part in half]
    expected = fitted_on(name, single[0]).score(single[1]).known
    actual = fitted_on(name, half[0]).score(half[1]).known
    close(actual, expected, trait(name).float32)


@everyone
def test_a_float64_fit_scores_float32_outputs_and_the_other_way(name, train, test, xp):
    double = [in_library(part, xp, np.float64) for part in (train, test)]
    single = [in_library(part, xp, np.float32) for part in (train, test)]
    expected = fitted_on(name, train).score(test).known
    for a, b in ((double, single), (single, double)):
        close(fitted_on(name, a[0]).score(b[1]).known, expected, trait(name).float32)


@everyone
def test_all_array_libraries_agree(name, train, test, xp):
    expected = fitted_on(name, train).score(test)
    own = [in_library(part, xp) for part in (train, test)]
    actual = fitted_on(name, own[0]).score(own[1])
    close(actual.known, expected.known, trait(name).exact)
    assert_array_equal(actual.predicted, expected.predicted)


@everyone
def test_a_fit_moves_to_another_library(name, train, test, xp):
    fitted = fitted_on(name, train)
    own = in_library(test, xp)
    actual = fitted.to(own.logits).score(own).known
    close(actual, fitted.score(test).known, trait(name).exact)


@everyone
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_score_does_not_depend_on_the_batch(name, size, train, test):
    fitted = fitted_on(name, train)
    close(fitted.score(test, batch_size=size).known, fitted.score(test).known, 1e-9)


@everyone
def test_inputs_are_left_as_they_are(name, xp):
    train, test = split(240, seed=1), split(30, seed=2)
    own = [in_library(part, xp) for part in (train, test)]
    fitted_on(name, own[0]).score(own[1])
    for before, after in zip((train, test), own, strict=True):
        for array in ("logits", "features", "weight", "bias"):
            values = np.from_dlpack(getattr(after, array))
            assert_array_equal(values, getattr(before, array))


@everyone
def test_memory_mapped_outputs_score_as_those_in_memory(name, train, test, tmp_path):
    parts = {"train": train, "test": test}
    mapped = {n: Outputs.load(o.save(tmp_path / n)) for n, o in parts.items()}
    assert isinstance(mapped["test"].features, np.memmap)
    expected = fitted_on(name, train).score(test).known
    actual = fitted_on(name, mapped["train"]).score(mapped["test"]).known
    assert_array_equal(actual, expected)


@everyone
def test_nan_in_a_memory_map_is_found_when_it_is_read(name, train, test, tmp_path):
    fitted = fitted_on(name, train)
    for array in REGISTRY[name].score_needs:
        folder = test.save(tmp_path / array)
        values = np.load(folder / f"{array}.npy")
        values[17, 3] = np.nan
        np.save(folder / f"{array}.npy", values)
        broken = Outputs.load(folder)
        with pytest.raises(ValueError, match=f"{array} must be free of NaN.*row 17"):
            fitted.score(broken, batch_size=8)


@everyone
def test_saving_and_loading_keeps_every_bit(name, train, test, tmp_path):
    fitted = fitted_on(name, train)
    path = fitted.save(tmp_path / "fitted.npz")
    with np.load(path, allow_pickle=False) as archive:
        assert all(
            archive[key].dtype.kind in "fiub" or key == "recipe"
            for key in archive.files
        )
    loaded = Fitted.load(path)
    assert loaded.detector == fitted.detector
    assert dict(loaded.widths) == dict(fitted.widths)
    assert set(loaded.state) == set(fitted.state)
    for key, array in fitted.state.items():
        assert loaded.state[key].dtype == array.dtype
        assert_array_equal(loaded.state[key], array)
    assert_array_equal(loaded.score(test).known, fitted.score(test).known)


def test_scoring_all_at_once_equals_scoring_one_by_one(train, test, xp):
    train, test = in_library(train, xp), in_library(test, xp)
    fitted = [fitted_on(name, train) for name in names()]
    together = score_all(fitted, test, batch_size=32)
    assert list(together) == names()
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
    bias = rng.uniform(0.5, 1.0, size=n_classes)
    logits = features @ weight.T + bias
    return Outputs(
        logits=logits, features=features, labels=labels, weight=weight, bias=bias
    )


def constant():
    outputs = small()
    features = np.full_like(outputs.features, 0.7)
    return changed(
        outputs, features=features, logits=features @ outputs.weight.T + outputs.bias
    )


def with_zero_vector(outputs):
    features = np.array(outputs.features)
    features[0] = 0
    logits = features @ outputs.weight.T + outputs.bias
    return changed(outputs, features=features, logits=logits)


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
REFUSED = {
    ("fdbd", "one class"): "FDBD.fit: number of classes must be two or more",
    ("rmds", "one class"): "RMDS.fit: labels must be of two classes or more",
    ("rmds", "one sample"): "RMDS.fit: labels must be of two classes or more",
    ("mahalanobis", "constant features"): "features must be spread out",
    ("mahalanobis", "few samples"): "features must be spread out",
    ("mahalanobis", "one sample"): "features must be spread out",
    ("rmds", "constant features"): "features must be spread out",
    ("rmds", "few samples"): "features must be spread out",
    ("vim", "constant features"): "features must be spread over more than",
    ("vim", "few samples"): "features must be spread over more than",
    ("vim", "one sample"): "features must be spread over more than",
    ("knn", "few samples"): "k must be at most 3, the size of the bank, got 5",
    ("knn", "one sample"): "k must be at most 1, the size of the bank, got 5",
    ("nnguide", "few samples"): "k must be at most 3, the size of the bank, got 10",
    ("nnguide", "one sample"): "k must be at most 1, the size of the bank, got 10",
    ("postmax", "constant features"): "correctly classified samples must be at least",
    ("postmax", "few samples"): "correctly classified samples must be at least 30",
    ("postmax", "one sample"): "correctly classified samples must be at least 30",
    ("openmax", "few samples"): "correctly classified samples must be enough",
    ("openmax", "one sample"): "correctly classified samples must be enough",
    ("evm", "one class"): "samples must be of two classes at least",
    ("evm", "one sample"): "samples must be of two classes at least",
    ("evm", "constant features"): "features must be different for different classes",
    ("osnn", "one class"): "samples must be of two classes at least",
    ("osnn", "one sample"): "samples must be of two classes at least",
    ("nno", "constant features"): "features must be spread around their class means",
    ("nno", "few samples"): "features must be spread around their class means",
    ("nno", "one sample"): "features must be spread around their class means",
    ("wsvm", "one class"): "samples must be of two classes at least",
    ("wsvm", "one sample"): "samples must be of two classes at least",
    ("pisvm", "one class"): "samples must be of two classes at least",
    ("pisvm", "one sample"): "samples must be of two classes at least",
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
    assert set(TRAITS) == set(names())
    assert {name for name, _ in REFUSED} <= set(TRAITS)
    assert N_CLASSES == 4  # the renumbering above is one of four classes
