"""A callback for Lightning's `Trainer` that reports open-set metrics in training."""

import sys
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from openset import _check, _extras
from openset.integrations._training_metrics import open_set_metrics, scorer

_CALLER = "openset.integrations.lightning"

with _extras.importing(_CALLER, "lightning"):
    import torch

if TYPE_CHECKING:
    from pytorch_lightning import Callback, LightningModule, Trainer
else:
    # The same code comes as two packages, and their classes do not mix.
    is_used = "lightning" in sys.modules or "pytorch_lightning" not in sys.modules
    with (
        _extras.importing(_CALLER, "lightning"),
        _extras.fitting(_CALLER, "Lightning", remedy=". Or uninstall torchvision"),
    ):
        if is_used and find_spec("lightning") is not None:
            from lightning.pytorch import Callback, LightningModule, Trainer
        else:
            from pytorch_lightning import Callback, LightningModule, Trainer

__all__ = ["OpenSetCallback"]


def _call(module: Any, inputs: Any) -> Any:
    return module(inputs)


class OpenSetCallback(Callback):
    """Log accuracy, AUROC and OpenAUC after every validation.

    Parameters
    ----------
    unknown
        Loader of samples of no known class; batches are tensors of inputs, or start
        with them. Their labels are not used.
    known
        Loader of samples of the known classes, with batches (inputs, labels). By
        default the validation loader of the trainer.
    detector
        Name of a detector that needs logits only, and no fitting.
    logits
        Function from module and inputs to logits. By default the module is called.
    prefix
        Before the names of the metrics: ``val_openauc``.

    Notes
    -----
    The samples are passed through the network once more, after Lightning's own
    validation. With several processes, each evaluates the samples its loaders give it,
    and the mean over the processes is logged.
    """

    def __init__(
        self,
        unknown: Iterable[Any],
        *,
        known: Iterable[Any] | None = None,
        detector: str = "msp",
        logits: Callable[[Any, Any], Any] | None = None,
        prefix: str = "val_",
    ) -> None:
        super().__init__()
        self._unknown, self._known = unknown, known
        self._fitted = scorer("OpenSetCallback", detector)
        self._logits = _call if logits is None else logits
        self._prefix = prefix

    def on_validation_epoch_end(
        self, trainer: "Trainer", pl_module: "LightningModule"
    ) -> None:
        """Compute and log the metrics; Lightning calls this."""
        if trainer.sanity_checking:  # a few batches before the first epoch
            return
        known = trainer.val_dataloaders if self._known is None else self._known
        if isinstance(known, list) and len(known) == 1:
            (known,) = known
        if known is None or isinstance(known, list | dict):
            msg = _check.must(
                "given",
                caller="OpenSetCallback",
                name="known",
                got=f"none, and {len(known or ())} validation loaders",
                remedy="Give the loader of the known samples",
            )
            raise ValueError(msg)
        samples, labels = self._run(trainer, pl_module, known, labelled=True)
        others, _ = self._run(trainer, pl_module, self._unknown, labelled=False)
        found = open_set_metrics(self._fitted, samples, labels, others)
        pl_module.log_dict(
            {f"{self._prefix}{name}": value for name, value in found.items()},
            sync_dist=trainer.world_size > 1,
        )

    @torch.no_grad()
    def _run(
        self,
        trainer: "Trainer",
        module: "LightningModule",
        loader: Iterable[Any],
        *,
        labelled: bool,
    ) -> tuple[Any, Any]:
        logits, labels = [], []
        for given in loader:
            batch = trainer.strategy.batch_to_device(given)
            parts = batch if isinstance(batch, list | tuple) else [batch]
            if labelled and len(parts) < 2:
                msg = _check.must(
                    "batches (inputs, labels)",
                    caller="OpenSetCallback",
                    name="known",
                    got=f"a batch of type {type(given).__name__}",
                )
                raise ValueError(msg)
            found = self._logits(module, parts[0])
            logits.append(found.float().cpu().numpy())
            if labelled:
                labels.append(parts[1].cpu().numpy())
        return np.concatenate(logits), np.concatenate(labels) if labelled else None
