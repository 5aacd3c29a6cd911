"""Samples are recognised by their rows; equal rows by chance are not taken for them."""

from dataclasses import replace

import numpy as np
import pytest

from openset import Outputs
from openset.outputs.seen import hashes_of, n_seen, need_unseen
from tests.extras import array_api_strict, torch


def outputs(n, seed):
    rng = np.random.default_rng(seed)
    return Outputs(logits=rng.normal(size=(n, 7)), labels=rng.integers(0, 7, n))


def test_samples_in_common_are_counted():
    train, new = outputs(3000, 0), outputs(500, 1)
    seen = hashes_of(train)
    for n in (0, 100, 500):
        mixed = Outputs.concat([new, train.take(np.arange(n))]) if n else new
        assert n_seen(mixed, seen) == (n, 500 + n)
    assert n_seen(train.take(np.arange(15)), seen) == (0, 15)  # too few to prove it
    words = "known must be samples that .* was not fitted on, got 90 of 90 known"
    with pytest.raises(ValueError, match=f"calibrate: {words} .*Split them first"):
        need_unseen("calibrate", "known", train.take(np.arange(90)), seen)
    need_unseen("calibrate", "known", new, seen)


@pytest.mark.parametrize("asarray", [torch.asarray, array_api_strict.asarray])
def test_the_library_the_precision_and_the_last_digits_do_not_matter(asarray):
    train = outputs(3000, 0)
    noise = 1 + 1e-7 * np.random.default_rng(2).normal(size=(3000, 7))
    again = replace(train, logits=asarray(np.float32(train.logits * noise)))
    n, of = n_seen(again, hashes_of(train))
    assert of == 3000
    assert n > 2500


def test_of_very_many_samples_the_number_is_estimated(monkeypatch):
    monkeypatch.setattr("openset.outputs.seen._KEPT", 1000)
    train = outputs(20_000, 0)
    seen = hashes_of(train)
    assert seen["logits"].size == 1000
    mixed = Outputs.concat([train.take(np.arange(2000)), outputs(2000, 1)])
    n, of = n_seen(mixed, seen)
    assert of == 4000
    assert 1500 < n < 2500


def test_rounded_rows_are_equal_by_chance():
    def rounded(n, seed):
        rng = np.random.default_rng(seed)
        return Outputs(logits=rng.normal(size=(n, 2)).round(1))

    train = rounded(2000, 0)
    assert n_seen(rounded(1000, 1), hashes_of(train)) == (0, 1000)
    constant = Outputs(logits=np.ones((400, 3)))
    assert n_seen(constant, hashes_of(constant)) == (0, 400)


def test_only_known_samples_and_arrays_that_both_have_are_compared():
    train = outputs(300, 0)
    assert n_seen(train.as_unknown(), hashes_of(train)) == (0, 0)
    features = Outputs(features=np.asarray(train.logits), labels=train.labels)
    assert n_seen(features, hashes_of(train))[0] == 0
    assert n_seen(train, {})[0] == 0
