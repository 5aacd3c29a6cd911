"""Several detectors as one."""

import numpy as np
import pytest
from scipy.stats import rankdata

from openset import Outputs, detectors
from openset.detectors import Combined, Fitted, combine
from openset.detectors.combined import knots_of, rank
from tests.extras import array_api_strict, torch

WEIGHT = np.random.default_rng(0).normal(size=(4, 8))


def drawn(n, *, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, n)
    features = rng.normal(size=(n, 8)) + 1.5 * WEIGHT[labels]
    return Outputs(features=features, logits=features @ WEIGHT.T, labels=labels)


def together(parts, train):
    """Fit the parts and combine them, ranked among samples of their own."""
    fitted = [recipe.fit(train) for recipe in Combined(parts=parts).recipes]
    held_out = drawn(200, seed=9)
    like = train.logits if train.logits is not None else train.features
    reference = [
        one.to(held_out.features).known(
            held_out
            if train.logits is not None
            else Outputs(features=held_out.features)
        )
        for one in fitted
    ]
    return combine(fitted, reference=reference).to(like)


def test_ranks_of_the_reference_are_its_ranks():
    values = np.random.default_rng(0).normal(size=100)
    ranks = rank(values, knots_of(values))
    np.testing.assert_allclose(ranks, (rankdata(values) - 1) / 99, atol=0.011)
    beyond = rank(np.array([-np.inf, -9.0, 9.0, np.inf]), knots_of(values))
    assert beyond.tolist() == [0, 0, 1, 1]


def test_ranks_never_fall_where_scores_rise_even_with_ties():
    rng = np.random.default_rng(1)
    reference = rng.integers(0, 5, 400).astype(float)
    reference[:20] = -np.inf
    at = np.linspace(-9, 9, 400)
    for knots in (knots_of(reference), knots_of(reference, rng.normal(size=50))):
        ranks = rank(np.append(at, np.inf), knots)
        assert (np.diff(ranks) >= 0).all()
        assert np.ptp(ranks) > 0.7  # the ends have the middle of the tied ranks


def test_what_a_part_cannot_score_is_not_the_most_known_of_all():
    assert np.isnan(rank(np.array([np.nan]), knots_of([0.0, 1.0]))).all()
    train = drawn(300, seed=1)
    both = together(["msp", "rmds"], train)
    far = Outputs(logits=train.logits[:1], features=np.full((1, 8), 1e200))
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="free of NaN"):
        both.detector.recipes[1].fit(train).known(far)
    there = Outputs(
        logits=torch.tensor(far.logits), features=torch.tensor(far.features)
    )
    for outputs, fitted in ((far, both), (there, both.to(there.logits))):
        with np.errstate(all="ignore"), pytest.raises(ValueError, match="free of NaN"):
            fitted.known(outputs)


def test_tied_knots_share_the_middle_of_their_ranks():
    table = knots_of([0.0, 1.0, 1.0, 1.0, 3.0])
    ranks = rank(np.array([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0]), table)
    assert ranks.tolist() == [0, 0, 0.25, 0.5, 0.75, 1, 1]


@pytest.mark.parametrize("blur", [0, 1e-6])
def test_a_rounding_error_moves_no_rank_by_the_share_of_the_tied_ones(blur):
    rng = np.random.default_rng(0)
    tied = rng.uniform(-blur, blur, 300)
    table = knots_of(np.concatenate([tied, rng.uniform(0.1, 1, 300)]))
    around = rank(np.array([-1e-6, -1e-12, 0.0, 1e-12, 1e-6]), table)
    assert np.ptp(around) < 1e-3
    assert around[2] == pytest.approx(0.25, abs=0.01)


def test_the_size_of_a_batch_moves_no_decision():
    train = drawn(600, seed=1)
    features = np.array(train.features, dtype=np.float32)
    features[:300] = features[0]  # as blank frames
    train = Outputs(
        features=features, logits=features @ WEIGHT.T.astype("f4"), labels=train.labels
    )
    knn = detectors.KNN(k=5).fit(train.take(slice(0, 600, 2)))
    both = combine([knn], reference=[knn.known(train.take(slice(1, 600, 2)))])
    whole = both.known(train, batch_size=600)
    for size in (1, 3, 7, 64):
        np.testing.assert_allclose(both.known(train, batch_size=size), whole, atol=2e-3)


