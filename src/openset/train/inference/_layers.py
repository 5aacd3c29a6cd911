"""Records the outputs of several layers of a network."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from openset import _check, _extras
from openset.detectors.layered import GRAM, POWERS, STEP

with _extras.importing("openset.train", "torch"):
    import torch
    from torch import Tensor, nn

Summary = Callable[[Tensor], Tensor]
_SHOWN = 40  # names of layers in a message


class LayerRecorder:
    """Records named layers during a pass, each summarised as one row per sample.

    Parameters
    ----------
    caller
        Name of the calling function, for errors.
    layers
        Names of the layers, as in ``model.named_modules()``.
    summary
        From what a layer returns, with the channels on axis 1, to shape (n, d).
    """

    def __init__(self, caller: str, layers: Sequence[str], summary: Summary) -> None:
        self.caller, self.layers, self.summary = caller, tuple(layers), summary
        self._found: dict[str, list[Tensor]] = {}

    @contextmanager
    def recording(self, model: nn.Module) -> Iterator[None]:
        """Record every pass of the model until the end of the block."""
        modules = dict(model.named_modules())
        with ExitStack() as stack:
            for name in self.layers:
                hook = partial(self._record, name)
                handle = modules[name].register_forward_hook(hook)
                stack.callback(handle.remove)
            yield

    def _record(self, name: str, _module: nn.Module, _inputs: Any, output: Any) -> None:
        made = output
        while isinstance(made, tuple | list) and made:  # blocks of transformers
            made = made[0]
        if not isinstance(made, Tensor) or made.ndim < 2:
            got = f"a {type(made).__name__}"
            if isinstance(made, Tensor):
                got = f"shape {tuple(made.shape)}"
            rule = f"one that returns a tensor (n, channels, ...), unlike {name!r}"
            raise TypeError(
                _check.must(rule, caller=self.caller, name="layers", got=got)
            )
        if made.ndim == 3:  # (n, tokens, channels)
            made = made.transpose(1, 2)
        self._found.setdefault(name, []).append(self.summary(made))

    def clear(self) -> None:
        """Forget what was recorded."""
        self._found.clear()

    def found(self) -> dict[str, Tensor]:
        """Return the rows of one pass, in which each layer was called once.

        By :func:`column`.
        """
        for name in self.layers:
            calls = len(self._found.get(name, ()))
            if calls != 1:
                msg = _check.must(
                    "called once per pass",
                    caller=self.caller,
                    name=f"layer {name!r}",
                    got=f"{calls} calls",
                    remedy="Name the block that it is part of",
                )
                raise ValueError(msg)
        return {column(name): self._found[name][0] for name in self.layers}


class SideBySide(LayerRecorder):
    """Records layers as one array of features, their columns side by side."""

    def __init__(self, caller: str, layers: Sequence[str]) -> None:
        plain, summary = named_summary(caller, layers)
        super().__init__(caller, plain, summary)
        self.names = check_names(caller, layers)
        self.widths: tuple[int, ...] = ()

    def found(self) -> dict[str, Tensor]:
        """Return the features of one pass."""
        parts = list(super().found().values())
        self.widths = tuple(part.shape[1] for part in parts)
        return {"features": torch.cat(parts, dim=1)}

    def pairs(self) -> list[tuple[str, int]]:
        """Return the name and the number of columns of each layer."""
        return list(zip(self.names, self.widths, strict=True))


def column(layer: str) -> str:
    """Return the key of a layer's rows, which differs from "features" and "logits"."""
    return f"layer {layer}"


def check_layers(caller: str, model: nn.Module, layers: Sequence[str]) -> None:
    """Raise unless these are different layers of the model."""
    names = [name for name, _ in model.named_modules() if name]
    for name in layers:
        if name not in names:
            shown = ", ".join(names[:_SHOWN])
            more = len(names) - _SHOWN
            msg = _check.must(
                f"names of layers of the network ({shown}"
                f"{f' and {more} more: model.named_modules()' if more > 0 else ''})",
                caller=caller,
                name="layers",
                got=repr(name),
                remedy=_check.near(name, names),
            )
            raise ValueError(msg)


def check_names(caller: str, layers: Sequence[str]) -> tuple[str, ...]:
    """Return the names of layers; raise unless there are some, each once."""
    names = (layers,) if isinstance(layers, str) else tuple(layers)
    is_text = all(isinstance(name, str) for name in names)
    if not names or not is_text or len(set(names)) < len(names):
        rule = "names of one or several layers, each once"
        got = repr(list(names))
        raise ValueError(_check.must(rule, caller=caller, name="layers", got=got))
    return names


def named_summary(
    caller: str, layers: Sequence[str], powers: Sequence[int] = POWERS
) -> tuple[tuple[str, ...], Summary]:
    """Return plain names of layers, and how they are summarised.

    Examples
    --------
    >>> named_summary("example", ["gram:conv1", "gram:conv2"])[0]
    ('conv1', 'conv2')
    """
    names = check_names(caller, layers)
    if names[0].startswith(STEP):
        rule = "layers of inputs as they are"
        msg = _check.must(
            rule,
            caller=caller,
            name="layers",
            got=f"{names[0]!r}, for which inputs are perturbed along a gradient",
            remedy="Extract them for the detector: openset extract --rejector FOLDER, "
            "or train.FittedLayers(rejector.fitted).outputs(...)",
        )
        raise ValueError(msg)
    plain = tuple(name.removeprefix(GRAM) for name in names)
    n_gram = sum(name.startswith(GRAM) for name in names)
    if n_gram == 0:
        return names, mean_over_places
    if n_gram < len(names):
        rule = f"names with {GRAM} before all of them, or before none"
        got = ", ".join(names)
        raise ValueError(_check.must(rule, caller=caller, name="layers", got=got))
    return plain, partial(gram_rows, powers=powers)


def mean_over_places(made: Tensor) -> Tensor:
    """Return the mean of each channel over pixels or tokens: shape (n, C).

    Examples
    --------
    >>> mean_over_places(torch.tensor([[[1.0, 3.0], [2.0, 2.0]]]))
    tensor([[2., 2.]])
    """
    return made.flatten(2).mean(dim=2) if made.ndim > 2 else made


def gram_rows(made: Tensor, powers: Sequence[int]) -> Tensor:
    r"""Return the row sums of Gram matrices of several powers: shape (n, powers * C).

    .. math:: \Bigl(\sum_j (F^p F^{p\top})_{ij}\Bigr)^{1/p}

    The root keeps the sign. Computed in float64, as tenth powers overflow float32.

    Examples
    --------
    Two channels of two pixels: their products are [[5, 0], [0, 5]].

    >>> gram_rows(torch.tensor([[[1.0, 2.0], [2.0, -1.0]]]), [1])
    tensor([[5., 5.]])
    """
    rows = (made.flatten(2) if made.ndim > 2 else made[:, :, None]).double()
    found = []
    for p in powers:
        powered = rows**p
        # The row sums of F F^T are F times the sum of its rows: no C x C matrix.
        sums = (powered * powered.sum(dim=1, keepdim=True)).sum(dim=2)
        found.append(sums.sign() * sums.abs() ** (1 / p))
    return torch.cat(found, dim=1).to(made.dtype)
