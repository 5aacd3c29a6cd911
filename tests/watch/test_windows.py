"""Drift against a reference: tests that are exact, and words that are right."""

import json
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from openset import Outputs, Rejector, Scores, detectors, thresholds
from openset.watch import Part, Watch


def scores_of(known, *, label=0):
    known = np.asarray(known, dtype=float)
    return Scores(
        labels=np.full(known.size, label), predicted=[0] * known.size, known=known
    )


def cut_at(value):
    """Make a threshold chosen on other data."""
    return thresholds.at_tpr(scores_of([value]), 1.0)


def by_orders(reference, new, statistic):
    """Count all ways to split the pooled samples: the slow, obvious p-value."""
    pooled = np.concatenate([reference, new])
    observed = statistic(reference, new)
    splits = combinations(range(pooled.size), new.size)
    found = [statistic(np.delete(pooled, rows), pooled[[*rows]]) for rows in splits]
    return np.mean(np.array(found) >= observed - 1e-12)


def distance(a, b):
    grid = np.concatenate([a, b])
    return max(abs((a <= t).mean() - (b <= t).mean()) for t in grid)


def test_p_values_are_the_share_of_splits_at_least_as_odd(rng):
    for _ in range(5):
        reference, new = rng.normal(size=7), rng.normal(0.8, 1, size=5)
        watch = Watch(cut_at(0.3), scores_of(reference), false_alarms=0.5)
        verdict = watch.check(scores_of(new))
        expected = by_orders(reference, new, distance)
        assert verdict.knownness.p_value == pytest.approx(expected)
        found = abs(verdict.knownness.distance)
        assert found == pytest.approx(distance(reference, new))
        more = by_orders(reference, new, lambda a, b: (b < 0.3).sum())
        fewer = by_orders(reference, new, lambda a, b: -(b < 0.3).sum())
        expected = min(1, 2 * min(more, fewer))
        assert verdict.unknown_rate.p_value == pytest.approx(expected)


def test_changes_give_alarm_and_none_gives_none(rng):
    watch = Watch(cut_at(-1.5), scores_of(rng.normal(size=1000)))
    assert not watch.check(scores_of(rng.normal(size=400))).is_alarm
    unknowns = np.concatenate([rng.normal(size=340), np.full(60, -5.0)])
    found = watch.check(scores_of(rng.permutation(unknowns)))
    assert found.unknown_rate.is_alarm
    narrow = watch.check(scores_of(rng.normal(0, 0.5, size=400)))
    assert narrow.knownness.is_alarm  # fewer rejected, and another shape
    assert narrow.knownness.limit == 0.005
    sure = watch.check(scores_of(rng.normal(size=400) + 6))
    assert sure.knownness.distance > 0.9
    assert sure.unknown_rate.distance < 0


def test_the_reference_is_its_knowns_or_all_of_it_without_labels(rng):
    known, unknown = rng.normal(3, 1, 200), rng.normal(size=200)
    traffic = scores_of([*known, *unknown], label=-1)
    assert not Watch(cut_at(1.5), traffic).check(traffic).is_alarm
    labelled = Scores.concat([scores_of(known), scores_of(unknown, label=-1)])
    assert Watch(cut_at(1.5), labelled).check(traffic).is_alarm
    assert not Watch(cut_at(1.5), labelled).check(scores_of(known)).is_alarm


def test_a_stream_is_cut_into_windows_wherever_its_parts_end(rng):
    """Each is judged as soon as it is full; invalid samples are counted once."""
    watch = Watch(cut_at(-1.0), scores_of(rng.normal(size=300)))
    stream = scores_of(rng.normal(size=1000))
    asked = []

    def parts():
        for i, (start, stop) in enumerate(pairwise([0, 30, 90, 700, 1000])):
            asked.append(i)
            yield Part(stream.take(slice(start, stop)), n_invalid=2**i)

    verdicts = watch.stream(parts(), 150)
    found = [next(verdicts)]
    assert asked == [0, 1, 2]
    found += verdicts
    assert [verdict.start for verdict in found] == [0, 150, 300, 450, 600, 750]
    assert [verdict.n_invalid for verdict in found] == [7, 0, 0, 0, 8, 0]
    for verdict in found:
        window = stream.take(slice(verdict.start, verdict.start + 150))
        wanted = watch.check(window, start=verdict.start)
        assert replace(verdict, n_invalid=0) == wanted


def test_infinite_knownness_is_a_value_like_others(rng):
    reference = np.where(rng.random(200) < 0.3, np.inf, rng.normal(size=200))
    new = np.where(rng.random(200) < 0.9, -np.inf, rng.normal(size=200))
    verdict = Watch(cut_at(0.0), scores_of(reference)).check(scores_of(new))
    assert verdict.knownness.is_alarm
    assert verdict.knownness.new == -np.inf
    assert verdict.to_dict()["knownness"]["new"] == "-inf"
    assert json.loads(json.dumps(verdict.to_dict(), allow_nan=False))["alarm"] is True


