"""Reductions over the rows of logits as GPU kernels: each reads its rows once.

A program holds one row in registers, so that maxima, sums of exponentials and the
selection of the largest entries need no further pass over memory and no temporaries.
Everything is computed in float32, whatever the logits are stored as.
"""

from statistics import NormalDist
from typing import Any

import triton
import triton.language as tl

from openset import _xp

MAX_COLUMNS = 16384
"""Longer rows do not fit in the registers of one program."""

# Columns that one warp holds, by kernel: the fastest of 128 to 1024 on an H200, with
# 1000 columns (benchmarks/gpu_scoring.py).
_COLUMNS_PER_WARP = {"reduce": 1024, "entropy": 512}


@triton.jit
def _reduce(
    logits,
    top_class,
    top_logit,
    other_mass,
    log_other_mass,
    n_columns,
    stride,
    block: tl.constexpr,
):
    """Largest logit, its column, and the sum of exponentials over the other columns."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, block)
    there = column < n_columns
    start = logits + row * stride
    values = tl.load(start + column, mask=there, other=float("-inf")).to(tl.float32)
    # Maxima ignore NaN here, but a row with NaN must give NaN.
    is_nan = values != values  # noqa: PLR0124
    has_nan = tl.max(is_nan.to(tl.int32), 0) > 0
    values = tl.where(is_nan, float("inf"), values)
    top, at = tl.max(values, 0, return_indices=True)  # the first one on ties
    top = tl.where(has_nan, float("nan"), top)
    others = tl.where(column == at, float("-inf"), values)
    second = tl.max(others, 0)
    # Relative to the second largest logit the sum is at least 1: its logarithm does not
    # underflow. If all others are -inf, the sum must be 0.
    shift = tl.where(second > float("-inf"), second, top)
    mass = tl.sum(tl.where(column == at, 0.0, tl.exp(others - shift)), 0)
    gap = shift - top
    tl.store(top_class + row, at.to(tl.int64))
    tl.store(top_logit + row, top)
    tl.store(other_mass + row, tl.exp(gap) * mass)
    tl.store(log_other_mass + row, gap + tl.log(mass))


@triton.jit
def _term(value, energy, gamma):
    """Return p^gamma (1 - p)^gamma of a class that is not the predicted one."""
    # Powers of two are one instruction; p <= 1/2, so log(1 - p) is precise enough.
    log_p = (value - energy) * 1.4426950408889634
    return tl.exp2(gamma * (log_p + tl.log2(1.0 - tl.exp2(log_p))))


@triton.jit
def _key(value):
    """Return an integer that is in the order of float32 numbers."""
    bits = value.to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def _value(key):
    """Return the number of a key: the inverse of `_key`."""
    bits = key ^ ((key >> 31) & 0x7FFFFFFF)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def _next_guess(step, low, high, n_more, n_fewer, per_key):
    """Guess the number from which on exactly as many are found as are kept.

    From `low` on there are `n_more` too many, from `high` on `n_fewer` too few. The
    second guess goes from the nearer end, as far as a normal distribution says; the
    next ones divide the interval in proportion to the counts. Halving it copes with
    what is neither.
    """
    if step == 1:
        guess = low + per_key * (n_more + 0.5)
        if n_fewer < n_more:
            guess = high - per_key * (n_fewer + 0.5)
    elif step < 8:
        share = n_more.to(tl.float32) / (n_more + n_fewer)
        guess = low + (high - low) * tl.minimum(tl.maximum(share, 0.05), 0.95)
    else:
        guess = (low + high) / 2
    return guess


@triton.jit
def _add_entropy(
    logits,
    top_class,
    energy,
    result,
    n_columns,
    stride,
    kept,
    quantile,
    steepness,
    gamma,
    block: tl.constexpr,
):
    """Add up the terms of the `kept` largest logits but for the predicted class.

    `quantile` and `steepness` say where the smallest of them would be, and how many
    would lie around it, if logits had a standard normal distribution.
    """
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, block)
    at = tl.load(top_class + row)
    is_other = (column < n_columns) & (column != at)
    start = logits + row * stride
    values = tl.load(start + column, mask=is_other, other=float("-inf")).to(tl.float32)
    # The smallest integer is below the key of -inf: it marks columns that do not count.
    keys = tl.where(is_other, _key(values), -2147483648)
    # `low` always has at least `kept` keys from it on, `high` has fewer.
    low = tl.min(tl.where(is_other, keys, 2147483647), 0)
    high = tl.max(keys, 0) + 1
    n_others = tl.sum(is_other.to(tl.int32), 0)
    n_found = n_others
    n_high = 0
    finite = tl.where(is_other, values, 0.0)
    mean = tl.sum(finite, 0) / n_others
    deviation = tl.sqrt(
        tl.maximum(tl.sum(finite * finite, 0) / n_others - mean * mean, 0.0)
    )
    per_key = 1.5 * deviation / steepness  # somewhat too far: the other end moves, too
    step = 0
    while (high.to(tl.int64) - low > 1) & (n_found != kept):
        if step == 0:
            guess = mean + quantile * deviation
        else:
            guess = _next_guess(
                step, _value(low), _value(high), n_found - kept, kept - n_high, per_key
            )
        # NaN and infinity become keys that are out of bounds.
        middle = _key(guess)
        if (middle <= low) | (middle >= high) | (step >= 16):
            middle = (low >> 1) + (high >> 1) + (low & high & 1)
        n_above = tl.sum((keys >= middle).to(tl.int32), 0)
        if n_above >= kept:
            low = middle
            n_found = n_above
        else:
            high = middle
            n_high = n_above
        step += 1
    # Either exactly `kept` keys are from `low` on, or `low` is the last one's key and
    # several share it: then they have equal terms, and some of them count.
    is_above = keys >= low
    is_tied = (keys == low) & (n_found != kept)
    of_row = tl.load(energy + row)
    terms = tl.where(is_above, _term(values, of_row, gamma), 0.0)
    total = tl.sum(tl.where(is_tied, 0.0, terms), 0)
    n_strict = tl.sum((is_above & (is_tied == 0)).to(tl.int32), 0)
    tied = tl.max(tl.where(is_tied, terms, 0.0), 0)
    tl.store(result + row, total + (kept - n_strict) * tied)


def reduce_rows(logits: Any) -> tuple[Any, ...]:
    """Return largest logits, their classes and the two masses, each of shape (n,)."""
    n, n_columns = logits.shape
    top_class = logits.new_empty(n, dtype=_xp.array_namespace(logits).int64)
    floats = logits.new_empty((3, n))
    size, outputs = (n_columns, logits.stride(0)), (top_class, *floats)
    _reduce[(n,)](logits, *outputs, *size, **_options("reduce", n_columns))
    return outputs


def entropy_of_others(
    logits: Any, top_class: Any, energy: Any, *, kept: int, gamma: float
) -> Any:
    """Return the GEN terms of the `kept` largest logits but for the predicted class."""
    n, n_columns = logits.shape
    result, normal = energy.new_empty(n), NormalDist()
    quantile = normal.inv_cdf(1 - min(kept / n_columns, 0.999))
    arrays = (logits, top_class, energy, result, n_columns, logits.stride(0))
    shape = (kept, quantile, n_columns * normal.pdf(quantile), gamma)
    _add_entropy[(n,)](*arrays, *shape, **_options("entropy", n_columns))
    return result


def runs_on(logits: Any) -> bool:
    """Whether kernels would run on the device of the logits, and a row fits."""
    here = triton.runtime.driver.active.get_current_device()
    return logits.device.index == here and logits.shape[1] <= MAX_COLUMNS


def _options(kernel: str, n_columns: int) -> dict[str, int]:
    block = max(int(triton.next_power_of_2(n_columns)), 32)
    return {"block": block, "num_warps": max(1, block // _COLUMNS_PER_WARP[kernel])}
