"""The space of features outside their principal directions (ViM, Residual)."""

from typing import Any

from openset import _check, _xp
from openset._types import Array
from openset.detectors import shaping
from openset.detectors._batch import fit_batches
from openset.outputs import Outputs

# A residual below this share of the features' length is a rounding error of float32.
_NO_RESIDUAL = 1e-7


def principal_dim(caller: str, dim: int | None, width: int) -> int:
    """Return the size of the principal space, by default from the number of features.

    1000 if there are 2048 features or more, else 512; half of them if that would leave
    no residual.
    """
    if dim is None:
        usual = 1000 if width >= 2048 else 512
        return usual if usual < width else width // 2
    if dim >= width:
        msg = _check.must(
            f"below {width}, the number of features",
            caller=f"{caller}.fit",
            name="dim",
            got=dim,
        )
        raise ValueError(msg)
    return dim


def residual_space(caller: str, train: Outputs, dim: int | None) -> tuple[Array, Array]:
    """Return the origin ``-W^+ b`` and the residual directions (d, d - dim).

    Both in float64. The directions are eigenvectors of the second moment around the
    origin, without the leading ones.
    """
    head = shaping.head(caller, train)
    xp = _xp.array_namespace(head["weight"])
    weight = xp.astype(head["weight"], xp.float64)
    size = principal_dim(caller, dim, weight.shape[1])
    origin = -(xp.linalg.pinv(weight) @ xp.astype(head["bias"], xp.float64))
    scatter: Any = 0.0
    for batch in fit_batches(train):
        away = xp.astype(batch.features, xp.float64) - origin
        scatter = away.T @ away + scatter
    directions = xp.linalg.eigh(scatter / len(train))[1]
    # eigh sorts ascending: the residual space comes first.
    return origin, directions[:, : weight.shape[1] - size]


def mean_residual(caller: str, train: Outputs, origin: Array, residual: Array) -> float:
    """Return the mean length of the training residuals; raise if there are none."""
    sums = {"residual": 0.0, "length": 0.0}
    for batch in fit_batches(train):
        xp = _xp.array_namespace(batch.features)
        away = xp.astype(batch.features, xp.float64) - origin
        sums["residual"] += float(xp.sum(_xp.row_norms(away @ residual)))
        sums["length"] += float(xp.sum(_xp.row_norms(away)))
    if sums["residual"] <= _NO_RESIDUAL * sums["length"]:
        dim = residual.shape[0] - residual.shape[1]
        msg = _check.must(
            f"spread over more than {dim} dimensions",
            caller=f"{caller}.fit",
            name="features",
            got="no residual",
            remedy="Lower dim",
        )
        raise ValueError(msg)
    return sums["residual"] / len(train)
