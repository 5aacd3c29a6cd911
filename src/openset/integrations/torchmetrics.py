"""Open-set metrics for torchmetrics: exact, and gathered over processes."""

from typing import Any, NamedTuple

import numpy as np

from openset import _check, metrics
from openset._optional import needs
from openset.scores import Scores

_CALLER = "openset.integrations.torchmetrics"

with needs("torchmetrics"):
    import torch
    from torch import Tensor
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat

    # After torch, so that a missing torch is reported for this module.

__all__ = ["OSA", "OSCR", "OSCRPoints", "OpenAUC"]

_LARGEST_ID = 1 << 53  # float64 represents all integers up to here


class OSCRPoints(NamedTuple):
    """The points of an OSCR curve, strictest threshold first."""

    fpr: Tensor
    ccr: Tensor
    thresholds: Tensor


class _OpenSetMetric(Metric):
    """Keeps every sample: (knownness, predicted class, label[, id])."""

    is_differentiable = False
    full_state_update = False
    labels: list[Tensor]
    predicted: list[Tensor]
    known: list[Tensor]
    ids: list[Tensor]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # One dtype for all states, as tensors are gathered over processes, some of
        # which may have no samples. It represents float32 scores exactly.
        self.set_dtype(torch.float64)
        for name in ("labels", "predicted", "known", "ids"):
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(
        self,
        known: Tensor,
        predicted: Tensor,
        labels: Tensor,
        ids: Tensor | None = None,
    ) -> None:
        """Add a batch.

        Parameters
        ----------
        known
            Knownness, any real numbers, larger = more known. Shape (n,).
        predicted
            Argmax of the logits, shape (n,).
        labels
            True classes, -1 for unknown. Shape (n,).
        ids
            Index of each sample in its data set. With ids, a sample processed several
            times (the padding of a distributed sampler) is counted once.
        """
        caller = type(self).__name__
        batch = {"known": known, "predicted": predicted, "labels": labels}
        if ids is not None:
            batch["ids"] = ids
        for name, values in batch.items():
            if not isinstance(values, Tensor) or values.ndim != 1:
                got = f"{type(values).__name__} of {np.shape(values)}"
                _check.fail(caller, name, "a tensor with one axis", got)
            is_integer = values.dtype != torch.bool and not values.is_floating_point()
            if name != "known" and not is_integer:
                _check.fail(caller, name, "integers", values.dtype, error=TypeError)
        _check.same_length(caller, {n: v.shape[0] for n, v in batch.items()})
        # The absolute value of the smallest integer overflows to itself.
        if ids is not None and ((ids > _LARGEST_ID) | (ids < -_LARGEST_ID)).any():
            _check.fail(caller, "ids", f"at most {_LARGEST_ID}", "larger ones")
        for name, values in batch.items():
            getattr(self, name).append(values.detach().to(torch.float64))

    def scores(self) -> Scores:
        """Return all samples as :class:`openset.Scores`."""
        caller = type(self).__name__
        names = ("labels", "predicted", "known", "ids")
        columns = {name: _column(getattr(self, name)) for name in names}
        if columns["labels"].numel() == 0:
            _check.fail(caller, "metric", "updated", "no samples")
        ids = columns.pop("ids")
        if ids.numel():
            _check.same_length(
                caller, {"labels": columns["labels"].numel(), "ids": ids.numel()}
            )
            order = torch.argsort(ids, stable=True)
            ids = ids[order]
            is_first = torch.ones_like(ids, dtype=torch.bool)
            is_first[1:] = ids[1:] != ids[:-1]
            columns = {n: c[order][is_first] for n, c in columns.items()}
            columns["ids"] = ids[is_first]
        arrays = {name: column.cpu().numpy() for name, column in columns.items()}
        return Scores(
            labels=arrays["labels"].astype("int64"),
            predicted=arrays["predicted"].astype("int64"),
            known=arrays["known"],
            ids=arrays["ids"].astype("int64") if "ids" in arrays else None,
        )

    def _result(self, value: Any) -> Tensor:
        return torch.tensor(value, dtype=torch.float64, device=self.device)


