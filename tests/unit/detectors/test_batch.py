"""`Batch`: shared reductions, dtypes, and how outputs are cut into batches."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from openset import Outputs, _xp
from openset.detectors import (
    MSP,
    Batch,
    score_all,
)
from openset.detectors import _batch as of_batches
from openset.detectors._batch import (
    batch_rows,
    batches_with,
    draw,
    fit_batches,
    in_dtype,
    lengths,
    working_dtype,
)
from openset.testing import example_outputs as split
from openset.testing import in_library


@pytest.fixture
def outputs():
    return split(50)


def test_batches_of_a_temperature_are_shared(outputs):
    batch = Batch(outputs)
    assert batch.tempered(1) is batch
    assert batch.tempered(2.0) is batch.tempered(2.0)
    assert_allclose(batch.tempered(2.0).logits, outputs.logits / 2)


def test_reductions_do_not_depend_on_the_cache(outputs, xp, monkeypatch):
    batch = Batch(in_library(outputs, xp))
    mass, norm = (_xp.to_numpy(a) for a in (batch.other_mass, batch.feature_norm))

    def few_rows(function, *arrays, size=0):
        del size
        return by_rows(function, *arrays, size=100)

    by_rows = _xp.by_rows
    monkeypatch.setattr(_xp, "by_rows", few_rows)
    cut = Batch(in_library(outputs, xp))
    assert_array_equal(_xp.to_numpy(cut.other_mass), mass)
    assert_array_equal(_xp.to_numpy(cut.feature_norm), norm)


def test_reductions_of_one_kernel_give_the_energy(outputs, monkeypatch):
    plain = Batch(outputs)
    expected = plain.energy
    monkeypatch.setattr(of_batches._fused, "reduce_rows", lambda logits: plain)
    other = Batch(outputs)
    for name in ("top_class", "top_logit", "other_mass", "log_other_mass"):
        assert getattr(other, name) is getattr(plain, name)
    assert_allclose(other.energy, expected)


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


@pytest.mark.parametrize("dtype", [">f8", np.longdouble])
def test_wide_numbers_of_any_kind_are_computed_in_float64(dtype, outputs):
    wide = Outputs(logits=outputs.logits.astype(dtype), labels=outputs.labels)
    assert working_dtype(wide) == np.float64
    assert_array_equal(MSP().fit(wide).known(wide), MSP().fit(outputs).known(outputs))


def test_float32_is_scored_in_float32_without_a_copy():
    logits = np.ones((2, 3), dtype=np.float32)
    outputs = Outputs(logits=logits)
    assert np.shares_memory(Batch(outputs).logits, outputs.logits)


def test_only_real_arrays_of_a_state_are_cast():
    state = {"means": np.ones(2), "classes": np.arange(2)}
    cast = in_dtype(state, np.float32)
    assert cast["means"].dtype == np.float32
    assert cast["classes"].dtype == np.int64


def test_fitting_reads_all_rows_once(outputs, monkeypatch):
    monkeypatch.setattr("openset.detectors._batch.batch_rows", lambda outputs: 7)
    parts = [batch.features for batch in fit_batches(outputs)]
    assert [len(part) for part in parts] == [7] * 7 + [1]
    assert_array_equal(np.concatenate(parts), outputs.features)


def test_batches_come_with_their_share_of_other_values(outputs, monkeypatch):
    monkeypatch.setattr("openset.detectors._batch.batch_rows", lambda outputs: 7)
    numbers = np.arange(len(outputs))
    for batch, own in batches_with(outputs, numbers):
        assert_array_equal(batch.numbers(np.arange(len(batch))), own)
        assert_array_equal(batch.features, outputs.features[own])


@pytest.mark.parametrize("size", [3, 5, 99])
def test_fitting_reads_chosen_rows_only(outputs, size, monkeypatch):
    monkeypatch.setattr("openset.detectors._batch.batch_rows", lambda outputs: size)
    chosen = np.array([2, 3, 11, 40, 49])
    parts = [batch.features for batch in fit_batches(outputs, chosen)]
    assert max(map(len, parts)) == min(size, 5)
    assert_array_equal(np.concatenate(parts), outputs.features[chosen])


def test_rows_are_drawn_in_order_and_once(rng):
    rows = draw(100, 30, seed=4)
    assert len(set(rows.tolist())) == 30
    assert_array_equal(rows, np.sort(rows))
    assert_array_equal(rows, draw(100, 30, seed=4))
    assert not np.array_equal(rows, draw(100, 30, seed=5))
    assert draw(30, 30, seed=4) is None
    assert draw(30, 31, seed=4) is None


def test_a_progress_bar_knows_the_number_of_batches(outputs, monkeypatch):
    totals = []

    def bar(items, label, *, total, show):
        totals.append((total, show))
        return items

    monkeypatch.setattr(of_batches, "bar", bar)
    fitted = MSP().fit(outputs)
    for size in (20, 25, 50, 99):
        fitted.score(outputs, batch_size=size, progress=True)
    assert totals == [(3, True), (2, True), (1, True), (1, True)]
    totals.clear()
    fitted.score(outputs)
    fitted.known(outputs)
    score_all([fitted], outputs)
    assert totals == [(1, False)] * 3


def test_lengths_beyond_all_floats_do_not_change_other_rows():
    rows = np.array([[0.0, 0, 0], [0, 3e300, 4e300], [np.inf, 1, 1], [0, 3, 4]])
    assert_array_equal(lengths(rows)[[0, 2, 3]], [0, np.inf, 5])
    assert_allclose(lengths(rows)[1], 5e300)


def test_lengths_whose_squares_underflow_are_not_zero():
    rows = np.array([[0, 0], [3e-30, 4e-30], [3e-18, 4e-18], [3, 4]], np.float32)
    wanted = [0, 5e-30, 5e-18, 5]
    assert_allclose(lengths(rows), wanted, rtol=1e-6, atol=0)


def test_directions_are_of_length_one_whatever_the_length():
    rows = np.array([[0.0, 0.0], [0.3, 0.4], [3e300, 4e300], [1.5e308, 1.5e308]])
    expected = [[0, 0], [0.6, 0.8], [0.6, 0.8], [0.5**0.5, 0.5**0.5]]
    assert_allclose(Batch(Outputs(features=rows)).unit_features, expected)
    assert_allclose(Batch(Outputs(features=rows[:3])).unit_features, expected[:3])


def test_nan_in_a_memory_map_is_named_by_its_row_of_the_file(outputs, tmp_path):
    folder = outputs.save(tmp_path / "some")
    features = np.array(outputs.features)
    features[[4, 6, 8], 2] = np.nan
    np.save(folder / "features.npy", features)
    mapped = Outputs.load(folder)
    for rows, found in (
        (None, (4, 6, 8)),
        (slice(5, 9), (6, 8)),
        (np.array([1, 8, 6]), (8, 6)),
        (features[:, 0] == features[6, 0], (6,)),
    ):
        named = found[0]
        with pytest.raises(ValueError, match=f"first in row {named}$") as e:
            Batch(mapped, rows).features  # noqa: B018
        assert e.value.rows == found
    assert_array_equal(Batch(mapped, slice(9, 12)).features, features[9:12])


@pytest.mark.parametrize("size", [0, -1, 2.5])
def test_a_batch_size_below_one_is_refused(outputs, size):
    fitted = MSP().fit(outputs)
    with pytest.raises(ValueError, match="batch_size must be an integer >= 1"):
        fitted.score(outputs, batch_size=size)
    with pytest.raises(ValueError, match="batch_size must be an integer >= 1"):
        fitted.known(outputs, batch_size=size)


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (None, (8 << 20) // 400),  # in CPU memory: about a cache
        (8 << 30, (128 << 20) // 400),  # a small GPU: a share of its memory
        (140 << 30, (2 << 30) // 400),  # a large one: at most 2 GiB
        (1 << 10, 64),
    ],
)
def test_batches_are_as_long_as_the_device_allows(monkeypatch, memory, expected):
    monkeypatch.setattr("openset._xp.gpu_memory", lambda array: memory)
    outputs = Outputs(logits=np.zeros((5, 100), dtype=np.float32))
    assert batch_rows(outputs) == expected
    assert isinstance(batch_rows(outputs), int)


def test_batches_are_longer_on_a_device_of_unknown_memory(monkeypatch):
    monkeypatch.setattr("openset._xp.is_on_cpu", lambda array: False)
    outputs = Outputs(logits=np.zeros((5, 100), dtype=np.float32))
    assert batch_rows(outputs) == (256 << 20) // 400


def test_samples_in_another_form_keep_their_numbers(outputs):
    batch = Batch(outputs, np.array([7, 3, 9]))
    for other in (batch.tempered(2.0), batch.tempered(2.0)):
        assert_array_equal(other.numbers(np.array([2, 0])), [9, 7])
    assert_array_equal(Batch(outputs, slice(4, 9)).numbers(np.array([1])), [5])
    assert_array_equal(Batch(outputs).numbers(np.array([1])), [1])
