"""Pseudo-unknowns made by mixing samples."""

import torch
from torch import Tensor


def shuffled(n: int, device: torch.device) -> Tensor:
    """Draw a permutation; unlike randperm it can be recorded in a CUDA graph."""
    return torch.rand(n, device=device).argsort()


def beta(alpha: int, shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Draw from Beta(α, α): the middle one of 2α − 1 uniform numbers.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> draws = beta(2, (10000,), torch.device("cpu"))
    >>> round(float(draws.mean()), 2), round(float(draws.var()), 2)
    (0.5, 0.05)
    """
    uniform = torch.rand(*shape, 2 * alpha - 1, device=device)
    return uniform.sort(dim=-1).values[..., alpha - 1]


def mix(hidden: Tensor, partner: Tensor, share: Tensor) -> Tensor:
    """Mix samples slot by slot; `share` is one number, or one per sample."""
    share = share.reshape(-1, *[1] * (hidden.ndim - 1)).to(hidden.dtype)
    return share * hidden + (1 - share) * partner
