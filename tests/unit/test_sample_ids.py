"""Samples are told by their ids: in whatever order scores are, the tests are right."""

import warnings
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from openset import Outputs, PairingWarning, Rejector, Scores, detectors, metrics, stats
from openset.scores import seems_reordered

RNG = np.random.default_rng(0)
N = 90
IDS = np.array([f"img_{i:03d}.png" for i in RNG.permutation(N)])
LABELS = np.repeat([0, 1, -1], N // 3)
GROUPS = np.where(LABELS < 0, "far", "home")
KNOWN = RNG.normal(size=N) + (LABELS >= 0)
PREDICTED = RNG.integers(0, 2, N)
SHUFFLED = RNG.permutation(N)


def two_detectors(ids=IDS):
    a = Scores(labels=LABELS, predicted=PREDICTED, known=KNOWN, groups=GROUPS, ids=ids)
    return a, a.with_known(KNOWN + np.random.default_rng(1).normal(size=N))


def outputs(ids=IDS):
    logits = np.random.default_rng(1).normal(size=(N, 2))
    return Outputs(logits=logits, labels=LABELS, groups=GROUPS, ids=ids)


@pytest.mark.parametrize("metric", ["openauc", "auroc", "fpr_at_tpr", "accuracy"])
@pytest.mark.parametrize("ids", [IDS, np.arange(N), np.arange(N).astype(np.uint8)])
def test_a_shuffled_side_changes_no_bit_of_a_comparison(metric, ids):
    a, b = two_detectors(ids)
    wanted = stats.compare(a, b, metric, resamples=50)
    assert stats.compare(a, b.take(SHUFFLED), metric, resamples=50) == wanted
    plain = [replace(one, ids=None) for one in (a, b)]
    assert stats.compare(*plain, metric, resamples=50) == wanted
    # Ids are text in .csv files; those of another kind are the same as text.
    text = replace(b, ids=b.ids.astype(np.str_)).take(SHUFFLED)
    assert stats.compare(a, text, metric, resamples=50) == wanted


def test_without_ids_the_order_counts_and_a_shuffle_is_told():
    a, b = two_detectors()
    b = replace(b, ids=None)  # one side without ids is as none with
    with pytest.raises(ValueError, match=r"^compare: b must be of the same samples in"):
        stats.compare(a, b.take(SHUFFLED))
    with pytest.raises(ValueError, match="got 89 samples instead of 90"):
        stats.compare(a, b.take(slice(1, None)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stats.compare(a, b)
    within = np.lexsort((SHUFFLED, a.is_unknown, a.labels != 0))  # labels stay
    assert (b.labels[within] == a.labels).all()
    with pytest.warns(PairingWarning, match="in different orders?") as caught:
        stats.compare(a, b.take(within))
    assert caught[0].filename == __file__
    other = replace(b, predicted=1 - b.predicted)
    assert not seems_reordered(other, a)  # another network
    assert not seems_reordered(two_detectors()[1].take(within), a)  # told by ids


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.arange(3, N), f"none for 3 of 90 ids ('{IDS[0]}' and '{IDS[1]}', …)"),
        (np.arange(1, N)[::-1], f"none for 1 of 90 ids ('{IDS[0]}')"),
        (np.r_[0, 0:N], "some of its ids several times"),
        (np.r_[0, 2, 2, 3:N], f"none for 1 of 90 ids ('{IDS[1]}')"),
    ],
)
def test_other_samples_are_counted_and_named(rows, words):
    a, b = two_detectors()
    with pytest.raises(ValueError, match=r"^compare: b must be of the same ") as caught:
        stats.compare(a, b.take(rows))
    assert words in str(caught.value)


def test_additional_and_renamed_samples_are_named_too():
    a, b = two_detectors()
    with pytest.raises(ValueError, match=rf"got 2 with other ids \('{IDS[4]}' and '"):
        stats.compare(a.take(np.r_[0:4, 6:N]), b)
    renamed = replace(b, ids=np.where(IDS[7] == IDS, "new.png", IDS))
    wanted = rf"none for 1 of 90 ids \('{IDS[7]}'\) and 1 with other ids \('new.png'\)"
    with pytest.raises(ValueError, match=wanted) as caught:
        stats.compare(a, renamed)
    assert "leave ids out: Scores.load(path, columns={'ids': ''})" in str(caught.value)


def test_one_id_has_one_label():
    a, b = two_detectors()
    labels = np.where(IDS[5] == IDS, 1, LABELS)
    with pytest.raises(ValueError, match=r"^compare: labels of b must be those of a"):
        stats.compare(a, replace(b, labels=labels))
    got = f"for 1 of 90 ids, such as 1 instead of 0 for '{IDS[5]}'"
    with pytest.raises(ValueError, match=got):
        stats.compare(a, replace(b, labels=labels).take(SHUFFLED))


