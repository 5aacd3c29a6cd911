"""A percentile without sorting: bit for bit that of NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openset import _xp
from openset.detectors import _percentile
from openset.detectors._percentile import by_column, percentile


@pytest.fixture
def small(monkeypatch):
    """Let a few hundred numbers be many."""
    monkeypatch.setattr(_percentile, "_SAMPLE", 32)
    monkeypatch.setattr(_percentile, "_BLOCK", 50)


KINDS = {
    "normal": lambda values: values,
    "rectified": lambda values: np.maximum(values, 0),  # half of them are equal
    "few values": np.round,
    "one value": lambda values: np.full(values.shape, 2.5),
    "heavy tails": lambda values: np.exp(5 * values),
    "sorted": lambda values: np.sort(values, axis=None).reshape(values.shape),
    "by column": lambda values: values + 100 * np.arange(values.shape[1]),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_the_percentile_of_numpy(kind, dtype, rng):
    for shape in ((1, 1), (1, 7), (13, 3), (300, 6), (77, 31)):
        values = KINDS[kind](rng.standard_normal(shape)).astype(dtype)
        parts = np.array_split(values, min(3, len(values)))
        for percent in (0, 0.01, 10, 33.3, 50, 90, 99.99, 100):
            for one in (percent, np.float64(percent)):
                found, wanted = percentile(parts, one), np.percentile(values, one)
                assert found == wanted
                assert found.dtype == wanted.dtype


@given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=200),
    st.floats(0, 100),
)
def test_any_numbers_and_any_percent(numbers, percent):
    values = np.array(numbers, dtype=np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_percentile, "_SAMPLE", 4)
        patch.setattr(_percentile, "_BLOCK", 7)
        found = percentile([values[:, None]], percent)
    np.testing.assert_array_equal(found, np.percentile(values, percent))


def test_only_few_numbers_are_sorted(monkeypatch, rng):
    values = rng.standard_normal((4000, 64), dtype=np.float32)
    sizes = []
    partition = np.partition

    def counting(array, *arguments):
        sizes.append(array.size)
        return partition(array, *arguments)

    monkeypatch.setattr(_percentile.np, "partition", counting)
    _percentile._at_rank([values], values.size, int(0.9 * values.size))
    assert sizes[0] < values.size / 20


@pytest.mark.usefixtures("small")
def test_a_sample_that_misleads_costs_time_and_nothing_else(monkeypatch, rng):
    values = rng.standard_normal((100, 5))
    monkeypatch.setattr(_percentile, "_limits", lambda *_, **__: (5.0, 6.0))
    assert percentile([values], 50) == np.median(values)


@pytest.mark.usefixtures("small")
def test_rows_that_are_not_contiguous(rng):
    values = rng.standard_normal((200, 8))[::2, ::3]
    assert percentile([values], 70) == np.percentile(values, 70)


def test_numbers_on_a_device_are_sorted_there(monkeypatch, xp, rng):
    values = rng.standard_normal((50, 4)).astype(np.float32)
    parts = [xp.asarray(values[:20]), xp.asarray(values[20:])]
    monkeypatch.setattr(_xp, "is_on_cpu", lambda _: False)
    for percent in (0, 12.5, 90, 100):
        found = percentile(parts, percent)
        np.testing.assert_array_equal(found, np.percentile(values, percent))


@pytest.mark.parametrize("on_device", [False, True])
def test_percentiles_of_columns(monkeypatch, xp, on_device, rng):
    values = np.round(rng.standard_normal((50, 4)), 1).astype(np.float32)
    parts = [xp.asarray(values[:20]), xp.asarray(values[20:])]
    if on_device:
        monkeypatch.setattr(_xp, "is_on_cpu", lambda _: False)
    percents = (0, 12.5, 90, 100)
    found = by_column(parts, percents)
    np.testing.assert_array_equal(found, np.percentile(values, percents, axis=0))
