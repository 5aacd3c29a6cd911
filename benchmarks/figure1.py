"""Draw figure 1 of the PostMax paper from a real ImageNet network's outputs.

    OPENSET_DATA=folder python benchmarks/figure1.py

Each method's threshold is chosen on calibration knowns and surrogate unknowns, and
applied to test samples of other images, classes and kinds. Writes
docs/figures/osa-over-urr.png.
"""

from pathlib import Path

import packaged_data
from real_data import imagenet

import openset as ops
from openset import Outputs

METHODS = ("msp", "maxlogit", "postmax", "scale", "nnguide")
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "osa-over-urr.png"


def calibration() -> Outputs:
    """Give validation knowns and surrogate unknowns."""
    found = packaged_data.outputs("imagenet_lite0")
    return Outputs.concat(
        [Outputs(**found[name]) for name in ("calibration", "surrogate")]
    )


def main() -> None:
    """Fit, calibrate, operate, draw."""
    problem = imagenet()
    fitted = {n: ops.detectors.make(n).fit(problem.train) for n in METHODS}
    chosen_on = ops.detectors.score_all(fitted, calibration())
    tested_on = ops.detectors.score_all(fitted, problem.test)
    operations = {
        name: ops.thresholds.operate(chosen_on[name], tested_on[name], alpha=0.5)
        for name in METHODS
    }
    for name, done in operations.items():
        print(f"{name:10} OOSA {done.oosa:.3f}  oracle {done.oracle:.3f}")
    ops.report.osa_over_urr(operations).plot(FIGURE)


if __name__ == "__main__":
    main()
