"""The space of features outside their principal directions (ViM, Residual)."""

from dataclasses import dataclass
from typing import Any

from openset import _check, _xp
from openset._types import Array
from openset.detectors import shaping
from openset.detectors._batch import fit_batches, in_dtype, working_dtype
from openset.detectors._moments import Workspace
from openset.outputs import Outputs

# A residual below this share of the features' length is a rounding error of float32.
_NO_RESIDUAL = 1e-6


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


@dataclass(frozen=True, eq=False)
class Space:
    """Directions in which training features hardly vary, and their origin."""

    origin: Array  # (d,): -W^+ b
    residual: Array  # (d, d - dim): orthonormal directions
    length: float  # root mean square distance of training features from the origin


def residual_space(caller: str, train: Outputs, dim: int | None) -> Space:
    """Find the residual space of the training features.

    The directions are eigenvectors of the second moment around the
    origin, without the leading ones.
    """
    head = shaping.head(caller, train)
    xp = _xp.array_namespace(head["weight"])
    weight = xp.astype(head["weight"], xp.float64)
    size = principal_dim(caller, dim, weight.shape[1])
    origin = -(xp.linalg.pinv(weight) @ xp.astype(head["bias"], xp.float64))
    scatter: Any = 0.0
    workspace = Workspace()
    for batch in fit_batches(train):
        away = workspace.minus(batch.features, origin)
        scatter = away.T @ away + scatter
    second = scatter / len(train)
    directions = xp.linalg.eigh(second)[1]
    # eigh sorts ascending: the residual space comes first.
    residual = directions[:, : weight.shape[1] - size]
    length = float(xp.sum(xp.linalg.diagonal(second))) ** 0.5
    return Space(origin=origin, residual=residual, length=length)


def mean_residual(caller: str, train: Outputs, space: Space) -> float:
    """Return the mean length of the training residuals; raise if there are none."""
    total = 0.0
    workspace = Workspace()
    local = in_dtype(
        {"origin": space.origin, "residual": space.residual}, working_dtype(train)
    )
    for batch in fit_batches(train):
        xp = _xp.array_namespace(batch.features)
        away = workspace.minus(batch.features, local["origin"])
        outside = away @ local["residual"]
        total += float(xp.sum(_xp.row_norms(outside), dtype=xp.float64))
    if total <= _NO_RESIDUAL * space.length * len(train):
        dim = space.residual.shape[0] - space.residual.shape[1]
        msg = _check.must(
            f"spread over more than {dim} dimensions",
            caller=f"{caller}.fit",
            name="features",
            got="no residual",
            remedy="Lower dim",
        )
        raise ValueError(msg)
    return total / len(train)
