"""GCPL: the predicted class is that of the nearest prototype."""

from torch import Tensor

from openset.train.methods._points import PointMethod


class GCPL(PointMethod):
    r"""Cross-entropy over distances to prototypes, and compact classes around them.

    .. math:: z_c = -d(x, p_c), \qquad
              L = \text{CE}(z, y) + \tfrac{\lambda}{2} \, \overline{d(x, p_y)}

    with :math:`d(x, p) = \|x - p\|^2 / \dim x`; the score is the largest probability.

    Parameters
    ----------
    weight
        λ: weight of the distances to the prototype of the class.

    References
    ----------
    Yang et al. (2018), Robust classification with convolutional prototype learning; in
    the form of the ARPL release.
    """

    name = "gcpl"
    title = "GCPL"
    paper = "Convolutional prototypes (Yang et al. 2018)"
    score = "msp"

    def from_points(self, distances: Tensor, products: Tensor) -> Tensor:
        """Return minus the distances: near samples get large logits."""
        return -distances

    def penalty(self, own: Tensor) -> Tensor:
        """Half the mean distance to the prototype of the class."""
        return own.mean() / 2