def _column(state: list[Tensor] | Tensor) -> Tensor:
    """Concatenate a state: a list before gathering, a tensor after it."""
    if isinstance(state, list) and not state:
        return torch.empty(0, dtype=torch.float64)
    return dim_zero_cat(state)


class OpenAUC(_OpenSetMetric):
    """Share of pairs whose known sample is classified correctly and ranked first.

    Equals :func:`openset.metrics.openauc` of all samples of all processes.

    Parameters
    ----------
    ties
        Credit of a tied pair: ``"half"``, ``"strict"`` or ``"optimistic"``.
    **kwargs
        Passed to :class:`torchmetrics.Metric`.

    Examples
    --------
    >>> metric = OpenAUC()
    >>> metric.update(
    ...     known=torch.tensor([900.0, 400.0, 800.0, 400.0]),
    ...     predicted=torch.tensor([0, 1, 0, 0]), labels=torch.tensor([0, 1, 1, -1]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    higher_is_better = metrics.get("openauc").better == "higher"
    plot_lower_bound, plot_upper_bound = metrics.get("openauc").bounds or (None, None)

    def __init__(self, *, ties: Any = "half", **kwargs: Any) -> None:
        _check.one_of("OpenAUC", "ties", ties, ["half", "strict", "optimistic"])
        super().__init__(**kwargs)
        self.ties = ties

    def compute(self) -> Tensor:
        """Return the metric over all samples."""
        return self._result(metrics.openauc(self.scores(), ties=self.ties))


class OSCR(_OpenSetMetric):
    """Correct classification rate over false positive rate, at every threshold.

    Equals :func:`openset.metrics.oscr_curve` of all samples of all processes.

    Examples
    --------
    >>> metric = OSCR()
    >>> metric.update(known=torch.tensor([0.9, 0.1, 0.5]),
    ...     predicted=torch.tensor([0, 0, 0]), labels=torch.tensor([0, 0, -1]))
    >>> metric.compute().ccr
    tensor([0.0000, 0.5000, 0.5000, 1.0000], dtype=torch.float64)
    """

    higher_is_better = None

    def compute(self) -> OSCRPoints:
        """Return the curve over all samples."""
        curve = metrics.oscr_curve(self.scores())
        return OSCRPoints(
            fpr=self._result(curve.fpr),
            ccr=self._result(curve.ccr),
            thresholds=self._result(curve.thresholds),
        )


class OSA(_OpenSetMetric):
    """Open-set accuracy at a threshold chosen beforehand.

    Equals :func:`openset.metrics.osa` of all samples of all processes.

    Parameters
    ----------
    threshold
        A sample is accepted iff its knownness is at least this.
    alpha
        Weight of known samples; ``"counts"``: their share of all samples.
    **kwargs
        Passed to :class:`torchmetrics.Metric`.

    Examples
    --------
    >>> metric = OSA(threshold=2.0)
    >>> metric.update(known=torch.tensor([3.0, 2.0, 1.0]),
    ...     predicted=torch.tensor([0, 1, 0]), labels=torch.tensor([0, 0, -1]))
    >>> metric.compute()
    tensor(0.7500, dtype=torch.float64)
    """

    higher_is_better = metrics.get("osa").better == "higher"
    plot_lower_bound, plot_upper_bound = metrics.get("osa").bounds or (None, None)

    def __init__(
        self, threshold: float, *, alpha: metrics.counts.Alpha = 0.5, **kwargs: Any
    ) -> None:
        self.threshold = _check.threshold("OSA", threshold)
        metrics.counts.weight_of("OSA", alpha, 1, 1)  # refuses what is no weight
        super().__init__(**kwargs)
        self.alpha = alpha

    def compute(self) -> Tensor:
        """Return the metric over all samples."""
        return self._result(
            metrics.osa(self.scores(), self.threshold, alpha=self.alpha)
        )
