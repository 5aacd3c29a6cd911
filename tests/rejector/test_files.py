"""The folder of a rejector: round trips, damage, and saves that are killed."""

import hashlib
import json
import pickle
import shutil

import numpy as np
import pytest

from openset import ArtefactError, Rejector, detectors
from tests.rejector.data import calibrated, drawn

NEW = drawn(50, seed=4, labelled=False)
OLD = calibrated(detectors.KNN(k=3).fit(drawn(300, seed=1)))


def is_same(found, rejector):
    return found.threshold == rejector.threshold and np.array_equal(
        found.known(NEW), rejector.known(NEW)
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return OLD.save(tmp_path_factory.mktemp("artefact") / "rejector")


@pytest.fixture
def folder(saved, tmp_path):
    """Give a copy to spoil."""
    return shutil.copytree(saved, tmp_path / "rejector")


def state_of(folder):
    (path,) = folder.glob("state-*.npz")
    return path


def rewritten(folder, change):
    """Change the manifest and hash it anew, as a newer version or a forger would."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    del manifest["sha256"]
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    manifest["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(manifest))


def with_arrays(change):
    """Change the arrays and hash everything anew."""

    def spoil(folder):
        path = state_of(folder)
        with np.load(path, allow_pickle=False) as found:
            arrays = dict(found)
        change(arrays)
        np.savez(path, **arrays)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        path.rename(folder / f"state-{digest[:16]}.npz")
        rewritten(folder, lambda m: m["state"].update(sha256=digest))

    return spoil


def test_what_is_loaded_is_what_was_saved(tmp_path):
    fitted = detectors.PostMax().fit(drawn(300, seed=1))
    mixed = [drawn(200, seed=3, unknown=True), "mixup"]
    made = calibrated(fitted, surrogate=mixed, sets=0.9)
    again = Rejector.load(made.save(tmp_path / "rejector"))
    sent = pickle.dumps(again)
    shutil.rmtree(tmp_path / "rejector")  # another process may not see it
    again = pickle.loads(sent)  # noqa: S301  # our own
    for name in ("predict", "known"):
        np.testing.assert_array_equal(
            getattr(again, name)(NEW), getattr(made, name)(NEW)
        )
    for name in ("threshold", "classes", "sets", "input_step"):
        assert getattr(again, name) == getattr(made, name)
    assert again.report.to_dict() == made.report.to_dict()
    assert again.fitted.detector == made.fitted.detector
    assert again.fitted.classes == tuple("abcd")
    assert {"known", "unknown", "features"} <= set(made.reference)
    for ours, theirs in (
        (made.reference, again.reference),
        (fitted.seen, again.fitted.seen),
    ):
        assert ours.keys() == theirs.keys()
        assert all(np.array_equal(ours[key], theirs[key]) for key in ours)


def test_the_folder_says_what_it_is_and_holds_nothing_else(saved):
    manifest = json.loads((saved / "manifest.json").read_text())
    assert (manifest["kind"], manifest["schema"]) == ("openset.Rejector", 1)
    assert manifest["detector"]["name"] == "knn"
    assert manifest["threshold"]["n"] == {"known": 200, "unknown": 200}
    state = state_of(saved)
    assert manifest["state"]["file"] == state.name
    assert sorted(p.name for p in saved.iterdir()) == ["manifest.json", state.name]


def text_of(change):
    def spoil(folder):
        path = folder / "manifest.json"
        path.write_text(change(path.read_text()))

    return spoil


def entry(change):
    return lambda folder: rewritten(folder, change)


def pickled(arrays):
    arrays["state.bank"] = np.array([{"evil": 1}], dtype=object)


DAMAGE = {
    "nested": (text_of(lambda _: "[" * 200_000), "is damaged"),
    "a list": (text_of(lambda _: "[1]"), "must be an openset.Rejector of schema 1"),
    "edited": (text_of(lambda t: t.replace('"k": 3', '"k": 4')), "as it was written"),
    "NaN": (text_of(lambda t: t.replace("200", "NaN", 1)), "as it was written"),
    "newer": (entry(lambda m: m.update(schema=2)), "schema 2. Upgrade openset"),
    "no threshold": (entry(lambda m: m.pop("threshold")), "is damaged"),
    "no report": (entry(lambda m: m["report"].pop("rates")), "is damaged"),
    "no file": (entry(lambda m: m["state"].clear()), "is damaged"),
    "a plugin": (
        entry(
            lambda m: m["detector"].update(
                name="guest", classes=[{"name": "guest", "class": "os:system"}]
            )
        ),
        "registered here, got 'guest'",
    ),
    "other arrays": (
        lambda folder: state_of(folder).write_bytes(b"PK"),
        r"state-\w+\.npz must be as it was written",
    ),
    "pickled": (with_arrays(pickled), "pickled objects are never loaded"),
    "no quantiles": (with_arrays(lambda a: a.pop("reference.known")), "is damaged"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_or_forged_folder_is_refused(folder, kind):
    spoil, words = DAMAGE[kind]
    spoil(folder)
    with pytest.raises(ArtefactError, match=words):
        Rejector.load(folder)


def test_a_url_that_fsspec_knows_is_read(saved):
    fsspec = pytest.importorskip("fsspec", reason="object stores are optional")
    memory = fsspec.filesystem("memory")
    memory.put(str(saved), "/rejector", recursive=True)
    assert is_same(Rejector.load("memory://rejector/"), OLD)
    assert is_same(Rejector.load(saved.as_uri()), OLD)
    for place in ("memory://else", saved / "nothing", saved.parent):
        with pytest.raises(FileNotFoundError, match="is not a rejector, or not all"):
            Rejector.load(place)
