"""Drawing protocols: every class is equally likely, and a seed says it all."""

from collections import Counter
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from openset.protocols import holdout, leave_classes_out, operational, outlier

N = 6000


def uniform(counts, n_cells):
    observed = np.array(list(counts.values()) + [0] * (n_cells - len(counts)))
    return stats.chisquare(observed).pvalue > 1e-3


def test_every_class_is_drawn_into_every_part_equally_often():
    draws = holdout(6, 2, 2, repeats=N, rng=11)
    seen = Counter(p.known for p in draws)
    assert set(seen) <= set(combinations(range(6), 2))
    assert uniform(seen, 15)
    assert uniform(Counter(c for p in draws for c in p.unknown), 6)
    draws = operational(5, 1, 1, 1, repeats=N, rng=14)
    assert uniform(Counter((p.known, p.surrogate, p.unknown) for p in draws), 60)
    rng = np.random.default_rng(15)
    left = [leave_classes_out(4, 2, rng=rng)[0].unknown for _ in range(2000)]
    assert uniform(Counter(left), 6)


def test_outlier_draws_class_zero_as_often_as_class_nine():
    draws = outlier(10, 10, 3, 1, repeats=N, rng=13)
    assert uniform(Counter(c for p in draws for c in p.known), 10)
    assert uniform(Counter(p.unknown[0] for p in draws), 10)


def test_a_permutation_is_the_order_of_the_raw_words():
    words = np.random.PCG64(5).random_raw(8).tolist()
    order = sorted(range(8), key=lambda i: words[i])
    assert holdout(8, 3, 5, rng=5).known == tuple(sorted(order[:3]))


def test_a_generator_is_consumed_so_that_its_next_draw_differs():
    rng = np.random.default_rng(0)
    one, two = holdout(30, 10, 10, rng=rng), holdout(30, 10, 10, rng=rng)
    assert one.problem != two.problem
    assert one == holdout(30, 10, 10, rng=0)


@pytest.mark.parametrize(
    ("rng", "error", "message"),
    [
        (None, TypeError, "an integer seed or a numpy.random.Generator, got None"),
        (1.5, TypeError, "an integer seed"),
        (True, TypeError, "an integer seed"),
        (-1, ValueError, "a seed >= 0"),
        (np.random.Generator(np.random.MT19937(0)), TypeError, "got MT19937. Use nump"),
    ],
)
def test_a_draw_that_could_not_be_repeated_is_refused(rng, error, message):
    with pytest.raises(error, match=f"holdout: rng must be .*{message}"):
        holdout(10, 2, 2, rng=rng)


DIGITS = SimpleNamespace(name="digits", classes=tuple("0123456789"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: holdout(10, 8, 3), r"n_known \+ n_unknown must be at most 10"),
        (lambda: holdout(10, 0, 3), "n_known must be an integer >= 1"),
        (lambda: holdout(10, 3, 3, repeats=0), "repeats must be an integer >= 1"),
        (lambda: holdout([], 1, 1), "classes must be non-empty"),
        (lambda: holdout("cifar10", 6, 4), "classes must be a list of class names"),
        (lambda: holdout(["a", "a"], 1, 1), "classes must be free of duplicates"),
        (lambda: outlier(3, 3, 4), "n_known must be at most 3"),
        (lambda: outlier(3, 3, 3, 4), "n_unknown must be at most 3"),
        (lambda: outlier(DIGITS, DIGITS, 2, 2), r"got 'digits' twice\. Within one"),
        (lambda: operational(5, 3, 2, 1), "n_surrogate .* must be at most 5"),
        (lambda: operational(9, 3, 2, 1, validation=0), "validation must be"),
    ],
)
def test_impossible_draws_are_refused_with_the_rule(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
