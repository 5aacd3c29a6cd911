"""The auxiliary task "rotation": predict how many quarter turns an image was turned."""

import torch
import torch.nn.functional as F  # noqa: N812  # its name everywhere
from torch import Tensor, nn

from openset import _check
from openset.train.methods.base import full_precision

_N_TURNS = 4


class RotationHead(nn.Module):
    r"""A linear layer that predicts quarter turns from the features of the network.

    .. math:: L = L_\text{method} + w \, \overline{\text{CE}(h(f(x)), \text{turns})}

    over the images of a batch, upright, and half as many turned ones
    (:func:`quarter_turns`), which run through the network in one batch.

    Parameters
    ----------
    n_features
        Length of the features.
    weight
        w.

    References
    ----------
    Gidaris et al. (2018), Unsupervised representation learning by predicting image
    rotations; Hendrycks et al. (2019), Using self-supervised learning can improve model
    robustness and uncertainty, who add it to a classifier with weight 0.5 and turn
    every image four ways.
    """

    def __init__(self, n_features: int, *, weight: float = 0.5) -> None:
        super().__init__()
        self.weight = weight
        self.head = nn.Linear(n_features, _N_TURNS)

    def loss(self, features: Tensor, turns: Tensor) -> Tensor:
        """Return the weighted cross-entropy of the turns."""
        return self.weight * F.cross_entropy(full_precision(self.head(features)), turns)


def quarter_turns(images: Tensor) -> tuple[Tensor, Tensor]:
    """Turn the first half of a batch, a third of it by 90, by 180 and by 270 degrees.

    The batch is in random order, so its first half is a random one. Of fewer than six
    images, three are turned, or all. No random numbers are drawn, and no shape depends
    on values.

    Returns
    -------
    tuple
        The turned images, and the number of quarter turns of all images: of the batch
        itself (0), then of the turned ones.

    Examples
    --------
    >>> images = torch.arange(24).reshape(6, 1, 2, 2)
    >>> turned, turns = quarter_turns(images)
    >>> turned[0, 0].tolist(), turns.tolist()
    ([[1, 3], [0, 2]], [0, 0, 0, 0, 0, 0, 1, 2, 3])
    """
    n = images.shape[0]
    n_turned = min(n, max(_N_TURNS - 1, n // 2))
    third = n_turned // 3
    sizes = [third, n_turned - 2 * third, third]
    parts = images[:n_turned].split(sizes)
    turned = [torch.rot90(part, k, (2, 3)) for k, part in enumerate(parts, start=1)]
    turns = [
        torch.full((size,), k, device=images.device)
        for k, size in enumerate([n, *sizes])
    ]
    return torch.cat(turned), torch.cat(turns)


def check_images(example: Tensor) -> None:
    """Raise for inputs that cannot be turned."""
    is_image = example.ndim == 4
    if is_image and example.shape[-2] == example.shape[-1]:
        return
    size = "×".join(map(str, example.shape[-2:]))
    msg = _check.must(
        "'none' unless the samples are square images",
        caller="train.fit",
        name="auxiliary",
        got=f"'rotation' for {f'images of {size}' if is_image else 'rows of numbers'}",
        remedy="Resize them: side=32" if is_image else "Only images can be turned",
    )
    raise ValueError(msg)
