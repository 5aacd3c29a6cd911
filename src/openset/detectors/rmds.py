"""Relative Mahalanobis distance."""

from dataclasses import dataclass

import numpy as np

from openset import _check, _xp
from openset._types import Array
from openset.detectors._batch import Batch, State
from openset.detectors._moments import Moments, whitener
from openset.detectors.mahalanobis import Mahalanobis, nearest
from openset.outputs import Outputs


@dataclass(frozen=True, kw_only=True)
class RMDS(Mahalanobis):
    r"""Mahalanobis distance to the nearest class, minus that to all training data.

    .. math:: s(x) = -\min_c \bigl[ d_c(x) - d_0(x) \bigr], \qquad
              d_c = (f - \mu_c)^\top \Sigma^{-1} (f - \mu_c), \quad
              d_0 = (f - \mu)^\top \Sigma_0^{-1} (f - \mu)

    :math:`\Sigma` is the covariance around the class means, :math:`\Sigma_0` that
    around the common mean :math:`\mu`; both are divided by n, so that the two distances
    are comparable. Singular covariances, empty classes and outputs without logits are
    handled as in :class:`Mahalanobis`. At least two classes are needed: with one, the
    two distances are the same.

    With fewer training samples than features (or as many, less the classes) there are
    directions in which only the class means differ; :math:`d_0` counts them and
    :math:`d_c` does not, and unknown samples would score higher than known ones. Then
    both covariances are shrunk by the same share towards the same multiple of the
    identity, after Ledoit and Wolf, which the paper leaves open.

    Parameters
    ----------
    normalize
        Scale features to length one first, in fitting and scoring.
    cutoff
        Leave out directions whose variance is below this share of the largest.

    References
    ----------
    Ren et al., "A simple fix to Mahalanobis distance for improving near-OOD detection",
    2021. Ledoit and Wolf, "A well-conditioned estimator for large-dimensional
    covariance matrices", 2004.

    Examples
    --------
    Classes around 0 and 10 with variance 1 each; all data: mean 5, variance 26. At 12,
    the distances are 4 and 49/26.

    >>> train = Outputs(features=[[-1.0], [1.0], [9.0], [11.0]], labels=[0, 0, 1, 1])
    >>> scores = RMDS().fit(train).score(Outputs(features=[[12.0]], labels=[-1]))
    >>> scores.known.round(4), round(49 / 26 - 4, 4)
    (array([-2.1154]), -2.1154)
    """

    name = "rmds"
    score_cost = "2 d^2 + C d"
    paper = "Ren et al. 2021"
    score_scale = "-distance^2"

    def fit_state(self, train: Outputs) -> State:
        if np.unique(train.labels).size == 1:  # type: ignore[arg-type]
            msg = _check.must(
                "of two classes or more",
                caller="RMDS.fit",
                name="labels",
                got="one class",
                remedy="Use Mahalanobis",
            )
            raise ValueError(msg)
        return super().fit_state(train)

    def _state(self, found: Moments) -> State:
        if found.is_singular:
            found = found.shrunk()
        whiten_all = whitener("RMDS", found.total, found.mean, self.cutoff)
        return {**super()._state(found), "whiten_all": whiten_all}

    def score_batch(self, state: State, batch: Batch) -> Array:
        rows = self._rows(batch)
        _, to_class = nearest(state, batch, rows)
        white = (rows - state["origin"]) @ state["whiten_all"]
        xp = _xp.array_namespace(rows)
        return xp.sum(white**2, axis=1) - to_class
