"""Outputs keep library and device, are checked once, and never change."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from openset import Outputs
from tests.extras import array_api_strict, pandas, torch

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(4, 3)).astype(np.float32)
FEATURES = RNG.normal(size=(4, 2)).astype(np.float32)
GOOD = {"logits": LOGITS, "features": FEATURES, "labels": [0, 1, 2, -1]}
HEAD = {"weight": np.ones((3, 2), np.float32), "bias": np.ones(3, np.float32)}
NAN = np.nan

REFUSED = [
    ({"logits": None, "features": None}, "logits or features must be given"),
    ({"logits": LOGITS[0]}, "non-empty array of 2 dimensions, got shape (3,)"),
    ({"logits": np.empty((0, 3))}, "non-empty array of 2 dimensions"),
    ({"logits": LOGITS * 1j}, "logits must be real, got dtype complex64"),
    ({"logits": LOGITS > 0}, "logits must be real, got dtype bool"),
    ({"logits": LOGITS[:3]}, "same length, got 3, 4, 4"),
    ({"logits": [[0, 1, NAN]] * 4}, "logits must be free of NaN, got NaN in 4 rows"),
    ({"classes": ["a", None, "c"]}, "names, got none for class 1"),
    ({"classes": ["a", "", NAN]}, "names, got none for class 1"),
    ({"classes": ["a", NAN, "c"]}, "names, got none for class 1"),
    ({"labels": [0, 1, 2, 3]}, "below 3, the number of classes, got 3. Label samples"),
    ({"labels": [0, 1, 2, -3]}, "labels must be >= -1, got -3"),
    ({"classes": ["a", "b"]}, "class counts must be equal"),
    ({"weight": np.ones((3, 5))}, "weight must be as wide as features, got 5 for 2"),
    ({"weight": np.ones((2, 2))}, "equal, got 3 columns of logits, 2 rows of weight"),
    ({"bias": np.ones(4)}, "class counts must be equal"),
    ({"bias": [0, NAN, 0]}, "bias must be free of NaN, got NaN in row 1"),
    ({"weight": [[0, 1], [0, 1], [NAN, 1]]}, "weight must be free of NaN, got NaN in"),
    ({"ids": [0.5] * 4}, "ids must be strings or integers"),
    ({"invalid": "reject"}, "invalid must be one of 'error', 'keep'"),
]


@pytest.mark.parametrize(("change", "words"), REFUSED)
@pytest.mark.parametrize("asarray", [np.asarray, torch.asarray])
def test_bad_values_get_a_clear_error(change, words, asarray):
    given = HEAD | GOOD | change
    for name in ("logits", "features", "weight", "bias"):
        if given[name] is not None:
            given[name] = asarray(np.asarray(given[name]))
    with pytest.raises((ValueError, TypeError), match=r"^Outputs: ") as caught:
        Outputs(**given)
    assert words in str(caught.value)


def test_arrays_are_of_one_library():
    words = "one library on one device, got numpy and torch"
    with pytest.raises(ValueError, match=words):
        Outputs(**GOOD | {"features": torch.ones(4, 2)})
    with pytest.raises(ValueError, match=words):
        Outputs.concat([Outputs(logits=LOGITS), Outputs(logits=torch.ones(4, 3))])


def everything():
    given = GOOD | HEAD | {"groups": list("abcd"), "ids": range(4)}
    return {name: np.array(values) for name, values in given.items()}


@pytest.mark.parametrize("name", list(everything()))
def test_changing_the_callers_array_changes_no_outputs(name):
    given = everything()
    outputs = Outputs(**given)
    again = pickle.loads(pickle.dumps(outputs))  # noqa: S301  # our own
    given[name][:] = given[name].ravel()[0]
    for one in (outputs, again, outputs.take([0, 1, 2, 3])):
        assert_array_equal(getattr(one, name), everything()[name])
        with pytest.raises(ValueError, match="read-only"):
            getattr(one, name)[0] = 0


def test_memory_that_nobody_can_change_is_not_copied(tmp_path):
    outputs = Outputs(**everything())
    again = Outputs(**{name: getattr(outputs, name) for name in everything()})
    for part in (again, outputs.take(slice(0, 2))):
        for name in everything():
            assert np.shares_memory(getattr(part, name), getattr(outputs, name))
    np.save(tmp_path / "logits.npy", LOGITS)
    mapped = np.load(tmp_path / "logits.npy", mmap_mode="r+")
    assert np.shares_memory(Outputs(logits=mapped).logits, mapped)
    tensor = torch.asarray(LOGITS)
    assert Outputs(logits=tensor).logits is tensor


@pytest.mark.parametrize("make", [np.asarray, torch.asarray, array_api_strict.asarray])
def test_the_array_library_is_kept(make):
    outputs = Outputs(logits=make(LOGITS), labels=[0, 1, 2, -1])
    assert type(outputs.logits) is type(make(LOGITS))
    mask = np.array([True, False, True, True])
    taken = outputs.take(mask)
    assert type(taken.logits) is type(make(LOGITS))
    assert taken.labels.tolist() == [0, 2, -1]
    both = Outputs.concat([outputs, taken])
    assert_array_equal(both.to("numpy").logits, [*LOGITS, *LOGITS[mask]])
    assert type(both.to("numpy").like(taken).logits) is type(make(LOGITS))


def test_what_it_holds_is_shown():
    text = repr(Outputs(**GOOD, **HEAD, groups=["", "", "", "far"]))
    shapes = "n=4, logits=(4, 3) float32, features=(4, 2) float32"
    assert text == f"Outputs({shapes}, head, groups=2, numpy)"


@pytest.mark.parametrize("kind", [list, np.array, pandas.Series, pandas.Categorical])
def test_labels_may_be_left_out_and_may_be_names(kind):
    assert Outputs(logits=LOGITS).take(slice(1, 3)).labels is None
    labels = kind(["dog", "unknown", "cat", "dog"])
    named = Outputs(logits=np.eye(4, 3), labels=labels, classes=("cat", "owl", "dog"))
    assert named.labels.tolist() == [2, -1, 0, 2]
    one = Outputs(logits=[[1.0, 0.0]], labels=["unknown"], classes=("unknown", "a"))
    assert one.labels.tolist() == [0], "a class may be called unknown"
    for classes, words in (
        (("cat", "owl"), "got 'Dog'. Label samples of no known class 'unknown'"),
        ((), "got 'Dog'. Pass classes=, in the order of the columns of the logits"),
    ):
        with pytest.raises(ValueError, match=words):
            Outputs(logits=[[1.0, 0.0]], labels=["Dog"], classes=classes)


def test_joined_parts_share_names_and_head_and_have_ids_if_all_have():
    bare, named = Outputs(**GOOD), Outputs(**GOOD, **HEAD, classes="abc", ids=[*"abcd"])
    both = Outputs.concat(part for part in (bare, named))
    assert (both.classes, both.ids) == (("a", "b", "c"), None)
    assert both.weight is named.weight
    assert Outputs.concat([named, named.take([1])]).ids.tolist() == [*"abcdb"]
    assert named.take([2, 0]).ids.tolist() == ["c", "a"]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({"classes": "abc"}, {"classes": "cba"}, "parts must be of one network, got"),
        (HEAD, {"weight": np.zeros((3, 2))}, "of one network, got different weight"),
        ({}, {"features": None}, "all parts or for none, got 1 of 2 without"),
        ({"input_step": "a"}, {}, "of one network, got different input_step"),
    ],
)
def test_parts_of_different_networks_are_not_joined(first, second, words):
    parts = [Outputs(**GOOD | first), Outputs(**GOOD | second)]
    with pytest.raises(ValueError, match=rf"^Outputs\.concat: .*{words}"):
        Outputs.concat(parts)
    with pytest.raises(TypeError, match="parts must be Outputs, got int"):
        Outputs.concat([*parts, 1])
    with pytest.raises(ValueError, match="parts must be a non-empty list"):
        Outputs.concat([])


def probabilities(n=20, dtype=np.float64):
    return np.random.default_rng(0).dirichlet([0.3] * 5, n).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_probabilities_in_place_of_logits_are_warned_of(dtype):
    rows = probabilities(dtype=dtype)
    for logits in (rows, np.insert(rows, 2, 0, axis=1)):
        with pytest.warns(UserWarning, match=r"look like probab.*give numpy\.log"):
            Outputs(logits=logits)


@pytest.mark.parametrize(
    "logits",
    [
        np.log(probabilities()),  # a documented way to bring them
        np.eye(5)[np.arange(20) % 5],  # as in examples
        probabilities(7),  # too few to tell
        probabilities() * 1.02,
        probabilities() - 0.01,
        probabilities() - [0.1, -0.1, 0, 0, 0],  # they add up to 1, some are negative
        np.vstack([probabilities(), np.full((1, 5), 0.3)]),
    ],
)
def test_other_logits_are_not(logits):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Outputs(logits=logits)


@pytest.mark.parametrize("name", ["logits", "features", "labels"])
def test_masked_values_are_refused(name):
    values = np.ma.masked_array(GOOD[name])
    Outputs(**GOOD | {name: values})  # nothing is masked
    values[1] = np.ma.masked
    with pytest.raises(ValueError, match=f"{name} must be free of masked values"):
        Outputs(**GOOD | {name: values})


def test_one_logit_for_two_classes_takes_two_columns():
    z, labels = np.array([3.0, -2.0, 0.5]), [1, 0, 1]
    with pytest.raises(ValueError, match=r"below 1, .*numpy.stack\(\[-z, z\]"):
        Outputs(logits=z[:, None], labels=labels)
    odds = np.exp(np.stack([-z, z], axis=1) / 2)
    assert_allclose(odds[:, 1] / odds.sum(axis=1), 1 / (1 + np.exp(-z)))


def test_columns_of_a_table_are_in_the_order_of_the_classes():
    table = pandas.DataFrame(LOGITS, columns=["cat", "dog", "emu"])
    for classes in (["cat", "dog", "emu"], ["a", "b", "c"], []):
        assert Outputs(logits=table, classes=classes).classes == tuple(classes)
    with pytest.raises(ValueError, match="order of the columns of logits, got"):
        Outputs(logits=table, classes=["dog", "cat", "emu"])
