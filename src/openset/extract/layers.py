"""Features of inner layers of a network: the means of their channels."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from openset import _check
from openset._optional import needs

with needs("torch"):
    import torch
    from torch import Tensor, nn


class Layers(dict[str, list[Tensor]]):
    """What layers made in one pass, by name; `clear` it before the next."""

    def take(self, name: str, _module: nn.Module, _inputs: Any, output: Any) -> None:
        """Keep what a layer made: a forward hook."""
        while isinstance(output, tuple | list) and output:  # blocks of transformers
            output = output[0]
        self.setdefault(name, []).append(output)

    def features(self, names: Sequence[str]) -> Tensor:
        """Return the means of the channels of layers, side by side."""
        rows = []
        for name in names:
            made = self.get(name, [])
            if len(made) != 1 or not isinstance(made[0], Tensor) or made[0].ndim < 2:
                rule = "called once per pass and return a tensor (n, channels, ...)"
                got = f"{len(made)} calls, {[type(one).__name__ for one in made]}"
                remedy = "Name the block that it is part of"
                _check.fail("extract", f"layer {name!r}", rule, got, remedy)
            is_tokens = made[0].ndim == 3
            rows.append(
                mean_over_places(made[0].transpose(1, 2) if is_tokens else made[0])
            )
        return torch.cat(rows, dim=1)


@contextmanager
def recording_layers(model: nn.Module, names: Sequence[str]) -> Iterator[Layers]:
    """Record layers by name, as in ``model.named_modules()``."""
    modules = {name: one for name, one in model.named_modules() if name}
    recorder = Layers()
    with ExitStack() as stack:
        for name in names:
            if name not in modules or [*names].count(name) > 1:
                rule = "names in model.named_modules(), each once"
                near = _check.near(name, list(modules))
                _check.fail("extract", "layers", rule, f"{name!r} in {[*names]}", near)
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