def test_repeated_ids_do_no_harm_until_they_have_to_tell_samples():
    ids = np.where(np.arange(N) < 2, "same", IDS)  # beginnings of texts, bare names
    a, b = two_detectors(ids)
    wanted = stats.compare(a, b)
    assert wanted == stats.compare(*(replace(one, ids=None) for one in (a, b)))
    with pytest.raises(ValueError, match=r"ids of a and b must be .* got 'same' sev"):
        stats.compare(a, b.take(SHUFFLED))

    # Here it is twice in a and once in b, which has another one instead.
    a, b = a.take([0, 1, 2]), two_detectors()[1].take([5, 2, 1])
    b = replace(b, ids=[IDS[5], IDS[2], "same"])
    with pytest.raises(ValueError, match=r"ids of a and b must be .* got 'same' sev"):
        stats.compare(a, b)


@pytest.mark.parametrize("ids", [None, list("wxyz")])
def test_classes_with_names_on_one_side_are_told_by_their_numbers(ids):
    columns = {"predicted": [0, 0, 1, 1], "known": [4, 3, 2, 1], "ids": ids}
    plain = Scores(labels=[0, 1, -1, -1], **columns)
    named = replace(plain, class_names=("cat", "fox"))
    assert named.in_order_of(plain) is named
    assert plain.in_order_of(named) is plain
    other = replace(plain, labels=[1, 1, -1, -1])
    for one, two in ((named, other), (other, named)):
        with pytest.raises(ValueError, match=r"different labels in 1|for 1 of 4 ids"):
            one.in_order_of(two)


@pytest.mark.parametrize("other", ["ape", "yak"])  # the first or the last of all
def test_classes_of_one_name_have_one_number(other):
    labels, ids = ["cat", "fox", "unknown", "unknown"], list("wxyz")
    a = Scores(labels=labels, predicted=["cat"] * 4, known=[4, 3, 2, 1], ids=ids)
    b = Scores(labels=labels, predicted=[other] * 4, known=[4, 3, 2, 1], ids=ids)
    assert a.class_names != b.class_names
    wanted = stats.compare(a, b)
    assert (wanted.a, wanted.b) == (0.5, 0)
    assert stats.compare(a, b.take([3, 0, 2, 1])) == wanted
    names = ["dog" if name == "cat" else name for name in b.class_names]
    dog = replace(b, class_names=names)
    with pytest.raises(ValueError, match="such as 'dog' instead of 'cat' for 'w'"):
        stats.compare(a, dog)


def test_scores_are_brought_into_an_order_by_hand():
    a, b = two_detectors()
    assert b.in_order_of(a) is b
    again = b.take(SHUFFLED).in_order_of(a)
    for name in ("labels", "predicted", "known", "groups", "ids"):
        assert np.array_equal(getattr(again, name), getattr(b, name))
    with pytest.raises(TypeError, match=r"^Scores\.in_order_of: scores must be Scores"):
        a.in_order_of(IDS)
    with pytest.raises(ValueError, match="these scores must be of the same samples as"):
        a.take([0, 1]).in_order_of(a)


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
@pytest.mark.parametrize("ids", [IDS, np.array([f'a, "{i}"\n' for i in range(N)])])
def test_files_keep_ids(tmp_path, suffix, ids):
    a, _ = two_detectors(ids)
    again = Scores.load(a.save(tmp_path / f"s{suffix}"))
    assert again.ids.tolist() == ids.tolist()
    assert again.in_order_of(a) is again


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
def test_numbers_are_ids_too(tmp_path, suffix):
    ids = np.arange(N, dtype=np.uint64) + np.uint64(2**63)  # floats would round them
    a, _ = two_detectors(ids)
    again = Scores.load(a.save(tmp_path / f"s{suffix}"))
    assert again.ids.astype(np.str_).tolist() == a.ids.astype(np.str_).tolist()
    assert again.take(SHUFFLED).in_order_of(a).known.tolist() == KNOWN.tolist()


def test_files_without_ids_have_no_column_for_them(tmp_path):
    a = replace(two_detectors()[0], ids=None)
    with zipfile.ZipFile(a.save(tmp_path / "s.npz")) as archive:
        names = archive.namelist()
    assert names == [f"{n}.npy" for n in ("labels", "predicted", "known", "groups")]
    header = a.save(tmp_path / "s.csv").read_text().partition("\n")[0]
    assert header == "labels,predicted,known,groups"
    assert Scores.load(tmp_path / "s.csv").ids is None


