"""
Intents with out-of-scope queries
=================================

A dialogue system knows some intents. It must say "I do not understand" to everything
else. The queries are from CLINC150, which comes with openset.
"""

# %%
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import openset as ops
from openset.integrations.sklearn import OpenSetClassifier

KNOWN = ["balance", "transfer", "weather", "play_music", "translate", "alarm"]
data = ops.datasets.load("clinc150")
names = np.array([*data.classes, "out of scope"])  # the label of the last one is -1


def part(name):
    """Return the queries of some known intents and of no intent at all."""
    rows = data.parts[name]
    chosen = np.isin(names[data.labels[rows]], [*KNOWN, "out of scope"])
    return [data.inputs[row] for row in rows[chosen]], names[data.labels[rows[chosen]]]


# %%
# Out-of-scope queries of the training part are used to choose the threshold, not to
# train. Those of the test part are other ones.

model = OpenSetClassifier(
    make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(C=10)),
    detector="maxlogit",
    unknown_label="out of scope",
    cv=3,
)
model.fit(*part("train"))
result = model.evaluate(*part("test"))
for metric in ("accuracy", "auroc", "openauc", "ccr", "urr"):
    print(f"{metric:9} {result[metric]:.3f}")

# %%
# What does it answer? The last two are of intents that it was not shown.

asked = [
    "how much money is left on my account",
    "will it rain in oslo tomorrow",
    "tell me a joke about fish",
    "how do i cook rice",
]
for query, answer in zip(asked, model.predict(asked), strict=True):
    print(f"{query:40} {answer}")
ops.report.histogram(
    model.scores(*part("test")), threshold=float(model.rejector_.threshold.value)
)
