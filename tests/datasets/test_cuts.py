"""Cutting data sets by protocols."""

from dataclasses import replace

import numpy as np
import pytest

from openset import protocols
from openset.datasets import cut, folds, from_arrays
from openset.protocols import Protocol

NAMES = ["ant", "bee", "cat", "dog", "eel"]


@pytest.fixture
def zoo():
    """Five classes of 20 samples; the input is the row, so samples can be traced."""
    labels = np.arange(100) % 5
    data = from_arrays(np.arange(100.0)[:, None], labels, classes=NAMES, name="zoo")
    return data.with_parts(test=0.5, rng=0)


@pytest.fixture
def other():
    labels = np.arange(30) % 3
    return from_arrays(
        1000 + np.arange(30.0)[:, None], labels, classes=["x", "y", "z"], name="other"
    )


def rows(samples):
    return samples.inputs[:, 0].astype(int).tolist()


PROTOCOL = Protocol(known=["dog", "ant"], unknown=["bee"], surrogate=["eel"])


def test_a_cut_is_what_a_slow_loop_makes_of_it(zoo):
    made = cut(zoo, PROTOCOL)
    train, test = set(zoo.parts["train"].tolist()), set(zoo.parts["test"].tolist())
    expected = {"train": {}, "test": {}, "surrogate": {}}
    for row in range(100):
        name = NAMES[zoo.labels[row]]
        label = {"dog": 0, "ant": 1}.get(name, -1)
        if row in train and label >= 0:
            expected["train"][row] = label, name
        if row in train and name == "eel":
            expected["surrogate"][row] = -1, name
        if row in test and (label >= 0 or name == "bee"):
            expected["test"][row] = label, name
    for part, wanted in expected.items():
        samples = getattr(made, part)
        found = zip(samples.labels.tolist(), samples.groups.tolist(), strict=True)
        assert dict(zip(rows(samples), found, strict=True)) == wanted
        assert len(samples) == len(wanted)
    assert made.train.classes == ("dog", "ant")
    assert made.validation is made.negative is None
    with pytest.raises(AttributeError, match=r"3 test splits; use Cut\.tests"):
        _ = cut(zoo, replace(PROTOCOL, n_tests=3)).test


def test_an_official_validation_part_is_used_unless_a_share_is_asked_for(zoo):
    train, validation = np.split(zoo.parts["train"], [30])
    whole = replace(zoo, parts={**zoo.parts, "train": train, "validation": validation})
    assert set(rows(cut(whole, PROTOCOL).validation)) <= set(validation.tolist())
    drawn = cut(whole, replace(PROTOCOL, validation=0.2))
    assert set(rows(drawn.validation)) <= set(train.tolist())


def test_every_part_may_have_its_own_source(zoo, other):
    parts = {"known": ["ant"], "unknown": ["bee"], "negative": ["x"]}
    from_other = {"negative_source": "other", "surrogate_source": "other"}
    p = Protocol(**parts, surrogate=["y"], source="zoo", **from_other)
    made = cut(zoo, p, negative=other, surrogate=other)
    assert set(made.negative.groups) == {"x"}
    assert set(made.surrogate.groups) == {"y"}
    assert repr(made) == "Cut(train=10, negative=10, surrogate=10, test=20)"


def test_two_data_sets_of_one_name_are_refused(zoo, other):
    """Row 3 of one and row 3 of the other would be the same sample."""
    a, b = (replace(one, name="arrays", label_set="") for one in (zoo, other))
    p = protocols.outlier(5, 3, 2, 2)
    for function in (cut, folds):
        with pytest.raises(ValueError, match="of different names, got 'arrays'"):
            function(a, p, unknown=b)
    made = cut(a, p, unknown=replace(b, name="others"))
    assert len(set(made.test.ids.tolist())) == len(made.test)
    p = replace(p, unknown=["x"], negative=["y"], negative_source="unknown set")
    made = cut(a, p, unknown=replace(b, name="o"), negative=replace(b, name="o"))
    assert not set(made.negative.ids) & set(made.test.ids)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"known": ["cow"]}, "class must be a class of zoo"),
        ({"source": "mnist"}, "dataset must be 'mnist', whose classes the protocol"),
        ({"unknown_source": "other"}, r"got none. Pass unknown=datasets.load\('ot"),
        ({"known": ["bee", 3], "unknown": [1]}, "unknown classes .* 'bee' twice"),
        ({"known": ["dog", 3]}, "known classes must be different .* 'dog' twice"),
        ({"n_tests": 50}, "enough for 50 test parts, got 20 known ones in all"),
        ({"n_tests": 15}, r"got 10 unknown ones in all. Use fewer parts or unknowns"),
        ({"validation": 0.01}, "in every one, got none of 'dog', 'ant'"),
    ],
)
def test_cuts_that_make_no_sense_are_explained(zoo, changes, message):
    with pytest.raises(ValueError, match=message):
        cut(zoo, replace(PROTOCOL, **changes))


@pytest.mark.parametrize("function", [cut, folds])
def test_names_and_several_draws_are_no_data_set_and_no_protocol(zoo, function):
    draws = protocols.holdout(zoo, 3, 2, repeats=2)
    for arguments, words in (
        (("zoo", PROTOCOL), "dataset must be a Dataset, got str. Load it with datase"),
        ((zoo, draws), r"protocol must be a Protocol, got Draws. .* draws\[0\]"),
    ):
        with pytest.raises(TypeError, match=f"{function.__name__}: {words}"):
            function(*arguments)


def test_data_sets_that_do_not_fit_are_refused(zoo, other):
    p = protocols.outlier(zoo, other, 2, 3)
    texts = from_arrays(["a", "b", "c"], ["x", "y", "z"], name="other")
    wide = replace(other, inputs=np.zeros((30, 7)))
    bee = [row for row in zoo.parts["test"].tolist() if zoo.labels[row] != 1]
    poor = replace(zoo, parts={"train": zoo.parts["train"], "test": bee})
    for data, protocol, unknown, words in (
        (zoo, PROTOCOL, other, "unknown= must be left out"),
        (zoo, p, texts, "unknown must be of kind 'table'"),
        (zoo, p, wide, r"must be of one shape, got \(1,\) and \(7,\)"),
        (replace(zoo, parts={}), PROTOCOL, None, "with a train part.*with_parts"),
        (poor, PROTOCOL, None, "got none in its test part of 'bee'"),
    ):
        with pytest.raises(ValueError, match=words):
            cut(data, protocol, unknown=unknown)


@pytest.mark.parametrize(
    ("n", "changes", "message"),
    [
        (1, {"surrogate": ()}, "n_folds must be an integer >= 2"),
        (61, {"surrogate": ()}, "enough for 61 test parts"),
        (2, {}, "known and unknown classes only"),
    ],
)
def test_folds_that_make_no_sense_are_explained(zoo, n, changes, message):
    with pytest.raises(ValueError, match=message):
        folds(zoo, replace(PROTOCOL, **changes), n)
