"""
PostMax, and when it fails
==========================

PostMax divides the largest logit by the length of the feature. That helps where unknown
samples have longer features than known ones. Here are four small networks, each with
four kinds of unknown digits.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import openset as ops


def auroc(detector, known, unknown):
    scores = detector.score(ops.Outputs.concat([known, unknown]))
    return ops.metrics.auroc(scores)


def length(outputs):
    return np.median(np.linalg.norm(outputs.features, axis=1))


# %%
# For every network and kind: how long are the features of unknown samples, beside known
# ones, and what does the division change?

found = []
for seed in range(4):
    parts = ops.demo(seed)
    postmax = ops.detectors.PostMax().fit(parts.train)
    maxlogit = ops.detectors.MaxLogit().fit(parts.train)
    for part in (parts.surrogate, parts.unseen):
        for kind in np.unique(part.groups):
            unknown = part.take(np.asarray(part.groups) == kind)
            gain = auroc(postmax, parts.test, unknown)
            gain -= auroc(maxlogit, parts.test, unknown)
            found.append((length(unknown) / length(parts.test), gain))

# %%
# Where unknown features are much shorter (left), dividing by the length moves unknown
# samples up. Lengths alone do not decide: measure the AUROC on your own samples.

ratio, gain = np.array(found).T
plt.scatter(ratio, gain, c=np.where(gain > 0, "tab:blue", "tab:red"))
plt.axhline(0, color="black", lw=0.8)
plt.xlabel("median length of unknown features / of known ones")
plt.ylabel("AUROC of PostMax − of MaxLogit")
print(f"PostMax is better for {np.mean(gain > 0):.0%} of {len(gain)} kinds")
