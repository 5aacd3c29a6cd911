"""Batch norm and LeakyReLU as GPU kernels, with as few passes over memory as possible.

An image batch in `channels_last` order is a matrix: one row per pixel, one column per
channel. Forward reads it twice (moments, then the result) and writes once; backward
reads it and its gradient twice and writes once. Between the two passes a small kernel
adds up what the programs of the first have left, always in the same order: results
repeat to the last bit.

`norm` has mean, 1 / deviation, weight and bias of each channel; the sums of gradients
are those of the bias and of the weight.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

_TILE = 4096  # numbers that a program holds at a time
_NUMBERS = tl.constexpr(_TILE)
_PROGRAMS = 132  # that add up side by side: one for each processor of an H200
_AHEAD = tl.constexpr(3)  # tiles on their way while one is added up
_FEW = tl.constexpr(16)  # channels that a program of the small kernels takes


@triton.jit
def _add_up_moments(x, sums, n_rows, channels: tl.constexpr):
    """Leave the sums of x - pivot and of its square; the pivot is the first pixel.

    Squares of x itself would cancel where the mean is large beside the spread.
    """
    rows: tl.constexpr = _NUMBERS // channels
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
    norm,
    weight,
    bias,
    running_mean,
    running_var,
    seen,
    n_rows,
    n_programs,
    eps: tl.constexpr,
    momentum: tl.constexpr,
    channels: tl.constexpr,
    programs: tl.constexpr,
):
    """Turn sums into the norm of each channel, and move the running moments."""
    column = tl.program_id(0) * _FEW + tl.arange(0, _FEW)
    program = tl.arange(0, programs)[:, None]
    place = sums + program * 2 * channels + column
    there = program < n_programs
    first = tl.sum(tl.load(place, mask=there, other=0.0), 0) / n_rows
    second = tl.sum(tl.load(place + channels, mask=there, other=0.0), 0) / n_rows
    centre = tl.load(x + column).to(tl.float32) + first
    variance = tl.maximum(second - first * first, 0.0)
    tl.store(norm + column, centre)
    tl.store(norm + channels + column, tl.rsqrt(variance + eps))
    tl.store(norm + 2 * channels + column, tl.load(weight + column))
    tl.store(norm + 3 * channels + column, tl.load(bias + column))
    before = tl.load(running_mean + column)
    tl.store(running_mean + column, before + momentum * (centre - before))
    before = tl.load(running_var + column)
    unbiased = variance * (n_rows / (n_rows - 1.0))
    tl.store(running_var + column, before + momentum * (unbiased - before))
    if tl.program_id(0) == 0:
        tl.store(seen, tl.load(seen) + 1)


@triton.jit
def _loaded(norm, channels: tl.constexpr):
    """Return mean, 1 / deviation, weight and bias of each channel."""
    at = norm + tl.arange(0, channels)
    centre, spread = tl.load(at), tl.load(at + channels)
    return centre, spread, tl.load(at + 2 * channels), tl.load(at + 3 * channels)


@triton.jit
def _normalise(x, y, norm, n_rows, slope: tl.constexpr, channels: tl.constexpr):
    rows: tl.constexpr = _NUMBERS // channels
    centre, spread, weight, bias = _loaded(norm, channels)
    row = tl.program_id(0) * rows + tl.arange(0, rows)[:, None]
    there = row < n_rows
    place = row * channels + tl.arange(0, channels)
    value = tl.load(x + place, mask=there).to(tl.float32)
    value = (value - centre) * (spread * weight) + bias
    value = tl.where(value > 0, value, value * slope)
    tl.store(y + place, value.to(y.dtype.element_ty), mask=there)


@triton.jit
def _back(x, gradient, place, there, centre, spread, weight, bias, slope: tl.constexpr):
    """Return pixels without mean and deviation, and the gradient before LeakyReLU."""
    value = tl.load(x + place, mask=there, other=0.0).to(tl.float32)
    value = (value - centre) * spread
    back = tl.load(gradient + place, mask=there, other=0.0).to(tl.float32)
    return value, tl.where(value * weight + bias > 0, back, back * slope)


@triton.jit
def _add_up_gradients(
    x, gradient, sums, norm, n_rows, slope: tl.constexpr, channels: tl.constexpr
):
    """Leave the sums of the gradient before LeakyReLU, alone and times the norm."""
    rows: tl.constexpr = _NUMBERS // channels
    program, stride = tl.program_id(0), tl.num_programs(0) * rows
    column = tl.arange(0, channels)
    centre, spread, weight, bias = _loaded(norm, channels)
    first = tl.zeros([rows, channels], tl.float32)
    second = tl.zeros([rows, channels], tl.float32)
    for start in tl.range(program * rows, n_rows, stride, num_stages=_AHEAD):
        row = start + tl.arange(0, rows)[:, None]
        place, there = row * channels + column, row < n_rows
        value, back = _back(
            x, gradient, place, there, centre, spread, weight, bias, slope
        )
        first += back
        second += back * value
    place = sums + program * 2 * channels + column
    tl.store(place, tl.sum(first, 0))
    tl.store(place + channels, tl.sum(second, 0))


@triton.jit
def _send_back(
    x, gradient, out, norm, sums, n_rows, slope: tl.constexpr, channels: tl.constexpr
):
    rows: tl.constexpr = _NUMBERS // channels
    column = tl.arange(0, channels)
    centre, spread, weight, bias = _loaded(norm, channels)
    first = tl.load(sums + column) / n_rows
    second = tl.load(sums + channels + column) / n_rows
    row = tl.program_id(0) * rows + tl.arange(0, rows)[:, None]
    place, there = row * channels + column, row < n_rows
    value, back = _back(x, gradient, place, there, centre, spread, weight, bias, slope)
    back = (back - first - value * second) * (spread * weight)
    tl.store(out + place, back.to(out.dtype.element_ty), mask=there)


def _cut(x: Tensor) -> tuple[int, int, int, int]:
    """Return how an image batch is cut: channels, pixels, tiles, programs that add."""
    channels = x.shape[1]
    n_rows = x.numel() // channels
    tiles = triton.cdiv(n_rows, _TILE // channels)
    return channels, n_rows, tiles, min(tiles, _PROGRAMS)


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
        and 16 <= channels <= 1024
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
        channels, n_rows, tiles, adders = _cut(x)
        sums = torch.empty(adders, 2, channels, device=x.device)
        norm, y = torch.empty(4, channels, device=x.device), torch.empty_like(x)
        _add_up_moments[(adders,)](x, sums, n_rows, channels)
        kept = (norm, weight, bias, running_mean, running_var, seen)
        numbers = (n_rows, adders, eps, momentum, channels)
        programs = triton.next_power_of_2(adders)
        _finish_moments[(channels // 16,)](x, sums, *kept, *numbers, programs)
        _normalise[(tiles,)](x, y, norm, n_rows, slope, channels)
        ctx.save_for_backward(x, norm)
        ctx.slope = slope
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of images, weight and bias."""
        x, norm = ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        channels, n_rows, tiles, adders = _cut(x)
        sums = torch.empty(adders, 2, channels, device=x.device)
        out, shape = torch.empty_like(x), (n_rows, ctx.slope, channels)
        _add_up_gradients[(adders,)](x, gradient, sums, norm, *shape)
        sums = sums.sum(dim=0)
        _send_back[(tiles,)](x, gradient, out, norm, sums, *shape)
        return out, sums[1], sums[0], *(None,) * 6
