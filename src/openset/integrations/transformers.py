"""A callback for the `Trainer` of transformers that reports open-set metrics."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from openset import _check
from openset._optional import needs
from openset.integrations._training_metrics import open_set_metrics, scorer

_CALLER = "openset.integrations.transformers"

with needs("transformers"):
    from torch.utils.data import Dataset
    from transformers import Trainer, TrainerCallback

__all__ = ["OpenSetCallback"]

_LABELS = ("label", "labels", "label_ids")


class OpenSetCallback(TrainerCallback):
    """Log accuracy, AUROC and OpenAUC after every evaluation.

    They also join the metrics that ``trainer.evaluate`` returns, so that
    ``metric_for_best_model="eval_openauc"`` works::

        trainer.add_callback(OpenSetCallback(trainer, unknown=others))

    Parameters
    ----------
    trainer
        The trainer this callback is added to.
    unknown
        Data set of samples of no known class, as `trainer` takes them. Their labels
        are not used.
    known
        Labelled data set of the known classes. By default the trainer's
        `eval_dataset`.
    detector
        Name of a detector that needs logits only, and no fitting.

    Notes
    -----
    The samples are passed through the network once more, after the trainer's own
    evaluation.
    """

    def __init__(
        self,
        trainer: Trainer,
        *,
        unknown: Any,
        known: Any = None,
        detector: str = "msp",
    ) -> None:
        self._trainer = trainer
        self._unknown = _Unlabelled(unknown, trainer.args.label_names or ())
        self._known: Any = trainer.eval_dataset if known is None else known
        self._fitted = scorer("OpenSetCallback", detector)
        if self._known is None or isinstance(self._known, Mapping):
            msg = _check.must(
                "given",
                caller="OpenSetCallback",
                name="known",
                got="none, and the trainer has not exactly one eval_dataset",
                remedy="Give the data set of the known samples",
            )
            raise ValueError(msg)

    def on_evaluate(
        self,
        args: Any,
        state: Any,
        control: Any,
        metrics: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Compute and log the metrics; the trainer calls this."""
        known = self._trainer.predict(self._known)
        unknown = self._trainer.predict(self._unknown)
        if known.label_ids is None:
            msg = _check.must(
                "labelled", caller="OpenSetCallback", name="known", got="no labels"
            )
            raise ValueError(msg)
        found = open_set_metrics(
            self._fitted, _logits(known), known.label_ids, _logits(unknown)
        )
        values = {f"eval_{name}": value for name, value in found.items()}
        if metrics is not None:
            metrics |= values
        self._trainer.log(values)


class _Unlabelled(Dataset[Any]):
    """A data set without labels: those of unknowns would not fit the loss."""

    def __init__(self, data: Any, names: Any) -> None:
        self._data, self._names = data, {*_LABELS, *names}

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, i: int) -> dict[str, Any]:
        return {n: v for n, v in self._data[i].items() if n not in self._names}


def _logits(predicted: Any) -> Any:
    """Return the first array: some models also return hidden states."""
    found = predicted.predictions
    return np.asarray(found[0] if isinstance(found, tuple) else found)
