"""Figs. 1 to 5 of the class-imbalance paper, and what its Table 1 implies."""

import numpy as np

from openset import datasets, metrics, protocols, report
from openset.reproduce._item import Content, Settings
from openset.reproduce._published import published
from openset.reproduce._table import Entry, Table
from openset.scores import Scores

# Images per digit in MNIST, training and test part together.
_MNIST = (6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958)
_FOLDS = 2

# Figs. 3 and 4: samples by true class (row; the last: unknown) and class, accepted and
# rejected. The rejected ones are placed so that both the Inner and the Overall matrix
# of the paper come out.
ACCEPTED = (
    (10, 3, 0, 2),
    (1, 12, 0, 0),
    (0, 0, 9, 1),
    (1, 1, 0, 10),
    (2, 1, 2, 0),
)
REJECTED = (
    (1, 0, 0, 0),
    (2, 0, 0, 0),
    (0, 0, 4, 1),
    (3, 0, 0, 0),
    (10, 0, 0, 0),
)


def figure1(settings: Settings) -> Content:  # noqa: ARG001  # needs no folder
    """Draw known and unknown test samples over all pairs of class counts."""
    made = report.sample_counts(np.array(_MNIST) // _FOLDS)
    order = np.argsort(made.ratio)
    few = [order[0], order[len(order) // 2], order[-1]]
    rows = tuple(
        (
            int(made.n_known[i]),
            int(made.n_unknown[i]),
            float(made.openness[i]),
            round(float(made.known[i])),
            round(float(made.unknown[i])),
            float(made.ratio[i]),
        )
        for i in few
    )
    table = Table(
        title="Pairs with the lowest, the middle and the highest ratio",
        columns=(
            "known classes",
            "unknown classes",
            "openness",
            "known samples",
            "unknown samples",
            "known per unknown",
        ),
        rows=rows,
        note="The paper prints no numbers.",
    )
    return Content(
        tables=(table,),
        figures={"class-imbalance-fig1": made},
        notes=(
            f"{len(made.n_known)} pairs of ten classes, test part of {_FOLDS} folds of "
            "MNIST.",
        ),
    )


def figure2(settings: Settings) -> Content:  # noqa: ARG001  # needs no folder
    """Draw histograms of metrics of random decisions."""
    made = report.random_scores()
    rows = []
    for n_known, n_unknown in ((2, 2), (2, 1000), (1000, 2)):
        for is_informed in (False, True):
            (i,) = np.flatnonzero(
                (made.n_known == n_known)
                & (made.n_unknown == n_unknown)
                & (made.is_informed == is_informed)
            )
            means = [
                float(getattr(made, metric)[i].mean())
                for metric in ("f1", "accuracy", "balanced_accuracy")
            ]
            rows.append((n_known, n_unknown, is_informed, *means))
    table = Table(
        title="Means of random decisions",
        columns=(
            "known classes",
            "unknown classes",
            "knows the proportions",
            "F1",
            "accuracy",
            "balanced accuracy",
        ),
        rows=tuple(rows),
        note="The paper prints no numbers. Its text says that F1 exceeds 80 % where "
        "most classes are known, and that balanced accuracy stays near 50 %.",
    )
    return Content(tables=(table,), figures={"class-imbalance-fig2": made})


def worked_example() -> Scores:
    """Return scores with the confusion matrices of figs. 3 and 4; threshold 0.5.

    Examples
    --------
    >>> made = worked_example()
    >>> made.n_known, made.n_unknown
    (61, 15)
    """
    parts = [
        (-1 if label == 4 else label, predicted, known)
        for counts, known in ((ACCEPTED, 0.9), (REJECTED, 0.1))
        for label, row in enumerate(counts)
        for predicted, n in enumerate(row)
        for _ in range(n)
    ]
    labels, predicted, known = zip(*parts, strict=True)
    return Scores(labels=labels, predicted=predicted, known=known)


def figures3_and_4(settings: Settings) -> Content:  # noqa: ARG001  # needs no folder
    """Cut the worked example into the regions of the four scores."""
    scores = worked_example()
    made = report.confusion_regions(scores, 0.5)
    names = ("inner_score", "outer_score", "halfpoint_score", "overall_score")
    rows = [(metrics.get(name).label, metrics.get(name).value(scores, 0.5))
            for name in names]  # fmt: skip
    other = metrics.get("halfpoint_k_plus_1")
    rows.insert(3, (other.label, other.value(scores, 0.5)))
    return Content(
        tables=(
            Table(
                title="Scores of the worked example",
                columns=("score", "value"),
                rows=tuple(rows),
                digits=4,
                note="The paper prints the matrices, which are those of the figure; it "
                "prints no scores.",
            ),
        ),
        figures={"class-imbalance-fig4": made},
    )


def figure5(settings: Settings) -> Content:
    """Show samples of a holdout problem on MNIST."""
    data = datasets.load("mnist", settings.root)
    drawn = protocols.holdout(data, 5, 5, rng=0)
    made = report.gallery(datasets.cut(data, drawn), n=64)
    rows = tuple(
        (name, len(shown.is_known), int(shown.is_known.sum()))
        for name, shown in made.parts.items()
    )
    return Content(
        tables=(
            Table(
                title="Samples shown",
                columns=("part", "images", "of known classes"),
                rows=rows,
            ),
        ),
        figures={"class-imbalance-fig5": made},
    )


def implied(inner: float, outer: float, halfpoint: float, overall: float, *,
            n_known: int, over_unknown: bool) -> tuple[float, float, bool]:  # fmt: skip
    """Return the rates that the four scores imply, and whether they are possible.

    From the definitions follow the share of unknown samples that are rejected, u, and
    of known samples that are accepted, a. Both must be shares, and the known samples
    accepted with the right class can be neither more than a nor more than the Inner
    score. Printed numbers are rounded to three decimals.

    Parameters
    ----------
    inner, outer, halfpoint, overall
        The printed scores.
    n_known
        Number of known classes, K.
    over_unknown
        Whether Halfpoint is taken as a mean over K + 1 classes, or over K.
    """
    half = 0.0005
    k = n_known
    if over_unknown:
        right, right_half = halfpoint * (k + 1) / k, half * (k + 1) / k
        rejected, rejected_half = (overall - halfpoint) * (k + 1), 2 * half * (k + 1)
    else:
        right, right_half = halfpoint, half
        rejected, rejected_half = overall * (k + 1) - halfpoint * k, half * (2 * k + 1)
    accepted, accepted_half = 2 * outer - rejected, 2 * half + rejected_half
    is_possible = (
        -rejected_half <= rejected <= 1 + rejected_half
        and -accepted_half <= accepted <= 1 + accepted_half
        and right - right_half <= inner + half
        and right - right_half <= accepted + accepted_half
    )
    return rejected, accepted, is_possible


def halfpoint(settings: Settings) -> Content:  # noqa: ARG001  # needs no folder
    """Check by which definition of Halfpoint the printed cells are possible."""
    paper = published("class-imbalance-table1")
    pairs = [row.partition(", ")[2] for row in paper.rows if row.startswith("Inner")]
    counts = {True: 0, False: 0}
    rows: list[tuple[Entry, ...]] = []
    for pair in pairs:
        n_known = int(pair.partition("(")[2].partition(",")[0])
        for method in paper.columns:
            inner, outer, half, overall = (
                paper.values[f"{score}, {pair}"][method].value
                for score in ("Inner", "Outer", "Halfpoint", "Overall")
            )
            found = {
                over: implied(
                    inner, outer, half, overall, n_known=n_known, over_unknown=over
                )
                for over in (True, False)
            }
            for over, (_, _, is_possible) in found.items():
                counts[over] += is_possible
            rejected, accepted, is_possible = found[True]
            # Rounding may put a share a little outside of [0, 1].
            shares = [min(max(share, 0.0), 1.0) for share in (rejected, accepted)]
            rows.append((pair, method, half, is_possible, found[False][2], *shares))
    n = len(rows)
    return Content(
        tables=(
            Table(
                title="Printed cells that are possible",
                columns=("Halfpoint is a mean over", "possible", "of"),
                rows=(
                    ("K + 1 classes, unknown = 0", counts[True], n),
                    ("the K known classes", counts[False], n),
                ),
            ),
            Table(
                title="Cell by cell, and what the printed scores imply",
                columns=(
                    "openness (K, U)",
                    "method",
                    "Halfpoint",
                    "K + 1",
                    "K",
                    "unknowns rejected",
                    "knowns accepted",
                ),
                rows=tuple(rows),
                note="Rates by the definition over K + 1 classes. Inner, Outer, "
                "Halfpoint and Overall determine them.",
            ),
        ),
    )
