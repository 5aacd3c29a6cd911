"""
A table with scikit-learn
=========================

Wines of three cultivars, described by 13 measurements. The classifier knows two of
them and must reject the third. `OpenSetClassifier` wraps any classifier.
"""

# %%
import numpy as np
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import openset as ops
from openset.integrations.sklearn import OpenSetClassifier

X, y = load_wine(return_X_y=True)
y = np.where(y == 2, -1, y)  # -1 means unknown
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.5, stratify=y, random_state=0
)

# %%
# No unknown wine is used for training: the threshold accepts 95 % of the known wines.
# A new wine with unusual measurements is then rejected.

is_known = y_train != -1
model = OpenSetClassifier(
    make_pipeline(StandardScaler(), LogisticRegression()), detector="mahalanobis", cv=5
)
model.fit(X_train[is_known], y_train[is_known])
result = model.evaluate(X_test, y_test)
print(f"OpenAUC {result['openauc']:.3f}, OSA {result['osa']:.3f}")

# %%
# Every wine gets a class, or -1.

decided = model.predict(X_test)
for label, name in {0: "cultivar 0", 1: "cultivar 1", -1: "unknown"}.items():
    print(f"{name}: {np.mean(decided[y_test == label] == label):.0%} right")
ops.report.histogram(
    model.scores(X_test, y_test), threshold=float(model.rejector_.threshold.value)
)
