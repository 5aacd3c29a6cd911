"""`Batch`, `Fitted` and `score_all`: one pass, on all cores, in any batch size."""

import json
import threading

import numpy as np
import pytest
import threadpoolctl
from numpy.testing import assert_allclose, assert_array_equal

from openset import ArtefactError, InvalidSamplesError, Outputs
from openset.detectors import (
    KNN,
    MSP,
    Batch,
    Energy,
    Fitted,
    MaxLogit,
    OpenMax,
    make,
    score_all,
)
from openset.detectors import batch as of_batches
from openset.detectors.batch import working_dtype
from openset.outputs import replaced
from openset.testing import example_outputs as split


@pytest.fixture
def outputs():
    return split(50)


def test_a_method_without_a_probability_says_so(outputs):
    fitted = Energy().fit(outputs)
    with pytest.raises(TypeError, match="Energy: defines no probability"):
        fitted.probability(outputs)
    with pytest.raises(TypeError, match="Energy: defines no class probabilities"):
        fitted.class_probabilities(outputs)
    found = OpenMax().fit(split(200)).class_probabilities(outputs)
    assert found.shape == (50, 5)
    assert_allclose(found.sum(axis=1), 1)


def test_outputs_of_another_width_are_refused(outputs):
    fitted = KNN(k=3).fit(outputs)
    narrow = replaced(outputs, features=outputs.features[:, :5])
    for call in (fitted.score, fitted.known):
        with pytest.raises(ValueError, match=r"must be 32, as in fit .*got 5"):
            call(narrow)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "magic"}, "a detector that is registered here, got 'magic'"),
        ({"params": {"magic": 1}}, "cannot make .*unexpected keyword argument"),
        ({"params": {"k": 0}}, "cannot make .*k must be an integer >= 1"),
        ({"params": [1]}, "cannot make"),
        ({"widths": None}, "is damaged"),
    ],
)
def test_a_file_of_another_version_is_refused(change, message, outputs, tmp_path):
    path = KNN(k=3).fit(outputs).save(tmp_path / "knn.npz")
    arrays = dict(np.load(path))
    about = json.loads(str(arrays["about"]))
    about |= change
    np.savez(path, **arrays | {"about": np.array(json.dumps(about))})
    with pytest.raises(ArtefactError, match=message):
        Fitted.load(path)


@pytest.mark.parametrize("value", [np.ones((3, 4)), "train.npz", None])
def test_what_is_no_outputs_is_named(value, outputs):
    fitted = MSP().fit(outputs)
    for call in (KNN().fit, fitted.known, fitted.score, fitted.probability):
        with pytest.raises(TypeError, match=r"outputs must be Outputs, got"):
            call(value)


def test_classes_in_another_order_than_in_fitting_are_refused(outputs):
    def named(*classes):
        return replaced(outputs, classes=classes)

    fitted = MSP().fit(named("a", "b", "c", "d"))
    expected = fitted.known(outputs)  # without names
    assert_array_equal(fitted.known(named("a", "b", "c", "d")), expected)
    rule = "MSP.score: classes of outputs .* got 'c' for class 1, which is 'b' there"
    for use in (fitted.known, fitted.score):
        with pytest.raises(ValueError, match=rule):
            use(named("a", "c", "b", "d"))


def test_some_rows_have_the_scores_of_outputs_with_these_rows_alone(outputs):
    fitted = [MSP().fit(outputs), KNN(k=3).fit(outputs)]
    rows = np.array([3, 0, *range(7, 30)])
    found = score_all(fitted, outputs, batch_size=10, rows=rows)
    expected = score_all(fitted, outputs.take(rows), batch_size=10)
    for name, scores in expected.items():
        assert_array_equal(found[name].known, scores.known)
        assert_array_equal(found[name].labels, scores.labels)
        assert_array_equal(found[name].predicted, scores.predicted)


