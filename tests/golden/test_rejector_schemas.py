"""Rejectors written by every released schema still load and decide the same."""

from pathlib import Path

import numpy as np
import pytest

from openset import Outputs, Rejector
from openset.rejector import _artefact

HERE = Path(__file__).parent
FOLDERS = sorted(HERE.glob("rejector-*"))


def test_every_schema_has_a_golden_artefact():
    numbers = [int(folder.name.removeprefix("rejector-")) for folder in FOLDERS]
    assert numbers == list(range(1, _artefact.SCHEMA + 1))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_an_old_artefact_decides_as_it_did(folder):
    rejector = Rejector.load(folder / "rejector")
    with np.load(folder / "expected.npz", allow_pickle=False) as expected:
        new = Outputs(logits=expected["logits"], features=expected["features"])
        np.testing.assert_array_equal(rejector.predict(new), expected["decisions"])
        np.testing.assert_allclose(rejector.known(new), expected["known"], rtol=1e-12)
        np.testing.assert_allclose(rejector.typical(new), expected["typical"])
    assert rejector.classes == ("cat", "dog", "Äpfel")
    assert rejector.threshold.method == "per_class"
    assert rejector.threshold.n == (60, 60)
    assert rejector.report.codes == ("CAL006",)


def test_what_the_first_artefacts_did_not_have_is_empty():
    rejector = Rejector.load(HERE / "rejector-1" / "rejector")
    assert rejector.report.kinds == ()
    assert rejector.report.new_kind is None
    assert [one.severity for one in rejector.cautions] == ["warning"]
    assert rejector.threshold.fingerprint.sides == ()
