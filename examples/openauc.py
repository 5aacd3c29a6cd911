"""
OpenAUC and AUROC on one picture
================================

Two classifiers with the same accuracy and the same AUROC. One of them gives its highest
knownness to samples it misclassifies. AUROC cannot see that, OpenAUC does.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import openset as ops

images, digits = load_digits(return_X_y=True)
few = np.flatnonzero(digits < 6)[:60]  # a weak classifier: some errors
model = LogisticRegression(max_iter=1000).fit(images[few], digits[few])
test = np.arange(len(digits)) >= 600
logits = model.decision_function(images[test])
labels = np.where(digits[test] < 6, digits[test], -1)
a = ops.detectors.MSP().fit().score(ops.Outputs(logits=logits, labels=labels))

# %%
# Classifier B has the same predictions and the same values of knownness. But among the
# known samples, the misclassified ones get the highest values.

known = np.flatnonzero(~a.is_unknown)
order = known[np.argsort(a.is_correct[known], kind="stable")]  # errors first
values = a.known.copy()
values[order] = np.sort(a.known[known])[::-1]
b = a.with_known(values)
for name, scores in (("A", a), ("B", b)):
    result = ops.evaluate(scores)
    shown = ", ".join(f"{m} {result[m]:.3f}" for m in ("accuracy", "auroc", "openauc"))
    print(f"{name}: {shown}")

# %%
# The ROC curves (known samples accepted) coincide. The OSCR curves (accepted *with the
# right class*) do not: OpenAUC is the area below them.

curves = {"A": ops.evaluate(a).oscr_curve, "B": ops.evaluate(b).oscr_curve}
for name, curve in curves.items():
    plt.plot(curve.fpr, curve.ccr, label=f"OSCR of {name}")
thresholds = np.sort(a.known)
tpr = [np.mean(a.known[known] >= t) for t in thresholds]
fpr = [np.mean(a.known[a.is_unknown] >= t) for t in thresholds]
plt.plot(fpr, tpr, "k:", label="ROC of both")
plt.xlabel("unknown samples accepted")
plt.ylabel("known samples accepted")
plt.legend()
