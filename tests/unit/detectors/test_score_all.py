"""`score_all`: several detectors in one pass, and the classes they predict."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from openset import Outputs, _xp
from openset.detectors import (
    KNN,
    MSP,
    Energy,
    Entropy,
    Mahalanobis,
    MaxLogit,
    ReAct,
    score_all,
)
from openset.testing import example_outputs as split


@pytest.fixture
def outputs():
    return split(50)


def test_reductions_are_computed_once_for_all_detectors(outputs, monkeypatch):
    calls = []
    real = _xp.exp_sum_without

    def counted(*args):
        calls.append(1)
        return real(*args)

    monkeypatch.setattr(_xp, "exp_sum_without", counted)
    fitted = [kind().fit(outputs) for kind in (MSP, MaxLogit, Energy)]
    score_all(fitted, outputs, batch_size=25)
    assert len(calls) == 2  # one for each batch


def test_features_alone_need_a_method_that_classifies(outputs):
    alone = Outputs(features=outputs.features, labels=outputs.labels)
    with pytest.raises(ValueError, match=r"KNN\.score: outputs must have logits"):
        KNN(k=3).fit(alone).score(alone)
    scores = Mahalanobis().fit(alone).score(alone)
    assert_array_equal(scores.predicted, outputs.labels)


def test_each_detector_of_feature_only_outputs_predicts_for_itself(outputs):
    alone = Outputs(features=outputs.features, labels=outputs.labels)
    fitted = [Mahalanobis().fit(outputs), ReAct().fit(outputs)]
    scores = score_all(fitted, alone, batch_size=20)
    assert_array_equal(scores["mahalanobis"].predicted, outputs.labels)
    assert_array_equal(scores["react"].predicted, outputs.logits.argmax(axis=1))


def test_two_detectors_of_one_kind_need_names(outputs):
    cold, hot = Energy().fit(outputs), Energy(temperature=9.0).fit(outputs)
    with pytest.raises(ValueError, match="must have different names"):
        score_all([cold, hot], outputs)
    scores = score_all({"cold": cold, "hot": hot}, outputs)
    assert list(scores) == ["cold", "hot"]
    assert (scores["hot"].known > scores["cold"].known).all()


def test_a_progress_bar_changes_nothing(outputs):
    fitted = MSP().fit(outputs)
    quiet = fitted.score(outputs, batch_size=10).known
    assert_array_equal(fitted.score(outputs, batch_size=10, progress=True).known, quiet)


@pytest.mark.parametrize("value", [[MSP()], {"a": MSP()}, MSP(), None])
def test_what_is_not_fitted_is_named(value, outputs):
    with pytest.raises(TypeError, match="score_all: fitted must be several fitted"):
        score_all(value, outputs)


def test_of_several_detectors_the_one_with_nan_is_named():
    outputs = Outputs(logits=[[0.0, 1.0], [np.inf, 0.0]], labels=[1, 0])
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(ValueError, match=r"^Entropy: result must be free of NaN"),
    ):
        score_all([MaxLogit().fit(), Entropy().fit()], outputs)


def test_some_rows_have_the_scores_of_outputs_with_these_rows_alone(outputs):
    fitted = [MSP().fit(outputs), KNN(k=3).fit(outputs)]
    rows = np.array([3, 0, *range(7, 30)])
    found = score_all(fitted, outputs, batch_size=10, rows=rows)
    expected = score_all(fitted, outputs.take(rows), batch_size=10)
    for name, scores in expected.items():
        assert_array_equal(found[name].known, scores.known)
        assert_array_equal(found[name].labels, scores.labels)
        assert_array_equal(found[name].predicted, scores.predicted)
