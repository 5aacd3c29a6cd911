"""Scores are checked once, with errors that teach, and survive files bit for bit."""

import copy
import pickle
import tracemalloc

import numpy as np
import pytest

from openset import ArtefactError, Scores, UndefinedMetricError, metrics
from openset.scores import need_known

GOOD = {"labels": [0, 1, -1], "predicted": [0, 1, 1], "known": [0.9, 1 / 3, -np.inf]}


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"known": [1.0, np.nan, 2.0]}, ValueError, "known must be free of NaN, got"),
        ({"known": [[1.0], [2.0], [3.0]]}, ValueError, "known must be one-dimensional"),
        ({"known": [1.0, 2.0]}, ValueError, "must have the same length"),
        ({"known": ["a", "b", "c"]}, TypeError, "known must be real numbers"),
        ({"known": [1j, 2.0, 3.0]}, TypeError, "known must be real numbers"),
        ({"labels": [0.0, 1.0, -1.0]}, TypeError, "labels must be integers"),
        ({"labels": ["a", "b", "c"]}, TypeError, "predicted must be strings where"),
        ({"labels": [True, False, True]}, TypeError, "labels must be integers"),
        ({"labels": [0, 1, -2]}, ValueError, "labels must be >= -1, got -2"),
        ({"predicted": [0, 1, -1]}, ValueError, "predicted must be >= 0, got -1"),
        ({"groups": ["a"]}, ValueError, "must have the same length"),
        ({"groups": [0.5, 1.5, 2.5]}, TypeError, "groups must be strings or integers"),
        ({"n_classes": 1}, ValueError, "below n_classes = 1, got 1"),
        ({"n_classes": 0}, ValueError, "n_classes must be an integer >= 1, got 0"),
        ({"labels": [], "predicted": [], "known": []}, ValueError, "non-empty"),
    ],
)
def test_bad_values_get_a_clear_error(change, error, words):
    with pytest.raises(error, match=r"^Scores: ") as caught:
        Scores(**(GOOD | change))
    assert words in str(caught.value)


