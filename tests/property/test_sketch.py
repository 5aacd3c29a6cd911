"""A sketch brackets what the metrics compute from all scores, whatever they are."""

import math
from itertools import islice, permutations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openset import Scores, metrics
from openset._types import UndefinedMetricError
from openset.metrics import Sketch, sketch

# Numbers that are close to each other, to 0, to 1 and to where the layout changes;
# denormal, huge and infinite ones; and any others.
SPECIAL = [0.0, -0.0, 0.5, 1.0, -0.5, -1.0, math.inf, -math.inf, 5e-324, -5e-324, 1e308]
NUMBERS = st.one_of(
    st.sampled_from(SPECIAL),
    st.sampled_from(
        [np.nextafter(x, s) for x in (0.5, 1.0, -1.0, 2.0) for s in (0, 9)]
    ),
    st.integers(-3, 3).map(float),
    st.floats(allow_nan=False),
    st.floats(-2, 2),
    st.floats(1000, 1000.1),
    st.floats(0.9375, 1, width=32),
)
FIXTURE = [HealthCheck.function_scoped_fixture]  # the same limits for all examples
SAMPLE = st.tuples(st.integers(-1, 2), st.integers(0, 2), NUMBERS)
SAMPLES = st.lists(SAMPLE, min_size=1, max_size=40)

RANKING = {
    "auroc": {},
    "openauc": {"ties": "strict"},
    "openauc_optimistic": {},
    "partial_openauc": {"max_fpr": 0.3},
    "fpr_at_tpr": {"tpr": 0.7},
    "fpr_at_tpr_unknown": {},
    "ccr_at_fpr": {"fpr": 0.2},
    "acc_times_auroc": {},
    "accuracy": {},
    "aurc": {},
    "augrc": {},
    "aurc_known": {},
    "augrc_known": {},
}


def made(samples):
    """Return scores with both sides, whatever was drawn."""
    labels, predicted, known = zip(*samples, (0, 0, 1.5), (-1, 0, 0.25), strict=True)
    return Scores(labels=labels, predicted=predicted, known=known)


def of(*parts):
    sketch = Sketch()
    for part in parts:
        sketch.update(part)
    return sketch


@pytest.fixture(params=[1 << 20, 20, 3], autouse=True)
def most(request, monkeypatch):
    """Exact counts, and counts in bins as soon as there are a few distinct scores."""
    monkeypatch.setattr(sketch, "_MOST", request.param)
    if request.param < 1000:
        monkeypatch.setattr(sketch, "_CELLS", 40)


def same(a, b):
    return a.brackets(0.5) == b.brackets(0.5)


@settings(max_examples=20, suppress_health_check=FIXTURE)
@given(SAMPLES)
def test_brackets_of_ranking_metrics_contain_the_exact_value(samples):
    scores = made(samples)
    found = of(scores)
    for name, params in RANKING.items():
        row = metrics.get(name.strip())
        exact = row.function(scores, **{**row.params, **params})
        bracket = found.bracket(name.strip(), **params)
        assert exact in bracket, (name, exact, bracket)
    assert found.n_known == scores.n_known


@settings(max_examples=20, suppress_health_check=FIXTURE)
@given(SAMPLES, NUMBERS, st.floats(0, 1), st.sampled_from([0, 0.5, 1, 3]))
def test_brackets_at_a_threshold_and_at_the_best_contain_it(
    samples, threshold, alpha, beta
):
    scores = made(samples)
    found = of(scores)
    best = metrics.osa_optimum(scores, alpha=alpha).value
    assert best in found.bracket("osa_best", alpha=alpha)
    exact = metrics.get("f_score_micro_best").value(scores)
    assert exact in found.bracket("f_score_micro_best")
    for name, params in (
        ("osa", {"alpha": alpha}),
        *((name, {}) for name in ("osa", "ccr", "urr", "oaa")),
        ("f_score", {"average": "micro"}),
        ("youden", {"kind": "binary"}),
        ("scod_risk", {"beta": beta}),
    ):
        try:
            exact = getattr(metrics, name)(scores, threshold, **params)
        except UndefinedMetricError:  # nothing is accepted
            continue
        bracket = found.bracket(name, threshold=threshold, **params)
        assert exact in bracket, (name, exact, bracket)


@settings(max_examples=20, suppress_health_check=FIXTURE)
@given(st.lists(st.tuples(st.integers(-1, 1), st.integers(0, 1)), max_size=4))
def test_brackets_in_one_bin_are_as_narrow_as_its_orders_allow(samples):
    """Every order of a few samples in one bin: the ends of the brackets occur."""
    labels, predicted = zip(*samples, (0, 0), (-1, 0), strict=True)
    # Next to each other in float64, far closer than a bin.
    known = np.nextafter(3.3, 9) + np.arange(len(labels)) * np.spacing(3.3)
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(sketch, "_MOST", 0)
        limits.setattr(sketch, "_CELLS", 40)
        found = of(Scores(labels=labels, predicted=predicted, known=known))
        assert len(found) == len(labels)  # counted within these limits
    orders = [
        Scores(labels=labels, predicted=predicted, known=order)
        for order in islice(permutations(known), 0, None, 7)
    ]
    kinds = np.where(np.array(labels) < 0, 2, np.array(labels) != np.array(predicted))
    for kind in ((0, 1, 2), (2, 1, 0)):  # best and worst
        place = np.argsort(np.argsort([kind.index(k) for k in kinds], kind="stable"))
        orders.append(
            Scores(labels=labels, predicted=predicted, known=known[::-1][place])
        )
    for name in ("aurc", "augrc", "aurc_known", "augrc_known"):
        bracket = found.bracket(name)
        values = [metrics.get(name).value(order) for order in orders]
        assert all(value in bracket for value in values), name
        assert min(values) == pytest.approx(bracket.low, abs=1e-10)
        assert max(values) == pytest.approx(bracket.high, abs=1e-10)


def merged(first, second):
    first.merge(second)
    return first


@settings(max_examples=3, suppress_health_check=FIXTURE)
@given(SAMPLES, SAMPLES, SAMPLES)
def test_merges_in_any_order_equal_one_pass(first, second, third):
    a, b, c = made(first), made(second), made(third)
    once = of(Scores.concat([a, b, c]))
    assert same(once, of(c, a, b))
    assert same(once, merged(of(c), merged(of(b), of(a))))


@pytest.mark.parametrize(
    ("offset", "spread"),
    [(0, 1), (5, 1), (1000, 1), (-1e5, 10), (1e-3, 1e-6), (0.99, 1e-4), (1e30, 1e29)],
)
def test_brackets_are_narrow_for_scores_far_from_zero(offset, spread):
    rng = np.random.default_rng(0)
    n = 20_000
    labels = np.where(rng.random(n) < 0.5, -1, 0)
    known = offset + spread * (rng.normal(size=n) + (labels == 0))
    scores = Scores(labels=labels, predicted=np.zeros(n, int), known=known)
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(sketch, "_MOST", 100)
        limits.setattr(sketch, "_CELLS", 1 << 20)
        bracket = of(scores).bracket("auroc")
    assert metrics.auroc(scores) in bracket
    assert bracket.width < 1e-4
