"""Models a study can train without torch: scikit-learn on tables and flat images.

scikit-learn is imported in the functions: that takes a second, and named benchmarks and
studies of saved outputs do without.
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.bench._check_study import classifier
from openset.bench._study import LogisticModel, MLPModel, SklearnModel
from openset.datasets import Cut, Samples
from openset.outputs import Outputs

PARTS = ("train", "validation", "negative", "surrogate", "test")

_INTERRUPTED = "Training interrupted by user"


def fit(
    model: MLPModel | LogisticModel | SklearnModel, cut: Cut, seed: int
) -> dict[str, Outputs]:
    """Train a model on the training part; return its outputs on every part."""
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import (  # noqa: PLC0415
        FunctionTransformer,
        StandardScaler,
    )

    inputs = _numbers(cut.train)
    # Not per pixel: pixels at the border are nearly constant, and images of another
    # data set would be thousands of standard deviations away there.
    is_table = cut.train.kind == "table"
    scaler = StandardScaler() if model.scale and is_table else FunctionTransformer()
    fitted = make_pipeline(scaler, _estimator(model, seed))
    with warnings.catch_warnings():  # stopping at the number of epochs is intended
        warnings.simplefilter("ignore", ConvergenceWarning)
        # If interrupted, scikit-learn's networks only warn and count as fitted; outputs
        # of a half-trained network must not be saved.
        warnings.filterwarnings("error", _INTERRUPTED, UserWarning)
        try:
            fitted.fit(inputs, cut.train.labels)
        except UserWarning as error:
            raise KeyboardInterrupt from error
    return {
        part: _outputs(fitted, samples)
        for part in PARTS
        if (samples := getattr(cut, part)) is not None
    }


def _estimator(model: MLPModel | LogisticModel | SklearnModel, seed: int) -> Any:
    if isinstance(model, MLPModel):
        from sklearn.neural_network import MLPClassifier  # noqa: PLC0415

        return MLPClassifier(
            tuple(model.hidden),
            max_iter=model.epochs,
            alpha=model.alpha,
            random_state=seed,
        )
    if isinstance(model, LogisticModel):
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

        return LogisticRegression(C=model.C, max_iter=1000, random_state=seed)
    kind = classifier(model.estimator)
    made = kind(**model.params)
    if "random_state" in made.get_params() and "random_state" not in model.params:
        made.set_params(random_state=seed)
    return made


def _numbers(samples: Samples) -> NDArray[np.float64]:
    """Return one row of numbers per sample; pixels are scaled to [0, 1]."""
    if samples.kind == "text":
        raise ValueError(_unfit("texts"))
    inputs = samples.inputs
    if not isinstance(inputs, np.ndarray):
        inputs = _stacked(inputs)
    flat = inputs.reshape(len(inputs), -1).astype(np.float64)
    return flat / 255 if inputs.dtype == np.uint8 else flat


def _stacked(images: Any) -> NDArray[np.uint8]:
    """Read images into memory; raise unless they have one size."""
    pixels = [np.asarray(images[i]) for i in range(len(images))]
    sizes = sorted({one.shape[:2] for one in pixels})
    if len(sizes) > 1:
        first, second = (f"{height} x {width}" for height, width in sizes[:2])
        raise ValueError(_unfit(f"images of {first} and of {second}"))
    return np.stack(pixels)


def _unfit(got: str) -> str:
    return _check.must(
        "tables or images of one size",
        caller="bench",
        name="data",
        got=got,
        remedy="Use embeddings of them, saved outputs of a network, or for images "
        "{kind: network, params: {side: 32}}",
    )


def _outputs(fitted: Any, samples: Samples) -> Outputs:
    from sklearn.neural_network import MLPClassifier  # noqa: PLC0415

    from openset.integrations.sklearn_outputs import (  # noqa: PLC0415
        features_of,
        linear_head,
        logits_of,
    )

    inputs = _numbers(samples)
    last = fitted[-1]
    if isinstance(last, MLPClassifier):
        features = features_of(fitted, inputs)
        for weight, bias in zip(last.coefs_[:-1], last.intercepts_, strict=False):
            features = np.maximum(features @ weight + bias, 0)
        weight, bias = last.coefs_[-1].T, last.intercepts_[-1]
        if weight.shape[0] == 1:  # two classes: half the decision value for each
            weight = np.concatenate([-weight / 2, weight / 2])
            bias = np.concatenate([-bias / 2, bias / 2])
        head = {"weight": weight, "bias": bias}
        logits = features @ weight.T + bias
    else:
        logits, features = logits_of(fitted, inputs), features_of(fitted, inputs)
        head = linear_head(fitted, logits, features)
    return Outputs(
        logits=logits.astype(np.float32),
        features=features.astype(np.float32),
        labels=samples.labels,
        groups=samples.groups,
        classes=samples.classes,
        **{name: array.astype(np.float32) for name, array in head.items()},
    )
