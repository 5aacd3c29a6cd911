"""Write the golden rejector. Never run it again once its format is released.

``python -m tests.golden.make_rejector`` makes ``tests/golden/rejector``, with the
outputs to decide and the decisions beside it.
"""

from pathlib import Path

import numpy as np

from openset import Outputs, Rejector, _npz, detectors


def main() -> None:
    """Calibrate a small rejector on drawn data and keep what it decides."""
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(3, 5)).round(2)

    def drawn(n, *, unknown=False):
        labels = rng.integers(0, 3, n)
        features = rng.normal(size=(n, 5)) + (0 if unknown else 2) * weight[labels]
        features = features.round(3)
        return Outputs(
            features=features,
            logits=(features @ weight.T).round(4),
            labels=np.full(n, -1) if unknown else labels,
            groups=np.full(n, "noise" if unknown else "known"),
            classes=("cat", "dog", "Äpfel"),
        )

    fitted = detectors.PostMax().fit(drawn(80))
    rejector = Rejector.calibrate(
        fitted,
        known=drawn(60),
        surrogate=drawn(60, unknown=True),
    )
    folder = Path(__file__).parent
    rejector.save(folder / "rejector")
    new = drawn(40)
    decided = rejector.decide(new)
    _npz.save(
        folder / "rejector-expected.npz",
        {
            "logits": new.logits,
            "features": new.features,
            "decisions": decided.labels,
            "known": decided.known,
        },
    )


if __name__ == "__main__":
    main()
