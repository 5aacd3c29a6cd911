"""ARPL: reciprocal points with a bounded open space."""

from torch import Tensor

from openset.train.methods.rpl import RPL

MARGIN = 1.0  # of the hinge in the released code; the paper has none


class ARPL(RPL):
    r"""Like RPL; the logits also contain the inner product with the reciprocal point.

    .. math:: z_c = d(x, p_c) - x \cdot p_c, \qquad L = \text{CE}(z, y) +
              \lambda \, \overline{\max(0, d(x, p_y) - R + 1)}

    with :math:`d(x, p) = \|x - p\|^2 / \dim x` and one learnable R for all classes, at
    first 0; the score is the largest raw logit. Trained by the recipe "ceplus" it is
    "ARPL+".

    Parameters
    ----------
    weight
        λ: weight of the term with the radius.

    References
    ----------
    Chen et al. (2021), Adversarial reciprocal points learning for open set recognition.
    The margin 1 comes from the hinge of the released code; it amounts to starting R at
    −1.
    """

    name = "arpl"
    title = "ARPL"
    paper = "ARPL (Chen et al. 2021)"
    score = "maxlogit"

    def from_points(self, distances: Tensor, products: Tensor) -> Tensor:
        """Return distance minus inner product: largest for far, opposite samples."""
        return distances - products

    def penalty(self, own: Tensor) -> Tensor:
        """Mean excess over the radius, with a margin."""
        return (own - self.radius + MARGIN).relu().mean()
