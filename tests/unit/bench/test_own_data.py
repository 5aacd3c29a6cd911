"""Studies on data files of your own."""

import os

import numpy as np
import pytest

from openset import Scores, bench, datasets
from openset.bench import _protocols, parse
from openset.protocols import Protocol

CLASSES = "{kind: classes, data: one/data.npz, known: [0, 1], unknown: [2]"


def write(path, names, *, n=10, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    numbers = np.repeat(np.arange(len(names)), n)
    noise = np.random.default_rng(seed).normal(size=(len(numbers), 3))
    inputs = noise + 4 * numbers[:, None]
    np.savez(path, inputs=inputs, labels=np.repeat(names, n))


def study(base, entry, model="{kind: logistic}"):
    text = f"protocols: [{entry}]\nmodels: [{model}]\ndetectors: [energy]\n"
    return parse(text.encode(), "study.yaml", base=base)


def scores(run):
    (path,) = (run / "scores").iterdir()
    return Scores.load(path)


def test_unknowns_are_those_of_the_file_that_is_named(tmp_path):
    write(tmp_path / "one" / "data.npz", ["a", "b", "c"])
    write(tmp_path / "two" / "data.npz", ["x", "y", "z"])
    write(tmp_path / "two" / "other.npz", ["x", "y", "z"])
    # A file names its data set: the unknowns would be class c of the first file.
    same = study(tmp_path, f"{CLASSES}, unknown_data: two/data.npz}}")
    with pytest.raises(
        ValueError, match=r"unknown_data must be left out.*two data sets"
    ):
        bench.run(same, tmp_path / "same", backend="sequential")
    other = study(tmp_path, f"{CLASSES}, unknown_data: two/other.npz}}")
    bench.run(other, tmp_path / "run", backend="sequential")
    assert set(scores(tmp_path / "run").groups.tolist()) == {"a", "b", "z"}


def test_other_data_that_a_protocol_does_not_use_are_refused(tmp_path):
    write(tmp_path / "one" / "data.npz", ["a", "b", "c"])
    write(tmp_path / "two.npz", ["x", "y", "c"])
    Protocol(known=["a", "b"], unknown=["c"]).save(tmp_path / "p.json")
    entry = "{kind: file, path: p.json, data: one/data.npz, unknown_data: two.npz}"
    with pytest.raises(
        ValueError, match=r"unknown_data must be left out.*got two\.npz"
    ):
        bench.run(study(tmp_path, entry), tmp_path / "run", backend="sequential")


def test_negatives_of_the_same_file_name_are_refused(tmp_path):
    write(tmp_path / "one" / "data.npz", ["a", "b", "c", "d"])
    write(tmp_path / "two" / "data.npz", ["x", "y"])
    entry = study(tmp_path, f"{CLASSES}}}").protocols[0]
    (protocol,) = _protocols.draw(entry, tmp_path, tmp_path)
    places = (tmp_path, tmp_path)
    with pytest.raises(ValueError, match="with another name than the training data"):
        _protocols.cut(entry, protocol, *places, negatives="two/data.npz")
    found = _protocols.cut(entry, protocol, *places, negatives="one/data.npz")
    assert set(found.negative.groups.tolist()) == {"d"}


def test_a_file_that_was_changed_is_read_again(tmp_path):
    path = tmp_path / "one" / "data.npz"
    write(path, ["a", "b", "c"])
    made = study(tmp_path, f"{CLASSES}}}")
    bench.run(made, tmp_path / "before", backend="sequential")
    write(path, ["a", "b", "c"], seed=1)
    os.utime(path, ns=(1, 1))  # written in the same tick of a coarse clock
    bench.run(made, tmp_path / "after", backend="sequential")
    before, after = scores(tmp_path / "before"), scores(tmp_path / "after")
    assert not np.array_equal(before.known, after.known)


def test_an_image_that_was_added_to_a_folder_is_read(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for name in ("a/0.png", "b/0.png", "b/1.png"):
        path = tmp_path / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(np.zeros((4, 4), dtype=np.uint8)).save(path)
    assert len(_protocols._load("images", tmp_path, tmp_path)) == 3
    (tmp_path / "images" / "b" / "1.png").unlink()
    os.utime(tmp_path / "images" / "b", ns=(1, 1))
    assert len(_protocols._load("images", tmp_path, tmp_path)) == 2


def test_every_known_class_keeps_a_training_sample(tmp_path):
    digits = "{kind: holdout, data: digits, known: 6, unknown: 4, max_train: 6}"
    entry = study(tmp_path, digits).protocols[0]
    protocol, *_ = _protocols.draw(entry, tmp_path, tmp_path)
    assert datasets.cut(datasets.load("digits"), protocol).train.labels.max() == 5
    with pytest.raises(
        ValueError, match="max_train must be enough for a sample of each"
    ):
        _protocols.cut(entry, protocol, tmp_path, tmp_path)
