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
    NNO,
    Batch,
    Energy,
    Fitted,
    MaxLogit,
    make,
    score_all,
)
from openset.detectors import batch as of_batches
from openset.detectors.batch import working_dtype
from openset.outputs import replaced
from openset.testing import example_outputs as split
from tests.waiting import PATIENCE

OUTPUTS = split(50)


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
def test_a_file_of_another_version_is_refused(change, message, tmp_path):
    path = KNN(k=3).fit(OUTPUTS).save(tmp_path / "knn.npz")
    arrays = dict(np.load(path))
    about = json.loads(str(arrays["about"]))
    about |= change
    np.savez(path, **arrays | {"about": np.array(json.dumps(about))})
    with pytest.raises(ArtefactError, match=message):
        Fitted.load(path)


def test_some_rows_have_the_scores_of_outputs_with_these_rows_alone():
    fitted = [MSP().fit(OUTPUTS), KNN(k=3).fit(OUTPUTS)]
    rows = np.array([3, 0, *range(7, 30)])
    found = score_all(fitted, OUTPUTS, batch_size=10, rows=rows)
    expected = score_all(fitted, OUTPUTS.take(rows), batch_size=10)
    for name, scores in expected.items():
        assert_array_equal(found[name].known, scores.known)
        assert_array_equal(found[name].labels, scores.labels)
        assert_array_equal(found[name].predicted, scores.predicted)


def test_one_recipe_that_is_fitted_twice_is_two_detectors():
    recipe = NNO()
    fitted = {"one": recipe.fit(OUTPUTS), "other": recipe.fit(split(90, seed=5))}
    found = score_all(fitted, replaced(OUTPUTS, logits=None))
    for name, one in fitted.items():
        assert_array_equal(found[name].known, one.known(OUTPUTS))


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


def named(*classes):
    return replaced(OUTPUTS, classes=classes)


NARROW = replaced(OUTPUTS, features=OUTPUTS.features[:, :5])
ALONE = replaced(OUTPUTS, logits=None)
UNLABELLED = replaced(OUTPUTS, labels=None)
ENERGY, HOT = Energy().fit(OUTPUTS), Energy(temperature=9.0).fit(OUTPUTS)
NAMED, NEAREST = MSP().fit(named("a", "b", "c", "d")), KNN(k=3).fit(OUTPUTS)
SWAPPED = "MSP.score: classes of outputs .* got 'c' for class 1, which is 'b' there"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ENERGY.probability(OUTPUTS), "Energy: defines no probability"),
        (lambda: ENERGY.class_probabilities(OUTPUTS), "defines no class probabilities"),
        (lambda: NEAREST.score(NARROW), r"must be 32, as in fit .*got 5"),
        (lambda: NEAREST.known(NARROW), r"must be 32, as in fit .*got 5"),
        (lambda: NAMED.known(named("a", "c", "b", "d")), SWAPPED),
        (lambda: NAMED.score(named("a", "c", "b", "d")), SWAPPED),
        (lambda: KNN().fit(None), "outputs must be Outputs, got"),
        (lambda: ENERGY.known("train.npz"), "outputs must be Outputs, got"),
        (lambda: ENERGY.score(np.eye(4)), "outputs must be Outputs, got"),
        (lambda: ENERGY.known(OUTPUTS, batch_size=0), "batch_size must be an integer"),
        (
            lambda: ENERGY.known(OUTPUTS, batch_size=2.5),
            "batch_size must be an integer",
        ),
        (lambda: ENERGY.score(UNLABELLED), "outputs must be labelled, got no labels"),
        (lambda: score_all([ENERGY, HOT], OUTPUTS), "detectors of different names"),
        (lambda: NEAREST.score(ALONE), r"KNN\.score: .*logits.* got features only"),
    ],
)
def test_what_cannot_be_scored_is_refused(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()


def test_labels_are_needed_for_scores_and_names_to_tell_two_of_a_kind_apart():
    scores = score_all({"cold": ENERGY, "hot": HOT}, OUTPUTS)
    assert (scores["hot"].known > scores["cold"].known).all()
    assert_array_equal(ENERGY.known(UNLABELLED), scores["cold"].known)
    same = NAMED.known(named("a", "b", "c", "d"))
    assert_array_equal(NAMED.known(OUTPUTS), same)  # without names


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


def test_batches_are_scored_on_several_threads(two_cores):
    fitted = MaxLogit().fit()
    expected = OUTPUTS.logits.max(axis=1)
    assert_array_equal(fitted.known(OUTPUTS, batch_size=1), expected)
    assert threading.get_ident() not in two_cores
    rows = np.arange(49, 9, -1)
    some = fitted.score(OUTPUTS, batch_size=3, rows=rows)
    assert_array_equal(some.known, expected[rows])


def test_threads_compute_the_same_reduction_at_the_same_time(two_cores, monkeypatch):
    both, energy = threading.Barrier(2, timeout=PATIENCE), Batch.energy.func

    def meet(batch):
        both.wait()
        return energy(batch)

    monkeypatch.setattr(Batch.energy, "func", meet)
    assert Energy().fit().known(OUTPUTS, batch_size=25).size == len(OUTPUTS)


def test_features_that_nobody_reads_do_not_shorten_batches():
    many = split(240)
    wide = replaced(many, features=np.ones((len(many), 100_000)))
    sizes = []

    class Sees(MSP, register=False):
        def score_batch(self, state, batch):
            sizes.append(len(batch))
            return super().score_batch(state, batch)

    Sees().fit().known(wide)
    assert sizes == [len(many)]


def test_scores_do_not_depend_on_the_number_of_threads():
    fitted = [make(name).fit(split(240)) for name in ("vim", "rmds", "openmax", "ash")]
    with threadpoolctl.threadpool_limits(1):
        alone = score_all(fitted, OUTPUTS, batch_size=7)
    with threadpoolctl.threadpool_limits(3, "blas"):
        together = score_all(fitted, OUTPUTS, batch_size=7)
    for name, scores in alone.items():
        assert_array_equal(together[name].known, scores.known)


def test_an_error_in_a_thread_is_raised_and_frees_the_cores():
    fitted = MSP().fit(OUTPUTS)
    logits = np.array(OUTPUTS.logits)
    logits[31, :] = np.inf
    with (
        threadpoolctl.threadpool_limits(2, "blas"),
        np.errstate(invalid="ignore"),  # holds in the threads, too
        pytest.raises(InvalidSamplesError) as error,
    ):
        # as outputs that were changed after they were checked
        fitted.known(replaced(OUTPUTS, logits=logits), batch_size=5)
    assert error.value.rows == (31,)
    assert not of_batches._busy.locked()