@pytest.mark.parametrize(
    ("column", "cells", "columns", "expected"),
    [
        ("id", "ab", {}, ["a", "b"]),
        ("ids", "ab", {}, ["a", "b"]),
        ("file", "ab", {}, None),
        ("file", "ab", {"ids": "file"}, ["a", "b"]),
        ("file", "aa", {"ids": "file"}, ["a", "a"]),  # it was asked for
        ("id", "ab", {"ids": ""}, None),
        ("ids", "ab", {"ids": ""}, None),
        ("id", "aa", {}, None),  # of a patient: it tells no samples
        ("id", ["a", ""], {}, None),
        ("id", "ab", {"groups": "id"}, None),
    ],
)
def test_a_strangers_column_of_ids_just_works(
    tmp_path, column, cells, columns, expected
):
    path = tmp_path / "theirs.csv"
    rows = "".join(f"{cell},0,0,1\n" for cell in cells)
    path.write_text(f"{column},labels,predicted,known\n{rows}")
    found = Scores.load(path, columns=columns)
    assert (None if found.ids is None else found.ids.tolist()) == expected


@pytest.mark.parametrize(
    ("cells", "is_used"),
    [([7, 8], True), ([0.5, 1.5], False), (["a", None], False), ([[1], [2]], False)],
)
def test_columns_of_other_kinds_are_ids_if_they_can_be(tmp_path, cells, is_used):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"labels": [0, -1], "predicted": [0, 0], "known": [2.0, 1.0]}
    parquet.write_table(pa.table({**columns, "id": cells}), tmp_path / "s.parquet")
    found = Scores.load(tmp_path / "s.parquet").ids
    assert (found is not None) == is_used
    if is_used:
        assert found.tolist() == cells
    np.savez(tmp_path / "s.npz", **columns, id=np.arange(5))  # of something else
    assert Scores.load(tmp_path / "s.npz").ids is None


@pytest.mark.parametrize(
    ("ids", "error", "words"),
    [
        (["a"], ValueError, "must have the same length"),
        ([0.5, 1.5, 2.5], TypeError, "ids must be strings or integers"),
        ([["a"], ["b"], ["c"]], ValueError, "ids must be one-dimensional"),
        (["a", None, "c"], TypeError, "ids must be strings or integers"),
    ],
)
def test_bad_ids_get_a_clear_error(ids, error, words):
    with pytest.raises(error, match=r"^Scores: ") as caught:
        Scores(labels=[0, 1, -1], predicted=[0, 1, 1], known=[3, 2, 1], ids=ids)
    assert words in str(caught.value)


def test_ids_go_where_their_samples_go():
    a, b = two_detectors()
    assert repr(a).endswith("groups=2, with ids)")
    assert a.take(SHUFFLED).ids.tolist() == IDS[SHUFFLED].tolist()
    assert a.take(a.is_unknown).ids.tolist() == IDS[LABELS < 0].tolist()
    both = Scores.concat([a, replace(b, ids=np.arange(N))])
    assert both.ids.tolist() == [*IDS, *map(str, range(N))]
    assert Scores.concat([a, replace(b, ids=None)]).ids is None
    with pytest.raises(ValueError, match="read-only"):
        a.ids[0] = "b"


def test_detectors_and_rejectors_give_scores_the_ids_of_the_outputs():
    test = outputs()
    fitted = detectors.MSP().fit()
    both = {"msp": fitted, "energy": detectors.Energy().fit()}
    everything = [
        fitted.score(test, batch_size=7),
        *detectors.score_all(both, test).values(),
    ]
    known, unknown = test.take(LABELS >= 0), test.take(LABELS < 0)
    rejector = Rejector.calibrate(
        fitted, known=known, surrogate=unknown, accept_risk=True
    )
    everything.append(rejector.score(test))
    for scores in everything:
        assert np.shares_memory(scores.ids, test.ids)
        assert scores.ids.tolist() == IDS.tolist()
    assert fitted.score(outputs(None)).ids is None
    repeated = np.full(N, "a text that begins like all others")
    assert (fitted.score(outputs(repeated)).ids == repeated).all()


def test_collected_scores_keep_the_ids_they_came_with():
    a, _ = two_detectors()
    collected = metrics.Accumulator()
    for rows in (slice(0, 50), slice(40, N)):  # ten arrive twice
        part = a.take(rows)
        collected.update(replace(part, ids=None), ids=part.ids)
    found = collected.scores()
    assert found.ids.tolist() == sorted(IDS)
    assert found.in_order_of(a).known.tolist() == KNOWN.tolist()
    counted = metrics.Accumulator()
    counted.update(a)
    counted.update(a)  # no ids given: every sample counts
    assert len(counted.scores()) == 2 * N


def test_resampled_scores_need_no_ids():
    a, _ = two_detectors()
    options = {"metrics": ["aurc"], "bootstrap": 20}
    with_ids = metrics.evaluate(a, **options)
    without = metrics.evaluate(replace(a, ids=None), **options)
    assert with_ids.intervals == without.intervals
