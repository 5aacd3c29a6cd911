"""Figures 1 to 4 of the class-imbalance paper: counts, random decisions, four scores.

Komorniczak and Ksieniewicz, "Taking class imbalance into account in open set
recognition evaluation", 2024.
"""

from itertools import product
from typing import Any

import numpy as np
from sklearn.metrics import ConfusionMatrixDisplay

from openset import metrics, protocols
from openset._optional import optional
from openset.reproduce.item import Content, Settings
from openset.scores import Scores

# Images per digit in MNIST, training and test part together; half are tested.
MNIST = (6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958)

# Figs. 3 and 4: samples by true class (row; the last: unknown) and class, accepted and
# rejected. The rejected ones are placed so that both the Inner and the Overall matrix
# of the paper come out.
ACCEPTED = np.array(
    [[10, 3, 0, 2], [1, 12, 0, 0], [0, 0, 9, 1], [1, 1, 0, 10], [2, 1, 2, 0]]
)
REJECTED = np.array(
    [[1, 0, 0, 0], [2, 0, 0, 0], [0, 0, 4, 1], [3, 0, 0, 0], [10, 0, 0, 0]]
)


def _canvas(width: float, height: float) -> Any:
    """Return an empty figure: not of pyplot, which would keep it and open a window."""
    module = optional("matplotlib.figure", "report")
    return module.Figure(figsize=(width, height), layout="constrained")


def sample_counts(settings: Settings) -> Content:
    """Count known and unknown test samples of MNIST over all pairs of class counts.

    With K known and U unknown classes drawn at random, their expected numbers are K and
    U times the mean class size.
    """
    size = (np.array(MNIST) // 2).mean()
    n_known, n_unknown = np.array(protocols.pairs(len(MNIST))).T
    known, unknown = n_known * size, n_unknown * size
    order = np.argsort(known / unknown)
    rows = []
    for i in order[[0, len(order) // 2, -1]]:
        k, u, samples = int(n_known[i]), int(n_unknown[i]), (known[i], unknown[i])
        counts = [round(float(n)) for n in samples]
        rows.append(
            (k, u, protocols.openness(k, k + u), *counts, known[i] / unknown[i])
        )
    figure = _canvas(6, 5)
    axes = figure.subplots()
    largest = max(known.max(), unknown.max())
    sides = ((-0.15, known, "black", "known"), (0.15, unknown, "white", "unknown"))
    for shift, values, colour, label in sides:
        area = 120 * values / largest  # by which dots are compared
        axes.scatter(
            *(n_known + shift, n_unknown, area, colour), edgecolors="black", label=label
        )
    axes.set(xlabel="known classes", ylabel="unknown classes")
    axes.legend(title="test samples")
    note = f"{len(order)} pairs of ten classes, test part of 2 folds of MNIST."
    return settings.content(rows, figure=figure, note=note)


def random_decisions(settings: Settings) -> Content:
    r"""Draw histograms of metrics of random decisions under class imbalance.

    Every sample is accepted with the same probability p: 1/2, or, for informed
    decisions, the share of known samples. The counts are binomial:
    :math:`TP \sim B(N_k, p)`, :math:`FP \sim B(N_u, p)`. Known is the positive class,
    each class has 10 test samples, and each configuration is repeated 1000 times.
    """
    sizes = (2, 5, 10, 100, 1000)
    cells = list(product((False, True), sizes, sizes))
    is_informed = np.array([cell[0] for cell in cells])[:, None]
    n_k, n_u = 10 * np.array([cell[1:] for cell in cells]).T[:, :, None]
    accept = np.where(is_informed, n_k / (n_k + n_u), 0.5)
    rng, shape = np.random.default_rng(0), (len(cells), 1000)
    known, unknown = rng.binomial(n_k, accept, shape), rng.binomial(n_u, accept, shape)
    found = {
        # 2 TP + FP + FN = TP + FP + N_k, which is never 0
        "F1": 2 * known / (known + unknown + n_k),
        "accuracy": (known + n_u - unknown) / (n_k + n_u),
        "balanced accuracy": (known / n_k + (n_u - unknown) / n_u) / 2,
    }
    figure = _canvas(2 * len(sizes), 2.4 * len(sizes))
    grid = figure.subplots(2 * len(sizes), len(sizes), sharex=True)
    # One shape each: thousands of bars take seconds.
    drawn: dict[str, Any] = {"bins": 50, "range": (0, 1), "histtype": "stepfilled"}
    for i, (cell, axes) in enumerate(zip(cells, grid.ravel(), strict=True)):
        informed, n_known, n_unknown = cell
        for name, values in found.items():
            axes.hist(values[i], **drawn, alpha=0.5, label=name)
        axes.set_yticks([])
        if n_unknown == sizes[0]:
            axes.set_ylabel(f"{n_known} known" + ("\ninformed" if informed else ""))
        if i < len(sizes):
            axes.set_title(f"{n_unknown} unknown")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center")
    rows = []
    for n_known, n_unknown in ((2, 2), (2, 1000), (1000, 2)):
        for informed in (False, True):
            i = cells.index((informed, n_known, n_unknown))
            means = [float(values[i].mean()) for values in found.values()]
            rows.append((n_known, n_unknown, informed, *means))
    return settings.content(rows, figure=figure)


def worked_example() -> Scores:
    """Return scores with the confusion matrices of figs. 3 and 4; threshold 0.5.

    Examples
    --------
    >>> made = worked_example()
    >>> made.n_known, made.n_unknown
    (61, 15)
    """
    counts = np.stack([REJECTED, ACCEPTED])
    accepted, labels, predicted = (
        np.repeat(index.ravel(), counts.ravel()) for index in np.indices(counts.shape)
    )
    labels = np.where(labels == 4, -1, labels)
    return Scores(labels=labels, predicted=predicted, known=accepted)


def four_scores(settings: Settings) -> Content:
    """Cut the worked example into the regions of the four scores."""
    scores = worked_example()
    names = "inner_score outer_score halfpoint_score halfpoint_k_plus_1 overall_score"
    values = {name: metrics.get(name).value(scores, 0.5) for name in names.split()}
    overall = metrics.confusion(scores, 0.5).matrix
    sides = [slice(None, -1), slice(-1, None)]
    outer = [[overall[row, column].sum() for column in sides] for row in sides]
    classes = [*"0123", "unknown"]
    regions: dict[str, tuple[Any, list[str]]] = {
        # Accepting all samples gives the classification without rejection.
        "inner": (metrics.confusion(scores, -np.inf).matrix[:-1, :-1], classes[:-1]),
        "outer": (np.array(outer), ["known", "unknown"]),
        "halfpoint": (np.vstack([overall[:-1], 0 * overall[-1]]), classes),
        "overall": (overall, classes),
    }
    figure = _canvas(12, 3.5)
    drawn = zip(figure.subplots(1, 4), regions.items(), strict=True)
    for axes, (name, (matrix, labels)) in drawn:
        shown = ConfusionMatrixDisplay(matrix, display_labels=labels)
        shown.plot(ax=axes, cmap="Greys", colorbar=False)
        title = f"{name} {values[f'{name}_score']:.3f}"
        axes.set(title=title, xlabel="decision", ylabel="")
    figure.axes[0].set_ylabel("true class")
    rows = [(metrics.get(key).label, value) for key, value in values.items()]
    return settings.content(rows, figure=figure)
