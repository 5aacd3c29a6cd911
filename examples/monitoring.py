"""
Monitoring a deployed rejector
==============================

A threshold holds as long as new samples look like those it was calibrated on. `Watch`
raises an alarm when they do not, at a rate of false alarms you choose.
"""

# %%
import matplotlib.pyplot as plt
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
validation = outputs(images[calibration], digits[calibration])
rejector = ops.Rejector.calibrate(fitted, known=validation, objective="at_tpr")
rejector.save("runs/rejector")

# %%
# **Watch** four days of traffic. On Tuesday one sample in five is an unknown digit, on
# Wednesday the images are darker, Thursday is normal again.

normal = images[np.random.default_rng(0).permutation(live)]
days = {
    "Monday": normal[:120],
    "Tuesday": np.concatenate([normal[120:216], images[digits >= 6][:24]]),
    "Wednesday": normal[216:336] * 0.5,
    "Thursday": normal[60:180],
}
watch = ops.watch.Watch.of(ops.Rejector.load("runs/rejector"), false_alarms=0.01)
found = {}
for day, pixels in days.items():
    new = outputs(pixels)
    found[day] = watch.check(rejector.score(new), features=new.features)
    print(f"{day:10} {found[day].advice or 'no change'}")

# %%
# What the alarm says: rejected samples, and the rate in calibration.

rates = [one.unknown_rate.new for one in found.values()]
colours = ["tab:red" if one.is_alarm else "tab:blue" for one in found.values()]
plt.bar(list(found), rates, color=colours)
plt.axhline(0.05, color="black", linestyle="--")
plt.ylabel("rejected (red: alarm)")
