"""Maximum concept matching: MSP of the cosines of image and text."""

from dataclasses import dataclass

from openset.detectors.msp import MSP


@dataclass(frozen=True, kw_only=True)
class MCM(MSP):
    r"""Probability of the predicted class from cosines of image and text.

    .. math:: p(x) = \max_c \operatorname{softmax}(\cos(x, t_c))_c, \qquad
              s(x) = \log \frac{p}{1 - p}

    where :math:`t_c` is the text of class c. The logits of a zero-shot classifier
    (``openset.extract``) are cosines times a scale, so this is :class:`MSP` with that
    scale as its temperature. It needs no fitting.

    Parameters
    ----------
    temperature
        What the logits are divided by: the scale of the cosines, 100 in the published
        CLIP models. For others ``openset extract`` shows it.

    References
    ----------
    Ming et al., "Delving into out-of-distribution detection with vision-language
    representations", NeurIPS 2022.

    Examples
    --------
    Cosines of 0.3 and 0.2: the log-odds of two classes are the difference.

    >>> from openset import Outputs
    >>> outputs = Outputs(logits=[[30.0, 20.0]], labels=[0])
    >>> MCM().fit().score(outputs).known
    array([0.1])
    """

    name = "mcm"
    paper = "Ming et al. 2022"

    temperature: float = 100.0
