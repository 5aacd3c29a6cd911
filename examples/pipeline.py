"""
An open-set scikit-learn pipeline
=================================

`OpenSetClassifier` is an estimator: it goes into pipelines, grid searches and
cross-validation, and what it has learnt is a rejector that can be saved and served.
"""

# %%
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import openset as ops
from openset.integrations.sklearn import OpenSetClassifier, scorer

X, y = load_digits(return_X_y=True)
y = np.where(y >= 7, -1, y)  # 7, 8 and 9 are unknown
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.5, stratify=y, random_state=0
)

# %%
# Detector and number of components are chosen together, by OpenAUC. Rows labelled -1
# never train the classifier; they choose thresholds and take part in the metric.

steps = make_pipeline(StandardScaler(), PCA(), LogisticRegression(max_iter=100))
model = OpenSetClassifier(steps, detector="msp", cv=2)
grid = {"detector": ["msp", "rmds"], "estimator__pca__n_components": [10, 30]}
search = GridSearchCV(model, grid, scoring=scorer("openauc"), cv=2)
search.fit(X_train, y_train)
print(search.best_params_, f"OpenAUC {search.best_score_:.3f}")

# %%
# Cross-validated decisions, and the test.

decided = cross_val_predict(search.best_estimator_, X_train, y_train, cv=2)
print(f"right in cross-validation: {np.mean(decided == y_train):.1%}")
best = search.best_estimator_
print(f"right in the test: {np.mean(best.predict(X_test) == y_test):.1%}")
best.rejector_.save("runs/digits-rejector")  # openset serve runs/digits-rejector
scores, threshold = best.scores(X_test, y_test), best.rejector_.threshold.value
ops.report.confusion_matrix(scores, threshold)
