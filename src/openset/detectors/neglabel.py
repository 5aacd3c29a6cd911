"""Negative labels: probability of the known classes against words for other things."""

from dataclasses import dataclass

from openset import _check, _xp
from openset._types import Array
from openset.detectors._batch import Batch, State, in_dtype, working_dtype
from openset.detectors._detector import Detector
from openset.detectors.constraints import POSITIVE
from openset.outputs import Outputs


# Not listed: it is fitted on texts, where all others are fitted on training samples.
@dataclass(frozen=True, kw_only=True)
class NegLabel(Detector, listed=False):
    r"""Probability mass of the known classes of a zero-shot classifier.

    .. math:: p(x) = \frac{\sum_{c} e^{\cos(x, t_c) / \tau}}
              {\sum_{c} e^{\cos(x, t_c) / \tau} + \sum_{m} e^{\cos(x, n_m) / \tau}},
              \qquad s(x) = \log \frac{p}{1 - p}

    where :math:`t_c` is the text of class c and :math:`n_m` are negative labels: words
    for what is none of the classes. :meth:`fit` takes the outputs of these words from
    the same network, without labels: ``network.apply(["zebra", "wheel"])``, or
    ``openset extract NETWORK negatives.txt``. The paper's mean over groups of words,
    and its way of choosing them, are not implemented.

    Parameters
    ----------
    temperature
        τ, which the cosines are divided by; 0.01 as in the paper.
    score_scale
        What the cosines were multiplied by to give the logits; see :class:`MCM`.

    References
    ----------
    Jiang et al., "Negative label guided OOD detection with pretrained vision-language
    models", ICLR 2024.

    Examples
    --------
    A cosine of 0.3 with the class and of 0.28 with the negative word.

    >>> words = Outputs(features=[[0.28, 0.96]], logits=[[28.0]])
    >>> image = Outputs(features=[[1.0, 0.0]], logits=[[30.0]], labels=[0])
    >>> NegLabel().fit(words).score(image).known.round(4)
    array([2.])
    """

    name = "neglabel"
    fit_needs = ("features",)
    score_needs = ("logits", "features")
    score_cost = "M d"
    paper = "Jiang et al. 2024"
    score_scale = "log-odds"
    casts_state = True
    constraints = {"temperature": POSITIVE, "scale": POSITIVE}

    temperature: float = 0.01
    scale: float = 100.0

    def _fit(self, train: Outputs) -> State:
        if train.labels is not None:
            msg = _check.must(
                "those of negative words, without labels",
                caller="NegLabel.fit",
                name="outputs",
                got="labelled samples",
                remedy="openset extract NETWORK words.txt makes them",
            )
            raise ValueError(msg)
        return in_dtype({"words": Batch(train).unit_features}, working_dtype(train))

    def _score(self, state: State, batch: Batch) -> Array:
        known = batch.tempered(self.scale * self.temperature).energy

        def energy(features: Array) -> Array:
            return _xp.logsumexp(features @ state["words"].T / self.temperature)

        return known - _xp.by_rows(energy, batch.unit_features)
