"""A rejector that was saved earlier still loads and decides the same."""

from pathlib import Path

import numpy as np

from openset import Outputs, Rejector

HERE = Path(__file__).parent


def test_a_saved_rejector_decides_as_it_did():
    rejector = Rejector.load(HERE / "rejector")
    with np.load(HERE / "rejector-expected.npz") as expected:
        new = Outputs(logits=expected["logits"], features=expected["features"])
        np.testing.assert_array_equal(rejector.predict(new), expected["decisions"])
        np.testing.assert_allclose(rejector.known(new), expected["known"], rtol=1e-12)
    assert rejector.classes == ("cat", "dog", "Äpfel")
    assert rejector.threshold.method == "osa"
    assert rejector.threshold.n == (60, 60)
