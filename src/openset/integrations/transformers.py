"""A callback for the `Trainer` of transformers that reports open-set metrics."""

from typing import Any

import numpy as np

from openset import _check, detectors
from openset._optional import needs
from openset._types import UNKNOWN
from openset.metrics import evaluate
from openset.outputs import Outputs

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
        self._known = known
        self._fitted = detectors.make(detector).fit()

    def on_evaluate(
        self,
        args: Any,
        state: Any,
        control: Any,
        metrics: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Compute and log the metrics; the trainer calls this."""
        trainer = self._trainer
        data: Any = trainer.eval_dataset if self._known is None else self._known
        known, unknown = trainer.predict(data), trainer.predict(self._unknown)
        if known.label_ids is None:
            _check.fail("OpenSetCallback", "known", "labelled", "no labels")
        logits = np.concatenate([_logits(known), _logits(unknown)])
        labels = np.full(len(logits), UNKNOWN)
        # Other negative labels, such as -100, are of no class either.
        labels[: len(known.label_ids)] = np.maximum(known.label_ids, UNKNOWN)
        scores = self._fitted.score(Outputs(logits=logits, labels=labels))
        found = evaluate(scores, metrics=["accuracy", "auroc", "openauc"])
        values = {f"eval_{name}": value for name, value in found.items()}
        if metrics is not None:
            metrics |= values
        trainer.log(values)


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
