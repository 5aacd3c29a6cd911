"""Scores are checked once, with errors that teach, and never change."""

import copy
import pickle
import tracemalloc

import numpy as np
import pytest

from openset import Outputs, Scores, UndefinedMetricError
from openset.scores import need_known
from tests.extras import pandas

GOOD = {"labels": [0, 1, -1], "predicted": [0, 1, 1], "known": [0.9, 1 / 3, -np.inf]}
NAMED = {"labels": ["dog", "ant", "unknown"], "predicted": ["dog", "bee", "dog"]}


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"known": [1.0, np.nan, 2.0]}, ValueError, "known must be free of NaN, got"),
        ({"known": [[1.0], [2.0], [3.0]]}, ValueError, "known must be one-dimensional"),
        ({"known": [1.0, 2.0]}, ValueError, "must have the same length"),
        ({"known": ["a", "b", "c"]}, TypeError, "known must be real numbers"),
        ({"known": [1j, 2.0, 3.0]}, TypeError, "known must be real numbers"),
        ({"known": np.ma.masked_equal([1.0, 2, 9], 9)}, ValueError, "free of masked"),
        ({"labels": [0.0, 1.0, -1.0]}, TypeError, "labels must be integers"),
        ({"labels": [True, False, True]}, TypeError, "labels must be integers"),
        ({"labels": [0, 1, -2]}, ValueError, "labels must be >= -1, got -2"),
        ({"labels": np.uint8([0, 1, 255])}, ValueError, "got 255, which is -1 as uin"),
        ({"labels": np.uint64([0, 1, 2**63])}, ValueError, "labels must be >= -1"),
        ({"predicted": [0, 1, -1]}, ValueError, "predicted must be >= 0, got -1"),
        ({"groups": ["a"]}, ValueError, "must have the same length"),
        ({"groups": [0.5, 1.5, 2.5]}, TypeError, "groups must be strings or integers"),
        ({"groups": ["a", "b", np.nan]}, TypeError, "groups must be all strings or"),
        ({"ids": ["a", None, "b"]}, TypeError, "ids must be all strings or all int"),
        ({"ids": [["a"], ["b"], ["c"]]}, ValueError, "ids must be one-dimensional"),
        ({"n_classes": 1}, ValueError, "below n_classes = 1, got 1"),
        ({"n_classes": 0}, ValueError, "n_classes must be an integer >= 1, got 0"),
        ({"labels": [], "predicted": [], "known": []}, ValueError, "non-empty"),
        ({"labels": ["a", "b", "c"]}, TypeError, "predicted must be strings where"),
        (NAMED | {"labels": ["dog", "ant", 3]}, TypeError, "labels must be all string"),
        (NAMED | {"labels": ["dog", "ant", ""]}, ValueError, "got none in row 2"),
        (NAMED | {"predicted": NAMED["labels"]}, ValueError, "predicted must be >= 0"),
        (NAMED | {"class_names": ["ant", "bee"]}, ValueError, "names that are in cl"),
        ({"class_names": ["a"]}, ValueError, "got 1 different ones and class 1"),
        ({"class_names": ["a", "a"]}, ValueError, "class_names must be different str"),
        ({"unknown_label": 10}, ValueError, "unknown_label must be -1 where labels"),
        (
            {"labels": [0, 1, 9], "predicted": [0, 9, 1], "unknown_label": 9},
            ValueError,
            "predicted must be a known class for every sample, not 9",
        ),
    ],
)
def test_bad_values_get_a_clear_error(change, error, words):
    with pytest.raises(error, match=r"^Scores: ") as caught:
        Scores(**(GOOD | change))
    assert words in str(caught.value)


