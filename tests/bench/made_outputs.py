"""Made-up outputs in the layout of a named benchmark."""

import numpy as np

from openset import Outputs


def made(folder, benchmark, *, leave_out=(), train=True):
    """Write outputs of a made-up network in the layout of a benchmark."""
    rng = np.random.default_rng(0)
    n_classes = benchmark.n_classes
    centres = 3 * np.eye(n_classes, n_classes + 2)

    def outputs(n, shift, labelled):
        labels = np.arange(n) % n_classes
        features = rng.normal(size=(n, n_classes + 2)) + shift * centres[labels]
        return Outputs(
            logits=features[:, :n_classes],
            features=features,
            labels=labels if labelled else None,
            weight=np.eye(n_classes, n_classes + 2),
            bias=np.zeros(n_classes),
        )

    for i, name in enumerate(benchmark.files()):
        is_known = name == "known" or name in benchmark.files("shifted")
        shift = 1 if name == "known" else 0.7 if is_known else 0.1 * i
        if name not in leave_out:
            # Unknown samples with labels of their own, and without.
            one = outputs(40 + i, shift, is_known or i % 2 == 0)
            one.save(folder / f"{name}.npz")
    if train:
        outputs(20 * n_classes, 1, labelled=True).save(folder / "train.npz")
    return folder