def test_the_mass_of_other_classes_is_not_lost_in_its_logarithm():
    two = Batch(Outputs(logits=[[800.0, 0.0], [0.0, 0.0], [-5.0, 900.0]]))
    assert_allclose(two.log_other_mass, [-800, 0, -905], atol=1e-12)
    one = Batch(Outputs(logits=[[800.0], [0.0]]))
    assert_array_equal(one.log_other_mass, [-np.inf, -np.inf])


def test_logits_and_features_are_computed_in_the_wider_dtype():
    mixed = Outputs(logits=np.ones((2, 3), dtype=np.float32), features=np.ones((2, 4)))
    assert working_dtype(mixed) == np.float64
    assert Batch(mixed).logits.dtype == np.float64
    half = Outputs(logits=np.ones((2, 3), dtype=np.float16))
    assert Batch(half).logits.dtype == np.float32


def test_labels_and_names_are_asked_for(outputs):
    cold, hot = Energy().fit(outputs), Energy(temperature=9.0).fit(outputs)
    for size in (0, -1, 2.5):
        with pytest.raises(ValueError, match="batch_size must be an integer >= 1"):
            cold.known(outputs, batch_size=size)
    unlabelled = Outputs(logits=outputs.logits)
    assert_array_equal(cold.known(unlabelled), cold.score(outputs).known)
    with pytest.raises(ValueError, match="outputs must be labelled, got no labels"):
        cold.score(unlabelled)
    with pytest.raises(ValueError, match="detectors of different names"):
        score_all([cold, hot], outputs)
    scores = score_all({"cold": cold, "hot": hot}, outputs)
    assert (scores["hot"].known > scores["cold"].known).all()
    alone = replaced(outputs, logits=None)
    with pytest.raises(ValueError, match=r"KNN\.score: .*logits.* got features only"):
        KNN(k=3).fit(alone).score(alone)


@pytest.fixture
def two_cores(monkeypatch):
    """Whatever the machine has; return the threads that score."""
    controller = threadpoolctl.ThreadpoolController().select(user_api="blas")
    monkeypatch.setattr(of_batches, "_blas", lambda: controller)
    used = set()

    def score_batch(self, state, batch):
        used.add(threading.get_ident())
        assert controller.info()[0]["num_threads"] == 1
        return batch.top_logit

    monkeypatch.setattr(MaxLogit, "score_batch", score_batch)
    with threadpoolctl.threadpool_limits(2, "blas"):
        yield used
        assert {one["num_threads"] for one in controller.info()} == {2}


def test_batches_are_scored_on_several_threads(outputs, two_cores):
    fitted = MaxLogit().fit()
    expected = outputs.logits.max(axis=1)
    assert_array_equal(fitted.known(outputs, batch_size=1), expected)
    assert threading.get_ident() not in two_cores
    rows = np.arange(49, 9, -1)
    some = fitted.score(outputs, batch_size=3, rows=rows)
    assert_array_equal(some.known, expected[rows])


def test_scores_do_not_depend_on_the_number_of_threads(outputs):
    fitted = [make(name).fit(split(240)) for name in ("vim", "rmds", "openmax", "ash")]
    with threadpoolctl.threadpool_limits(1):
        alone = score_all(fitted, outputs, batch_size=7)
    with threadpoolctl.threadpool_limits(3, "blas"):
        together = score_all(fitted, outputs, batch_size=7)
    for name, scores in alone.items():
        assert_array_equal(together[name].known, scores.known)


def test_an_error_in_a_thread_is_raised_and_frees_the_cores(outputs):
    fitted = MSP().fit(outputs)
    logits = np.array(outputs.logits)
    logits[31, :] = np.inf
    with (
        threadpoolctl.threadpool_limits(2, "blas"),
        np.errstate(invalid="ignore"),  # holds in the threads, too
        pytest.raises(InvalidSamplesError) as error,
    ):
        # as outputs that were changed after they were checked
        fitted.known(replaced(outputs, logits=logits), batch_size=5)
    assert error.value.rows == (31,)
    assert not of_batches._busy.locked()
