"""Samples are told by their ids: in whatever order scores are, the tests are right."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from openset import Outputs, PairingWarning, Rejector, Scores, detectors, stats
from openset.scores import seems_reordered

RNG = np.random.default_rng(0)
N = 90
IDS = np.array([f"img_{i:03d}.png" for i in RNG.permutation(N)])
LABELS = np.repeat([0, 1, -1], N // 3)
KNOWN = RNG.normal(size=N) + (LABELS >= 0)
PREDICTED = RNG.integers(0, 2, N)
SHUFFLED = RNG.permutation(N)


def two_detectors(ids=IDS):
    a = Scores(labels=LABELS, predicted=PREDICTED, known=KNOWN, ids=ids)
    return a, a.with_known(KNOWN + np.random.default_rng(1).normal(size=N))


@pytest.mark.parametrize("metric", ["openauc", "fpr_at_tpr"])
@pytest.mark.parametrize("ids", [IDS, np.arange(N), np.arange(N).astype(np.uint8)])
def test_a_shuffled_side_changes_no_bit_of_a_comparison(metric, ids):
    a, b = two_detectors(ids)
    plain = [replace(one, ids=None) for one in (a, b)]
    wanted = stats.compare(*plain, metric, resamples=50)
    # Ids are text in .csv files; those of another kind are the same as text.
    text = replace(b, ids=b.ids.astype(np.str_)).take(SHUFFLED)
    for other in (b, b.take(SHUFFLED), text):
        assert stats.compare(a, other, metric, resamples=50) == wanted


def test_without_ids_the_order_counts_and_a_shuffle_is_told():
    a, b = two_detectors()
    b = replace(b, ids=None)  # one side without ids is as none with
    with pytest.raises(ValueError, match=r"^compare: labels of b must be those of a"):
        stats.compare(a, b.take(SHUFFLED))
    with pytest.raises(ValueError, match="got 89 samples instead of 90"):
        stats.compare(a, b.take(slice(1, None)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stats.compare(a, b)
    within = np.lexsort((SHUFFLED, a.is_unknown, a.labels != 0))  # labels stay
    assert (b.labels[within] == a.labels).all()
    with pytest.warns(PairingWarning, match="in different orders?") as caught:
        stats.compare(a, b.take(within))
    assert caught[0].filename == __file__
    other = replace(b, predicted=1 - b.predicted)
    assert not seems_reordered(other, a)  # another network
    assert not seems_reordered(two_detectors()[1].take(within), a)  # told by ids


OTHERS = {
    "missing": (np.arange(3, N), "got 3 missing ids such as ['"),
    "twice": (np.r_[0, 0:N], "some ids several times"),
    "another": (np.r_[0, 2, 2, 3:N], f"got 1 missing ids such as ['{IDS[1]}']"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_samples_are_counted_and_named(name):
    rows, words = OTHERS[name]
    a, b = two_detectors()
    with pytest.raises(ValueError, match=r"^compare: b must be of the same ") as caught:
        stats.compare(a, b.take(rows))
    assert words in str(caught.value)
    assert "leave ids out: Scores.load(path, columns={'ids': ''})" in str(caught.value)
    with pytest.raises(ValueError, match="these scores must be of the same samples as"):
        b.take(rows).in_order_of(a)


def test_one_id_has_one_label_and_tells_one_sample():
    a, b = two_detectors()
    b = replace(b, labels=np.where(IDS[5] == IDS, 1, LABELS)).take(SHUFFLED)
    with pytest.raises(ValueError, match=r"labels of b must .*, got others for 1 of"):
        stats.compare(a, b)
    a, b = two_detectors(np.where(np.arange(N) < 2, "same", IDS))
    assert b.in_order_of(a) is b, "in order, they do no harm"
    words = "got some ids several times, and in another order"
    with pytest.raises(ValueError, match=words):
        b.take(SHUFFLED).in_order_of(a)
    # Here it is twice in a and once in b, which has another one instead.
    with pytest.raises(ValueError, match="1 other ids such as"):
        replace(b.take([5, 2, 1]), ids=[*IDS[[5, 2]], "same"]).in_order_of(
            a.take([0, 1, 2])
        )


@pytest.mark.parametrize("ids", [None, list("wxyz")])
def test_classes_of_one_name_have_one_number(ids):
    columns = {"predicted": [0, 0, 1, 1], "known": [4, 3, 2, 1], "ids": ids}
    plain = Scores(labels=[0, 1, -1, -1], **columns)
    named = replace(plain, class_names=("cat", "fox"))
    assert named.in_order_of(plain) is named
    assert plain.in_order_of(named) is plain
    moved = replace(plain, labels=[1, 2, -1, -1], class_names=("ape", "cat", "fox"))
    assert moved.in_order_of(named) is moved
    renamed = replace(moved, class_names=("cat", "fox", "ape"))
    for other in (replace(plain, labels=[1, 1, -1, -1]), renamed):
        with pytest.raises(ValueError, match=r"labels of these scores must be those"):
            named.in_order_of(other)


def test_ids_go_where_their_samples_go():
    a, b = two_detectors()
    again = b.take(SHUFFLED).in_order_of(a)
    for name in ("labels", "predicted", "known", "ids"):
        assert np.array_equal(getattr(again, name), getattr(b, name))
    assert repr(a).endswith("classes=2, with ids)")
    assert a.take(a.is_unknown).ids.tolist() == IDS[LABELS < 0].tolist()
    both = Scores.concat([a, replace(b, ids=np.arange(N))])
    assert both.ids.tolist() == [*IDS, *map(str, range(N))]
    assert Scores.concat([a, replace(b, ids=None)]).ids is None
    with pytest.raises(TypeError, match=r"^Scores\.in_order_of: scores must be Scores"):
        a.in_order_of(IDS)


def test_detectors_and_rejectors_give_scores_the_ids_of_the_outputs():
    logits = np.random.default_rng(1).normal(size=(N, 2))
    test = Outputs(logits=logits, labels=LABELS, ids=IDS)
    fitted = detectors.MSP().fit()
    known = test.take(LABELS >= 0)
    rejector = Rejector.calibrate(fitted, known=known, objective="at_tpr")
    for scores in (
        fitted.score(test, batch_size=7),
        rejector.score(test),
        *detectors.score_all({"msp": fitted, "again": fitted}, test).values(),
    ):
        assert np.shares_memory(scores.ids, test.ids)
        assert scores.ids.tolist() == IDS.tolist()
