"""Overlay Softmax: means of two images of different classes as an additional class."""

from torch import Tensor

from openset.train.methods._extra import ExtraOutput
from openset.train.methods._mixing import other_class


class Overlay(ExtraOutput):
    r"""Adds ⌈B/2⌉ means of two images of different classes to a batch of B.

    .. math:: u = \tfrac12 (x_i + x_j), \; y_i \ne y_j, \qquad
              L = \overline{-\log \operatorname{softmax}_{y}(v)}
              \text{ over } \{(x, y)\} \cup \{(u, C + 1)\}

    with unit-norm logits :math:`v = z / (\|z\| + 10^{-4})` over C + 1 outputs; the
    score is 1 − the probability of the last. A batch of one class has no overlays.

    Parameters
    ----------
    ratio
        Synthetic images per real one.

    Notes
    -----
    The text of the paper draws pairs at random, its library goes through all pairs of
    classes in turn. Here the first ⌈B/2⌉ images of the (shuffled) batch each get a
    partner drawn evenly from all images of other classes: as in the text, so frequent
    classes are overlaid more often.

    References
    ----------
    Komorniczak and Ksieniewicz (2024), torchosr.
    """

    name = "overlay"
    title = "Overlay Softmax"
    paper = "torchosr (Komorniczak and Ksieniewicz 2024)"

    def make(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """⌈ratio · B⌉ means of two images."""
        n_made = -(-labels.shape[0] * self.part // self.whole)
        partner, exists = other_class(labels)
        made = (inputs[:n_made] + inputs[partner[:n_made]]) / 2
        return made, exists[:n_made]
