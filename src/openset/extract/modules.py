"""Networks that are torch modules: of timm, or the user's own."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from openset import _check, _io, _plugins
from openset._optional import needs, optional
from openset.extract import head as heads
from openset.extract.linear_head import LinearHead, read_tensors
from openset.extract.loader import extract
from openset.extract.loop import parts_of
from openset.extract.network import Batches, Network, listed, pixels
from openset.outputs import Outputs

with needs("torch"):
    import torch
    from torch import Tensor, nn

_CALLER = "extract.load"


@dataclass(frozen=True, eq=False, kw_only=True)
class ModuleNetwork(Network):
    """A torch module, from prepared batches to logits."""

    @property
    def layers(self) -> dict[str, str]:
        """Names of the layers, and their kinds."""
        named = self.model.named_modules()
        return {name: type(one).__name__ for name, one in named if name}

    def with_head(self, layer: LinearHead) -> Network:
        """Return the network with another last layer."""
        model = copy.deepcopy(self.model)  # the caller's own stays as it is
        inputs, named, *_ = parts_of(self.prepare([self.blank]))
        last = heads.found(_CALLER, model, lambda: model(*inputs, **named))
        model = heads.with_layer(model, last.name, layer.module()).eval()
        return replace(self, model=model, classes=layer.classes, embeds=False)

    def outputs(self, batches: Batches, *, device: Any, **how: Any) -> Outputs:
        """Run the module."""
        place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        model, rows = self.model.to(place), batches.of(8 if place.type == "cpu" else 64)
        return extract(model, rows, device=place, features_only=self.embeds, **how)

    def traced(self) -> tuple[nn.Module, Tensor]:
        """Return a module from prepared images to logits, and an example."""
        if self.kind != "image":
            remedy = "Export the rejector alone, and give it the network's outputs"
            _check.fail(_CALLER, "network", "one for images", self.name, remedy)
        batch = self.prepare([self.blank] * 2)
        if not isinstance(batch, Mapping):
            return self.model, batch
        (name, example), *_ = batch.items()
        return _Logits(self.model, name), example


class _Logits(nn.Module):
    """A network of Hugging Face, from one tensor to logits."""

    def __init__(self, model: nn.Module, argument: str) -> None:
        super().__init__()
        self.model, self.argument = model, argument

    def forward(self, inputs: Tensor) -> Tensor:
        return heads.logits_of(_CALLER, self.model(**{self.argument: inputs}))


def of_module(
    source: str | nn.Module,
    *,
    side: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Network:
    """Open a module, or ``"package.module:name"``: one, or a function that makes one.

    Grey images are for modules whose first convolution has one channel, or with a
    `mean` or `std` of one number.
    """
    model: Any = source
    name = type(source).__name__
    if isinstance(source, str):
        name, model = source, _plugins.imported(source, caller=_CALLER)
        model = model if isinstance(model, nn.Module) else model()
    heads.linears(_CALLER, model)  # raises for what is no module
    first = next((one for one in model.modules() if isinstance(one, nn.Conv2d)), None)
    n_channels = len(mean or std or (0,) * 3) if first is None else first.in_channels
    about = pixels(n_channels, side, mean, std)
    prepared = about["transform"]
    about["transform"] = lambda images: torch.from_numpy(prepared(images))
    return ModuleNetwork(name=name, model=model, **about)


def of_timm(name: str, *, weights: str | Path | None = None) -> Network:
    """Open a model of timm, with its published weights or those of a file."""
    timm, data = optional("timm"), optional("timm.data")
    model = timm.create_model(name, pretrained=weights is None)
    if weights is not None:  # not by timm, which would unpickle the file
        state = read_tensors(Path(weights))
        # By name: files need not keep the order of the layers.
        last = heads.linears(_CALLER, model)[-1]
        found = state.get(f"{last.name}.weight")
        if found is not None and len(found) != last.layer.out_features:
            model = timm.create_model(name, num_classes=len(found))
        with _io.naming(Path(weights)):
            model.load_state_dict(state)
    config = data.resolve_model_data_config(model)
    transform = data.create_transform(**config, is_training=False)
    said = ("input_size", "interpolation", "crop_pct", "crop_mode", "mean", "std")
    return ModuleNetwork(
        name=f"timm:{name}",
        model=model,
        transform=lambda images: torch.stack([transform(one) for one in images]),
        std=tuple(config["std"]),
        preprocessing="RGB, " + listed({key: config.get(key) for key in said}),
        mode="L" if config["input_size"][0] == 1 else "RGB",
    )
