"""
Training
========

Train a network by a published method, on known classes only, and evaluate it on
classes it has never seen. This takes seconds on a CPU; a GPU is used if there is one.
"""

# %%
import openset as ops

protocol = ops.protocols.holdout(
    ops.datasets.load("digits"), n_known=6, n_unknown=4, rng=0
)
print(protocol)

# %%
# **Train.** The recipe `arpl` is short. For images we recommend `recipe="openset"`.

trained = {
    method: ops.train.fit(
        method=method,
        data="digits",
        protocol=protocol,
        network="mlp",
        recipe="arpl",
        epochs=15,
        progress=False,
    )
    for method in ("softmax", "arpl")
}

# %%
# **Evaluate.** Every method has the score it was published with.

for method, run in trained.items():
    result = run.evaluate()
    print(
        f"{method:8} accuracy {result['accuracy']:.3f}  OpenAUC {result['openauc']:.3f}"
    )

# %%
# **Go on.** A run has the outputs of the network for every part of the data: all
# detectors, thresholds and reports take them.

outputs = trained["softmax"].outputs
scores = ops.detectors.KNN(k=10).fit(outputs["train"]).score(outputs["test"])
ops.report.oscr({"published": trained["softmax"].scores["published"], "knn": scores})
