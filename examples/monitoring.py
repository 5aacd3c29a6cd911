"""
Monitoring a deployed rejector
==============================

A threshold holds as long as new samples look like those it was calibrated on. `Watch`
raises an alarm when they do not, at a rate of false alarms you choose.
"""

# %%
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import openset as ops

images, digits = load_digits(return_X_y=True)
images, known = images / 16, np.flatnonzero(digits < 6)
train, calibration, live = known[::3], known[1::3], known[2::3]
network = MLPClassifier((64,), max_iter=500, random_state=0)
network.fit(images[train], digits[train])


def outputs(pixels, labels=None):
    hidden, last = network.coefs_
    features = np.maximum(pixels @ hidden + network.intercepts_[0], 0)
    logits = features @ last + network.intercepts_[1]
    return ops.Outputs(logits=logits, features=features, labels=labels)


# %%
# **Deploy** a rejector that accepts 95 % of the known digits.

fitted = ops.detectors.RMDS().fit(outputs(images[train], digits[train]))
rejector = ops.Rejector.calibrate(
    fitted,
    known=outputs(images[calibration], digits[calibration]),
    objective="at_tpr",
    tpr=0.95,
)
saved = rejector.save("rejector")

# %%
# **Watch** four days of traffic. Monday is normal. On Tuesday one sample in five is an
# unknown digit, on Wednesday the images are darker, Thursday is normal again.

rng = np.random.default_rng(0)
normal = images[rng.permutation(live)]
strange = images[digits >= 6]
days = {
    "Monday": normal[:120],
    "Tuesday": np.concatenate([normal[120:216], strange[:24]]),
    "Wednesday": normal[216:336] * 0.5,
    "Thursday": normal[60:180],
}
watch = ops.watch.Watch.of(ops.Rejector.load("rejector"), false_alarms=0.01)
for day, pixels in days.items():
    verdict = watch.check(rejector.score(outputs(pixels)))
    rate = verdict.unknown_rate
    said = "ALARM" if verdict.is_alarm else "ok"
    print(f"{day:10} {said:6} rejected {rate.new:.0%}, p = {rate.p_value:.2g}")

# %%
# **Look at one** sample: its knownness, and its margin to the threshold.

one = outputs(strange[:1])
print(rejector.rows(rejector.decide(one), one)[0])
