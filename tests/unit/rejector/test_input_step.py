"""How the inputs were moved stays with outputs and with the rejector they made."""

import json

import numpy as np
import pytest

from openset import Outputs, Rejector, detectors
from openset.detectors import ByLayer
from openset.rejector import _artefact

STEP = "odin:temperature=1000.0,epsilon=0.0014"


def drawn(step="", *, seed=0, unknown=False, layers=()):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, 90)
    logits = rng.normal(size=(90, 3)) + 4 * (not unknown) * np.eye(3)[labels]
    return Outputs(
        logits=logits,
        features=logits,
        labels=np.full(90, -1) if unknown else labels,
        classes=["a", "b", "c"],
        layers=layers,
        input_step=step,
    )


def calibrated(step=STEP):
    return Rejector.calibrate(
        detectors.MSP(temperature=1000).fit(),
        known=drawn(step),
        surrogate=drawn(step, seed=1, unknown=True),
        accept_risk=True,
    )


@pytest.mark.parametrize("name", ["outputs.npz", "outputs"])
def test_outputs_keep_the_step(tmp_path, name):
    first, plain = drawn(STEP), drawn()
    for found in (
        Outputs.load(first.save(tmp_path / name)),
        first.take([0, 2]),
        first.as_unknown(),
        first.to("numpy"),
        Outputs.concat([first, first]),
        Outputs.of_layers({"x": first}),
        Outputs.of_layers({"x": first}).by_layer()["x"],
    ):
        assert found.input_step == STEP
    assert STEP in repr(first)
    assert Outputs.load(plain.save(tmp_path / f"plain-{name}")).input_step == ""
    with pytest.raises(ValueError, match=f"perturbed by one step, got none and {STEP}"):
        Outputs.concat([first, plain])


def test_files_without_a_step_are_as_before(tmp_path):
    with np.load(drawn().save(tmp_path / "plain.npz")) as arrays:
        assert "input_step" not in arrays
    folder = calibrated("").save(tmp_path / "rejector")
    assert "input_step" not in json.loads((folder / "manifest.json").read_text())
    drawn().save(tmp_path / "folder")
    meta = tmp_path / "folder" / "meta.json"
    about = json.loads(meta.read_text())
    del about["input_step"]
    meta.write_text(json.dumps(about))  # as written by earlier versions
    assert Outputs.load(tmp_path / "folder").input_step == ""


def test_a_rejector_refuses_outputs_of_another_step(tmp_path):
    rejector = Rejector.load(calibrated().save(tmp_path / "rejector"))
    assert rejector.input_step == STEP
    same, plain = drawn(STEP, seed=2), drawn(seed=2)
    other = drawn(STEP.replace("0.0014", "0.01"), seed=2)
    for found in (rejector, rejector.to(np.zeros(1))):
        for call in (found.predict, found.known, found.score, found.operate):
            mixed = Outputs.concat([same, drawn(STEP, seed=4, unknown=True)])
            call(mixed)
            with pytest.raises(ValueError, match=r"perturbed by odin.*as they are"):
                call(plain)
            with pytest.raises(ValueError, match=r"inputs perturbed by .*epsilon=0.01"):
                call(other)
    with pytest.raises(
        ValueError, match=r"as the network got them.*got inputs perturbed"
    ):
        calibrated("").predict(same)


def test_calibration_samples_share_one_step():
    options = {"known": drawn(STEP), "accept_risk": True}
    fitted = detectors.MSP().fit()
    with pytest.raises(ValueError, match=f"got {STEP} for known, and no step"):
        Rejector.calibrate(fitted, surrogate=drawn(seed=1, unknown=True), **options)
    with pytest.raises(ValueError, match=f"got {STEP} for known, and no step"):
        Rejector.calibrate(
            fitted, objective="at_tpr", sets="lac", sets_known=drawn(seed=3), **options
        )
    # Training samples need not be moved: those of Lee et al. are not.
    fitted = detectors.KNN(k=3).fit(drawn())
    made = Rejector.calibrate(fitted, train=drawn(), objective="at_tpr", **options)
    assert made.input_step == STEP


def test_a_step_of_another_length_does_not_fit_a_detector_over_layers():
    fitted = ByLayer(epsilon=0.05).fit(drawn(layers=[("x", 3)]))
    layers = [("step:x", 3)]
    words = "layered:detector=mahalanobis,epsilon=0.05"
    for step in (words, f"{words},std=0.5 0.5 0.5"):
        fitted.known(drawn(step, layers=layers))
    for step in (f"{words}1", words.replace("mahalanobis", "knn")):
        with pytest.raises(
            ValueError, match=f"must be of inputs perturbed by {words}, got"
        ):
            fitted.known(drawn(step, layers=layers))


def test_a_rejector_over_layers_of_an_earlier_version_stays_usable(tmp_path):
    """It has no record of the step; the names of the layers say that there is one."""
    words = "layered:detector=mahalanobis,epsilon=0.05"
    fitted = ByLayer(epsilon=0.05).fit(drawn(layers=[("x", 3)]))
    known = drawn(words, layers=[("step:x", 3)])
    rejector = Rejector.calibrate(
        fitted, known=known, objective="at_tpr", accept_risk=True
    )
    old = tmp_path / "old"
    _artefact.write(
        old,
        fitted=fitted,
        threshold=rejector.threshold,
        classes=rejector.classes,
        reference=rejector.reference,
        report=rejector.report,
    )
    loaded = Rejector.load(old)
    np.testing.assert_array_equal(loaded.predict(known), rejector.predict(known))
    with pytest.raises(ValueError, match=r"of the layers step:x"):
        loaded.predict(drawn(layers=[("x", 3)]))