def test_large_samples_use_the_asymptotic_p_value(rng):
    watch = Watch(cut_at(-1.0), scores_of(rng.normal(size=200_000)))
    for n, method in ((100, "exact"), (2000, "asymptotic")):
        found = watch.check(scores_of(rng.normal(1, 1, size=n)))
        assert found.knownness.method == f"Kolmogorov-Smirnov, {method}"
        assert found.is_alarm


def calibrated_on(known):
    """Calibrate the largest logit on outputs."""
    fitted = detectors.MaxLogit().fit(known)
    return Rejector.calibrate(fitted, known=known, objective="at_tpr", tpr=0.95)


def remembering(known):
    """Calibrate on logits whose largest is the knownness."""
    labels = np.zeros(known.size, int)
    return calibrated_on(Outputs(logits=known[:, None], labels=labels))


def test_a_rejector_remembers_few_knowns_exactly_and_many_by_quantiles(rng):
    for n in (200, 5000):
        known = rng.normal(size=n)
        rejector = remembering(known)
        exact = Watch(rejector.threshold, scores_of(known))
        kept = Watch.of(rejector)
        new = scores_of(rng.normal(-0.2, 1, size=300))
        one, other = exact.check(new), kept.check(new)
        assert one.unknown_rate == other.unknown_rate
        if n <= 1025:
            assert one == other
        else:
            assert abs(one.knownness.distance - other.knownness.distance) < 1 / 1024
            assert other.knownness.p_value > one.knownness.p_value


@pytest.mark.parametrize("n", [1, 2, 6, 11, 60, 1025])
def test_of_few_knowns_every_one_is_remembered_once(rng, n):
    known = rng.normal(size=n)
    assert_array_equal(remembering(known).reference["known"], np.sort(known))


def test_alarms_from_memory_are_no_more_frequent_than_stated(rng):
    """Simulated: references of 3000 knowns, of which 1025 quantiles are kept."""
    alarms = []
    for _ in range(60):
        watch = Watch.of(remembering(rng.normal(size=3000)), false_alarms=0.1)
        new = [scores_of(rng.normal(size=500)) for _ in range(10)]
        alarms += [watch.check(one).is_alarm for one in new]
    assert 0 < np.mean(alarms) < 0.1


FEW = scores_of(np.random.default_rng(0).normal(size=40))
ROWS = np.random.default_rng(1).normal(size=(40, 3))
MASKED = np.ma.array(ROWS, mask=ROWS > 1)
OUTPUTS = Outputs(logits=[[1.0]])


