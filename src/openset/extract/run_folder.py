"""The network of a folder that ``openset train`` wrote."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from openset._types import UNKNOWN
from openset.extract.linear_head import LinearHead
from openset.extract.network import Network
from openset.outputs import Invalid, Outputs


@dataclass(frozen=True, eq=False, kw_only=True)
class RunNetwork(Network):
    """A network that was trained with its preparation; see `train.Trained.apply`."""

    trained: Any

    @property
    def head(self) -> LinearHead | None:
        """The last layer, if the logits are made by one."""
        outputs = next(iter(self.trained.outputs.values()))
        if outputs.weight is None:
            return None
        return LinearHead(
            weight=outputs.weight, bias=outputs.bias, classes=self.classes
        )

    @property
    def layers(self) -> dict[str, str]:
        """Names of the layers, and their kinds."""
        named = self.trained.model().backbone.named_modules()
        return {name: type(one).__name__ for name, one in named if name}

    def prepare(self, inputs: Sequence[Any]) -> Any:
        """Return a batch for :attr:`model`, a `train.TrainedNetwork`."""
        return self.trained.model().tensor(inputs)

    def apply(
        self,
        inputs: Any,
        *,
        labels: ArrayLike | None = None,
        groups: Any = None,
        ids: Any = None,
        unknown: bool = False,
        out: str | Path | None = None,
        step: Any = None,
        layers: Sequence[str] = (),
        batch_size: int | None = None,  # as in training
        device: Any = None,
        invalid: Invalid = "error",
        progress: bool = True,
    ) -> Outputs:
        """Return the outputs of images or rows, as in :meth:`Network.apply`.

        The batches are those of training, on the CPU.
        """
        if unknown:
            labels = np.full(len(inputs), UNKNOWN)
        if isinstance(groups, str):
            groups = np.full(len(inputs), groups)
        found = self.trained.apply(
            inputs,
            labels,
            groups,
            ids,
            step=step,
            layers=layers,
            invalid=invalid,
            progress=progress,
        )
        return found if out is None else Outputs.load(found.save(out), invalid=invalid)

    def outputs(
        self, batches: Any, *, step: Any, layers: Sequence[str], **how: Any
    ) -> Outputs:
        """Do nothing: :meth:`apply` does all."""
        raise NotImplementedError

    def traced(self) -> tuple[Any, Any]:
        """Return the module and an example."""
        model = self.trained.model()
        return model, model.example


def of_run(folder: str | Path, *, plugins: Sequence[str] = ()) -> Network:
    """Open a run; `plugins` are training methods that may be imported."""
    from openset.train import Trained  # noqa: PLC0415  # above this package

    trained = Trained.load(folder, plugins=plugins)
    return RunNetwork(
        name=str(folder),
        trained=trained,
        classes=trained.classes,
        kind="image" if len(trained.shape or ()) == 3 else "table",
        preprocessing="as in training",
    )
