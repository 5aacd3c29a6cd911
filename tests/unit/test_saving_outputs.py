"""Saving outputs over others: there are always some, and nothing stays behind."""

import json

import numpy as np
import pytest

from openset import ArtefactError, Outputs
from openset.outputs import _files
from tests.killing import CHANGES, die_before_change, is_killed


def made(value, **more):
    return Outputs(logits=np.full((5, 3), value), labels=[0, 1, 2, 0, -1], **more)


OLD, LATER = made(1.0, groups=list("abcde")), made(2.0, classes=("x", "y", "z"))


def save_and_die(folder, count):
    """Save, and die before a change of a file; in a process of its own."""
    die_before_change(count, folder.parent, CHANGES)
    LATER.save(folder)


def is_same(found, other):
    return (
        np.array_equal(found.logits, other.logits)
        and found.classes == other.classes
        and (found.groups is None) == (other.groups is None)
    )


def test_a_save_killed_at_any_point_leaves_the_old_outputs_or_the_new(tmp_path):
    is_new, count = [], 1
    while True:
        folder = OLD.save(tmp_path / str(count) / "outputs")
        was_killed = is_killed(save_and_die, folder, count)
        found = Outputs.load(folder)
        is_new.append(is_same(found, LATER))
        assert is_new[-1] or is_same(found, OLD)
        OLD.save(folder)
        files = json.loads((folder / "meta.json").read_text())["files"]
        expected = [".lock", "meta.json", *files.values()]
        assert sorted(p.name for p in folder.iterdir()) == sorted(expected)
        assert is_same(Outputs.load(folder), OLD)
        if not was_killed:
            break
        count += 1
    assert sorted(is_new) == is_new  # one step decides
    assert is_new[0] is False
    assert is_new.count(True) > 1  # killed while it tidied up, too


def test_outputs_saved_while_others_are_loaded_are_loaded_instead(
    tmp_path, monkeypatch
):
    folder = OLD.save(tmp_path / "outputs")
    described, saves = _files._described, [LATER, OLD]

    def described_before_a_save(path, text):
        found = described(path, text)
        if saves:
            saves.pop(0).save(folder)
        return found

    monkeypatch.setattr(_files, "_described", described_before_a_save)
    assert is_same(Outputs.load(folder), OLD)
    assert saves == []


def test_outputs_that_are_open_stay_what_they_are(tmp_path):
    folder = OLD.save(tmp_path / "outputs")
    opened = Outputs.load(folder)
    (folder / "notes.txt").write_text("mine")
    LATER.save(folder)
    assert is_same(opened, OLD)
    assert is_same(Outputs.load(folder), LATER)
    opened.save(folder)
    Outputs.load(folder).save(folder)  # over themselves
    assert is_same(Outputs.load(folder), OLD)
    assert (folder / "notes.txt").read_text() == "mine"


def test_files_outside_the_folder_are_not_read(tmp_path):
    folder = LATER.save(OLD.save(tmp_path / "outputs"))
    meta = json.loads((folder / "meta.json").read_text())
    np.save(tmp_path / "logits-00000000.npy", LATER.logits)
    for name in ("../logits-00000000.npy", "labels-00000000.npy", 3):
        meta["files"]["logits"] = name
        (folder / "meta.json").write_text(json.dumps(meta))
        with pytest.raises(ArtefactError, match=r"meta\.json is damaged"):
            Outputs.load(folder)
    meta["files"]["logits"] = "logits-00000000.npy"
    (folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(ArtefactError, match=r"logits-00000000\.npy is damaged"):
        Outputs.load(folder)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_table_is_not_called_damaged(tmp_path, ending):
    path = tmp_path / f"outputs{ending}"
    path.write_bytes(b"logits")
    with pytest.raises(ArtefactError, match=rf"got a \{ending} file. Read its columns"):
        Outputs.load(path)
