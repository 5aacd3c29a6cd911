"""`openset score`."""

import numpy as np
import pytest

from openset import Outputs, Scores, detectors


def test_several_detectors_write_a_folder_that_compare_reads(run, tmp_path):
    words = "-d", "msp", "-d", "knn:k=7,bank=none", "-d", "energy"
    run("score", *words, "--train", "train.npz", "test.npz", "--out", tmp_path)
    files = sorted(tmp_path.iterdir())
    names = ["scores-energy.npz", "scores-knn-k=7-bank=none.npz", "scores-msp.npz"]
    assert [file.name for file in files] == names
    test, train = Outputs.load("test.npz"), Outputs.load("train.npz")
    knn = detectors.KNN(k=7, bank=None).fit(train).score(test)
    assert np.array_equal(Scores.load(files[1]).known, knn.known)
    assert "knn-k=7" in run("compare", *files)


def test_shards_are_scored_one_by_one(run, tmp_path):
    pytest.importorskip("pyarrow", reason="the extra tables")
    words = "-d", "knn", "--train", "train.npz", "shards", "--out", tmp_path / "out"
    assert "2 of 2 shards" in run("score", *words, "--jobs", 1)
    found = Scores.load(tmp_path / "out" / "scores-knn" / "a.parquet")
    expected = detectors.KNN().fit(Outputs.load("train.npz"))
    expected = expected.score(Outputs.load("test.npz"))
    assert np.array_equal(found.known, expected.known)
    assert "(0 run now)" in run("score", *words)
