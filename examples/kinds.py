"""
Kinds of unknown samples, and the codes of a calibration
========================================================

Unknown samples come in kinds, and a threshold that suits one may fail for another.
`calibrate` says so with codes. The test has two kinds that were never there.
"""

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import openset as ops

warnings.simplefilter("ignore", ops.CalibrationWarning)  # printed below
images, digits = load_digits(return_X_y=True)
images, part = images / 16, np.arange(len(digits)) % 3  # 0: train, 1: choose, 2: test
train = (part == 0) & (digits < 5)
network = MLPClassifier((64,), max_iter=500, random_state=0)
network.fit(images[train], digits[train])


def outputs(pixels, labels, kind):
    hidden, last = network.coefs_
    features = np.maximum(pixels @ hidden + network.intercepts_[0], 0)
    logits, groups = features @ last + network.intercepts_[1], [str(kind)] * len(labels)
    return ops.Outputs(logits=logits, features=features, labels=labels, groups=groups)


def digit(number, of):
    rows = (part == of) & (digits == number)
    label = number if number < 5 else -1
    return outputs(images[rows], np.full(rows.sum(), label), number)


# %%
# Four kinds: noise, inverted digits, and two other digits.

rng, few = np.random.default_rng(0), images[(part == 1) & (digits < 5)][:100]
kinds = {
    "noise": outputs(rng.random((100, 64)), [-1] * 100, "noise"),
    "inverted": outputs(1 - few, [-1] * len(few), "inverted"),
    "digit 6": digit(6, 1),
    "digit 7": digit(7, 1),
}
fitted = ops.detectors.MaxLogit().fit(outputs(images[train], digits[train], "train"))
known = ops.Outputs.concat([digit(number, 1) for number in range(5)])
for name, kind in kinds.items():
    scores = fitted.score(ops.Outputs.concat([known, kind]))
    curve = ops.metrics.osa_curve(scores)
    plt.plot(curve.thresholds, curve.osa, label=name)

# %%
# Each kind has its own best threshold. Calibrate with all of them: the codes say what
# may go wrong. CAL003: the kinds need different thresholds. CAL011: unknown samples
# close to the known classes were not tried. CAL012: a kind scores like known samples.

unknown = ops.Outputs.concat(list(kinds.values()))
test = ops.Outputs.concat([digit(n, 2) for n in (0, 1, 2, 3, 4, 8, 9)])
for objective, style in (("osa", "-"), ("worst_group", "--")):
    rejector = ops.Rejector.calibrate(
        fitted, known=known, surrogate=unknown, objective=objective
    )
    done = rejector.operate(test)
    codes = ", ".join(sorted({c.code for c in rejector.report.cautions}))
    print(
        f"{objective}: OSA on 8 and 9 {done.oosa:.3f}, best {done.oracle:.3f}. {codes}"
    )
    plt.axvline(rejector.threshold.value, color="black", ls=style, label=objective)
plt.xlabel("threshold")
plt.ylabel("open-set accuracy")
plt.legend()