def columns(n=4):
    return {
        "labels": np.array([0, 1, 1, -1] * (n // 4)),
        "predicted": np.array([0, 1, 0, 1] * (n // 4)),
        "known": np.array([0.9, 0.7, 0.4, 0.2] * (n // 4)),
        "groups": np.array(["a", "b", "c", "d"] * (n // 4)),
    }


@pytest.mark.parametrize("name", columns())
def test_changing_the_callers_array_or_its_base_changes_no_scores(name):
    given = columns(8)
    base = given[name]
    view = base[::2]
    view.flags.writeable = False  # read-only itself, but its base is not
    for one in (given, {n: c[:4] for n, c in given.items()} | {name: view}):
        scores = Scores(**one)
        before = getattr(scores, name).copy()
        base[:] = base[::-1].copy()
        assert (getattr(scores, name) == before).all()


def test_memory_that_nobody_can_change_is_not_copied(tmp_path):
    given = columns()
    for column in given.values():
        column.flags.writeable = False
    scores = Scores(**given)
    again = Scores(**{n: getattr(scores, n) for n in given})
    for name, column in given.items():
        for one in (scores, again, scores.take(slice(1, 3))):
            assert np.shares_memory(getattr(one, name), column)
        with pytest.raises(ValueError, match="WRITEABLE"):
            getattr(scores, name).flags.writeable = True
    np.save(tmp_path / "known.npy", given["known"])
    mapped = np.load(tmp_path / "known.npy", mmap_mode="r+")
    assert np.shares_memory(Scores(**given | {"known": mapped}).known, mapped)


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))],  # noqa: S301
)
def test_scores_and_their_copies_cannot_be_changed(copied):
    scores = Scores(**columns())
    assert scores.is_unknown.any()  # computed before, copied as well
    again = copied(scores)
    for name in (*columns(), "is_unknown", "is_correct", "classes"):
        assert (getattr(again, name) == getattr(scores, name)).all()
        with pytest.raises(ValueError, match="read-only"):
            getattr(again, name)[0] = getattr(again, name)[1]
    with pytest.raises(AttributeError, match="cannot assign to field 'known'"):
        scores.known = again.known


def test_scores_made_of_scores_copy_no_column_twice():
    scores = Scores(**columns(4000))
    n_bytes = sum(getattr(scores, n).nbytes for n in columns())
    rows = np.arange(4000)[::-1].copy()
    for make in (lambda: scores.take(rows), lambda: Scores.concat([scores])):
        make()  # what is computed once and kept is not counted
        tracemalloc.start()
        kept = make()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(kept) == 4000
        assert n_bytes <= peak < 1.5 * n_bytes


@pytest.mark.parametrize(
    ("label", "told", "classes"),
    [(7, None, [3, 7]), (4, 6, [0, 1, 2, 3, 4, 5]), (10**12, None, [3, 10**12])],
)
def test_classes_are_those_that_occur_unless_told(label, told, classes):
    scores = Scores(labels=[label, -1], predicted=[3, 3], known=[1, 0], n_classes=told)
    assert scores.classes.tolist() == classes


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([], ValueError),
        ([False] * 3, ValueError),
        (slice(2, 2), ValueError),
        (1, ValueError),
        (np.ma.array([0, 1, 2], mask=[0, 1, 0]), ValueError),
        ([True, False], IndexError),
        ([0.0, 1.0], IndexError),
        ([3], IndexError),
    ],
)
def test_what_selects_no_rows_is_refused(rows, error):
    for one in (Scores(**GOOD), Outputs(logits=np.eye(3))):
        with pytest.raises(error, match=r"rows must be|ind"):
            one.take(rows)


def test_parts_are_joined_whatever_the_order_of_their_classes():
    scores = Scores(**GOOD, n_classes=np.int64(4))
    both = Scores.concat(part for part in (scores, scores))
    assert (len(both), both.n_classes, type(both.n_classes)) == (6, 4, int)
    first = Scores(**NAMED, known=[3, 2, 1])
    second = Scores(labels=["cow", "dog"], predicted=["dog", "dog"], known=[1.0, 2.0])
    named = Scores.concat([first, second, second.take([1])])
    words = [*named.class_names, "unknown"]
    assert [words[i] for i in named.predicted] == [*NAMED["predicted"], *["dog"] * 3]
    assert [words[i] for i in named.labels] == [*NAMED["labels"], "cow", "dog", "dog"]
    for parts, told in (
        ([scores, Scores(**GOOD, groups=["a", "b", "c"])], "groups must be given for"),
        ([first, Scores(**GOOD)], "class_names must be given for all"),
        ([], "non-empty list"),
        ([scores, 1], "concat: scores must be Scores, got int"),
    ):
        with pytest.raises((ValueError, TypeError), match=told):
            Scores.concat(parts)


def test_decisions_reject_below_the_threshold():
    scores = Scores(**GOOD)
    assert scores.decided(1 / 3).tolist() == [0, 1, -1]
    assert scores.with_known([1.0, 2.0, 3.0]).decided(2).tolist() == [-1, 1, 1]
    with pytest.raises(ValueError, match="threshold must be a number"):
        scores.decided(float("nan"))
    with pytest.raises(UndefinedMetricError, match="accuracy"):
        need_known("accuracy", scores.take([2]))


def test_names_get_the_numbers_of_their_order():
    scores = Scores(**NAMED, known=[3, 2, 1])
    assert scores.class_names == ("ant", "bee", "dog")
    assert scores.labels.tolist() == [2, 0, -1]
    assert scores.predicted.tolist() == [2, 1, 2]
    names = ("zebra", "dog", "bee", "ant")
    given = Scores(**NAMED, known=[3, 2, 1], class_names=names)
    assert given.class_names == names
    assert [names[i] for i in given.predicted] == NAMED["predicted"]
    assert given.labels.tolist() == [1, 3, -1]


@pytest.mark.parametrize(
    ("unknown", "dtype"),
    [(10, np.int64), ("10", np.uint8), (-2, np.int64), (np.int64(255), np.uint8)],
)
def test_a_number_or_a_name_may_label_unknown_samples(unknown, dtype):
    labels = np.array([0, 9, int(unknown)]).astype(dtype)
    others = {"predicted": [0, 9, 0], "known": [3.0, 2.0, 1.0]}
    scores = Scores(labels=labels, **others, unknown_label=unknown)
    assert scores.labels.tolist() == [0, 9, -1]
    assert labels[2] == int(unknown), "the caller's array is not changed"
    assert Scores(**GOOD, unknown_label="-1").n_unknown == 1
    given = NAMED | {"labels": ["dog", "oos", "unknown"], "known": [3, 2, 1]}
    named = Scores(**given, unknown_label="oos")
    assert named.class_names == ("bee", "dog", "unknown")
    assert named.labels.tolist() == [1, -1, 2]


def test_labels_of_256_classes_fit_into_8_bits():
    every = np.arange(256, dtype=np.uint8)
    scores = Scores(labels=every, predicted=every, known=np.zeros(256))
    assert scores.n_unknown == 0
    assert Outputs(features=np.ones((256, 1)), labels=every).labels.max() == 255


def test_rows_of_pandas_in_another_order_do_not_belong_together():
    columns = {n: pandas.Series(v, index=["x", "y", "z"]) for n, v in GOOD.items()}
    assert Scores(**columns).n_known == 2
    by_score = columns["known"].sort_values()
    with pytest.raises(ValueError, match="known must be in the order of labels"):
        Scores(**columns | {"known": by_score})
    Scores(**columns | {"known": by_score.to_numpy()})
    Scores(**columns | {"known": by_score.reset_index(drop=True)})
    table = pandas.DataFrame(np.eye(3), index=["z", "y", "x"])
    with pytest.raises(ValueError, match="labels must be in the order of logits"):
        Outputs(logits=table, labels=columns["labels"])
    Outputs(logits=table.loc[["x", "y", "z"]], labels=columns["labels"])


@pytest.mark.parametrize("kind", [Scores, Outputs])
def test_ids_with_and_without_a_sign_are_not_rounded(kind):
    rows = {"labels": [0], "predicted": [0], "known": [1.0]}
    rows = rows if kind is Scores else {"logits": [[1.0, 0.0]]}
    parts = [kind(**rows, ids=np.array([7], dtype)) for dtype in (np.int64, np.uint64)]
    with pytest.raises(TypeError, match="ids must be strings or integers, got dtype"):
        kind.concat(parts)
