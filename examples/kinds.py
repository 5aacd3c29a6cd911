"""
How many kinds of unknown samples?
==================================

Unknown samples come in kinds, and a threshold that suits one may fail for another. Here
one digit is never shown, and the threshold is chosen with one to four others.
"""

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import openset as ops

warnings.simplefilter("ignore", ops.CalibrationWarning)
images, digits = load_digits(return_X_y=True)
part = np.arange(len(digits)) % 3  # 0: train, 1: calibrate, 2: test
train = (part == 0) & (digits < 5)
network = MLPClassifier((64,), max_iter=500, random_state=0)
network.fit(images[train] / 16, digits[train])


def outputs(rows):
    hidden, last = network.coefs_
    features = np.maximum(images[rows] / 16 @ hidden + network.intercepts_[0], 0)
    labels = np.where(digits[rows] < 5, digits[rows], -1)
    logits = features @ last + network.intercepts_[1]
    groups = digits[rows].astype(str)
    return ops.Outputs(logits=logits, features=features, labels=labels, groups=groups)


# %%
# The digits 5 to 9 are unknown. Each is left out in turn.

fitted = ops.detectors.RMDS().fit(outputs(train))
known, tested = outputs((part == 1) & (digits < 5)), part == 2
gaps, codes = {n: [] for n in range(1, 5)}, {n: set() for n in range(1, 5)}
for missing in range(5, 10):
    test = outputs(tested & ((digits < 5) | (digits == missing)))
    others = [kind for kind in range(5, 10) if kind != missing]
    for n in gaps:
        rows = (part == 1) & np.isin(digits, np.roll(others, missing)[:n])
        rejector = ops.Rejector.calibrate(fitted, known=known, surrogate=outputs(rows))
        gaps[n].append(rejector.operate(test).gap)
        codes[n] |= {caution.code for caution in rejector.report.cautions}
for n in gaps:
    print(f"{n} kinds: mean gap {np.mean(gaps[n]):.3f}, codes {sorted(codes[n])}")

# %%
# CAL003 says that the kinds at hand need different thresholds, CAL011 that kinds close
# to the known classes were not tried.

plt.plot(gaps.keys(), [np.mean(one) for one in gaps.values()], "o-", label="mean")
plt.plot(gaps.keys(), [np.max(one) for one in gaps.values()], "o--", label="worst")
plt.xticks(list(gaps))
plt.xlabel("kinds to choose the threshold with")
plt.ylabel("open-set accuracy lost\non the missing kind")
plt.legend()
