"""Invalid samples are answered with unknown, and the others as if alone."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from openset import InvalidSamplesError, Outputs, Rejector, detectors
from openset.rejector import Decisions
from openset.testing import example_outputs as split
from tests.extras import torch
from tests.unit.rejector.test_rejector import drawn

INF, NAN = np.inf, np.nan
BAD = {
    "NaN in a logit": {"logits": [NAN, 0, 0, 0]},
    "NaN in a feature": {"features": [NAN] * 8},
    "two infinite logits": {"logits": [INF, 0, INF, 0]},
    "no logit at all": {"logits": [-INF] * 4},
    "infinite features": {"features": [INF] * 8},
    "opposite infinities": {"features": [INF, -INF] * 4},
    "a huge logit": {"logits": [1e308, -1e308, 0, 0]},
}
WHOLE = drawn(61, seed=5, labelled=False)
ROW = 23


def spoilt(changes, row=ROW):
    """Return the samples with one of them changed."""
    arrays = {name: np.array(getattr(WHOLE, name)) for name in ("logits", "features")}
    for name, values in changes.items():
        arrays[name][row] = values
    return Outputs(**arrays, invalid="keep")


def rejector_of(detector, **options):
    options = {"objective": "at_tpr", "accept_risk": True} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = detector.fit(drawn(150, seed=1))
        return Rejector.calibrate(fitted, known=drawn(100, seed=2), **options)


DETECTORS = {
    "maxlogit": detectors.MaxLogit(),
    "gen": detectors.GEN(),
    "knn": detectors.KNN(k=3),
    "nnguide": detectors.NNGuide(),
    "rmds": detectors.RMDS(),
    "entropy": detectors.Entropy(),
}


@pytest.fixture(scope="module", params=DETECTORS)
def rejector(request):
    return rejector_of(DETECTORS[request.param])


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_refused_is_rejected_and_the_others_are_answered_as_if_alone(
    rejector, kind
):
    new = spoilt(BAD[kind])
    decided = rejector.decide(new, invalid="reject")
    rows = ()
    try:  # as data in memory are checked without "keep"
        expected = rejector.decide(Outputs(logits=new.logits, features=new.features))
    except InvalidSamplesError as error:
        rows = error.rows
    assert_array_equal(np.flatnonzero(decided.is_invalid), rows)
    if not rows:
        assert_array_equal(decided.scores.known, expected.scores.known)
        return
    others = np.arange(len(new)) != ROW
    alone = rejector.decide(WHOLE.take(others))
    assert_array_equal(decided.labels[others], alone.labels)
    assert_array_equal(decided.known[others], alone.scores.known)  # to the last bit
    assert_array_equal(decided.predicted[others], alone.scores.predicted)
    assert rows == (ROW,)
    assert decided.labels[ROW] == decided.predicted[ROW] == -1
    assert np.isnan([decided.known[ROW], rejector.margins(decided)[ROW]]).all()
    assert not decided.is_rejected[ROW]
    assert (decided.n_invalid, decided.n_rejected) == (1, alone.n_rejected)
    with pytest.raises(InvalidSamplesError, match="1 invalid samples, first in"):
        _ = decided.scores


def test_the_cases_are_invalid_for_one_detector_or_the_other():
    """So that the test above tests what it says."""
    found = {}
    for name, detector in DETECTORS.items():
        made = rejector_of(detector)
        with np.errstate(all="ignore"):
            found[name] = {
                kind
                for kind, changes in BAD.items()
                if made.decide(spoilt(changes), invalid="reject").n_invalid
            }
    always = set(list(BAD)[:4])
    assert all(kinds >= always for kinds in found.values())
    assert found["maxlogit"] == always
    assert found["knn"] == always | {"infinite features", "opposite infinities"}
    assert found["gen"] == always | {"a huge logit"}
    assert "a huge logit" in found["nnguide"]


def test_an_error_is_the_default():
    made = rejector_of(detectors.MSP())
    new = spoilt(BAD["NaN in a logit"])
    for call in (made.decide, made.predict, made.score, made.known, made.typical):
        with pytest.raises(InvalidSamplesError, match=f"got 1, first in row {ROW}"):
            call(new)
    with pytest.raises(ValueError, match="invalid must be one of 'error', 'reject'"):
        made.decide(new, invalid="ignore")
    assert made.predict(new, invalid="reject")[ROW] == -1


def test_a_threshold_that_accepts_all_does_not_accept_what_has_no_class():
    made = rejector_of(detectors.MaxLogit())
    new = spoilt(BAD["no logit at all"])
    decided = made.decide(new, threshold=-INF, invalid="reject")
    assert_array_equal(np.flatnonzero(decided.labels == -1), [ROW])
    assert decided.n_rejected == 0


def test_invalid_samples_alone_have_no_scores():
    made = rejector_of(detectors.MSP(), sets="lac")
    new = Outputs(logits=np.full((3, 4), NAN), invalid="keep")
    decided = made.decide(new, invalid="reject")
    assert decided.labels.tolist() == [-1, -1, -1]
    assert decided.valid_scores is None
    assert np.isnan(decided.known).all()
    assert decided.sets.shape == (3, 4)
    assert decided.set_classes == [[], [], []]
    assert (decided.n_invalid, decided.n_rejected) == (3, 0)


def test_invalid_samples_have_an_empty_set_and_the_others_theirs():
    made = rejector_of(detectors.MSP(), sets="lac")
    new = spoilt(BAD["two infinite logits"])
    others = np.arange(len(new)) != ROW
    decided = made.decide(new, invalid="reject")
    assert_array_equal(decided.sets[others], made.decide(WHOLE.take(others)).sets)
    assert not decided.sets[ROW].any()
    assert made.predict_sets(new, invalid="reject") == decided.set_classes


def test_a_memory_map_is_decided_like_an_array(tmp_path):
    made = rejector_of(detectors.KNN(k=3))
    new = spoilt(BAD["NaN in a feature"])
    mapped = Outputs.load(new.save(tmp_path / "folder"))
    expected = made.decide(new, invalid="reject")
    for batch_size in (None, 7):
        found = made.decide(mapped, invalid="reject", batch_size=batch_size)
        assert_array_equal(found.labels, expected.labels)
        assert_array_equal(found.is_invalid, expected.is_invalid)
    with pytest.raises(InvalidSamplesError, match=f"first in row {ROW}"):
        made.decide(mapped)


def test_tensors_are_decided_like_arrays():
    made = rejector_of(detectors.KNN(k=3))
    new = spoilt(BAD["infinite features"])
    like = torch.asarray(np.array(new.logits))
    tensors = Outputs(
        logits=like, features=torch.asarray(np.array(new.features)), invalid="keep"
    )
    found = made.to(like).decide(tensors, invalid="reject")
    assert_array_equal(np.flatnonzero(found.is_invalid), [ROW])


def test_wrong_outputs_are_an_error_whatever_becomes_of_invalid_samples():
    made = rejector_of(detectors.MSP())
    for row in ([1, 0], [NAN, 0]):
        with pytest.raises(ValueError, match="n_classes must be 4"):
            made.decide(Outputs(logits=[row], invalid="keep"), invalid="reject")
    new = Outputs(logits=[[NAN] * 4], classes=tuple("dcba"), invalid="keep")
    with pytest.raises(ValueError, match="classes of outputs must be those of the rej"):
        made.decide(new, invalid="reject")
    with pytest.raises(TypeError, match="outputs must be Outputs, got list"):
        made.decide([[1.0]], invalid="reject")


def test_a_detector_that_refuses_a_sample_it_did_not_get_is_not_asked_for_ever():
    from openset.rejector._invalid import decide_on_valid  # noqa: PLC0415

    def refuse(rows):
        msg = "the same again"
        raise InvalidSamplesError(msg, [1])

    with pytest.raises(InvalidSamplesError, match="the same again"):
        decide_on_valid(refuse, np.zeros(3, bool), None)


def test_what_is_refused_later_is_left_out_with_what_was_before():
    from openset.rejector._invalid import decide_on_valid  # noqa: PLC0415

    whole = rejector_of(detectors.MSP()).decide(WHOLE)
    asked = []

    def refuse(rows):
        asked.append(None if rows is None else rows.tolist())
        if len(asked) < 3:
            msg = "all that was refused so far"
            raise InvalidSamplesError(msg, list(range(len(asked))))
        return Decisions(whole.labels[rows], whole.scores.take(rows))

    decided = decide_on_valid(refuse, np.zeros(4, bool), None)
    assert asked == [None, [1, 2, 3], [2, 3]]
    assert decided.is_invalid.tolist() == [True, True, False, False]
    assert_array_equal(decided.labels[2:], whole.labels[2:4])


def test_decisions_about_no_sample():
    none = Decisions.none(4)
    assert (len(none), none.sets.shape) == (0, (0, 4))
    assert none.known.shape == none.predicted.shape == (0,)
    both = Decisions.none(None).among(np.zeros(2, bool))
    assert both.labels.tolist() == [-1, -1]
    assert both.sets is None


@pytest.mark.parametrize("name", ["scale", "ash"])
@pytest.mark.parametrize("features", [-1.0, 1e-30], ids=["negative", "tiny"])
def test_features_that_a_method_refuses_are_those_of_one_sample(name, features):
    known, new = split(120), split(61, seed=3)
    made = Rejector.calibrate(
        detectors.make(name).fit(known),
        known=known,
        objective="at_tpr",
        accept_risk=True,
    )
    changed = np.array(new.features)
    changed[ROW] = features  # a sum of 0 or less; or all of it in a few of many
    others = np.arange(61) != ROW
    arrays = {"logits": new.logits, "features": changed}
    decided = made.decide(Outputs(**arrays), invalid="reject", batch_size=20)
    alone = made.decide(new.take(others), batch_size=20)
    expected = [ROW] if features < 0 else []
    assert_array_equal(np.flatnonzero(decided.is_invalid), expected)
    if expected:
        assert_array_equal(decided.known[others], alone.scores.known)


def test_faiss_has_no_neighbours_of_infinite_features():
    pytest.importorskip("faiss", reason="the extra faiss")
    made = rejector_of(detectors.KNN(k=3, backend="faiss", index="Flat"))
    with np.errstate(all="ignore"):
        decided = made.decide(spoilt(BAD["infinite features"]), invalid="reject")
    assert_array_equal(np.flatnonzero(decided.is_invalid), [ROW])


def test_decisions_count_what_was_decided():
    labels, invalid = (
        np.array([2, -1, 0, -1, -1]),
        np.array([0, 0, 0, 1, 0], dtype=bool),
    )
    decided = Decisions(labels, None, invalid=invalid)
    assert repr(decided) == "Decisions(n=5, accepted=2, rejected=2, invalid=1)"


def test_samples_of_both_kinds_are_told_by_their_own_rows():
    """Without the sample with NaN, the one without a score is another row."""
    made = rejector_of(detectors.GEN())
    new = spoilt(BAD["a huge logit"])
    logits = np.array(new.logits)
    logits[3, 0] = NAN
    new = Outputs(logits=logits, invalid="keep")
    for batch_size in (None, 7):
        found = made.decide(new, invalid="reject", batch_size=batch_size)
        assert_array_equal(np.flatnonzero(found.is_invalid), [3, ROW])
    made = rejector_of(detectors.KNN(k=3))
    changes = BAD["infinite features"] | {"logits": WHOLE.logits[ROW]}
    new = spoilt(changes)
    logits = np.array(new.logits)
    logits[3, 0] = NAN
    new = Outputs(logits=logits, features=new.features, invalid="keep")
    with np.errstate(all="ignore"):
        found = made.decide(new, invalid="reject")
    assert_array_equal(np.flatnonzero(found.is_invalid), [3, ROW])
