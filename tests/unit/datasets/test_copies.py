"""Negatives and surrogates that are the test unknowns under another name."""

import numpy as np
import pytest

from openset.datasets import cut, from_arrays
from openset.datasets._copies import need_no_copies
from openset.datasets.lazy_inputs import ImageFiles
from openset.protocols import Protocol

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (200, 3, 5), dtype=np.uint8)  # 15 bytes: no whole words
TEXTS = np.array([f"text {i}" for i in range(200)], dtype=object)
COPIES = "other samples than the unknown ones of the test, got copies of {} of {} of"


def compare(inputs, tested):
    rows = np.arange(len(inputs))
    tested_rows = np.arange(len(tested))
    need_no_copies(
        "cut", "negative", inputs, rows, tested=tested, tested_rows=tested_rows
    )


@pytest.mark.parametrize("tested", [IMAGES, IMAGES / 255, TEXTS])
def test_copies_in_any_order_are_found_and_a_few_are_tolerated(tested):
    others = np.array([f"{i}" for i in range(300)], dtype=object)
    if tested.dtype != object:
        others = RNG.permuted(np.resize(tested, (300, 3, 5)), axis=0)
        others[:, 0, :3] += 1
    mixed = others.copy()
    mixed[[5, 7, 299]] = tested[[199, 0, 11]]
    with pytest.raises(ValueError, match=COPIES.format(3, 200)):
        compare(mixed, tested)
    mixed[5] = others[5]
    compare(mixed, tested)  # two of 200


def test_files_are_compared_by_content_not_by_name(tmp_path):
    for i in range(257):  # more than are looked for: every second one is
        (tmp_path / f"a{i}.png").write_bytes(b"%6d" % i)
        (tmp_path / f"b{i}.png").write_bytes(b"%6d" % (256 - i))
        (tmp_path / f"c{i}.png").write_bytes(b"%6d" % (1000 + i))
    a, b, c = (
        ImageFiles(tuple(str(tmp_path / f"{name}{i}.png") for i in range(257)))
        for name in "abc"
    )
    with pytest.raises(ValueError, match=COPIES.format(129, 129)):
        compare(b, a)
    compare(c, a)
    for one, other in ((a, TEXTS), (TEXTS, a)):  # nothing to compare
        compare(one, other)


SIGNS = RNG.choice([-1.0, 1.0], (400, 20))
DIGITS = RNG.integers(0, 17, (2000, 64)).astype(float)


@pytest.mark.parametrize(
    ("inputs", "tested"),
    [
        (SIGNS[:200], SIGNS[200:]),
        (DIGITS[:1800], DIGITS[1800:]),  # float64 with zeros in most of their bits
        (IMAGES, IMAGES[:, :2]),
        (DIGITS, DIGITS.view(np.int64)),  # the same bytes, other numbers
        (np.arange(200), np.arange(200).astype(str)),
        (np.arange(200).astype(str), np.arange(200)),
        (IMAGES.tolist(), IMAGES),
        (IMAGES, IMAGES.tolist()),
    ],
)
def test_other_samples_are_no_copies(inputs, tested):
    compare(inputs, tested)


def test_a_cut_refuses_them():
    known = from_arrays(np.arange(40.0)[:, None], np.arange(40) % 2, name="known")
    known = known.with_parts(test=0.5, rng=0)
    strange = from_arrays(1000 + np.arange(40.0)[:, None], np.zeros(40, int), name="s")
    copies = from_arrays(1000 + np.arange(40.0)[:, None], np.zeros(40, int), name="c")
    sources = {"source": "known", "unknown_source": "s", "negative_source": "c"}
    protocol = Protocol(known=[0, 1], unknown=[0], negative=[0], **sources)
    with pytest.raises(ValueError, match="cut: negative must be other samples than"):
        cut(known, protocol, unknown=strange, negative=copies)
