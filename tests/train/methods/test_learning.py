"""The methods of the OpenAUC paper's Table 2 learn: on real digits, in seconds."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from openset import metrics
from openset.datasets import Dataset
from openset.protocols import Protocol
from openset.train import fit
from tests.train.tiny import NARROW

FORMS = {
    "softmax": ("softmax", {}),
    "gcpl": ("gcpl", {}),
    "rpl": ("rpl", {}),
    "arpl": ("arpl", {}),
    "arpl_cs": ("arpl_cs", NARROW),
    "ceplus": ("ceplus", {}),
    "acc_auc paper": ("acc_auc", {"preset": "paper", "place": "conv1"}),
    "acc_auc released": ("acc_auc", {"preset": "released"}),
    "openauc paper": ("openauc", {"preset": "paper", "place": "conv1"}),
    "openauc released": ("openauc", {"preset": "released"}),
}


@pytest.fixture(scope="module")
def digits():
    """Return 8×8 digits, each pixel as four by four ones of three colours."""
    pixels, labels = load_digits(return_X_y=True)
    images = (pixels * 15).astype(np.uint8).reshape(-1, 8, 8)[:900]
    images = images.repeat(4, axis=1).repeat(4, axis=2)[..., None].repeat(3, axis=3)
    return Dataset(
        inputs=images,
        labels=labels[:900],
        classes=[str(c) for c in range(10)],
        kind="image",
        name="digits",
        parts={"train": np.arange(600), "test": np.arange(600, 900)},
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_method_learns_to_classify_digits_and_to_rank_unknown_ones_below(
    form, digits
):
    method, options = FORMS[form]
    known, unknown = list("023467"), list("1589")
    common = {
        "method": method,
        "options": options,
        "data": digits,
        "protocol": Protocol(known=known, unknown=unknown, source="digits"),
        "network": "osrci",
        "dropout": 0.0,
        "recipe": "torchosr",
        "optimiser": "adam",
        "batch": 32,
        "validation": 0,
        "accelerator": "cpu",
        "progress": False,
    }
    trained = fit(epochs=6, lr=0.003, **common).scores["published"]
    start = fit(epochs=1, lr=1e-9, **common).scores["published"]
    assert metrics.accuracy(start) < 0.5
    assert metrics.accuracy(trained) > 0.85
    assert metrics.auroc(trained) > max(0.8, metrics.auroc(start) + 0.1)
