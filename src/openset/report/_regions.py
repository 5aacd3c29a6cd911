"""One confusion matrix, four regions: Inner, Outer, Halfpoint and Overall."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _extras
from openset.metrics import confusion
from openset.report._confusion_matrix import draw_matrix, pooled
from openset.report._display import one_set
from openset.report._rejection import class_name
from openset.scores import Scores

Ints = NDArray[np.int64]

REGIONS = ("inner", "outer", "halfpoint", "overall")


@dataclass(frozen=True, kw_only=True, eq=False)
class Regions:
    """The four matrices behind the four scores; true class by row, decision by column.

    `inner` (K, K): known samples, classified without rejection. `outer` (2, 2): known
    against unknown. `halfpoint` (K+1, K+1): known samples with rejection; the last row
    is empty. `overall` (K+1, K+1): the full confusion matrix, unknown last.
    """

    classes: Ints
    inner: Ints
    outer: Ints
    halfpoint: Ints
    overall: Ints
    class_names: tuple[str, ...] = ()

    def score(self, region: str) -> float:
        """Balanced accuracy of a region: the mean recall of the rows with samples."""
        matrix = self._matrix("Regions.score", region)
        support = matrix.sum(axis=1)
        rows = support > 0
        return float((np.diag(matrix)[rows] / support[rows]).mean())

    def to_frame(self, region: str = "overall") -> Any:
        """Return a region as a pandas table with named rows and columns."""
        pd = _extras.optional("Regions.to_frame", "pandas", name="tables")
        matrix = self._matrix("Regions.to_frame", region)
        names = self.names(region)
        return pd.DataFrame(matrix, index=names, columns=names)

    def names(self, region: str) -> list[str]:
        """Return the names of a region's rows and columns."""
        if region == "outer":
            return ["known", "unknown"]
        classes = [
            class_name(self.class_names, c) if self.class_names else str(c)
            for c in self.classes.tolist()
        ]
        return classes if region == "inner" else [*classes, "unknown"]

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw with matplotlib; also write ``.pdf``, ``.svg`` or ``.png`` to `path`."""
        from openset.report._matplotlib import draw  # noqa: PLC0415  # it knows this class

        return draw(self, path)

    def svg(self, region: str = "overall") -> str:
        """Return a small drawing of a region; classes beyond 14 are pooled."""
        matrix = self._matrix("Regions.svg", region)
        names = self.names(region)
        if region in {"halfpoint", "overall"}:
            matrix, names = pooled(matrix, names)
        return draw_matrix(matrix, names, label=f"Confusion matrix, {region}")

    def _repr_html_(self) -> str:
        return self.svg()

    def _matrix(self, caller: str, region: str) -> Ints:
        _check.one_of(caller, "region", region, REGIONS)
        return getattr(self, region)


def confusion_regions(
    scores: Scores, threshold: float, *, classes: Sequence[str] = ()
) -> Regions:
    """Split a confusion matrix into the regions of the four scores.

    Parameters
    ----------
    scores
        Labelled scores.
    threshold
        A sample is accepted iff its knownness is at least this.
    classes
        Names of the classes 0, 1, ...

    References
    ----------
    Komorniczak and Ksieniewicz, "Taking class imbalance into account in open set
    recognition evaluation", 2024, figures 3 and 4.

    Examples
    --------
    >>> made = confusion_regions(
    ...     Scores(labels=[0, 1, 1, -1], predicted=[0, 1, 0, 1], known=[4, 1, 3, 2]), 2
    ... )
    >>> made.overall
    array([[1, 0, 0],
           [1, 0, 1],
           [0, 1, 0]])
    >>> made.inner.tolist(), made.outer.tolist()
    ([[1, 0], [1, 1]], [[2, 1], [1, 0]])
    >>> made.score("halfpoint")
    0.5
    """
    one_set("report.confusion_regions", scores)
    overall = confusion(scores, threshold)
    matrix = overall.matrix
    halfpoint = matrix.copy()
    halfpoint[-1] = 0
    return Regions(
        classes=overall.classes,
        # Accepting all samples gives the classification without rejection.
        inner=confusion(scores, -np.inf).matrix[:-1, :-1],
        outer=np.array(
            [
                [matrix[:-1, :-1].sum(), matrix[:-1, -1].sum()],
                [matrix[-1, :-1].sum(), matrix[-1, -1]],
            ]
        ),
        halfpoint=halfpoint,
        overall=matrix,
        class_names=tuple(classes),
    )
