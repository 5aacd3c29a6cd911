"""Negatives: classes for nothing else, and no copies of the test unknowns."""

import numpy as np
import pytest

from openset.datasets import cut, from_arrays, with_negatives
from openset.protocols import Protocol

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (200, 3, 5), dtype=np.uint8)
SIGNS = RNG.choice([-1.0, 1.0], (400, 20))
TEXTS = np.array([f"text {i}" for i in range(200)])
SOURCES = {"source": "known", "unknown_source": "s", "negative_source": "c"}


def made(strange, other):
    """Cut with unknowns and negatives of two data sets."""
    known = np.resize(strange, (40, *strange.shape[1:]))
    parts = from_arrays(known, np.arange(40) % 2, name="known").with_parts(test=0.5)
    unknown = from_arrays(strange, np.zeros(len(strange), int), name="s")
    negative = from_arrays(other, np.zeros(len(other), int), name="c")
    protocol = Protocol(known=[0, 1], unknown=[0], negative=[0], **SOURCES)
    return cut(parts, protocol, unknown=unknown, negative=negative)


@pytest.mark.parametrize("tested", [IMAGES, IMAGES / 255, TEXTS])
def test_copies_in_any_order_are_refused_and_a_few_are_tolerated(tested):
    others = np.array([f"other {i}" for i in range(300)])
    if tested is not TEXTS:
        others = np.resize(tested, (300, 3, 5)) + 1
        others = others.astype(tested.dtype)
        others[:, 0, 0] = 3 * others[:, 0, 1]
    others[[5, 7, 299]] = tested[[199, 0, 11]]
    words = "negative must be other samples than .* got copies of 3 of 200 of"
    with pytest.raises(ValueError, match=words):
        made(tested, others)
    others[5] = others[6]
    made(tested, others)  # two of 200


def test_other_samples_are_no_copies():
    made(SIGNS[:200], SIGNS[200:])
    made(SIGNS[:200], SIGNS[:200].view(np.int64))  # the same bytes, other numbers


def test_negatives_are_the_classes_that_are_left():
    labels = np.arange(100) % 5
    zoo = from_arrays(labels[:, None], labels, classes=[*"abcde"], name="zoo")
    other = from_arrays(labels[:, None], labels, classes=[*"vwxyz"], name="other")
    zoo = zoo.with_parts(test=0.5)
    p = Protocol(known=["a"], unknown=["b"], source="zoo")
    assert with_negatives(p, zoo, zoo).negative == ("c", "d", "e")
    found = with_negatives(p, zoo, other)
    assert (found.negative, found.negative_source) == (tuple("vwxyz"), "other")
    taken = Protocol(known=["a"], unknown=["w"], source="zoo", unknown_source="other")
    assert with_negatives(taken, zoo, other).negative == tuple("vxyz")
    numbered = Protocol(classes=range(5), known=[0], unknown=[1], source="zoo")
    assert with_negatives(numbered, zoo, zoo).negative == (2, 3, 4)
    with pytest.raises(ValueError, match="must be without negative classes"):
        with_negatives(found, zoo, other)
    whole = Protocol(known=[*"abcd"], unknown=["e"], source="zoo")
    with pytest.raises(ValueError, match="got zoo with none left"):
        with_negatives(whole, zoo, zoo)
