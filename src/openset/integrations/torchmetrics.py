"""Open-set metrics for torchmetrics: exact, and gathered over processes."""

from typing import Any, NamedTuple

import numpy as np

from openset import _check, metrics
from openset._optional import needs
from openset.scores import Scores

with needs("torchmetrics"):
    import torch
    from torch import Tensor
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat

__all__ = ["OSA", "OSCR", "OSCRPoints", "OpenAUC"]

_NO_ID = -(1 << 53)


class OSCRPoints(NamedTuple):
    """The points of an OSCR curve, strictest threshold first."""

    fpr: Tensor
    ccr: Tensor
    thresholds: Tensor


class _OpenSetMetric(Metric):
    """Keeps every sample: knownness, predicted class, label and id, in one row.

    The rows are one flat state of float64, as tensors are gathered over processes, some
    of which may have no samples. It represents float32 scores exactly.
    """

    is_differentiable = False
    full_state_update = False
    rows: list[Tensor]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.set_dtype(torch.float64)
        self.add_state("rows", default=[], dist_reduce_fx="cat")

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
        ids = torch.full_like(labels, _NO_ID) if ids is None else ids
        columns = [known, predicted, labels, ids]
        rows = torch.stack([one.detach().double() for one in columns], dim=1)
        if any((rows[:, i].long() != columns[i]).any() for i in (1, 2, 3)):
            name, rule = "predicted, labels and ids", "integers below 2**53"
            _check.fail(type(self).__name__, name, rule, "others")
        self.rows.append(rows.flatten())

    def scores(self) -> Scores:
        """Return all samples as :class:`openset.Scores`."""
        # Before gathering the state is a list, perhaps an empty one.
        flat = dim_zero_cat(self.rows) if len(self.rows) else torch.empty(0)
        known, predicted, labels, ids = flat.reshape(-1, 4).cpu().numpy().T
        has_id = ids != _NO_ID
        if has_id.any() != has_id.all():
            _check.fail(type(self).__name__, "ids", "given for all batches", "some")
        rows = np.unique(ids, return_index=True)[1] if has_id.any() else slice(None)
        return Scores(
            labels=labels[rows].astype(np.int64),
            predicted=predicted[rows].astype(np.int64),
            known=known[rows],
            ids=ids[rows].astype(np.int64) if has_id.any() else None,
        )

    def _result(self, value: Any) -> Tensor:
        return torch.tensor(value, dtype=torch.float64, device=self.device)


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
        return OSCRPoints(*map(self._result, (curve.fpr, curve.ccr, curve.thresholds)))


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
        found = metrics.osa(self.scores(), self.threshold, alpha=self.alpha)
        return self._result(found)
