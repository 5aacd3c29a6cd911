"""A device without float64, such as the GPUs of Apple: it works, or says why not."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from openset import Outputs, detectors
from openset.integrations import torch as modules
from openset.testing import example_outputs as split


class NoFloat64(TorchDispatchMode):
    """Let every operation with a result in float64 fail as on such a device."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for one in tree_flatten(made)[0]:
            if isinstance(one, torch.Tensor) and one.dtype == torch.float64:
                msg = (
                    "Cannot convert a MPS Tensor to float64 dtype as the MPS "
                    "framework doesn't support float64. Please use float32 instead."
                )
                raise TypeError(msg)
        return made


def tensors(n, seed):
    made = split(n, seed=seed, dtype=np.float32)
    names = ("logits", "features", "weight", "bias")
    arrays = {name: torch.tensor(np.array(getattr(made, name))) for name in names}
    return Outputs(labels=made.labels, **arrays)


@pytest.mark.parametrize("name", ["msp", "maxlogit", "energy", "gen", "react", "scale"])
def test_many_detectors_work(name):
    train, test = tensors(80, seed=1), tensors(20, seed=2)
    detector = detectors.make(name)
    with NoFloat64():
        found = detector.fit(train).score(test)
    np.testing.assert_array_equal(found.known, detector.fit(train).score(test).known)


@pytest.mark.parametrize("name", ["postmax", "mahalanobis", "vim"])
def test_others_say_what_to_do(name):
    train = tensors(80, seed=1)
    rule = r"\.fit: outputs must be on a device with float64, got torch\. Move them"
    with NoFloat64(), pytest.raises(TypeError, match=rule):
        detectors.make(name).fit(train)


def test_a_network_on_such_a_device_is_refused():
    modules._need_float64(torch.device("cpu"))
    with pytest.raises(ValueError, match=r"got mps. Move it: model\.to\('cpu'\)"):
        modules._need_float64(torch.device("mps"))
