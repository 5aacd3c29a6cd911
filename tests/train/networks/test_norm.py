"""Batch norm with LeakyReLU: the module anywhere, its kernels where there is Triton.

Without a GPU the kernels run in Triton's interpreter, if Triton is installed.
"""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from openset.train.networks import Classifier32
from openset.train.networks.classifier32 import NormLeaky
from tests.kernels import HAS_TRITON, run_in_interpreter

needs_gpu = pytest.mark.skipif(
    not (HAS_TRITON and torch.cuda.is_available()), reason="needs a GPU and Triton"
)
# channels, images, side, mean; one tile and many, the last of them not full
CASES = ((16, 5, 6, 0.0), (64, 3, 7, 50.0), (128, 40, 16, -3.0))


def reference(norm: nn.BatchNorm2d, images: Tensor, gradient: Tensor) -> list[Tensor]:
    """Return result, three gradients, two running moments; plainly, in float64."""
    inputs = [t.detach().double() for t in (images, norm.weight, norm.bias)]
    for one in inputs:
        one.requires_grad_()
    moments = [norm.running_mean.double(), norm.running_var.double()]
    normed = F.batch_norm(inputs[0], *moments, *inputs[1:], training=True)
    result = F.leaky_relu(normed, 0.2)
    return [result, *torch.autograd.grad(result, inputs, gradient.double()), *moments]


def compare(case: tuple[int, int, int, float], device: str, dtype: torch.dtype) -> None:
    """Check the kernels in one case."""
    from openset.train.networks import norm_kernels  # noqa: PLC0415  # needs Triton

    channels, n, side, mean = case
    torch.manual_seed(0)
    norm = NormLeaky(channels).to(device)
    nn.init.uniform_(norm.weight, -0.5, 1.5)
    nn.init.normal_(norm.bias)
    images = (2 * torch.randn(n, channels, side, side) + mean).to(device, dtype)
    images = images.contiguous(memory_format=torch.channels_last).requires_grad_()
    gradient = torch.randn_like(images)
    assert norm_kernels.fits(images)
    expected = reference(norm, images, gradient)
    result = norm_kernels.FusedNormLeaky.apply(
        images, norm.weight, norm.bias, norm.running_mean, norm.running_var,
        norm.num_batches_tracked, norm.momentum, norm.eps, norm.slope,
    )  # fmt: skip
    inputs = (images, norm.weight, norm.bias)
    found = [result, *torch.autograd.grad(result, inputs, gradient)]
    found += [norm.running_mean, norm.running_var]
    assert int(norm.num_batches_tracked) == 1
    assert result.dtype == dtype
    assert result.is_contiguous(memory_format=torch.channels_last)
    coarse = 1e-4 if dtype == torch.float32 else 1e-2
    for number, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        # Only the result and what is sent back are rounded to the images' type.
        off = (mine.double() - theirs).abs().max() / theirs.abs().max()
        assert off < (coarse if number < 2 else 1e-4), (case, number, float(off))


def test_module_is_batch_norm_and_leaky_relu():
    norm, plain = NormLeaky(4, slope=0.1), nn.BatchNorm2d(4)
    for _ in range(3):
        images = 3 * torch.randn(5, 4, 6, 6) + 1
        assert torch.equal(norm(images), F.leaky_relu(plain(images), 0.1))
    for name, value in plain.state_dict().items():
        assert torch.equal(norm.state_dict()[name], value), name
    norm.eval()
    plain.eval()
    assert torch.equal(norm(images), F.leaky_relu(plain(images), 0.1))


def test_kernels_are_turned_off_for_networks_made_from_then_on(monkeypatch):
    before = NormLeaky(4)
    monkeypatch.setenv("OPENSET_NORM_KERNELS", "0")
    after = Classifier32(2)
    assert before.uses_kernels
    norms = [m for m in after.modules() if isinstance(m, NormLeaky)]
    assert [m.uses_kernels for m in norms] == [False] * 9


@needs_gpu
def test_kernels_that_are_turned_off_are_not_used(monkeypatch):
    images = torch.randn(4, 64, 8, 8, device="cuda", requires_grad=True)
    images = images.contiguous(memory_format=torch.channels_last)
    for value, is_used in (("1", True), ("0", False)):
        monkeypatch.setenv("OPENSET_NORM_KERNELS", value)
        name = type(NormLeaky(64).cuda()(images).grad_fn).__name__
        assert ("FusedNormLeaky" in name) == is_used


@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("case", CASES)
def test_kernels_agree_with_float64(case, dtype):
    compare(case, "cuda", dtype)


@needs_gpu
def test_kernels_repeat_to_the_last_bit_and_are_used():
    torch.manual_seed(0)
    images = torch.randn(64, 64, 32, 32, device="cuda", dtype=torch.bfloat16)
    images = images.contiguous(memory_format=torch.channels_last).requires_grad_()
    gradient = torch.randn_like(images)
    found = []
    for _ in range(3):
        norm = NormLeaky(64).cuda()
        result = norm(images)
        assert "FusedNormLeaky" in type(result.grad_fn).__name__
        sent = torch.autograd.grad(result, (images, norm.weight, norm.bias), gradient)
        found.append([result, *sent, norm.running_var])
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


@needs_gpu
def test_images_that_do_not_fit_take_the_usual_way():
    for channels, order in ((48, torch.channels_last), (64, torch.contiguous_format)):
        images = torch.randn(4, channels, 8, 8, device="cuda")
        images = images.contiguous(memory_format=order)
        norm, plain = NormLeaky(channels).cuda(), nn.BatchNorm2d(channels).cuda()
        assert torch.equal(norm(images), F.leaky_relu(plain(images), 0.2))


@pytest.mark.skipif(
    not HAS_TRITON or np.lib.NumpyVersion(np.__version__) >= "2.4.0",
    reason="needs Triton, whose interpreter needs NumPy before 2.4",
)
@pytest.mark.parametrize("case", CASES[:2])
def test_kernels_agree_in_the_interpreter(case):
    code = f"""
import torch
from tests.train.networks.test_norm import compare
compare({case}, "cpu", torch.float32)
"""
    run_in_interpreter(code)
