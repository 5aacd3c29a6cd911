"""The folder a rejector is saved to: round trips, damage, tampering."""

import hashlib
import json
import os
import pickle
import shutil

import numpy as np
import pytest

from openset import ArtefactError, Outputs, Rejector, detectors, thresholds
from openset.rejector import _artefact
from tests.unit.rejector.test_rejector import drawn


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    fitted = detectors.PostMax().fit(drawn(300, seed=1))
    rejector = Rejector.calibrate(
        fitted,
        known=drawn(200, seed=2),
        surrogate=[drawn(200, seed=3, unknown=True), "mixup"],
    )
    return rejector, rejector.save(tmp_path_factory.mktemp("artefact") / "rejector")


@pytest.fixture
def folder(saved, tmp_path):
    """Give a copy to spoil."""
    return shutil.copytree(saved[1], tmp_path / "rejector")


def state_of(folder):
    """Return the path of the arrays."""
    (path,) = folder.glob("state*.npz")
    return path


def rewritten(folder, change):
    """Change the manifest and hash it anew, as a newer version or a forger would."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    manifest.pop("sha256")
    manifest["sha256"] = _artefact._digest(manifest)
    path.write_text(json.dumps(manifest))


def test_what_is_loaded_is_what_was_saved(saved):
    rejector, folder = saved
    again = Rejector.load(folder)
    new = drawn(100, seed=4, labelled=False)
    np.testing.assert_array_equal(again.predict(new), rejector.predict(new))
    np.testing.assert_array_equal(again.known(new), rejector.known(new))
    np.testing.assert_array_equal(again.typical(new), rejector.typical(new))
    assert again.threshold == rejector.threshold
    assert again.classes == rejector.classes == tuple("abcd")
    assert again.report.to_dict() == rejector.report.to_dict()
    assert again.fitted.detector == rejector.fitted.detector
    assert again.report.synthetic == ("synthetic:mixup",)
    assert again.cautions == again.report.cautions == rejector.cautions != ()
    assert again.report.kinds == rejector.report.kinds != ()
    assert again.report.new_kind == rejector.report.new_kind is not None
    assert again.explain(new, 3) == rejector.explain(new, 3)


@pytest.mark.parametrize("name", ["msp", "openmax", "osnn", "nno", "combined"])
def test_detectors_of_every_make_survive(name, tmp_path):
    if name == "combined":
        msp = detectors.MSP().fit()
        fitted = detectors.combine([msp], reference=[msp.known(drawn(80, seed=5))])
    else:
        fitted = detectors.make(name).fit(drawn(300, seed=1))
    rejector = Rejector.calibrate(
        fitted,
        known=drawn(80, seed=2),
        surrogate=drawn(80, seed=3, unknown=True),
        objective="per_class",
    )
    again = Rejector.load(rejector.save(tmp_path / name))
    new = drawn(50, seed=4, labelled=False)
    np.testing.assert_array_equal(again.predict(new), rejector.predict(new))
    assert again.threshold.per_class == rejector.threshold.per_class


def test_infinite_thresholds_survive(tmp_path):
    fitted = detectors.MSP().fit(drawn(30, seed=1))
    for value in (np.inf, -np.inf):
        chosen = thresholds.Threshold(
            value=value,
            method="mine",
            target=None,
            n=(80, 80),
            interval=(-np.inf, np.inf),
            rate=("none", 0.0, None),
        )
        rejector = Rejector.calibrate(
            fitted,
            known=drawn(80, seed=2),
            surrogate=drawn(80, seed=3, unknown=True),
            objective=lambda _, chosen=chosen: chosen,
            accept_risk=True,
        )
        again = Rejector.load(rejector.save(tmp_path / "r"))
        assert again.threshold.value == value
        accepted = again.predict(drawn(10, seed=5)) != -1
        assert accepted.all() == (value < 0)


def test_the_folder_says_what_it_is(saved):
    _, folder = saved
    names = sorted(p.name for p in folder.iterdir())
    assert names == [".lock", "manifest.json", state_of(folder).name]
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["kind"], manifest["schema"]) == ("openset.Rejector", 1)
    assert manifest["detector"]["name"] == "postmax"
    assert manifest["threshold"]["n"] == {"known": 200, "unknown": 400}
    assert set(manifest["versions"]) == {"openset", "numpy", "python"}
    state = state_of(folder)
    digest = manifest["files"][state.name]["sha256"]
    assert digest == hashlib.sha256(state.read_bytes()).hexdigest()
    assert state.name == f"state-{digest[:16]}.npz"


def test_arrays_are_read_when_they_are_needed(folder):
    rejector = Rejector.load(folder)
    state_of(folder).unlink()
    assert rejector.threshold.method == "osa"
    with pytest.raises(FileNotFoundError, match=r"state-\w+\.npz"):
        rejector.predict(drawn(3))


def test_arrays_of_a_later_rejector_are_not_cut_at_the_old_threshold(saved, folder):
    rejector, used = Rejector.load(folder), Rejector.load(folder)
    expected = used.predict(drawn(50, seed=4))
    fitted = detectors.PostMax().fit(drawn(300, seed=9))
    Rejector.calibrate(fitted, known=drawn(200, seed=2), objective="at_tpr").save(
        folder
    )
    for read in (rejector.predict, rejector.typical):
        with pytest.raises(ArtefactError, match=r"replaced after .*Load it again"):
            read(drawn(50, seed=4))
    np.testing.assert_array_equal(used.predict(drawn(50, seed=4)), expected)


def test_a_loaded_rejector_goes_to_other_processes(saved, folder):
    sent = pickle.dumps(Rejector.load(folder))
    shutil.rmtree(folder)  # the other process may not see it
    again = pickle.loads(sent)  # noqa: S301  # our own
    new = drawn(100, seed=4, labelled=False)
    np.testing.assert_array_equal(again.predict(new), saved[0].predict(new))
    np.testing.assert_array_equal(again.reference["known"], saved[0].reference["known"])


def test_saving_again_replaces_and_leaves_nothing_behind(saved, folder):
    saved[0].save(folder)
    assert [p.name for p in folder.parent.iterdir()] == ["rejector"]
    assert Rejector.load(folder).threshold == saved[0].threshold


def test_a_failed_save_leaves_the_old_one(saved, folder, monkeypatch):
    def fail(*_):
        msg = "disk full"
        raise OSError(msg)

    before = (folder / "manifest.json").read_text()
    monkeypatch.setattr(_artefact._npz, "to_bytes", fail)
    with pytest.raises(OSError, match="disk full"):
        saved[0].save(folder)
    assert (folder / "manifest.json").read_text() == before
    assert [p.name for p in folder.parent.iterdir()] == ["rejector"]


def test_an_empty_folder_is_taken(saved, tmp_path):
    (tmp_path / "new").mkdir()
    saved[0].save(tmp_path / "new")
    assert Rejector.load(tmp_path / "new").threshold == saved[0].threshold


def test_a_folder_of_something_else_is_not_overwritten(saved, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.txt").write_text("meow")
    with pytest.raises(ValueError, match="folder must be a new folder, or one with"):
        saved[0].save(tmp_path / "photos")
    assert (tmp_path / "photos" / "cat.txt").read_text() == "meow"


def test_a_missing_folder_or_manifest_is_said(tmp_path, folder):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        Rejector.load(tmp_path / "nothing")
    (folder / "manifest.json").unlink()
    for _ in range(2):
        with pytest.raises(ArtefactError, match=r"not a rejector: it has no manifest"):
            Rejector.load(folder)
        (folder / "manifest.json").mkdir(exist_ok=True)


def test_nonsense_under_a_valid_hash_is_damage(folder):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["report"]["flat"] = ["low", "high"]
    del manifest["sha256"]
    manifest["sha256"] = _artefact._digest(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(ArtefactError, match=r"manifest\.json is damaged"):
        Rejector.load(folder)


@pytest.mark.parametrize("keep", [0, 10, 500])
def test_a_truncated_manifest_is_said(folder, keep):
    path = folder / "manifest.json"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ArtefactError, match="damaged or truncated"):
        Rejector.load(folder)


def test_a_manifest_that_is_no_text_is_said(folder):
    (folder / "manifest.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ArtefactError, match="damaged or truncated"):
        Rejector.load(folder)


def test_a_manifest_nested_without_end_is_said(folder):
    (folder / "manifest.json").write_text("[" * 200_000)
    with pytest.raises(ArtefactError, match="damaged or truncated"):
        Rejector.load(folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_json_has_not_is_a_change(folder, value):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["threshold"]["n"]["known"] = value
    path.write_text(json.dumps(manifest))
    with pytest.raises(ArtefactError, match="changed after it was written"):
        Rejector.load(folder)
    rewritten(folder, lambda _: None)
    with pytest.raises(ArtefactError, match="not a threshold"):
        Rejector.load(folder)


def test_a_changed_threshold_is_noticed(folder):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["threshold"]["value"] = -1e9  # accept everything
    path.write_text(json.dumps(manifest))
    with pytest.raises(ArtefactError, match="changed after it was written"):
        Rejector.load(folder)


def test_a_newer_schema_asks_for_an_upgrade(folder):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["schema"] = 2
    path.write_text(json.dumps(manifest))
    with pytest.raises(ArtefactError, match=r"schema 2, newer than 1.*Upgrade openset"):
        Rejector.load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(kind="openset.Outputs"), "must be of kind openset.Rej"),
        (lambda m: m.update(schema="one"), "must have a schema number"),
        (lambda m: m.update(schema=True), "must have a schema number"),
        (lambda m: m.pop("threshold"), "lacks threshold"),
        (lambda m: m["threshold"].pop("value"), "not a threshold"),
        (lambda m: m["report"].pop("ccr"), "manifest.json is damaged"),
        (lambda m: m["report"].update(flat=["1"]), "manifest.json is damaged"),
        (lambda m: m["files"].clear(), "manifest.json is damaged"),
    ],
)
def test_a_wrong_manifest_is_said_even_with_a_right_hash(folder, change, message):
    rewritten(folder, change)
    with pytest.raises(ArtefactError, match=message):
        Rejector.load(folder)


def test_a_detector_nobody_knows_is_said(folder):
    rewritten(folder, lambda m: m["detector"].update(name="newest"))
    with pytest.raises(ArtefactError, match="a detector this version lacks: 'newest'"):
        Rejector.load(folder).predict(drawn(3))


def test_truncated_arrays_are_said(folder):
    path = state_of(folder)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ArtefactError, match=r"state-\w+\.npz is truncated"):
        Rejector.load(folder)


def test_a_flipped_bit_in_the_arrays_is_noticed(folder):
    path = state_of(folder)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(ArtefactError, match=r"state-\w+\.npz was changed after"):
        Rejector.load(folder)


def test_missing_arrays_are_said(folder):
    state_of(folder).unlink()
    with pytest.raises(ArtefactError, match=r"state-\w+\.npz is missing"):
        Rejector.load(folder)


def test_pickled_arrays_are_never_loaded(folder):
    path = state_of(folder)
    np.savez(path, **{"state.shape": np.array([{"evil": 1}], dtype=object)})
    content = path.read_bytes()
    entry = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    rewritten(folder, lambda m: m["files"].update({path.name: entry}))
    with pytest.raises(ArtefactError, match="pickled objects, which are never loaded"):
        Rejector.load(folder).predict(drawn(3))


def with_arrays(folder, change):
    """Change the arrays and hash everything anew, as a forger would."""
    path = state_of(folder)
    with np.load(path, allow_pickle=False) as found:
        arrays = dict(found)
    change(arrays)
    np.savez(path, **arrays)
    content = path.read_bytes()
    entry = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    rewritten(folder, lambda m: m["files"].update({path.name: entry}))


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays.clear(),
        lambda arrays: arrays.update({"state.bank": np.ones((5, 3))}),
        lambda arrays: arrays.update({"state.bank": np.array(["a", "b"])}),
        lambda arrays: arrays.update({"state.bank": np.array(1.0)}),
    ],
    ids=["none", "other width", "text", "a number"],
)
def test_arrays_that_do_not_fit_the_detector_are_said(tmp_path, change):
    fitted = detectors.KNN(k=3).fit(drawn(60, seed=1))
    rejector = Rejector.calibrate(fitted, known=drawn(80, seed=2), objective="at_tpr")
    folder = rejector.save(tmp_path / "rejector")
    with_arrays(folder, change)
    with pytest.raises(ArtefactError, match=r"npz must hold the arrays of KNN"):
        Rejector.load(folder).predict(drawn(3))


def test_a_rejector_without_calibration_quantiles_is_said(folder):
    with_arrays(folder, lambda arrays: arrays.pop("reference.known"))
    with pytest.raises(ArtefactError, match=r"must hold quantiles of the calibration"):
        Rejector.load(folder).typical(drawn(3))


def test_arrays_behind_a_link_are_refused(folder, tmp_path):
    path = state_of(folder)
    path.rename(tmp_path / "elsewhere.npz")
    path.symlink_to(tmp_path / "elsewhere.npz")
    with pytest.raises(ArtefactError, match="must be a file, got a symbolic link"):
        Rejector.load(folder)


def test_a_pipe_instead_of_arrays_is_refused_and_not_waited_for(folder):
    path = state_of(folder)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ArtefactError, match="must be a file, got a device"):
        Rejector.load(folder)


KEY = b"0123456789abcdef"


def test_a_signed_rejector_is_loaded_with_its_key(saved, tmp_path):
    folder = saved[0].save(tmp_path / "signed", key=KEY)
    new = drawn(50, seed=4, labelled=False)
    for key in (KEY, None):  # without a key, nobody looks at the signature
        again = Rejector.load(folder, key=key)
        np.testing.assert_array_equal(again.predict(new), saved[0].predict(new))
    opened = Rejector.load(folder, key=KEY)
    shutil.rmtree(folder)  # the arrays are those that were verified
    np.testing.assert_array_equal(opened.typical(new), saved[0].typical(new))


def test_a_forged_rejector_is_refused_with_a_key(saved, tmp_path):
    folder = saved[0].save(tmp_path / "signed", key=KEY)
    rewritten(folder, lambda manifest: manifest["threshold"].update(value=-1e9))
    assert Rejector.load(folder).threshold.value == -1e9  # hashes stop no forger
    with pytest.raises(ArtefactError, match="another key, or changed by somebody"):
        Rejector.load(folder, key=KEY)


def test_forged_arrays_are_refused_with_a_key(saved, tmp_path):
    folder = saved[0].save(tmp_path / "signed", key=KEY)
    with_arrays(folder, lambda arrays: arrays["reference.known"].fill(0.0))
    with pytest.raises(ArtefactError, match="another key, or changed by somebody"):
        Rejector.load(folder, key=KEY)


def test_a_wrong_key_or_no_signature_is_refused(saved, folder, tmp_path):
    with pytest.raises(ArtefactError, match="must be signed to be verified"):
        Rejector.load(folder, key=KEY)
    signed = saved[0].save(tmp_path / "signed", key=KEY)
    with pytest.raises(ArtefactError, match="signed with another key"):
        Rejector.load(signed, key=KEY[::-1])


def test_a_key_is_bytes_and_not_short(saved, tmp_path):
    with pytest.raises(ValueError, match="key must be at least 16 bytes, got 3 bytes"):
        saved[0].save(tmp_path / "r", key=b"abc")
    with pytest.raises(TypeError, match="key must be at least 16 bytes, got str"):
        Rejector.load(saved[1], key="a secret of 16 letters")


def test_outputs_of_another_network_are_refused(saved):
    other = Outputs(logits=np.ones((3, 7)), features=np.ones((3, 8)))
    with pytest.raises(ValueError, match="n_classes must be 4"):
        Rejector.load(saved[1]).predict(other)
