"""Random crops of padded images, and mirror images."""

from openset import _check, _extras
from openset.train.augment import _images

with _extras.importing("openset.train.augment", "torch"):
    import torch
    from torch import Tensor
    from torch.nn import functional as F  # noqa: N812  # its name everywhere


def crop_and_flip(
    images: Tensor,
    padding: int = 4,
    *,
    generator: torch.Generator,
    flip: bool = True,
) -> Tensor:
    r"""Shift every image by up to `padding` pixels, and mirror half of them.

    The image gets a black frame of `padding` pixels p; a crop of its original size is
    taken from it, at one of :math:`(2p + 1)^2` places; then left and right are
    exchanged with probability ½.

    Parameters
    ----------
    images
        uint8, (n, 3, h, w), on any device.
    padding
        Width of the frame; 0 only mirrors.
    generator
        A generator on the CPU: the same state gives the same result on every device.
    flip
        False: do not mirror.

    Examples
    --------
    >>> images = torch.tensor([1, 2, 3], dtype=torch.uint8).expand(4, 3, 1, 3)
    >>> crop_and_flip(images, 0, generator=torch.Generator().manual_seed(0))[:, 0, 0]
    tensor([[1, 2, 3],
            [3, 2, 1],
            [3, 2, 1],
            [1, 2, 3]], dtype=torch.uint8)
    """
    caller = "crop_and_flip"
    images = _images.check(caller, images)
    padding = _check.integer(caller, "padding", padding, low=0)
    generator = _images.check_generator(caller, generator)
    n, _, h, w = images.shape
    # One draw per image is one of all (top, left, mirrored).
    places = 2 * padding + 1
    drawn = torch.randint(places * places * (1 + flip), (n, 1), generator=generator)
    drawn = _images.place(drawn, images, torch.int64)
    left, rest = drawn % places, drawn // places
    top, is_flipped = rest % places, rest // places
    columns = torch.arange(w, device=images.device)
    columns = torch.where(is_flipped > 0, w - 1 - columns, columns) + left
    rows = torch.arange(h, device=images.device) + top
    cropped = torch.empty_like(images, memory_format=torch.contiguous_format)
    for some in _images.pieces(images):
        cropped[some] = _taken(
            F.pad(images[some], (padding,) * 4), rows[some], columns[some]
        )
    return cropped


def _taken(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return those rows (n, h) and columns (n, w) of the images."""
    n, channels, _, width = images.shape
    h, w = rows.shape[1], columns.shape[1]
    # Rows, then columns: two small index tensors, read again for every channel.
    rows = rows[:, None, :, None].expand(n, channels, h, width)
    columns = columns[:, None, None, :].expand(n, channels, h, w)
    return images.gather(2, rows).gather(3, columns)
