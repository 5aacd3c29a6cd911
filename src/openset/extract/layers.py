"""Features of inner layers of a network: the means of their channels."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from openset import _check, _extras

with _extras.importing("openset.extract", "torch"):
    import torch
    from torch import Tensor, nn

_SHOWN = 40  # names of layers in a message


class Layers:
    """Rows of named layers during one pass."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._rows: dict[str, Tensor] = {}

    def clear(self) -> None:
        """Forget the last pass."""
        self._rows.clear()

    def take(self, name: str, _module: nn.Module, _inputs: Any, output: Any) -> None:
        """Summarise what a layer made: a forward hook."""
        while isinstance(output, tuple | list) and output:  # blocks of transformers
            output = output[0]
        if not isinstance(output, Tensor) or output.ndim < 2 or name in self._rows:
            rule = "called once per pass and return a tensor (n, channels, ...)"
            got = "another call" if name in self._rows else type(output).__name__
            remedy = "Name the block that it is part of"
            _check.fail("extract", f"layer {name!r}", rule, got, remedy)
        made = output.transpose(1, 2) if output.ndim == 3 else output  # tokens
        self._rows[name] = mean_over_places(made)

    def features(self) -> Tensor:
        """Return the rows of one pass, side by side."""
        left = [name for name in self.names if name not in self._rows]
        if left:
            rule = "called once per pass"
            _check.fail("extract", f"layer {left[0]!r}", rule, "0 calls")
        return torch.cat([self._rows[name] for name in self.names], dim=1)


@contextmanager
def recording_layers(model: nn.Module, names: Sequence[str]) -> Iterator[Layers]:
    """Record layers by name, as in ``model.named_modules()``."""
    modules = {name: one for name, one in model.named_modules() if name}
    if len({*names}) < len(names):
        _check.fail("extract", "layers", "names of layers, each once", list(names))
    recorder = Layers(names)
    with ExitStack() as stack:
        for name in names:
            if name not in modules:
                more = len(modules) - _SHOWN
                shown = ", ".join([*modules][:_SHOWN])
                shown += f" and {more} more: model.named_modules()" if more > 0 else ""
                rule = f"names of layers of the network ({shown})"
                near = _check.near(name, list(modules))
                _check.fail("extract", "layers", rule, repr(name), near)
            hook = modules[name].register_forward_hook(partial(recorder.take, name))
            stack.callback(hook.remove)
        yield recorder


def mean_over_places(made: Tensor) -> Tensor:
    """Return the mean of each channel over pixels or tokens: shape (n, C).

    Examples
    --------
    >>> mean_over_places(torch.tensor([[[1.0, 3.0], [2.0, 2.0]]]))
    tensor([[2., 2.]])
    """
    return made.flatten(2).mean(dim=2) if made.ndim > 2 else made
