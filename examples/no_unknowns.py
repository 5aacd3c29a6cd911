"""
A threshold without unknown samples
===================================

You have samples of the known classes only. Three ways to choose a threshold, and what
each reaches on digits that nobody had.
"""

# %%
import warnings

import matplotlib.pyplot as plt

import openset as ops

warnings.simplefilter("ignore", ops.CalibrationWarning)  # printed below
parts = ops.demo()
fitted = ops.detectors.ViM().fit(parts.train)
test = ops.Outputs.concat([parts.test, parts.surrogate, parts.unseen])

# %%
# From the most to the least cautious: promise something about known samples only; treat
# known classes as unknown in turn; mix known samples. The last row has real unknown
# samples of two other kinds.

ways = {
    "conformal, 5 %": {"objective": "conformal", "error_rate": 0.05},
    "left-out": {"surrogate": "left-out", "train": parts.train},
    "mixup": {"surrogate": "mixup"},
    "real ones": {"surrogate": parts.surrogate},
}
rates = {}
for name, options in ways.items():
    rejector = ops.Rejector.calibrate(fitted, known=parts.validation, **options)
    tested = parts.unseen if name == "real ones" else parts.surrogate
    done = rejector.operate(ops.Outputs.concat([parts.test, tested]))
    rates[name] = (done.ccr, done.urr, done.gap)
    codes = ", ".join(sorted({c.code for c in rejector.report.cautions}))
    print(f"{name:15} CCR {done.ccr:.2f}  URR {done.urr:.2f}  codes {codes}")

# %%
# The gap is what the best threshold of the test would have gained.

for i, label in enumerate(("known: right class", "unknown: rejected", "gap")):
    at = [j + 0.25 * i for j in range(len(rates))]
    plt.bar(at, [one[i] for one in rates.values()], 0.22, label=label)
plt.xticks([j + 0.25 for j in range(len(rates))], rates)
plt.legend(loc="lower left")
