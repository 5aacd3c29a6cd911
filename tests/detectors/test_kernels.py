"""Kernels for scores from logits: they agree with the plain path."""

import sys
from types import SimpleNamespace

import pytest
import torch

from openset import Outputs
from openset.detectors import Batch, kernels, make, score_all
from tests.kernels import HAS_TRITON, run_in_interpreter

INF = float("inf")


REDUCTIONS = ("top_class", "top_logit", "other_mass", "log_other_mass")


def logits_of_many_kinds():
    """Yield logits, and the `top` of GEN: ties, one class, infinities, huge numbers."""
    torch.manual_seed(0)
    yield 4 * torch.randn(20, 1000), 100
    yield 100 * torch.randn(20, 1000), 100  # exp underflows
    yield 4 * torch.randn(7, 10), 100
    yield 4 * torch.randn(7, 10), 3
    yield torch.randint(-3, 4, (20, 300)).float(), 40
    yield torch.zeros(3, 50), 7
    yield torch.randn(3, 1), 1
    yield torch.randn(3, 2), 2
    yield torch.randn(5, 2000), 2
    odd = torch.randn(5, 40)
    odd[0, :7] = -INF
    odd[0, 8:] = -INF
    odd[1, 5:] = -INF
    odd[2, 0] = -0.0
    odd[3, :] = 200.0
    odd[4] *= 1e6  # GEN refuses larger ones
    yield odd, 30


def compare(device):
    """Check both kernels against the plain path on the CPU."""
    from openset.detectors import _row_kernels  # noqa: PLC0415  # needs Triton

    for logits, top in logits_of_many_kinds():
        plain = Batch(Outputs(logits=logits))
        there = logits.to(device)
        found = _row_kernels.reduce_rows(there)
        for name, array in zip(REDUCTIONS, found, strict=True):
            expected = getattr(plain, name)
            torch.testing.assert_close(array.cpu(), expected, rtol=1e-5, atol=1e-6)
        kept = min(top, logits.shape[1])
        if kept == 1:
            continue
        log_total = torch.log1p(plain.other_mass)
        first = torch.exp(0.1 * (plain.log_other_mass - 2 * log_total))
        rest = _row_kernels.entropy_of_others(
            there, found[0], plain.energy.to(device), kept=kept - 1, gamma=0.1
        )
        gen = make("gen", top=top)
        expected = gen.score_batch({}, plain)
        torch.testing.assert_close(
            -(first + rest.cpu()), expected, rtol=1e-5, atol=1e-6
        )
    damaged = torch.tensor([[1.0, float("nan"), INF, INF]], device=device)
    found = _row_kernels.reduce_rows(damaged)
    assert all(torch.isnan(array).all() for array in found[1:])


@pytest.mark.skipif(not HAS_TRITON, reason="needs Triton")
def test_kernels_agree_in_the_interpreter():
    code = "from tests.detectors.test_kernels import compare; compare('cpu')"
    run_in_interpreter(code)


@pytest.mark.skipif(
    not (HAS_TRITON and torch.cuda.is_available()), reason="needs a GPU and Triton"
)
def test_kernels_are_used_on_a_gpu_and_agree():
    compare("cuda")
    names = ("msp", "maxlogit", "energy", "gen")
    here = Outputs(logits=4 * torch.randn(500, 70), labels=[0] * 500)
    there = Outputs(logits=here.logits.cuda(), labels=here.labels)
    assert kernels.call("reduce_rows", there.logits) is not None
    expected = score_all([make(name).fit() for name in names], here)
    for name, scores in score_all([make(n).fit() for n in names], there).items():
        assert scores.known == pytest.approx(expected[name].known, rel=1e-5, abs=1e-5)
        assert (scores.predicted == expected[name].predicted).all()
    assert not kernels._problem


def test_a_failure_to_load_the_kernels_is_said_once(monkeypatch):
    logits = SimpleNamespace(
        device=torch.device("cuda", 0),
        dtype=torch.float32,
        shape=(4, 3),
        requires_grad=False,
        stride=lambda axis: 1,
    )
    monkeypatch.setattr(kernels, "_problem", [])
    monkeypatch.setattr(kernels._xp, "is_torch_array", lambda _: True)
    monkeypatch.setattr(kernels._xp, "array_namespace", lambda _: torch)
    monkeypatch.setitem(sys.modules, "openset.detectors._row_kernels", None)
    with pytest.warns(UserWarning, match="GPU kernels for logits do not work here"):
        assert kernels.call("reduce_rows", logits) is None
    assert kernels.call("reduce_rows", logits) is None  # a warning would be an error


def test_arrays_on_the_cpu_take_the_plain_path():
    logits = torch.randn(4, 3)
    assert kernels.call("reduce_rows", logits) is None
    assert kernels.call("reduce_rows", logits.numpy()) is None
