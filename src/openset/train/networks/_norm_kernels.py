"""Batch norm and LeakyReLU as GPU kernels, with as few passes over memory as possible.

An image batch in `channels_last` order is a matrix: one row per pixel, one column per
channel. Forward reads it twice (moments, then the result) and writes once; backward
reads it and its gradient twice and writes once. Between the two passes a small kernel
adds up what the programs of the first have left, always in the same order: results
repeat to the last bit.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

_TILE = 4096  # numbers that a program holds at a time
_PROGRAMS = 132  # that add up side by side: one for each processor of an H200
_AHEAD = tl.constexpr(3)  # tiles on their way while one is added up
_FEW = 16  # channels that a program of the small kernels takes


@triton.jit
def _add_up_moments(x, sums, n_rows, channels: tl.constexpr, rows: tl.constexpr):
    """Leave the sums of x - pivot and of its square; the pivot is the first pixel.

    Squares of x itself would cancel where the mean is large beside the spread.
    """
    program, stride = tl.program_id(0), tl.num_programs(0) * rows
    column = tl.arange(0, channels)
    pivot = tl.load(x + column).to(tl.float32)
    first = tl.zeros([rows, channels], tl.float32)
    second = tl.zeros([rows, channels], tl.float32)
    for start in tl.range(program * rows, n_rows, stride, num_stages=_AHEAD):
        row = start + tl.arange(0, rows)[:, None]
        there = row < n_rows
        value = tl.load(x + row * channels + column, mask=there).to(tl.float32)
        off = tl.where(there, value - pivot, 0.0)
        first += off
        second += off * off
    place = sums + program * 2 * channels + column
    tl.store(place, tl.sum(first, 0))
    tl.store(place + channels, tl.sum(second, 0))


@triton.jit
def _finish_moments(
    x,
    sums,
    mean,
    scale,
    running_mean,
    running_var,
    seen,
    n_rows,
    n_programs,
    eps: tl.constexpr,
    momentum: tl.constexpr,
    channels: tl.constexpr,
    programs: tl.constexpr,
    few: tl.constexpr,
):
    """Turn sums into mean and 1 / deviation, and move the running moments."""
    column = tl.program_id(0) * few + tl.arange(0, few)
    program = tl.arange(0, programs)[:, None]
    place = sums + program * 2 * channels + column
    there = program < n_programs
    first = tl.sum(tl.load(place, mask=there, other=0.0), 0) / n_rows
    second = tl.sum(tl.load(place + channels, mask=there, other=0.0), 0) / n_rows
    centre = tl.load(x + column).to(tl.float32) + first
    variance = tl.maximum(second - first * first, 0.0)
    tl.store(mean + column, centre)
    tl.store(scale + column, tl.rsqrt(variance + eps))
    before = tl.load(running_mean + column)
    tl.store(running_mean + column, before + momentum * (centre - before))
    before = tl.load(running_var + column)
    unbiased = variance * (n_rows / (n_rows - 1.0))
    tl.store(running_var + column, before + momentum * (unbiased - before))
    if tl.program_id(0) == 0:
        tl.store(seen, tl.load(seen) + 1)


@triton.jit
def _normalise(
    x,
    y,
    mean,
    scale,
    weight,
    bias,
    n_rows,
    slope: tl.constexpr,
    channels: tl.constexpr,
    rows: tl.constexpr,
):
    column = tl.arange(0, channels)
    centre = tl.load(mean + column)
    factor = tl.load(scale + column) * tl.load(weight + column)
    shift = tl.load(bias + column)
    row = tl.program_id(0) * rows + tl.arange(0, rows)[:, None]
    there = row < n_rows
    place = row * channels + column
    value = tl.load(x + place, mask=there).to(tl.float32)
    value = (value - centre) * factor + shift
    value = tl.where(value > 0, value, value * slope)
    tl.store(y + place, value.to(y.dtype.element_ty), mask=there)


@triton.jit
def _add_up_gradients(
    x,
    gradient,
    sums,
    mean,
    scale,
    weight,
    bias,
    n_rows,
    slope: tl.constexpr,
    channels: tl.constexpr,
    rows: tl.constexpr,
):
    """Leave the sums of the gradient before LeakyReLU, alone and times the norm."""
    program, stride = tl.program_id(0), tl.num_programs(0) * rows
    column = tl.arange(0, channels)
    centre = tl.load(mean + column)
    spread = tl.load(scale + column)
    factor = tl.load(weight + column)
    shift = tl.load(bias + column)
    first = tl.zeros([rows, channels], tl.float32)
    second = tl.zeros([rows, channels], tl.float32)
    for start in tl.range(program * rows, n_rows, stride, num_stages=_AHEAD):
        row = start + tl.arange(0, rows)[:, None]
        there = row < n_rows
        place = row * channels + column
        value = tl.load(x + place, mask=there, other=0.0).to(tl.float32)
        value = (value - centre) * spread
        back = tl.load(gradient + place, mask=there, other=0.0).to(tl.float32)
        back = tl.where(value * factor + shift > 0, back, back * slope)
        first += back
        second += back * value
    place = sums + program * 2 * channels + column
    tl.store(place, tl.sum(first, 0))
    tl.store(place + channels, tl.sum(second, 0))


@triton.jit
def _finish_gradients(
    sums,
    bias_gradient,
    weight_gradient,
    n_programs,
    channels: tl.constexpr,
    programs: tl.constexpr,
    few: tl.constexpr,
):
    column = tl.program_id(0) * few + tl.arange(0, few)
    program = tl.arange(0, programs)[:, None]
    place = sums + program * 2 * channels + column
    there = program < n_programs
    first = tl.sum(tl.load(place, mask=there, other=0.0), 0)
    second = tl.sum(tl.load(place + channels, mask=there, other=0.0), 0)
    tl.store(bias_gradient + column, first)
    tl.store(weight_gradient + column, second)


@triton.jit
def _send_back(
    x,
    gradient,
    out,
    mean,
    scale,
    weight,
    bias,
    bias_gradient,
    weight_gradient,
    n_rows,
    slope: tl.constexpr,
    channels: tl.constexpr,
    rows: tl.constexpr,
):
    column = tl.arange(0, channels)
    centre = tl.load(mean + column)
    spread = tl.load(scale + column)
    factor = tl.load(weight + column)
    shift = tl.load(bias + column)
    first = tl.load(bias_gradient + column) / n_rows
    second = tl.load(weight_gradient + column) / n_rows
    row = tl.program_id(0) * rows + tl.arange(0, rows)[:, None]
    there = row < n_rows
    place = row * channels + column
    value = tl.load(x + place, mask=there).to(tl.float32)
    value = (value - centre) * spread
    back = tl.load(gradient + place, mask=there).to(tl.float32)
    back = tl.where(value * factor + shift > 0, back, back * slope)
    back = (back - first - value * second) * (spread * factor)
    tl.store(out + place, back.to(out.dtype.element_ty), mask=there)


class _Cut(NamedTuple):
    """How a batch of images is cut into tiles."""

    channels: int
    n_rows: int
    rows: int  # of one tile

    @property
    def tiles(self) -> int:
        return triton.cdiv(self.n_rows, self.rows)

    @property
    def shape(self) -> dict[str, int]:
        return {"channels": self.channels, "rows": self.rows}

    @property
    def n_programs(self) -> int:
        """Those that add up."""
        return min(self.tiles, _PROGRAMS)

    @property
    def ends(self) -> dict[str, int]:
        programs = triton.next_power_of_2(self.n_programs)
        return {"channels": self.channels, "programs": programs, "few": _FEW}


def _cut(x: Tensor) -> _Cut:
    channels = x.shape[1]
    return _Cut(channels, x.numel() // channels, _TILE // channels)


def fits(x: Tensor) -> bool:
    """Whether the kernels take these images."""
    if x.ndim != 4:
        return False
    channels = x.shape[1]
    # Triton launches on the current device; compiled code sees to that itself.
    is_here = (
        torch.compiler.is_compiling()
        or not x.is_cuda  # in Triton's interpreter
        or x.get_device() == torch.cuda.current_device()
    )
    return (
        is_here
        and x.is_contiguous(memory_format=torch.channels_last)
        and _FEW <= channels <= _TILE // 4
        and channels & (channels - 1) == 0
        and channels < x.numel() < 2**31
    )


class FusedNormLeaky(torch.autograd.Function):
    """Batch norm in training and LeakyReLU, of images that fit."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        running_mean: Tensor,
        running_var: Tensor,
        seen: Tensor,
        momentum: float,
        eps: float,
        slope: float,
    ) -> Tensor:
        """Return the result, and move the running moments."""
        cut = _cut(x)
        sums = torch.empty(cut.n_programs, 2, cut.channels, device=x.device)
        mean = torch.empty(cut.channels, device=x.device)
        scale = torch.empty_like(mean)
        y = torch.empty_like(x)
        _add_up_moments[(cut.n_programs,)](x, sums, cut.n_rows, **cut.shape)
        _finish_moments[(cut.channels // _FEW,)](
            x,
            sums,
            mean,
            scale,
            running_mean,
            running_var,
            seen,
            cut.n_rows,
            cut.n_programs,
            eps=eps,
            momentum=momentum,
            **cut.ends,
        )
        _normalise[(cut.tiles,)](
            x, y, mean, scale, weight, bias, cut.n_rows, slope=slope, **cut.shape
        )
        ctx.save_for_backward(x, mean, scale, weight, bias)
        ctx.slope = slope
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of images, weight and bias."""
        x, mean, scale, weight, bias = ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        cut = _cut(x)
        sums = torch.empty(cut.n_programs, 2, cut.channels, device=x.device)
        bias_gradient = torch.empty_like(bias)
        weight_gradient = torch.empty_like(weight)
        out = torch.empty_like(x)
        known = (mean, scale, weight, bias)
        shape = {"slope": ctx.slope, **cut.shape}
        _add_up_gradients[(cut.n_programs,)](
            x, gradient, sums, *known, cut.n_rows, **shape
        )
        _finish_gradients[(cut.channels // _FEW,)](
            sums, bias_gradient, weight_gradient, cut.n_programs, **cut.ends
        )
        _send_back[(cut.tiles,)](
            x,
            gradient,
            out,
            *known,
            bias_gradient,
            weight_gradient,
            cut.n_rows,
            **shape,
        )
        return out, weight_gradient, bias_gradient, *(None,) * 6
