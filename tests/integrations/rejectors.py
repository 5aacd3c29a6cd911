"""How what two libraries compute is compared."""

import numpy as np
from numpy.testing import assert_allclose


def assert_same_knownness(found, wanted):
    """Check knownness of the same samples, computed in float32 by two libraries.

    A value near zero may be the difference of two large ones (RMDS), which processors
    round differently: it is known to a step of float32 at the largest value.
    """
    step = np.spacing(
        np.abs(wanted[np.isfinite(wanted)]).max(initial=0).astype(np.float32)
    )
    assert_allclose(found, wanted, rtol=1e-5, atol=max(1e-5, 2 * step))
