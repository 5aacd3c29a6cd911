"""Entropy of the softmax probabilities."""

from dataclasses import dataclass

from openset import _xp
from openset._types import Array
from openset.detectors._batch import Batch, State
from openset.detectors._detector import Detector

# e^-1e4 is 0 in every precision: larger gaps would only give inf * 0.
_MAX_GAP = 1e4


@dataclass(frozen=True, kw_only=True)
class Entropy(Detector):
    r"""Minus the Shannon entropy of the softmax probabilities.

    .. math:: s(x) = \sum_c p_c \log p_c
              = -\log(1 + m) - \frac{1}{1 + m}
                \sum_c (z_{\hat c} - z_c)\, e^{z_c - z_{\hat c}}, \qquad
              m = \sum_{c \ne \hat c} e^{z_c - z_{\hat c}}

    In the second form all terms have one sign, so confident samples keep their
    precision instead of rounding to 0. With one class, s = 0.

    References
    ----------
    Shannon, "A mathematical theory of communication", 1948; as a score for unknowns
    e.g. Chan, Rottmann and Gottschalk, ICCV 2021.

    Examples
    --------
    Two equal logits: the entropy is log 2.

    >>> from openset import Outputs
    >>> outputs = Outputs(logits=[[3.0, 3.0]], labels=[0])
    >>> Entropy().fit(outputs).score(outputs).known.round(4)
    array([-0.6931])
    """

    name = "entropy"
    score_needs = ("logits",)
    score_cost = "C"
    paper = "Shannon 1948"
    score_scale = "-entropy"

    def score_batch(self, state: State, batch: Batch) -> Array:
        return -entropy(batch)


def entropy(batch: Batch) -> Array:
    """Return the entropy of each sample's probabilities, once per batch."""

    def make() -> Array:
        xp = _xp.array_namespace(batch.logits)

        def entropies(logits: Array) -> Array:
            # Not `batch.top_class`: that would read the logits twice from memory.
            index = xp.argmax(logits, axis=1)
            gaps = logits - _xp.pick(logits, index)[:, None]
            # Not `<`: one sample of +inf makes the smallest gap NaN.
            if not _xp.is_numpy_array(gaps) or not gaps.min() >= -_MAX_GAP:
                gaps = _xp.maximum_own(gaps, xp.full_like(gaps[:1, :], -_MAX_GAP))
            masses = xp.exp(gaps)
            weighted = xp.vecdot(gaps, masses, axis=-1)
            # The top class is left out of the sum, not subtracted from it.
            others = _xp.row_sums(_xp.put(masses, index, 0.0))
            return xp.log1p(others) - weighted / (1 + others)

        return _xp.by_rows(entropies, batch.logits)

    return batch.once("entropy", make)
