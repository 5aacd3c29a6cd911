"""Decisions by published rules, folds, and networks trained together."""

import numpy as np
import pytest

from openset import (
    Outputs,
    bench,
    datasets,
    detectors,
    metrics,
    protocols,
    report,
    runs,
)
from openset.bench import parse
from openset.bench._published_rule import decided_by_argmax
from openset.train import methods
from tests.unit.bench.studies import contents

TEXT = b"""
protocols: [{kind: holdout, data: digits, known: 4, unknown: 3, folds: 2}]
models: [{kind: network, together: TOGETHER,
          params: {recipe: torchosr, epochs: 2, lr: 0.05, curves: 2, validation: 0}}]
methods: [tsoftmax, noise]
detectors: [published, {name: openmax, tail: 5}]
calibrate: {objective: published, options: {epsilon: {4: 0.4}}}
headline: overall_score
"""


def study(together=1, text=TEXT):
    return parse(text.replace(b"TOGETHER", str(together).encode()), "study.yaml")


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    done = bench.run(study(), folder, backend="sequential")
    assert done.failed == ()
    return folder


def value(cell, metric):
    return cell.results().where(metric=metric).column("value")[0]


def test_an_extra_output_rejects_where_it_is_the_largest(rng):
    outputs = rng.normal(size=(200, 5))
    outputs /= np.linalg.norm(outputs, axis=1, keepdims=True)
    shares = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    margin = methods.Noise.published_margin(outputs[:, :4], 1 - shares[:, 4])
    assert ((margin >= 0) == (outputs.argmax(axis=1) < 4)).all()
    assert 0 < (margin >= 0).sum() < 200


def test_thresholded_softmax_must_be_above_its_threshold():
    logits = np.zeros((3, 4))
    known = np.array([np.nextafter(0.48, 0), 0.48, np.nextafter(0.48, 1)])
    margin = methods.ThresholdedSoftmax.published_margin(logits, known)
    assert (margin >= 0).tolist() == [False, False, True]


def test_openmax_rejects_where_unknown_is_the_most_probable(rng):
    labels = np.tile([0, 1, 2], 40)
    logits = rng.normal(size=(120, 3)) + 4 * np.eye(3)[labels]
    train = Outputs(logits=logits, labels=labels)
    mixed = rng.choice([-1, 0, 1, 2], 60)
    test = Outputs(logits=2 * rng.normal(size=(60, 3)), labels=mixed)
    fitted = detectors.make("openmax", tail=10).fit(train)
    shares = fitted.class_probabilities(test)
    decided = decided_by_argmax(fitted, fitted.score(test), test, None)
    assert ((decided.known >= 0) == (shares.argmax(axis=1) < 3)).all()
    assert 0 < (decided.known >= 0).sum() < 60
    stricter = decided_by_argmax(fitted, fitted.score(test), test, {3: 0.7})
    both = (shares.argmax(axis=1) < 3) & (shares.max(axis=1) > 0.7)
    assert ((stricter.known >= 0) == both).all()
    with pytest.raises(ValueError, match="epsilon must be given for 3 classes, got 2"):
        decided_by_argmax(fitted, fitted.score(test), test, {2: 0.5})


def test_a_cell_is_decided_by_the_rule_and_ranked_by_the_score(alone):
    cell = next(
        c
        for c in runs.read_cells(alone)
        if (c.key["method"], c.key["detector"], c.key["repeat"])
        == ("tsoftmax", "published", 0)
    )
    scores = runs.read_scores(alone / "scores" / f"{cell.id}.npz")
    at = np.nextafter(methods.published_threshold(4), 1)
    for name in ("outer_score", "halfpoint_score", "overall_score"):
        expected = getattr(metrics, name)(scores, at)
        assert value(cell, name) == pytest.approx(expected)
    assert value(cell, "openauc") == pytest.approx(metrics.openauc(scores))
    assert cell.threshold is None


def test_a_curve_ends_with_the_scores_of_its_cell(alone):
    for cell in runs.read_cells(alone):
        if cell.key["detector"] == "published":
            (last,) = cell.curve  # every second of two epochs
            assert last["epoch"] == 2
            for name in ("inner_score", "outer_score", "overall_score"):
                assert last[name] == pytest.approx(value(cell, name), abs=1e-6)


def test_the_report_draws_the_four_scores_over_epochs(alone):
    page = report.render(alone)
    assert "Inner, Outer, Halfpoint and Overall over training" in page
    assert page.count("Fig. 6 of the class-imbalance paper") == 1


def test_networks_trained_together_are_those_trained_alone(alone, tmp_path):
    done = bench.run(study(together=3), tmp_path, backend="sequential")
    assert done.failed == ()
    assert contents(tmp_path) == contents(alone)


def test_a_failing_network_fails_alone(tmp_path):
    text = TEXT.replace(b"noise]", b"{name: noise, ratio: 7}]")
    done = bench.run(study(together=4, text=text), tmp_path, backend="sequential")
    assert {one["key"]["method"] for one in done.failed} == {"noise(ratio=7)"}
    assert done.n_run == 4


def test_folds_test_every_known_sample_once(alone):
    cells = [
        c
        for c in runs.read_cells(alone)
        if (c.key["method"], c.key["detector"]) == ("noise", "published")
    ]
    assert [cell.key["repeat"] for cell in cells] == [0, 1]
    n = sum(
        runs.read_scores(alone / "scores" / f"{cell.id}.npz").n_known for cell in cells
    )
    digits = datasets.load("digits")
    drawn = protocols.load(alone / "protocols.json")
    known = [digits.number(c) for c in drawn[0].known]
    assert len(drawn) == 1  # folds of one draw are one problem
    assert n == np.isin(digits.labels, known).sum()


def test_folds_keep_a_share_for_validation():
    digits = datasets.load("digits")
    drawn = protocols.Protocol(
        known=digits.classes[:6], unknown=digits.classes[6:], validation=0.2
    )
    for fold in datasets.folds(digits, drawn, 2):
        whole = len(fold.train) + len(fold.validation)
        assert len(fold.validation) == pytest.approx(0.2 * whole, abs=6)
        assert not set(fold.train.ids) & set(fold.validation.ids)
        assert not set(fold.test.ids) & set(fold.validation.ids)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((b"[tsoftmax, noise]", b"[softmax]"), "softmax was published without a rule"),
        ((b"[published, {", b"[msp, {"), "msp was published without a rule"),
        ((b"{epsilon: {4: 0.4}}", b"{rate: 1}"), "options must be one of 'epsilon'"),
        ((b"overall_score", b"oosa"), "headline must be a metric without calibration"),
        ((b"published, options", b"published, alpha: 0.5, options"), "alpha must be"),
        ((b"folds: 2", b"unknowns: shared"), "unknowns must be left out without folds"),
        ((b"kind: holdout", b"kind: operational, surrogate: 2"), "folds must be 1"),
    ],
)
def test_what_has_no_published_rule_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        study(text=TEXT.replace(*change))