@pytest.mark.parametrize(
    ("new", "options", "words"),
    [
        (FEW, {"false_alarms": 0}, "Watch: false_alarms must be"),
        (FEW, {"false_alarms": 1}, "Watch: false_alarms must be"),
        (FEW, {"features": ROWS, "false_alarms": 1e-5}, "or leave them out"),
        (scores_of([1.0]), {}, "1 samples against 40 .* or more than 0.01 false alar"),
        (OUTPUTS, {}, r"Watch\.check: scores must be Scores, .*\.score"),
        (Part(FEW, ROWS[:3]), {}, r"Watch\.check: .* the same length"),
        (Part(FEW, MASKED), {}, "features must be free of masked values"),
    ],
)
def test_what_cannot_be_compared_is_refused(new, options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        Watch(cut_at(0.0), FEW, **options).check(new)


def test_a_window_may_give_an_alarm_or_is_refused():
    watch = Watch(cut_at(0.0), FEW.take(slice(20)))
    assert watch.check(scores_of([9.0, 8.0, 7.0])).is_alarm  # 2 / C(23, 3) = 0.0011
    with pytest.raises(ValueError, match="Watch: window must be large enough"):
        list(watch.stream([], 2))  # 2 / C(22, 2) = 0.0087 > 0.005
    with pytest.raises(TypeError, match=r"Watch\.stream: scores must be Scores"):
        list(watch.stream([OUTPUTS], 100))


def test_a_rejector_keeps_some_features_and_compares_new_ones(rng, tmp_path):
    def outputs(n, shift=0.0):
        features = rng.normal(size=(n, 4))
        # The shift is in a direction that the logits do not see.
        moved = features + np.array([0, 0, 0, shift])
        return Outputs(
            logits=features[:, :2] * 3, features=moved, labels=rng.integers(0, 2, n)
        )

    known = outputs(600)
    rejector = calibrated_on(known)
    kept = rejector.reference.get("features")
    assert kept.shape == (256, 4)
    assert kept.dtype == np.float32
    rows = {row.tobytes() for row in known.features.astype(np.float32)}
    assert all(row.tobytes() in rows for row in kept)
    loaded = Rejector.load(rejector.save(tmp_path / "rejector"))
    assert_array_equal(loaded.reference["features"], kept)
    watch = Watch.of(loaded)
    same, moved = outputs(300), outputs(300, shift=1.5)
    for new, is_alarm in ((same, False), (moved, True)):
        verdict = watch.check(loaded.score(new), features=new.features)
        assert verdict.features.is_alarm == verdict.is_alarm == is_alarm
        assert [test.limit for test in verdict.tests] == [0.01 / 3] * 3
        assert verdict.to_dict()["features"]["p_value"] == verdict.features.p_value
    assert verdict.features.new > verdict.features.reference
    assert watch.check(loaded.score(moved)).to_dict()["features"] is None
    # of a stream, windows whose parts all have features
    parts = [Part(loaded.score(new), new.features) for new in (same, moved)]
    first, second = watch.stream(parts, 300)
    assert (first.features.is_alarm, second.features.is_alarm) == (False, True)
    mixed = [parts[0], loaded.score(moved)]
    assert [v.features is None for v in watch.stream(mixed, 200)] == [False, True, True]


@pytest.mark.parametrize(
    ("n", "width", "kept"), [(31, 2, 0), (40, 2, 40), (40, 2**15, 32), (40, 2**16, 0)]
)
def test_few_or_wide_features_are_not_kept(rng, n, width, kept):
    features = np.ones((n, width)) * 1e300  # beyond float32
    known = Outputs(logits=rng.normal(size=(n, 2)), features=features, labels=[0] * n)
    found = calibrated_on(known).reference.get("features")
    assert (0 if found is None else len(found)) == kept
    assert found is None or np.isfinite(found).all()


def network(rng, n, *, unknown=0.0, moved=0.0, labelled=True):
    """Make outputs: unknown samples lie elsewhere, moved ones between classes."""
    is_unknown = rng.random(n) < unknown
    classes = rng.integers(0, 3, n)
    features = rng.normal(size=(n, 6)) * 0.7
    features[np.arange(n), classes] += np.where(is_unknown, 0.5, 4)
    features[is_unknown, 5] += 4  # they lie elsewhere
    features = features * (1 - moved) + moved * rng.normal(1, 1, size=(n, 6))
    labels = np.where(is_unknown, -1, classes) if labelled else np.zeros(n, int)
    return Outputs(logits=2 * features[:, :3], features=features, labels=labels)


@pytest.fixture
def rng():
    """Give random numbers for which nothing is an alarm by chance."""
    return np.random.default_rng(0)


@pytest.fixture
def calibrated(rng):
    fitted = detectors.MaxLogit().fit(network(rng, 600))
    return Rejector.calibrate(fitted, known=network(rng, 800, unknown=0.4))


@pytest.mark.parametrize(
    ("changed", "seen", "words"),
    [
        ({}, "", ""),
        ({"unknown": 0.4}, "unknown classes", "label those of new classes and retrain"),
        ({"moved": 0.5}, "changed inputs", "recalibrate on labelled samples like them"),
    ],
)
def test_an_alarm_says_what_it_looks_like_and_what_to_do(
    rng, calibrated, changed, seen, words
):
    """Shifted known samples are not called unknown: their share is withheld."""
    before, new = network(rng, 600), network(rng, 400, labelled=False, **changed)
    reference = calibrated.score(before)
    about = {"features": before.features, "rates": calibrated.report.rates}
    watches = Watch.of(calibrated), Watch(calibrated.threshold, reference, **about)
    for watch in watches:
        verdict = watch.check(calibrated.score(new), features=new.features)
        assert verdict.is_alarm == bool(changed)
        assert verdict.looks_like == seen
        assert words in verdict.advice
        shifts = verdict.prevalence is None, verdict.features.is_alarm
        assert shifts == (bool(changed),) * 2
        assert verdict.to_dict()["advice"] == verdict.advice


def test_without_features_the_two_are_not_told_apart(rng, calibrated):
    watch = Watch.of(calibrated)
    strange = watch.check(calibrated.score(network(rng, 400, unknown=0.3)))
    assert strange.looks_like == "unknown classes or changed inputs"
    share = strange.prevalence.interval
    assert share.low < 0.3 < share.high
    sure = calibrated.score(network(rng, 400))
    sure = watch.check(sure.with_known(sure.known + 5))
    assert sure.looks_like == "other known samples"
    # Without counts of the calibration there is no share.
    plain = Watch(calibrated.threshold, calibrated.score(network(rng, 300)))
    assert plain.check(calibrated.score(network(rng, 300))).prevalence is None
