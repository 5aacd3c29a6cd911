"""Counting on a device: the same tables as NumPy's, and what is refused."""

import numpy as np
import pytest

from openset.metrics import Sketch, bins

torch = pytest.importorskip("torch")
torch_sketch = pytest.importorskip("openset.integrations.torch_sketch")


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e6, 1e30])
def test_tables_are_those_of_numpy(scale):
    rng = np.random.default_rng(0)
    labels, predicted = rng.integers(-1, 3, 500), rng.integers(0, 3, 500)
    known = (rng.normal(size=500) * scale).astype(np.float32)
    expected, counts = Sketch(), torch_sketch.TorchSketch()
    expected.update(labels=labels, predicted=predicted, known=known)
    for rows in np.array_split(np.arange(500), 7):
        counts.update(*(torch.from_numpy(a[rows]) for a in (known, predicted, labels)))
    found = counts.sketch()
    for name in bins.SHAPES:
        np.testing.assert_array_equal(found.state()[name], expected.state()[name])


@pytest.mark.parametrize(
    "labels", [torch.tensor([0, 255], dtype=torch.uint8), torch.tensor([[0], [-1]])]
)
def test_labels_without_a_sign_or_in_columns_are_refused(labels):
    known, predicted = torch.tensor([1.0, 0.0]), torch.tensor([0, 0])
    with pytest.raises(TypeError, match="labels must be a vector of a type with a"):
        torch_sketch.TorchSketch().update(known, predicted, labels)
