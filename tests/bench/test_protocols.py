"""Protocols of a study on data files of your own: the samples that are meant."""

import numpy as np
import pytest

from openset import Scores, bench, datasets, protocols, runs
from openset.bench import parse

CLASSES = "{kind: classes, data: one/data.npz, known: [0, 1], unknown: [2]"


def write(path, names, *, n=10, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    numbers = np.repeat(np.arange(len(names)), n)
    noise = np.random.default_rng(seed).normal(size=(len(numbers), 3))
    np.savez(path, inputs=noise + 4 * numbers[:, None], labels=np.repeat(names, n))


def run(base, entry, model="{kind: logistic}"):
    text = f"protocols: [{entry}]\nmodels: [{model}]\ndetectors: [energy]\n"
    study = parse(text.encode(), base)
    return bench.run(study, base / "run", backend="sequential")


def groups(base):
    (path,) = (base / "run" / "scores").iterdir()
    return set(Scores.load(path).groups.tolist())


UNUSED = "must be left out: the protocol takes unknown classes from the known data set"


def test_unknowns_are_those_of_the_file_that_is_named(tmp_path):
    write(tmp_path / "one" / "data.npz", ["a", "b", "c"])
    write(tmp_path / "two" / "data.npz", ["x", "y", "z"])
    write(tmp_path / "two" / "other.npz", ["x", "y", "z"])
    # A file names its data set: the unknowns would be class c of the first file.
    done = run(tmp_path, f"{CLASSES}, unknown_data: two/data.npz}}")
    assert UNUSED in done.failed[0]["error"]
    run(tmp_path, f"{CLASSES}, unknown_data: two/other.npz}}")
    assert groups(tmp_path) == {"a", "b", "z"}


def test_negatives_of_the_same_file_name_are_refused(tmp_path):
    pytest.importorskip("torch", reason="the extra torch")
    write(tmp_path / "one" / "data.npz", ["a", "b", "c", "d"])
    write(tmp_path / "two" / "data.npz", ["x", "y"])
    model = "{kind: network, params: {recipe: arpl, epochs: 1, negatives: FILE}}"
    done = run(tmp_path, f"{CLASSES}}}", model.replace("FILE", "two/data.npz"))
    assert "with another name than the training data" in done.failed[0]["error"]


def test_classes_may_be_all_others(tmp_path):
    write(tmp_path / "one" / "data.npz", ["a", "b", "c", "d"])
    entry = (
        "{kind: classes, data: one/data.npz, known: all, unknown: [d], surrogate: [c]}"
    )
    run(tmp_path, entry)
    assert groups(tmp_path) == {"a", "b", "d"}
    (drawn,) = protocols.load(tmp_path / "run" / "protocols.json")
    assert (drawn.known, drawn.surrogate) == (("a", "b"), ("c",))


def test_a_protocol_file_is_run_with_the_splits_it_records(tmp_path):
    digits = datasets.load("digits")
    drawn = protocols.operational(digits, 5, 2, 3, repeats=2, rng=1, n_tests=4)
    drawn.save(tmp_path / "p.json")
    run(tmp_path, "{kind: file, path: p.json, data: digits, max_test: 300}")
    table = runs.results(tmp_path / "run").where(metric="auroc")
    assert table.column("repeat").tolist() == [0] * 4 + [1] * 4
    assert sum(table.column("n")) == 600