def test_training_samples_are_no_reference():
    with pytest.raises(ValueError, match=r"Combined.fit: .*held-out.*combine\("):
        Combined(parts=["msp", "osnn"]).fit(drawn(60))


def test_ranks_among_one_knot_or_two_go_from_nought_to_one():
    at = np.array([-1.0, 0.0, 0.25, 1.0, 2.0])
    assert rank(at, knots_of([0.0, 1.0])).tolist() == [0, 0, 0.25, 1, 1]
    assert rank(at, knots_of([0.0])).tolist() == [0, 0, 0, 0, 0]


def test_a_combination_is_the_weighed_sum_of_ranks():
    train, new = drawn(300, seed=1), drawn(50, seed=2)
    parts = [detectors.make(name).fit(train) for name in ("msp", "postmax")]
    reference = [one.known(train) for one in parts]
    both = combine(parts, reference=reference, weights=[0.2, 0.8])
    expected = sum(
        w * rank(one.known(new), knots_of(r))
        for w, one, r in zip((0.2, 0.8), parts, reference, strict=True)
    )
    np.testing.assert_allclose(both.known(new), expected)


def test_it_needs_what_its_parts_need():
    assert Combined(parts=["msp"]).score_needs == ("logits",)
    assert Combined().score_needs == ("logits", "features")


def test_without_logits_the_first_part_names_the_class():
    train, new = (
        Outputs(features=one.features, labels=one.labels)
        for one in (drawn(60, seed=1), drawn(200, seed=2))
    )
    nno, osnn = (
        detectors.make(name).fit(train).score(new).predicted for name in ("nno", "osnn")
    )
    assert (nno != osnn).any()
    for parts, expected in ((["nno", "osnn"], nno), (["osnn", "nno"], osnn)):
        found = together(parts, train).score(new).predicted
        np.testing.assert_array_equal(found, expected)


def test_a_combination_knows_the_widths_of_its_parts():
    train = drawn(60, seed=1)
    parts = [detectors.MSP().fit(train), detectors.KNN(k=3).fit(train)]
    both = combine(parts, reference=[one.known(train) for one in parts])
    narrow = Outputs(logits=train.logits, features=train.features[:, :5])
    with pytest.raises(ValueError, match="must be 8, as in fit or calibration, got 5"):
        both.known(narrow)
    few = Outputs(logits=train.logits[:, :3], features=train.features)
    with pytest.raises(ValueError, match="must be 4, as in fit or calibration, got 3"):
        both.known(few)


def test_it_is_saved_without_pickle(tmp_path):
    train, new = drawn(300, seed=1), drawn(50, seed=2)
    fitted = together(["msp", ("postmax", {"norm": "l1"})], train)
    again = Fitted.load(fitted.save(tmp_path / "both.npz"))
    assert again.detector == fitted.detector
    np.testing.assert_array_equal(again.known(new), fitted.known(new))


