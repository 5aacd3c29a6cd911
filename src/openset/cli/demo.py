"""`openset demo`: real data, a small network, an answer in seconds."""

from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

import openset
from openset._types import UNKNOWN
from openset.cli._tables import OUT, show
from openset.metrics import evaluate
from openset.outputs import Outputs
from openset.stats import compare

N_KNOWN = 6
DETECTORS = ("msp", "maxlogit", "postmax", "openmax", "knn")


def command(
    seed: Annotated[int, typer.Option(help="Draws the known classes.")] = 0,
) -> None:
    """Train a small network on handwritten digits and evaluate it on unknown ones.

    The data ship with scikit-learn: nothing is downloaded.
    """
    from sklearn.datasets import load_digits  # noqa: PLC0415  # slow: not for --help

    rng = np.random.default_rng(seed)
    digits = load_digits()
    known_digits = np.sort(rng.permutation(10)[:N_KNOWN])
    names = ", ".join(map(str, known_digits))
    OUT.print(
        f"[bold]1.[/bold] A small network learns the handwritten digits {names}. "
        f"It never sees the other four."
    )
    train, test = outputs_of_a_network(digits.data / 16, digits.target, known_digits)
    n_unknown = int(np.count_nonzero(test.labels == UNKNOWN))
    OUT.print(
        f"[bold]2.[/bold] It is shown {len(test) - n_unknown} new images of digits it "
        f"knows and {n_unknown} of digits it does not."
    )
    fitted = [openset.detectors.make(name).fit(train) for name in DETECTORS]
    scores = openset.detectors.score_all(fitted, test)
    evaluations = {name: evaluate(found) for name, found in scores.items()}
    OUT.print(
        f"[bold]3.[/bold] {len(fitted)} detectors say how known each image looks. Who "
        f"tells known from unknown, and still names the known ones rightly?\n"
    )
    OUT.print(show(evaluations, title="Digits, six known and four unknown classes"))
    best, second = sorted(evaluations, key=lambda n: -evaluations[n]["openauc"])[:2]
    lead = compare(scores[best], scores[second])
    OUT.print(
        f"[bold]4.[/bold] By OpenAUC {best} leads {second} by {lead.difference:.4f} "
        f"(95 % interval {lead.interval.low:+.4f} to {lead.interval.high:+.4f}, "
        f"p = {lead.p_value:.2g}, same images)."
    )


def outputs_of_a_network(
    images: NDArray[np.float64],
    digits: NDArray[np.int64],
    known_digits: NDArray[np.int64],
) -> tuple[Outputs, Outputs]:
    """Train on the known digits; return outputs on training and test images."""
    from sklearn.model_selection import train_test_split  # noqa: PLC0415
    from sklearn.neural_network import MLPClassifier  # noqa: PLC0415

    labels = np.full(digits.size, UNKNOWN)
    for label, digit in enumerate(known_digits):
        labels[digits == digit] = label
    is_known = labels != UNKNOWN
    train_x, test_x, train_y, test_y = train_test_split(
        images[is_known],
        labels[is_known],
        test_size=0.5,
        random_state=0,
        stratify=labels[is_known],
    )
    network = MLPClassifier((64,), max_iter=1000, alpha=1e-3, random_state=0)
    network.fit(train_x, train_y)

    def outputs(x: NDArray[np.float64], y: NDArray[np.int64]) -> Outputs:
        hidden, last = network.coefs_
        features = np.maximum(x @ hidden + network.intercepts_[0], 0)
        return Outputs(
            logits=features @ last + network.intercepts_[1],
            features=features,
            labels=y,
            classes=[f"digit {digit}" for digit in known_digits],
            weight=last.T,
            bias=network.intercepts_[1],
        )

    unknown = outputs(images[~is_known], labels[~is_known])
    return outputs(train_x, train_y), Outputs.concat([outputs(test_x, test_y), unknown])