def test_scores_are_frozen_and_their_arrays_read_only():
    known = np.array([0.9, 0.5, 0.1])
    scores = Scores(**(GOOD | {"known": known}))
    with pytest.raises(AttributeError, match="cannot assign to field 'known'"):
        scores.known = known
    with pytest.raises(ValueError, match="read-only"):
        scores.known[0] = 1
    known[0] = 0.8  # the caller's own array stays writable
    for name in ("is_unknown", "is_correct", "classes"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(scores, name)[0] = 1


def columns(n=4):
    return {
        "labels": np.array([0, 1, 1, -1] * (n // 4)),
        "predicted": np.array([0, 1, 0, 1] * (n // 4)),
        "known": np.array([0.9, 0.7, 0.4, 0.2] * (n // 4)),
        "groups": np.array(["a", "b", "c", "d"] * (n // 4)),
    }


@pytest.mark.parametrize("name", ["labels", "predicted", "known", "groups"])
def test_changing_the_callers_array_changes_no_scores(name):
    given = columns()
    scores = Scores(**given)
    before = getattr(scores, name).copy()
    given[name][:] = given[name][::-1].copy()
    assert (getattr(scores, name) == before).all()
    if name == "known":
        given[name][:] = np.nan
        assert metrics.auroc(scores) == 1.0  # that of the scores as they were given


@pytest.mark.parametrize("name", ["labels", "predicted", "known", "groups"])
def test_changing_the_base_of_a_view_changes_no_scores(name):
    given = columns(8)
    base = given[name]
    view = base[::2]
    view.flags.writeable = False  # read-only itself, but its base is not
    scores = Scores(**({n: column[:4] for n, column in given.items()} | {name: view}))
    before = getattr(scores, name).copy()
    base[:] = base[::-1].copy()
    assert (getattr(scores, name) == before).all()


def test_memory_that_nobody_can_change_is_not_copied():
    given = columns()
    for column in given.values():
        column.flags.writeable = False
    scores = Scores(**given)
    again = Scores(**{n: getattr(scores, n) for n in given})
    part = scores.take(slice(1, 3))
    for name, column in given.items():
        assert np.shares_memory(getattr(scores, name), column)
        assert np.shares_memory(getattr(again, name), column)
        assert np.shares_memory(getattr(part, name), column)
        with pytest.raises(ValueError, match="WRITEABLE"):
            getattr(scores, name).flags.writeable = True


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))],  # noqa: S301
)
def test_copies_cannot_be_changed_either(copied):
    scores = Scores(**columns())
    assert scores.is_unknown.any()  # computed before, copied as well
    again = copied(scores)
    for name in (*columns(), "is_unknown"):
        assert (getattr(again, name) == getattr(scores, name)).all()
        with pytest.raises(ValueError, match="read-only"):
            getattr(again, name)[0] = getattr(again, name)[1]


def test_a_memory_map_stays_a_view_of_its_file(tmp_path):
    np.save(tmp_path / "known.npy", np.array([0.9, 0.7, 0.4, 0.2]))
    known = np.load(tmp_path / "known.npy", mmap_mode="r+")
    scores = Scores(**(columns() | {"known": known}))
    assert np.shares_memory(scores.known, known)
    assert known.flags.writeable  # the caller's map is left as it is
    with pytest.raises(ValueError, match="read-only"):
        scores.known[0] = 1


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


def test_scores_are_keyword_only():
    with pytest.raises(TypeError, match="takes 1 positional argument"):
        Scores([0], [0], [1.0])


def test_classes_are_those_that_occur_unless_told():
    scores = Scores(labels=[7, -1], predicted=[7, 3], known=[1, 0])
    assert scores.classes.tolist() == [3, 7]
    told = Scores(labels=[1, -1], predicted=[1, 0], known=[1, 0], n_classes=4)
    assert told.classes.tolist() == [0, 1, 2, 3]
    huge = Scores(labels=[10**12, -1], predicted=[3, 3], known=[1, 0])
    assert huge.classes.tolist() == [3, 10**12]


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
@pytest.mark.parametrize("groups", [None, ["near", 'a, "quoted" one', "ümlaut"]])
def test_files_round_trip_bit_for_bit(tmp_path, suffix, groups):
    scores = Scores(**GOOD, groups=groups)
    again = Scores.load(scores.save(tmp_path / f"scores{suffix}"))
    for name in ("labels", "predicted", "known"):
        assert np.array_equal(getattr(again, name), getattr(scores, name))
    assert (again.groups is None) == (groups is None)
    if groups is not None:
        assert again.groups.tolist() == groups
    assert [p.name for p in tmp_path.iterdir()] == [f"scores{suffix}"]


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_the_number_of_classes_is_kept(tmp_path, suffix):
    scores = Scores(**GOOD, n_classes=9)
    assert Scores.load(scores.save(tmp_path / f"s{suffix}")).n_classes == 9


def test_a_pickled_archive_is_refused(tmp_path):
    path = tmp_path / "evil.npz"
    np.savez(path, labels=np.array([{}], dtype=object), predicted=[0], known=[1.0])
    with pytest.raises(ArtefactError, match="pickled objects, which are never loaded"):
        Scores.load(path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("scores.npz", b"not a zip file", "damaged or not a .npz archive"),
        ("scores.npz", b"PK\x03\x04 cut off", "damaged or not a .npz archive"),
        ("scores.npz", b"", "damaged or not a .npz archive"),
        ("scores.npz", b"\x93NUMPY\x01\x00", "damaged or not a .npz archive"),
        ("scores.csv", b"labels,predicted,known\n0,0,1\n0,0\n", "first in line 3"),
        ("scores.csv", b"", "equally long rows, got an empty file"),
        ("scores.csv", b"\xff\xfe\x00", "not a table of comma-separated text"),
        ("scores.csv", b"labels,predicted,known\n0,zero,1\n", "column predicted"),
        ("scores.csv", b"labels,predicted,known\n0.0,0,1\n", "must be integers"),
        ("scores.csv", b"labels,predicted,known\n0,0,1\n\n0,0\n", "first in line 4"),
        ("scores.csv", b"labels,predicted,known,known\n0,0,1,2\n", "got known several"),
        ("scores.csv", b"labels,known\n0,1\n", "missing predicted"),
        ("scores.csv", b"labels,predicted,known\n1.0,0,1\n", "got '1.0' in row 1"),
        ("scores.csv", b"labels;predicted;known\n0;0;0,5\n", "columns, got semicolons"),
        ("scores.csv", b"labels\tpredicted\tknown\n0\t0\t1\n", "columns, got tabs"),
        ("scores.csv", b"0,0,1.5\n1,1,2\n", "got numbers in its first line"),
        ("scores.parquet", b"PAR1 nonsense", "damaged or not Parquet"),
    ],
)
def test_damaged_files_get_a_clear_error(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ArtefactError, match=r"^Scores\.load: ") as caught:
        Scores.load(path)
    assert words in str(caught.value)


def test_outputs_in_place_of_scores_are_recognised(tmp_path):
    np.savez(tmp_path / "outputs.npz", logits=np.zeros((2, 2)), labels=[0, -1])
    with pytest.raises(ArtefactError, match="got outputs of a network"):
        Scores.load(tmp_path / "outputs.npz")


def test_what_is_wrong_inside_names_the_file(tmp_path):
    np.savez(tmp_path / "bad.npz", **(GOOD | {"known": np.full(3, np.nan)}))
    with pytest.raises(ValueError, match=r"Scores: known must be.*\nin .*bad\.npz"):
        Scores.load(tmp_path / "bad.npz")


def test_a_truncated_archive_is_refused(tmp_path):
    whole = Scores(**GOOD).save(tmp_path / "scores.npz").read_bytes()
    path = tmp_path / "cut.npz"
    for size in (len(whole) // 4, len(whole) // 2, len(whole) - 10):
        path.write_bytes(whole[:size])
        with pytest.raises(ArtefactError, match=r"cut\.npz is damaged or not a"):
            Scores.load(path)


def test_a_missing_file_and_an_unknown_ending_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        Scores.load(tmp_path / "none.npz")
    with pytest.raises(ArtefactError, match="must be a file of scores, got a folder"):
        Scores.load(tmp_path)
    with pytest.raises(ValueError, match=r"'.npz', '.csv', '.parquet'"):
        Scores(**GOOD).save(tmp_path / "scores.pkl")


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = Scores(**GOOD).save(tmp_path / "scores.npz")
    before = path.read_bytes()

    def broken(*args, **kwargs):
        msg = "disk full"
        raise OSError(msg)

    monkeypatch.setattr(np, "savez", broken)
    with pytest.raises(OSError, match="disk full"):
        Scores(**GOOD).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_decisions_reject_below_the_threshold():
    scores = Scores(**GOOD)
    assert scores.decided(1 / 3).tolist() == [0, 1, -1]
    with pytest.raises(ValueError, match="threshold must be a number that is not NaN"):
        scores.decided(float("nan"))


def test_concat_keeps_rows_and_refuses_a_mix_of_groups():
    scores = Scores(**GOOD)
    assert len(Scores.concat([scores, scores])) == 6
    with pytest.raises(ValueError, match="groups must be given for all parts"):
        Scores.concat([scores, Scores(**GOOD, groups=["a", "b", "c"])])
    with pytest.raises(ValueError, match="non-empty list"):
        Scores.concat([])


@pytest.mark.parametrize("rows", ["a,a,2\n,a,1\n", "0,0,2\n,0,1\n", "a,a,2\na,,1\n"])
def test_an_empty_cell_is_no_class(tmp_path, rows):
    path = tmp_path / "scores.csv"
    path.write_text(f"labels,predicted,known\n{rows}")
    with pytest.raises(ValueError, match="every sample, got none in 1 of 2 "):
        Scores.load(path)


def test_names_may_look_like_missing_values(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("labels,predicted,known\nNone,nan,2\nNA,None,1\nunknown,NA,0\n")
    scores = Scores.load(path)
    assert scores.class_names == ("NA", "None", "nan")
    assert scores.labels.tolist() == [1, 0, -1]


def test_a_spreadsheets_mark_and_blank_lines_are_no_data(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_bytes(b"\xef\xbb\xbflabels,predicted,known\r\n0,0,2\r\n\r\n-1,0,1\r\n")
    assert Scores.load(path).labels.tolist() == [0, -1]


@pytest.mark.parametrize(
    ("n_classes", "words"),
    [(9, None), ([9, 9, 9], None), (2.7, "got [2.7]"), ([3, 9, 9], "got [3, 9]")],
)
def test_the_number_of_classes_in_a_file_is_one_integer(tmp_path, n_classes, words):
    path = tmp_path / "scores.npz"
    np.savez(path, **GOOD, n_classes=n_classes)
    if words is None:
        assert Scores.load(path).n_classes == 9
        return
    with pytest.raises(ArtefactError, match="n_classes must be one integer") as caught:
        Scores.load(path)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        ([], ValueError, "non-empty, got a selection of no samples"),
        ([False] * 3, ValueError, "non-empty, got a selection of no samples"),
        (slice(2, 2), ValueError, "non-empty, got a selection of no samples"),
        ([True, False], ValueError, "a mask of 3 samples, got one of 2"),
        (1, TypeError, "a slice, or a vector of indices"),
        ([0.0, 1.0], TypeError, "a slice, or a vector of indices"),
    ],
)
def test_what_selects_no_rows_is_refused(rows, error, words):
    with pytest.raises(error, match=r"^Scores\.take: rows must be ") as caught:
        Scores(**GOOD).take(rows)
    assert words in str(caught.value)


def test_parts_may_come_from_a_generator_and_must_be_scores():
    scores = Scores(**GOOD, n_classes=np.int64(4))
    both = Scores.concat(part for part in (scores, scores))
    assert (len(both), type(both.n_classes)) == (6, int)
    with pytest.raises(
        TypeError, match=r"Scores\.concat: scores must be Scores, got i"
    ):
        Scores.concat([scores, 1])


def test_another_knownness_keeps_the_samples():
    one = Scores(**GOOD)
    other = one.with_known([1.0, 2.0, 3.0])
    assert other.known.tolist() == [1.0, 2.0, 3.0]
    assert other.labels.tolist() == one.labels.tolist()
    assert one.known.tolist() == GOOD["known"]


def test_knowns_are_asked_for_by_name():
    unknown = Scores(labels=[-1], predicted=[0], known=[0.5])
    with pytest.raises(UndefinedMetricError, match="accuracy"):
        need_known("accuracy", unknown)
    need_known("accuracy", Scores(**GOOD))


def test_masked_scores_are_refused():
    known = np.ma.masked_equal([1.0, 2.0, 9.0], 9.0)
    with pytest.raises(ValueError, match="known must be free of masked values, got 1 "):
        Scores(labels=[0, 1, -1], predicted=[0, 1, 1], known=known)


@pytest.mark.parametrize(
    ("cells", "named"),
    [
        ("0,0,1.5\n1,0,\n", r"column known must be numbers, got '' in row 2"),
        ("0,0.0,1\n1,0,2\n", r"column predicted must be integers, got '0\.0' in row 1"),
    ],
)
def test_a_cell_that_cannot_be_read_is_named(cells, named, tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text(f"labels,predicted,known\n{cells}")
    with pytest.raises(ArtefactError, match=named):
        Scores.load(path)