@pytest.mark.parametrize("asarray", [torch.asarray, array_api_strict.asarray])
def test_it_runs_on_other_array_libraries(asarray):
    def moved(outputs):
        return Outputs(
            logits=asarray(np.array(outputs.logits)),
            features=asarray(np.array(outputs.features)),
            labels=outputs.labels,
        )

    train, new = drawn(200, seed=1), drawn(50, seed=2)
    fitted = together(["msp", "postmax"], train)
    expected = fitted.known(new)
    there = fitted.to(moved(new).logits)
    np.testing.assert_allclose(there.known(moved(new)), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Combined(parts=[]), "parts must be a non-empty list"),
        (lambda: Combined(parts="msp"), "parts must be a non-empty list"),
        (lambda: Combined(parts={"knn": {"k": 5}}), "parts must be a non-empty list"),
        (lambda: Combined(parts=["magic"]), "name must be one of"),
        (lambda: Combined(method="vote"), "method must be one of"),
        (lambda: combine([]), "fitted must be non-empty"),
        (lambda: combine([detectors.MSP().fit(drawn(9))]), "reference or knots"),
        (
            lambda: combine([detectors.MSP().fit(drawn(9))], reference=[[np.inf]]),
            "scores must be partly finite",
        ),
        (
            lambda: combine([detectors.MSP().fit(drawn(9))], reference=[[1, np.nan]]),
            "scores must be free of NaN, got 1 of 2",
        ),
        (
            lambda: combine(
                [detectors.MSP().fit(drawn(9))], reference=[[1]], weights=[np.nan]
            ),
            "weights must be finite",
        ),
        (
            lambda: combine(
                [detectors.MSP().fit(drawn(9))] * 2,
                reference=[[1], [1]],
                weights=[np.nan, 1],
            ),
            "weights must be finite",
        ),
        (
            lambda: combine(
                [detectors.MSP().fit(drawn(9))] * 2, reference=[[1]], weights=[1, 2]
            ),
            "fitted and knots and weights must have the same length, got 2, 1, 2",
        ),
        (
            lambda: combine(
                [detectors.MSP().fit(drawn(9))], reference=[[1]], weights=[1, 2]
            ),
            "fitted and knots and weights must have the same length, got 1, 1, 2",
        ),
        (
            lambda: combine(
                [detectors.MSP().fit(drawn(9))] * 2, reference=[[1, 2], [1, 2, 3]]
            ),
            "reference must be of one length, or of 257 scores or more each, got 2, 3",
        ),
    ],
)
def test_bad_parts_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def dtypes(outputs, dtype):
    return Outputs(
        logits=torch.asarray(np.array(outputs.logits), dtype=dtype),
        features=torch.asarray(np.array(outputs.features), dtype=dtype),
        labels=outputs.labels,
    )


def test_parts_of_one_kind_do_not_take_each_others_distances():
    train, new = drawn(300, seed=1), drawn(50, seed=2)
    recipes = [
        ("mahalanobis", {}),
        ("mahalanobis", {"normalize": True}),
        ("rmds", {"normalize": True}),
        ("rmds", {}),
    ]
    parts = [detectors.make(name, **params).fit(train) for name, params in recipes]
    expected = np.mean(
        [
            rank(one.known(new), knots_of(one.known(drawn(200, seed=9))))
            for one in parts
        ],
        axis=0,
    )
    fitted = together(recipes, train)
    np.testing.assert_allclose(fitted.known(new), expected)
    np.testing.assert_allclose(fitted.known(new, batch_size=7), expected)


@pytest.mark.parametrize("fitted_in", [torch.float32, torch.float64])
@pytest.mark.parametrize("scored_in", [torch.float32, torch.float64])
def test_it_scores_in_another_dtype_than_it_was_fitted_in(fitted_in, scored_in):
    train, new = drawn(200, seed=1), drawn(50, seed=2)
    parts = ["knn", "mahalanobis"]
    fitted = together(parts, dtypes(train, fitted_in))
    fitted = fitted.to(dtypes(new, scored_in).logits)
    expected = together(parts, train).known(new)
    np.testing.assert_allclose(
        fitted.known(dtypes(new, scored_in)), expected, atol=1e-3
    )


def test_a_part_is_made_ready_as_it_is_alone(monkeypatch):
    train, made = drawn(100, seed=1), []

    def ready(self, state, dtype):
        made.append(dtype)
        return state

    monkeypatch.setattr(detectors.KNN, "_ready", ready)
    fitted = combine([detectors.KNN(k=3).fit(train)], reference=[[-1.0, 0.0]])
    fitted.known(train, batch_size=10)
    assert made == [np.float64]  # once, not for every batch


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Combined(parts=[detectors.MSP()]), r"pairs, got MSP\(.*combine\("),
        (lambda: Combined(parts=[("msp",)]), r"pairs, got \('msp',\)"),
        (lambda: Combined(parts=[None]), "pairs, got None"),
        (
            lambda: combine([detectors.MSP()], reference=[[1.0]]),
            "fitted must be several fitted detectors, got MSP",
        ),
        (
            lambda: combine(detectors.MSP().fit(drawn(9)), reference=[[1.0]]),
            "fitted must be several fitted detectors, got Fitted. Put them in a list",
        ),
    ],
)
def test_parts_of_another_kind_are_named(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_numpy_numbers_in_parts_are_saved(tmp_path):
    train = drawn(60, seed=1)
    fitted = together([("knn", {"k": np.int64(3)})], train)
    again = Fitted.load(fitted.save(tmp_path / "one.npz"))
    np.testing.assert_array_equal(again.known(train), fitted.known(train))
