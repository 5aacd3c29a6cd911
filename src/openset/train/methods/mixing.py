"""Pseudo-unknowns made by mixing samples; all can be recorded in a CUDA graph."""

import torch
from torch import Tensor


def shuffled(n: int, device: torch.device) -> Tensor:
    """Draw a permutation; unlike randperm it can be recorded in a CUDA graph."""
    return torch.rand(n, device=device).argsort()


def beta(alpha: int, n: int, device: torch.device) -> Tensor:
    """Draw n numbers from Beta(α, α): the middle one of 2α − 1 uniform numbers.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> draws = beta(2, 10000, torch.device("cpu"))
    >>> round(float(draws.mean()), 2), round(float(draws.var()), 2)
    (0.5, 0.05)
    """
    uniform = torch.rand(n, 2 * alpha - 1, device=device)
    return uniform.sort(dim=-1).values[..., alpha - 1]


def other_class(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Draw a partner of another class for each sample, and mask those that have one.

    Shapes do not depend on the labels, so nothing waits for the device: n² random
    numbers are the price.

    Examples
    --------
    >>> partner, exists = other_class(torch.tensor([0, 0, 1]))
    >>> partner[:2].tolist(), exists.tolist()
    ([2, 2], [True, True, True])
    """
    differs = labels[:, None] != labels
    draws = torch.rand(differs.shape, device=labels.device)
    return torch.where(differs, draws, -1.0).argmax(dim=1), differs.any(dim=1)


def mix(hidden: Tensor, partner: Tensor, share: Tensor) -> Tensor:
    """Mix samples slot by slot; `share` is one number, or one per sample."""
    share = share.reshape(-1, *[1] * (hidden.ndim - 1)).to(hidden.dtype)
    return share * hidden + (1 - share) * partner
