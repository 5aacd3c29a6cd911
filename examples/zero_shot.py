"""
Zero-shot with text labels
==========================

No training at all: the classes are given as texts, and a sample belongs to the text
it is most similar to. MCM tells when it is similar to none.

CLIP does this with images. To keep the example small and offline, samples are
sentences here, and the encoder counts words. The steps are the same.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

import openset as ops

CLASSES = {
    "bird": "a bird with feathers wings and a beak that sings flies and builds a nest",
    "fish": "a fish with fins scales and gills that swims in the sea a river or a lake",
    "tree": "a tree with leaves branches roots bark and a trunk that grows in a forest",
}
SENTENCES = {
    "bird": ["it flies to its nest", "wings and a yellow beak", "it sings at dawn",
             "feathers on the ground", "a nest with three eggs"],
    "fish": ["it swims in the river", "shiny scales and fins", "gills open in the sea",
             "a lake where it swims", "fins like a fan"],
    "tree": ["leaves fall in autumn", "bark and roots", "a trunk with many branches",
             "it grows in the forest", "the branches bend"],
    "unknown": ["a car with four wheels", "the engine makes noise", "he wrote a letter",
                "all branches of the bank", "the train was late", "a plane has wings",
                "a cup of coffee", "a bridge over the river"],
}  # fmt: skip

# %%
# **Embed** classes and samples in the same space. The logits are cosines times a scale,
# 100 as in the published CLIP models.

encoder = TfidfVectorizer(stop_words="english").fit(CLASSES.values())
texts = [sentence for group in SENTENCES.values() for sentence in group]
names = [name for name, group in SENTENCES.items() for _ in group]
features = encoder.transform(texts).toarray()  # rows of length 1, or 0
weight = 100 * encoder.transform(CLASSES.values()).toarray()
outputs = ops.Outputs(
    logits=features @ weight.T,
    features=features,
    labels=[list(CLASSES).index(n) if n in CLASSES else -1 for n in names],
    classes=list(CLASSES),
    weight=weight,
    bias=np.zeros(len(CLASSES)),
)

# %%
# **Score.** MCM is a softmax over the cosines. It learns nothing: `fit` takes no data.

scores = ops.detectors.MCM().fit().score(outputs)
result = ops.evaluate(scores)
print(f"accuracy {result['accuracy']:.3f}, OpenAUC {result['openauc']:.3f}")

# %%
# Sentences without a word of any class have the same, lowest, knownness. Words with two
# meanings ("branches", "wings", "river") cause the errors.

colours = np.where(scores.is_unknown, "tab:red", "tab:blue")
plt.barh(texts, scores.known - scores.known.min(), color=colours)
plt.xlabel("knownness above the lowest (red: unknown)")

# %%
# **With CLIP** the two lines that embed become one:
# `extract.load("hf:FOLDER", classes=[...]).apply(images)`. See the page on
# integrations.
