"""Drawing protocols."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from openset import protocols
from openset.protocols import grid, holdout, leave_classes_out, operational, outlier

N_DRAWS = 6000


def chi_square(counts, n_cells):
    observed = np.array(list(counts.values()) + [0] * (n_cells - len(counts)))
    return stats.chisquare(observed).pvalue


def test_holdout_draws_every_pair_of_known_classes_equally_often():
    draws = holdout(6, 2, 2, repeats=N_DRAWS, rng=11)
    seen = Counter(p.known for p in draws)
    assert set(seen) <= set(combinations(range(6), 2))
    assert chi_square(seen, 15) > 1e-3


def test_holdout_draws_every_unknown_class_equally_often():
    seen = Counter(
        c for p in holdout(6, 2, 2, repeats=N_DRAWS, rng=12) for c in p.unknown
    )
    assert chi_square(seen, 6) > 1e-3


def test_outlier_draws_class_zero_as_often_as_class_nine():
    draws = outlier(10, 10, 3, 1, repeats=N_DRAWS, rng=13)
    assert chi_square(Counter(c for p in draws for c in p.known), 10) > 1e-3
    assert chi_square(Counter(p.unknown[0] for p in draws), 10) > 1e-3


def test_operational_draws_every_class_into_every_part_equally_often():
    draws = operational(5, 1, 1, 1, repeats=N_DRAWS, rng=14)
    seen = Counter((p.known, p.surrogate, p.unknown) for p in draws)
    assert chi_square(seen, 60) > 1e-3


def test_leaving_out_in_random_blocks_pairs_all_classes_equally_often():
    rng = np.random.default_rng(15)
    draws = [leave_classes_out(4, 2, rng=rng)[0].unknown for _ in range(2000)]
    assert chi_square(Counter(draws), 6) > 1e-3


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
        (
            np.random.Generator(np.random.MT19937(0)),
            TypeError,
            "got MT19937. Use numpy.random.default_rng",
        ),
    ],
)
def test_a_draw_that_could_not_be_repeated_is_refused(rng, error, message):
    with pytest.raises(error, match=f"holdout: rng must be .*{message}"):
        holdout(10, 2, 2, rng=rng)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: holdout(10, 8, 3), r"n_known \+ n_unknown must be at most 10"),
        (lambda: holdout(10, 0, 3), "n_known must be an integer >= 1"),
        (lambda: holdout(10, 3, 3, repeats=0), "repeats must be an integer >= 1"),
        (lambda: holdout([], 1, 1), "classes must be non-empty"),
        (lambda: holdout(["a", "a"], 1, 1), "classes must be free of duplicates"),
        (lambda: outlier(3, 3, 4), "n_known must be at most 3"),
        (lambda: outlier(3, 3, 3, 4), "n_unknown must be at most 3"),
        (lambda: operational(5, 3, 2, 1), "n_surrogate .* must be at most 5"),
        (lambda: operational(9, 3, 2, 1, validation=0), "validation must be"),
        (lambda: leave_classes_out(10, 3), r"a proper divisor .* here: \[1, 2, 5\]"),
        (lambda: leave_classes_out(4, 4), "a proper divisor of the 4 classes"),
        (lambda: grid(5, sizes=[(2, 2)], openness=[0.1]), "got both"),
        (lambda: grid(5, sizes=[3]), r"sizes must be \(n_known, n_unknown\) pairs"),
        (lambda: grid(5, sizes=[]), "must be non-empty"),
        (lambda: grid(5, openness=[1.0]), r"openness must be a number in \[0, 1\)"),
    ],
)
def test_impossible_draws_are_refused_with_the_rule(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_name_is_not_a_list_of_classes():
    with pytest.raises(TypeError, match="classes must be a list of class names"):
        holdout("cifar10", 6, 4)


def test_outlier_refuses_one_data_set_twice():
    class Digits:
        name = "digits"
        classes = tuple("0123456789")

    with pytest.raises(ValueError, match=r"got 'digits' twice\. Within one data set"):
        outlier(Digits, Digits, 2, 2)


def test_outlier_takes_all_classes_unless_told_otherwise():
    p = outlier(["a", "b"], ["a", "c"])
    assert (p.known, p.unknown) == (("a", "b"), ("a", "c"))


def test_operational_sets_the_sample_rules():
    p = operational(10, 4, 3, 3, validation=0.25, n_tests=3, unknowns="shared")
    assert (p.validation, p.n_tests, p.unknowns) == (0.25, 3, "shared")
    assert p.is_complete


def test_leaving_classes_out_makes_each_unknown_once():
    draws = leave_classes_out(range(6), 2, rng=3)
    assert sorted(c for p in draws for c in p.unknown) == list(range(6))
    assert all(p.is_complete for p in draws)
    assert draws.duplicates == ()


def test_a_grid_holds_all_repeats_of_all_sizes():
    sizes = [(7, 2), (4, 3), (2, 8)]
    draws = grid(10, sizes=sizes, repeats=5, rng=1)
    assert Counter((p.n_known, p.n_unknown) for p in draws) == dict.fromkeys(sizes, 5)


def test_a_grid_without_sizes_holds_all_pairs():
    draws = grid(5, repeats=1)
    assert {(p.n_known, p.n_unknown) for p in draws} == set(protocols.pairs(5))


def test_a_grid_takes_the_pair_nearest_to_a_target():
    targets = [0.05, 0.142, 0.3, 0.42]
    draws = grid(10, openness=targets, repeats=1)
    for p, target in zip(draws, targets, strict=True):
        best = min(
            abs(protocols.openness(k, k + u) - target) for k, u in protocols.pairs(10)
        )
        assert abs(p.openness - target) == pytest.approx(best)


def test_targets_that_meet_in_one_pair_are_drawn_once():
    assert len(grid(10, openness=[0.42, 0.43], repeats=2)) == 2


def test_cells_of_a_grid_are_drawn_independently():
    draws = grid(20, sizes=[(10, 10), (10, 10)], repeats=1)
    assert draws[0].problem != draws[1].problem
