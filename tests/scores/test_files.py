"""Files of scores: bit for bit, also of others; damaged ones are refused."""

from dataclasses import replace

import numpy as np
import pytest

from openset import ArtefactError, Scores

GOOD = {"labels": [0, 1, -1], "predicted": [0, 1, 1], "known": [0.9, 1 / 3, -np.inf]}
NAMES = ["near", 'a, "quoted" one', "ümlaut"]
ODD = ["a,b", 'q"t', " x ", "a\nb", "a\r\nb", "nan", "", "#x", "\t"]


@pytest.mark.parametrize("ending", [".npz", ".csv", ".parquet"])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"groups": NAMES, "ids": [3, 1, 2]},
        {"ids": np.arange(3, dtype=np.uint64) + np.uint64(2**63)},
        {"class_names": ("zebra", "None", "dog")},
    ],
)
def test_files_round_trip_bit_for_bit(tmp_path, ending, more):
    if ending == ".parquet":
        pytest.importorskip("pyarrow", reason="the extra tables")
    scores = Scores(**GOOD, n_classes=3, **more)
    again = Scores.load(scores.save(tmp_path / f"s{ending}"))
    assert np.array_equal(again.known, scores.known)
    assert again.n_classes == (None if ending == ".csv" else 3)
    names = again.class_names or range(3)
    wanted = [(more.get("class_names") or range(3))[i] for i in scores.predicted]
    assert [names[i] for i in again.predicted] == wanted
    for name in ("groups", "ids"):
        ours, theirs = getattr(scores, name), getattr(again, name)
        assert (ours is None) == (theirs is None)
        assert ours is None or ours.astype(str).tolist() == theirs.astype(str).tolist()
    assert [p.name for p in tmp_path.iterdir()] == [f"s{ending}"]


@pytest.mark.parametrize("ending", [".npz", ".csv"])
def test_odd_names_of_groups_are_read_as_they_were_written(tmp_path, ending):
    n = len(ODD)
    scores = Scores(labels=[0] * n, predicted=[0] * n, known=range(n), groups=ODD)
    assert Scores.load(scores.save(tmp_path / f"s{ending}")).groups.tolist() == ODD


def test_a_class_called_unknown_is_not_written_where_it_would_be_lost(tmp_path):
    scores = replace(Scores(**GOOD), class_names=("unknown", "dog"))
    with pytest.raises(ValueError, match=r"\.npz for a class that is called 'unknown'"):
        scores.save(tmp_path / "scores.csv")
    found = Scores.load(scores.save(tmp_path / "s.npz"))
    assert found.class_names == ("unknown", "dog")


HEAD = "labels,predicted,known"
THEIRS = {"labels": "y", "predicted": "guess", "known": "energy"}
IDS, NO_IDS = {"columns": {"ids": "file"}}, {"columns": {"ids": ""}}
MISSING = ("NA", "None", "nan")  # names of classes like any other


@pytest.mark.parametrize(
    ("text", "options", "labels", "ids"),
    [
        (
            "y,guess,energy\ncat,cat,-3.5\noos,cat,1.25\n",
            {"columns": THEIRS, "unknown_label": "oos", "higher_is_unknown": True},
            ([0, -1], ("cat",)),
            None,
        ),
        (f"file,{HEAD}\na,0,0,2\nb,-1,0,1\n", IDS, ([0, -1], None), ["a", "b"]),
        (f"ids,{HEAD}\na,0,0,2\nb,-1,0,1\n", NO_IDS, ([0, -1], None), None),
        # a byte-order mark, blank lines, classes written as 02
        (f"\ufeff{HEAD}\r\n02, 2,2\r\n\r\n-1,2,1\r\n", {}, ([2, -1], None), None),
        (f"{HEAD}\n0,0,2\nunknown,10,1\n", {}, ([0, -1], ("0", "10")), None),
        (f"{HEAD}\nNone,nan,2\nNA,None,1\n", {}, ([1, 0], MISSING), None),
    ],
)
def test_tables_of_others_are_read(tmp_path, text, options, labels, ids):
    path = tmp_path / "theirs.csv"
    path.write_text(text, encoding="utf-8", newline="")
    found = Scores.load(path, **options)
    assert (found.labels.tolist(), found.class_names) == labels
    assert found.known.tolist() == ([3.5, -1.25] if "energy" in text else [2, 1])
    assert (None if found.ids is None else found.ids.tolist()) == ids


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (f"{HEAD}\n0,0,1\n0,0\n", "all rows as many cells"),
        (f"{HEAD},known\n0,0,1,2\n", "columns need different names"),
        ("", "must be a file with labels, predicted, known, got nothing"),
        ("\xff\xfe\x00", "is damaged or no table of scores"),
        (f"{HEAD}\n0,zero,1\n", "invalid literal for int"),
        (f"{HEAD}\n0.0,0,1\n", "invalid literal for int"),
        (f"{HEAD}\n{10**30},0,1\n", "is damaged or no table of scores"),
        (f"{HEAD}\n0,0,\n", "could not convert string to float"),
        (f"{HEAD}\na,a,2\n,a,1\n", "labels must be given for every sample"),
        (f"{HEAD}\na,a,2\na,,1\n", "must be given for every sample"),
        (f"{HEAD}\n01,1,2\n1,1,1\n", "01 and 1 may be two classes"),
        ("labels,known\n0,1\n", "columns={'known': 'score'}"),
        ("labels;predicted;known\n0;0;1\n", "got labels;predicted;known"),
        ("logits,labels\n0,1\n", "Score these outputs first"),
        (f"{HEAD}\n0,0,nan\n", "known must be free of NaN"),
    ],
)
def test_damaged_and_other_files_are_named(tmp_path, content, words):
    path = tmp_path / "s.csv"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(ValueError, match=r"s\.csv") as caught:
        Scores.load(path)
    assert words in str(caught.value)
    with pytest.raises(ValueError, match=r"one of '.npz', '.csv', '.parquet'"):
        Scores(**GOOD).save(tmp_path / "scores.pkl")


def test_columns_that_are_not_there_are_named(tmp_path):
    path = Scores(**GOOD).save(tmp_path / "s.csv")
    with pytest.raises(ArtefactError, match=r"known must be a column of .*, got score"):
        Scores.load(path, columns={"known": "score"})
    with pytest.raises(ValueError, match="columns must be one of"):
        Scores.load(path, columns={"label": "y"})
