"""The network of a folder that ``openset train`` wrote."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from openset.extract.linear_head import LinearHead
from openset.extract.network import Batches, Network
from openset.outputs import Outputs


@dataclass(frozen=True, eq=False, kw_only=True)
class RunNetwork(Network):
    """A network that was trained with its preparation: `model` is a `train.Trained`.

    Its batches are those of training, on the CPU.
    """

    @property
    def head(self) -> LinearHead | None:
        """The last layer, if the logits are made by one."""
        of = next(iter(self.model.outputs.values()))
        if of.weight is None:
            return None
        return LinearHead(weight=of.weight, bias=of.bias, classes=self.classes)

    @property
    def layers(self) -> dict[str, str]:
        """Names of the layers, and their kinds."""
        named = self.model.model().backbone.named_modules()
        return {name: type(one).__name__ for name, one in named if name}

    def prepare(self, inputs: Sequence[Any]) -> Any:
        """Return a batch for the module of :meth:`traced`."""
        return self.model.model().tensor(inputs)

    def outputs(self, batches: Batches, *, device: Any, **how: Any) -> Outputs:
        """Run the network as in training."""
        out, inputs = how.pop("out"), batches.inputs
        if isinstance(how["groups"], str):
            how["groups"] = np.full(len(inputs), how["groups"])
        found = self.model.apply(inputs, batches.labels, **how)
        if out is None:
            return found
        return Outputs.load(found.save(out), invalid=how["invalid"])

    def traced(self) -> tuple[Any, Any]:
        """Return the module and an example."""
        model = self.model.model()
        return model, model.example


def of_run(folder: str | Path, *, plugins: Sequence[str] = ()) -> Network:
    """Open a run; `plugins` are training methods that may be imported."""
    from openset.train import Trained  # noqa: PLC0415  # above this package

    trained = Trained.load(folder, plugins=plugins)
    return RunNetwork(
        name=str(folder),
        model=trained,
        classes=trained.classes,
        kind="image" if len(trained.shape or ()) == 3 else "table",
        preprocessing="as in training",
    )
