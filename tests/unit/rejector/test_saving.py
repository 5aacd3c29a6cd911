"""Saving a rejector over another: there is always one, and nothing stays behind."""

import errno
import json
import warnings

import numpy as np
import pytest

from openset import ArtefactError, CalibrationWarning, Rejector, detectors
from openset.rejector import _artefact
from tests.killing import CHANGES, die_before_change, is_killed
from tests.unit.rejector.test_rejector import drawn

NEW = drawn(50, seed=4, labelled=False)


def made(seed):
    fitted = detectors.KNN(k=3).fit(drawn(300, seed=seed))
    negatives = drawn(200, seed=3, unknown=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return Rejector.calibrate(fitted, known=drawn(200, seed=2), surrogate=negatives)


OLD, LATER = made(1), made(9)


def save_and_die(folder, count):
    """Save, and die before a change of a file; in a process of its own."""
    die_before_change(count, folder.parent, CHANGES)
    LATER.save(folder)


def is_same(found, rejector):
    return found.threshold == rejector.threshold and np.array_equal(
        found.known(NEW), rejector.known(NEW)
    )


def assert_clean(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    expected = [".lock", "manifest.json", *manifest["files"]]
    assert sorted(p.name for p in folder.iterdir()) == sorted(expected)
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]


def test_a_save_killed_at_any_point_leaves_the_old_rejector_or_the_new(tmp_path):
    assert not is_same(OLD, LATER)
    is_new, count = [], 1
    while True:
        folder = OLD.save(tmp_path / str(count) / "rejector")
        was_killed = is_killed(save_and_die, folder, count)
        found = Rejector.load(folder)
        is_new.append(is_same(found, LATER))
        assert is_new[-1] or is_same(found, OLD)
        OLD.save(folder)
        assert_clean(folder)
        assert is_same(Rejector.load(folder), OLD)
        if not was_killed:
            break
        count += 1
    assert sorted(is_new) == is_new  # one step decides
    assert is_new[0] is False
    assert is_new.count(True) > 1  # killed while it tidied up, too


def test_a_first_save_killed_at_any_point_can_be_repeated(tmp_path):
    count = 1
    while is_killed(save_and_die, folder := tmp_path / str(count) / "rejector", count):
        if folder.exists() and not (folder / "manifest.json").exists():
            with pytest.raises(ArtefactError, match="not a rejector"):
                Rejector.load(folder)
        LATER.save(folder)
        assert_clean(folder)
        assert is_same(Rejector.load(folder), LATER)
        count += 1
    assert count > 4


def test_a_rejector_saved_while_another_is_loaded_is_loaded_instead(
    tmp_path, monkeypatch
):
    folder = OLD.save(tmp_path / "rejector")
    check, saves = _artefact.checked_bytes, [LATER, OLD]

    def check_after_a_save(path, written):
        if saves:
            saves.pop(0).save(folder)
        return check(path, written)

    monkeypatch.setattr(_artefact, "checked_bytes", check_after_a_save)
    assert is_same(Rejector.load(folder), OLD)
    assert saves == []


def test_the_same_rejector_saved_again_does_not_disturb_one_that_is_open(tmp_path):
    folder = OLD.save(tmp_path / "rejector")
    opened = Rejector.load(folder)
    OLD.save(folder)
    assert is_same(opened, OLD)


def test_arrays_outside_the_folder_are_not_read(tmp_path):
    folder = OLD.save(tmp_path / "rejector")
    manifest = json.loads((folder / "manifest.json").read_text())
    (name,) = manifest["files"]
    (folder / name).rename(tmp_path / name)
    manifest["files"] = {f"../{name}": manifest["files"][name]}
    del manifest["sha256"]
    manifest["sha256"] = _artefact._digest(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtefactError, match="files must name state-HASH"):
        Rejector.load(folder)


@pytest.mark.parametrize("is_new", [True, False])
def test_a_save_that_fails_leaves_no_new_folder(tmp_path, monkeypatch, is_new):
    folder = tmp_path / "rejectors" / "mine"
    if not is_new:
        OLD.save(folder)

    def full(path, writer):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("openset._io.write", full)
    with pytest.raises(OSError, match="No space left"):
        LATER.save(folder)
    if is_new:
        assert list(tmp_path.iterdir()) == []
    else:
        assert is_same(Rejector.load(folder), OLD)
        assert_clean(folder)
