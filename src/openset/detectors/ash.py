"""Activation shaping: prune, then rescale or binarise."""

from dataclasses import dataclass

from openset import _xp
from openset._types import Array
from openset.detectors import shaping
from openset.detectors._batch import Batch, State
from openset.detectors._detector import Detector
from openset.detectors.constraints import Boolean, Number, OneOf
from openset.outputs import Outputs

_VARIANTS = ("s", "p", "b")


@dataclass(frozen=True, kw_only=True)
class ASH(Detector):
    r"""Energy after keeping only the largest features.

    .. math:: s(x) = \log \sum_c \exp\bigl(w_c^\top f' + b_c\bigr)

    The k largest features are kept, :math:`k = d - \operatorname{round}(d\,p/100)`
    (halves to even, at least 1; of equal ones those with the lower index), and become,
    with :math:`s_1 = \sum_i f_i` and :math:`s_2` the sum of the kept ones,

    - ``"p"`` (prune): themselves;
    - ``"s"`` (scale): themselves times :math:`\exp(s_1 / s_2)`;
    - ``"b"`` (binarise): all :math:`s_1 / k`.

    As in :class:`SCALE`, ``"s"`` raises for samples whose kept features do not have a
    positive sum, except zero vectors, which stay zero. The predicted class is that of
    the original features.

    Parameters
    ----------
    variant
        ``"s"``, ``"p"`` or ``"b"``. The paper uses about 90 % for s, 65 % for b.
    percentile
        p, the percentage of features set to zero, in [0, 100).
    relu
        Set negative features to zero first.

    References
    ----------
    Djurisic et al., "Extremely simple activation shaping for out-of-distribution
    detection", ICLR 2023.

    Examples
    --------
    Of (3, 1) only the 3 survives; the only logit is the sum of the features.

    >>> outputs = Outputs(features=[[3.0, 1.0]], labels=[0], weight=[[1.0, 1.0]],
    ...                   bias=[0.0])
    >>> ASH(variant="p", percentile=50).fit(outputs).score(outputs).known
    array([3.])
    >>> ASH(variant="b", percentile=50).fit(outputs).score(outputs).known
    array([4.])
    >>> ASH(variant="s", percentile=50).fit(outputs).score(outputs).known.round(3)
    array([11.381])
    """

    name = "ash"
    fit_needs = ("head",)
    score_needs = ("features",)
    score_cost = "C d"
    paper = "Djurisic et al. 2023"
    score_scale = "energy"
    casts_state = True
    constraints = {
        "variant": OneOf(_VARIANTS),
        "percentile": Number(low=0, high=100, open_high=True),
        "relu": Boolean(),
    }

    variant: str = "s"
    percentile: float = 90.0
    relu: bool = False

    def fit_state(self, train: Outputs) -> State:
        return shaping.head("ASH", train)

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.features)
        features = batch.features
        if self.relu:
            features = xp.maximum(features, xp.zeros_like(features[:1, :]))
        k = shaping.n_kept(features.shape[1], self.percentile)

        def survivors(rows: Array) -> Array:
            is_kept = _largest(rows, k)
            if self.variant == "b":
                rows = xp.zeros_like(rows) + xp.sum(rows, axis=1)[:, None] / k
            return xp.where(is_kept, rows, xp.zeros_like(rows))

        shaped = _xp.by_rows(survivors, features)
        if self.variant == "s":
            shaped = (
                shaped * shaping.expansion("ASH", features, k, batch.numbers)[:, None]
            )
        return _xp.logsumexp(shaping.head_logits(state, shaped))

    def predict_batch(self, state: State, batch: Batch) -> Array:
        return shaping.head_class(state, batch.features)


def _largest(rows: Array, k: int) -> Array:
    """Mask exactly `k` largest entries of each row, lower indices first on ties."""
    xp = _xp.array_namespace(rows)
    least = xp.min(_xp.top_values(rows, k), axis=1)[:, None]
    is_above, is_tied = rows > least, rows == least
    left = k - xp.count_nonzero(is_above, axis=1)
    # After a ReLU hundreds of zeros may tie: take them from the left.
    rank = xp.cumulative_sum(xp.astype(is_tied, xp.int64), axis=1)
    return is_above | (is_tied & (rank <= left[:, None]))
