"""Labels may be names of classes; which name means unknown is never guessed wrongly."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from openset import ArtefactError, Outputs, Scores, metrics
from tests.extras import pandas

LABELS = ["dog", "ant", "unknown", "dog", "bee", "unknown"]
PREDICTED = ["dog", "bee", "dog", "ant", "bee", "zebra"]
KNOWN = [0.9, 0.5, 0.4, 0.3, 0.8, 0.1]


def named(**changes):
    fields = {"labels": LABELS, "predicted": PREDICTED, "known": KNOWN}
    return Scores(**(fields | changes))


def test_names_get_the_numbers_of_their_alphabetical_order():
    scores = named()
    assert scores.class_names == ("ant", "bee", "dog", "zebra")
    assert_array_equal(scores.labels, [2, 0, -1, 2, 1, -1])
    assert_array_equal(scores.predicted, [2, 1, 2, 0, 1, 3])


def test_given_names_keep_their_order():
    names = ("zebra", "dog", "cow", "bee", "ant")
    scores = named(class_names=names)
    assert scores.class_names == names
    assert [names[i] for i in scores.predicted] == PREDICTED
    assert_array_equal(scores.labels, [1, 4, -1, 1, 3, -1])


def test_metrics_do_not_depend_on_names():
    scores = named()
    order = {"dog": 0, "ant": 1, "bee": 2, "zebra": 3, "unknown": -1}
    plain = Scores(
        labels=[order[x] for x in LABELS],
        predicted=[order[x] for x in PREDICTED],
        known=KNOWN,
    )
    assert dict(metrics.evaluate(scores, 0.35)) == pytest.approx(
        dict(metrics.evaluate(plain, 0.35))
    )


@pytest.mark.parametrize("name", ["oos", "OOD", "Out-of-Scope", "other", "-1", "Unk"])
def test_a_class_that_may_mean_unknown_is_asked_about(name):
    labels = [name if x == "unknown" else x for x in LABELS]
    with pytest.raises(ValueError, match="Scores: unknown_label must be given") as said:
        named(labels=labels)
    assert f"unknown_label={name!r}" in str(said.value)
    assert named(labels=labels, unknown_label=name).n_unknown == 2
    assert named(labels=labels, unknown_label="unknown").n_unknown == 0


@pytest.mark.parametrize("unknown", [10, "10", -2, np.int64(255)])
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.uint64])
def test_a_number_may_label_unknown_samples(unknown, dtype):
    if int(unknown) < 0 and dtype is not np.int64:
        return
    labels = np.array([0, 9, int(unknown), 3, int(unknown)], dtype=dtype)
    scores = Scores(
        labels=labels,
        predicted=[0, 9, 0, 1, 2],
        known=np.arange(5.0),
        unknown_label=unknown,
    )
    assert scores.labels.tolist() == [0, 9, -1, 3, -1]
    assert labels[2] == int(unknown), "the caller's array is not changed"


def test_minus_one_may_be_said_to_label_unknown_samples():
    scores = Scores(labels=[0, -1], predicted=[0, 0], known=[1, 0], unknown_label="-1")
    assert scores.labels.tolist() == [0, -1]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"predicted": LABELS}, ValueError, "predicted must be a known class"),
        ({"predicted": [0] * 6}, TypeError, "predicted must be strings"),
        ({"labels": [*LABELS[:-1], 3]}, TypeError, "labels must be strings"),
        ({"class_names": ["ant", "bee"]}, ValueError, "must be all names that occur"),
        ({"labels": [*LABELS[:-1], ""]}, ValueError, "got none in 1 of 6 samples"),
        ({"labels": [*LABELS[:-1], "dog "]}, ValueError, "got 'dog' and 'dog '"),
        ({"labels": [0] * 6}, TypeError, "predicted must be integers"),
        (
            {"labels": [0, -1], "predicted": [0, 0], "unknown_label": "oos"},
            ValueError,
            "unknown_label must be an integer where labels are numbers, got 'oos'",
        ),
        (
            {"labels": [0, -1], "predicted": [0, 0], "unknown_label": 10},
            ValueError,
            "unknown_label must be -1 where labels have it",
        ),
        (
            {"labels": [0, 10], "predicted": [0, 10], "unknown_label": 10},
            ValueError,
            "predicted must be a known class for every sample, got 10",
        ),
        (
            {"labels": [0, 1], "predicted": [0, 1], "unknown_label": True},
            ValueError,
            "unknown_label must be an integer where labels are numbers, got True",
        ),
        (
            {"labels": [2, -1], "predicted": [0, 0], "class_names": ["ant", "bee"]},
            ValueError,
            "got 2 names and class 2",
        ),
        (
            {"labels": [0, -1], "predicted": [0, 0], "class_names": ["a", "a"]},
            ValueError,
            "class_names must be different strings",
        ),
    ],
)
def test_bad_names_get_a_clear_error(change, error, words):
    if len(change.get("labels", LABELS)) == 2:
        change = change | {"known": [1.0, 2.0]}
    with pytest.raises(error, match=r"^Scores: ") as said:
        named(**change)
    assert words in str(said.value)


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_names_survive_files(tmp_path, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    scores = named()
    found = Scores.load(scores.save(tmp_path / f"scores.{ending}"))
    assert found.class_names == scores.class_names
    for field in ("labels", "predicted", "known"):
        assert_array_equal(getattr(found, field), getattr(scores, field))


def test_a_class_called_unknown_is_not_written_where_it_would_be_lost(tmp_path):
    labels = ["oos" if x == "unknown" else x for x in LABELS]
    predicted = ["unknown" if x == "dog" else x for x in PREDICTED]
    scores = named(labels=labels, predicted=predicted, unknown_label="oos")
    with pytest.raises(ValueError, match=r"\.npz for a class that is called 'unknown'"):
        scores.save(tmp_path / "scores.csv")
    assert Scores.load(scores.save(tmp_path / "s.npz")).class_names == (
        scores.class_names
    )


def test_equal_names_have_equal_numbers_after_concat():
    first = named()
    second = Scores(labels=["cow", "dog"], predicted=["dog", "dog"], known=[1.0, 2.0])
    both = Scores.concat([first, second, second.take([1])])
    names = both.class_names
    assert names is not None
    assert [names[i] for i in both.predicted] == [*PREDICTED, "dog", "dog", "dog"]
    assert [names[i] if i >= 0 else "unknown" for i in both.labels] == [
        *LABELS,
        "cow",
        "dog",
        "dog",
    ]
    with pytest.raises(ValueError, match="class_names must be given for all"):
        Scores.concat([first, Scores(labels=[0], predicted=[0], known=[1.0])])


def test_columns_of_a_foreign_file_are_named_by_the_caller(tmp_path):
    path = tmp_path / "theirs.csv"
    path.write_text("y,guess,energy\ncat,cat,-3.5\noos,cat,1.25\n", encoding="utf-8")
    columns = {"labels": "y", "predicted": "guess", "known": "energy"}
    found = Scores.load(
        path, columns=columns, unknown_label="oos", higher_is_unknown=True
    )
    assert_array_equal(found.labels, [0, -1])
    assert_array_equal(found.known, [3.5, -1.25])
    with pytest.raises(ArtefactError, match="must have the column score for known"):
        Scores.load(path, columns=columns | {"known": "score"})
    with pytest.raises(ValueError, match="columns must be one of"):
        Scores.load(path, columns={"label": "y"})
    with pytest.raises(ValueError, match="unknown_label must be given"):
        Scores.load(path, columns=columns)


def test_numbers_with_the_word_unknown_are_names(tmp_path):
    path = tmp_path / "mixed.csv"
    path.write_text("labels,predicted,known\n0,0,1\nunknown,10,0\n", encoding="utf-8")
    found = Scores.load(path)
    assert found.class_names == ("0", "10")
    assert_array_equal(found.labels, np.array([0, -1]))


def test_parts_with_the_same_names_keep_their_numbers():
    one = Scores(
        labels=["b", "a", "unknown"], predicted=["b", "b", "a"], known=[3, 2, 1]
    )
    both = Scores.concat([one, one])
    assert both.class_names == one.class_names
    assert both.labels.tolist() == one.labels.tolist() * 2


@pytest.mark.parametrize("kind", [list, np.array, pandas.Series, pandas.Categorical])
def test_labels_of_outputs_may_be_names_of_their_classes(kind):
    labels = kind(["dog", "unknown", "cat", "dog"])
    outputs = Outputs(logits=np.eye(4, 3), labels=labels, classes=("cat", "owl", "dog"))
    assert outputs.labels.tolist() == [2, -1, 0, 2]


def test_a_class_may_be_called_unknown():
    outputs = Outputs(logits=[[1.0, 0.0]], labels=["unknown"], classes=("unknown", "a"))
    assert outputs.labels.tolist() == [0]


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        (("cat", "owl"), "got 'Dog'. Label samples of no known class 'unknown'"),
        ((), "got 'Dog'. Pass classes=, in the order of the columns of the logits"),
    ],
)
def test_a_label_that_is_no_class_is_not_taken_for_unknown(classes, words):
    with pytest.raises(ValueError, match=words):
        Outputs(logits=[[1.0, 0.0]], labels=["Dog"], classes=classes)
