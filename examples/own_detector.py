"""
Adding your own detector
========================

A detector is a class with one method. It then works everywhere: in Python, on the
command line, in studies, in saved rejectors and in reports.
"""

# %%
import numpy as np
from array_api_compat import array_namespace
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import openset as ops
from openset.detectors.constraints import POSITIVE, option


class Margin(ops.detectors.Detector):
    """Largest logit minus the mean logit, over a temperature."""

    temperature: float = option(1.0, POSITIVE)

    def score_batch(self, state, batch):
        xp = array_namespace(batch.logits)  # NumPy, torch, ... as the caller has it
        ahead = batch.top_logit - xp.mean(batch.logits, axis=1)
        return ahead / self.temperature  # larger = more known


# %%
# **Wrong values** are refused, because `option` says what is allowed.

try:
    Margin(temperature=-1)
except ValueError as error:
    print(error)

# %%
# **Compare** it with MSP on the ten digits, of which the classifier knows six.

images, digits = load_digits(return_X_y=True)
labels = np.where(digits < 6, digits, -1)
train = (np.arange(len(labels)) % 2 == 0) & (labels >= 0)
model = LogisticRegression(max_iter=1000).fit(images[train], labels[train])
logits = model.decision_function(images[1::2])
test = ops.Outputs(logits=logits, labels=labels[1::2])
scores = {
    "msp": ops.detectors.MSP().fit().score(test),
    "margin": Margin().fit().score(test),
}
found = ops.stats.compare(scores["margin"], scores["msp"])
low, high = found.interval.low, found.interval.high
print(f"OpenAUC: margin {found.a:.4f}, msp {found.b:.4f}")
print(f"difference {found.difference:+.4f} (95 % interval {low:+.4f} to {high:+.4f})")

# %%
# **Plot** both.

ops.report.oscr(scores)

# %%
# To give it a name on the command line, put the class into a package with an entry
# point, and let `openset.testing.check_detector` test it: see the page on plug-ins.
