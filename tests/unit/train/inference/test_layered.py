"""Detectors over several layers of a network."""

import json

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from openset import ArtefactError, Outputs, Rejector, evaluate, thresholds
from openset.detectors import KNN, MSP, ByLayer, Fitted, Mahalanobis
from openset.selection import leave_classes_out
from openset.train import (
    FittedLayers,
    Gram,
    Layered,
    extract,
    extract_layers,
    layer_outputs,
)

LAYERS = ["0", "3"]
CLASSES = 3
POWERS = (1, 2, 3)


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 5, 3),
        nn.BatchNorm2d(5),
        nn.Tanh(),
        nn.Conv2d(5, 4, 3),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(16, CLASSES),
    ).eval()


def samples(n=60, *, shift=0.0, seed=1):
    """Return images whose brightness is their class, and their labels."""
    torch.manual_seed(seed)
    labels = torch.arange(n) % CLASSES
    return torch.randn(n, 3, 6, 6) + labels[:, None, None, None] + shift, labels


def loader(*, unknown=False, **options):
    inputs, labels = samples(**options)
    labels = torch.full_like(labels, -1) if unknown else labels
    return DataLoader(TensorDataset(inputs, labels), batch_size=16)


def features(model, inputs, layer):
    """Return what the first layers make of the inputs: the slow, obvious way."""
    with torch.no_grad():
        return model[: int(layer) + 1](inputs)


def test_features_of_layers_are_means_of_their_channels():
    model, (inputs, labels) = network(), samples()
    found = extract_layers(model, loader(), ["0", "3", "5"], groups="here")
    for layer in ("0", "3"):
        expected = features(model, inputs, layer).numpy().mean(axis=(2, 3))
        assert_allclose(found[layer].features, expected, atol=1e-6)
        assert_array_equal(found[layer].labels, labels)
        assert set(found[layer].groups) == {"here"}
    whole = extract(model, loader())
    assert_allclose(found["5"].features, whole.features, atol=1e-6)
    assert_allclose(found["5"].logits, whole.logits, atol=1e-6)


@pytest.mark.parametrize("mark", ["", "gram:"])
def test_layers_side_by_side_are_written_batch_by_batch(tmp_path, mark):
    model, names = network(), [f"{mark}{name}" for name in LAYERS]
    expected = layer_outputs(model, loader(), names)
    batches = list(loader())

    def broken():
        yield from batches[:1]
        message = "lost"
        raise OSError(message)

    out = tmp_path / "layers"
    options = {"layers": names, "out": out, "resume": True}
    with pytest.raises(OSError, match="lost"):
        extract(model, broken(), **options)
    with pytest.raises(ValueError, match="layers must be as in the interrupted run"):
        extract(model, batches, **options | {"layers": names[:1]})
    for found in (
        extract(model, batches, **options),
        extract(model, batches, layers=names),
        Outputs.load(out),
    ):
        assert found.layers == expected.layers
        assert found.weight is None
        for name in ("features", "logits", "labels"):
            assert_array_equal(getattr(found, name), getattr(expected, name))


def test_tokens_are_places_and_their_last_axis_has_the_channels():
    class Blocks(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.block, self.head = nn.Linear(4, 6), nn.Linear(6, 2)
            self.both = nn.Identity()

        def forward(self, tokens):
            made, _ = self.both((self.block(tokens), None))
            return self.head(made.mean(dim=1))

    model, tokens = Blocks(), torch.randn(5, 7, 4)
    found = extract_layers(model, [tokens], ["block", "both"])
    expected = model.block(tokens).detach().numpy().mean(axis=1)
    for name in ("block", "both"):  # a tensor, and a tuple that starts with it
        assert_allclose(found[name].features, expected, atol=1e-6)


def distances(rows, train, labels):
    """Return squared Mahalanobis distances to the nearest class, one by one."""
    means = np.stack([train[labels == c].mean(axis=0) for c in range(CLASSES)])
    away = train - means[labels]
    precision = np.linalg.inv(away.T @ away / len(train))
    return np.array([min((r - m) @ precision @ (r - m) for m in means) for r in rows])


def test_mahalanobis_is_the_sum_over_the_layers():
    model, (inputs, labels) = network(), samples()
    fitted = Layered(layers=LAYERS).fit(model, loader())
    new, _ = samples(n=20, seed=5)
    expected = 0.0
    for layer in LAYERS:
        train, rows = (
            features(model, one, layer).double().numpy().mean(axis=(2, 3))
            for one in (inputs, new)
        )
        expected = expected - distances(rows, train, labels.numpy())
    scores = fitted.score(model, loader(n=20, seed=5))
    assert_allclose(scores.known, expected, rtol=1e-4)
    assert_allclose(fitted.known(model, [new]), scores.known, rtol=1e-6)
    with torch.no_grad():
        assert_array_equal(scores.predicted, model(new).argmax(dim=1))


def test_mahalanobis_is_that_of_pytorch_ood(pytorch_ood):
    """Up to a constant: theirs halves distances, and sums where ours is a mean."""
    model = network()
    theirs = pytorch_ood.MultiMahalanobis([model[:1], model[1:4]]).to("cpu")
    theirs.fit(loader())
    fitted = Layered(layers=LAYERS, detector=Mahalanobis()).fit(model, loader())
    new, _ = samples(n=20, seed=5)
    expected = theirs.predict(new).detach().numpy() * 2 * 60
    assert_allclose(-fitted.known(model, [new]), expected, rtol=1e-3)


def test_the_step_of_the_input_is_that_of_pytorch_ood(pytorch_ood):
    model = network()
    encoder = nn.Sequential(model[:4], nn.AdaptiveAvgPool2d(1), nn.Flatten())
    theirs = pytorch_ood.MahalanobisODIN(encoder, eps=0.02, norm_std=[0.5, 1.0, 2.0])
    theirs.fit(loader())
    options = {"epsilon": 0.02, "std": (0.5, 1.0, 2.0)}
    fitted = Layered(layers=["3"], **options).fit(model, loader())
    new, _ = samples(n=20, seed=5)
    expected = theirs.predict(new).detach().numpy() * 2 * 60
    assert_allclose(-fitted.known(model, [new]), expected, rtol=1e-3)
    plain = Layered(layers=["3"]).fit(model, loader()).known(model, [new])
    assert np.all(-expected > plain)  # each moved towards its class


def test_with_a_step_each_layer_has_its_own_pass():
    model, new = network(), samples(n=20, seed=5)[0]
    options = {"epsilon": 0.05}
    both = Layered(layers=LAYERS, **options).fit(model, loader())
    alone = [Layered(layers=[one], **options).fit(model, loader()) for one in LAYERS]
    expected = sum(one.known(model, [new]) for one in alone)
    assert_allclose(both.known(model, [new]), expected, rtol=1e-5)
    with pytest.raises(TypeError, match="run through several times"):
        both.known(model, iter([new]))


def test_any_detector_of_features_works():
    model = network()
    fitted = Layered(layers=LAYERS, detector=KNN(k=3)).fit(model, loader())
    parts = extract_layers(model, loader(n=20, seed=5), LAYERS)
    expected = sum(fitted.part(name).known(one) for name, one in parts.items())
    assert_allclose(fitted.known(model, loader(n=20, seed=5)), expected)
    with pytest.raises(ValueError, match=r"detector must be .* needs no last layer"):
        Layered(layers=LAYERS, detector="vim")


def test_weights_are_those_of_a_logistic_regression():
    model = network()
    fitted = Layered(layers=LAYERS).fit(model, loader())
    mixed = [*loader(n=30, seed=6), *loader(n=30, seed=7, shift=4, unknown=True)]
    columns = np.stack(
        [
            fitted.part(name).known(one)
            for name, one in extract_layers(model, mixed, LAYERS).items()
        ],
        axis=1,
    )
    spread = columns.std(axis=0)
    oracle = LogisticRegression().fit(columns / spread, np.arange(60) < 30)
    weighted = fitted.weighted(model, mixed)
    expected = oracle.decision_function(columns / spread) - oracle.intercept_
    assert_allclose(weighted.known(model, mixed), expected, rtol=1e-6)
    with pytest.raises(ValueError, match=r"weighted: .*unknown"):
        fitted.weighted(model, loader())


def test_scores_go_into_metrics_and_thresholds():
    model = network()
    mixed = [*loader(n=30, seed=6), *loader(n=30, seed=7, shift=6, unknown=True)]
    for recipe in (Layered(layers=LAYERS), Gram(layers=LAYERS)):
        scores = recipe.fit(model, loader()).score(model, mixed)
        assert evaluate(scores)["auroc"] > 0.9
        assert thresholds.osa(scores).rates(scores).urr > 0.8


def gram_entries(model, inputs, layer):
    """Return the row sums of Gram matrices, entry by entry."""
    made = features(model, inputs, layer).double().numpy()
    made = made.reshape(*made.shape[:2], -1)

    def entries(one):
        for p in POWERS:
            for row in (one**p) @ (one**p).T:
                yield np.sign(row.sum()) * abs(row.sum()) ** (1 / p)

    return np.array([list(entries(one)) for one in made])


def gram_deviations(model, inputs, classes, layer):
    """Return how far each sample lies outside of the bounds of a class."""
    train, labels = samples()
    known = gram_entries(model, train, layer)
    total = []
    for row, c in zip(gram_entries(model, inputs, layer), classes, strict=True):
        mine = known[labels.numpy() == int(c)]
        bounds = zip(row, mine.min(axis=0), mine.max(axis=0), strict=True)
        total.append(
            sum(
                max(low - x, 0) / abs(low + 1e-6) + max(x - high, 0) / abs(high + 1e-6)
                for x, low, high in bounds
            )
        )
    return np.array(total)


def test_gram_is_the_deviation_from_the_bounds_over_its_mean():
    model = network()
    new, _ = samples(n=20, seed=5, shift=1.0)
    held, own = samples(n=30, seed=9)
    recipe = Gram(layers=LAYERS, powers=POWERS)
    fitted = recipe.fit(model, loader(), validation=[(held, own)])
    with torch.no_grad():
        predicted = model(new).argmax(dim=1)
    expected = 0.0
    for layer in LAYERS:
        mean = gram_deviations(model, held, own, layer).mean()
        assert_allclose(1 / fitted.weights[layer], mean, rtol=1e-4)
        expected = expected - gram_deviations(model, new, predicted, layer) / mean
    assert_allclose(fitted.known(model, [new]), expected, rtol=1e-3)


def test_gram_is_that_of_pytorch_ood(pytorch_ood):
    """With fewer than ten samples of a class neither holds any out."""
    model = network()
    theirs = pytorch_ood.Gram(
        model[5:], [model[:1], model[1:4], model[4:5]], CLASSES, [1, 2, 4]
    ).to("cpu")
    theirs.fit(loader(n=27))
    recipe = Gram(layers=["0", "3", "4"], powers=[1, 2, 4])
    fitted = recipe.fit(model, loader(n=27))
    new, _ = samples(n=20, seed=5, shift=1.0)
    expected = theirs.predict(new).numpy()
    assert_allclose(-fitted.known(model, [new]), expected, rtol=1e-3)
    assert expected.max() > 1


def test_gram_holds_a_tenth_out_and_repeats_itself():
    model, new = network(), samples(n=20, seed=5, shift=1.0)[0]
    first, again, other = (
        Gram(layers=LAYERS, seed=seed).fit(model, loader(n=90)) for seed in (0, 0, 1)
    )
    assert first.weights == again.weights
    assert first.weights != other.weights
    assert_array_equal(first.known(model, [new]), again.known(model, [new]))


def test_gram_needs_every_class():
    inputs, labels = samples()
    some = [(inputs[labels < 2], labels[labels < 2])]
    with pytest.raises(
        ValueError, match=r"Gram.fit: outputs must be .* none of class 2"
    ):
        Gram(layers=LAYERS).fit(network(), some)


RECIPES = [
    Layered(layers=LAYERS, detector=Mahalanobis(cutoff=1e-9)),
    Layered(layers=LAYERS, epsilon=0.05, std=(0.5, 1.0, 2.0)),
    Gram(layers=LAYERS, powers=POWERS),
]


@pytest.mark.parametrize("recipe", RECIPES, ids=["plain", "step", "gram"])
def test_what_was_saved_scores_the_same(recipe, tmp_path):
    model, mixed = network(), [*loader(n=30, seed=6)]
    fitted = recipe.fit(model, loader())
    if isinstance(recipe, Layered):
        unknown = [*loader(n=30, seed=7, shift=4, unknown=True)]
        fitted = fitted.weighted(model, [*mixed, *unknown])
    path = fitted.save(tmp_path / "layered.npz")
    again = FittedLayers.load(path)
    assert again.layers == ("0", "3")
    assert again.weights == fitted.weights
    assert_array_equal(again.known(model, mixed), fitted.known(model, mixed))


def test_a_file_does_not_decide_what_is_imported(tmp_path):
    path = Layered(layers=LAYERS).fit(network(), loader()).save(tmp_path / "one.npz")
    with np.load(path) as stored:
        arrays = dict(stored)
    recipe = json.loads(str(arrays["recipe"]))
    recipe["params"]["detector"] = ["openset.detectors:KNN", {}]
    np.savez(path, **{**arrays, "recipe": np.array(json.dumps(recipe))})
    with pytest.raises(ArtefactError, match="must not make openset import"):
        FittedLayers.load(path)


def test_files_of_other_detectors_are_refused(tmp_path):
    msp = MSP().fit().save(tmp_path / "msp.npz")
    with pytest.raises(ArtefactError, match="a detector over several layers, got msp"):
        FittedLayers.load(msp)
    with pytest.raises(TypeError, match="a fitted detector over layers"):
        FittedLayers(Fitted.load(msp))


@pytest.mark.parametrize("recipe", RECIPES, ids=["plain", "step", "gram"])
def test_a_rejector_is_calibrated_saved_loaded_and_decides_the_same(recipe, tmp_path):
    model = network()
    fitted = recipe.fit(model, loader())
    rejector = Rejector.calibrate(
        fitted.fitted,
        known=fitted.outputs(model, loader(n=60, seed=6)),
        surrogate=fitted.outputs(model, loader(n=60, seed=7, shift=6), unknown=True),
    )
    again = Rejector.load(rejector.save(tmp_path / "rejector"))
    # All that is needed to run the network is in the rejector.
    opened = FittedLayers(again.fitted)
    new = [*loader(n=20, seed=8), *loader(n=20, seed=9, shift=6, unknown=True)]
    decided = again.predict(opened.outputs(model, new))
    scores = fitted.score(model, new)
    expected = np.where(scores.known >= rejector.threshold.value, scores.predicted, -1)
    assert_array_equal(decided, expected)
    assert np.mean(decided[20:] == -1) > 0.8


def test_classes_are_left_out_of_every_layer():
    model = network()
    train, known = (
        Outputs.of_layers(extract_layers(model, loader(seed=seed), LAYERS))
        for seed in (1, 2)
    )
    found = leave_classes_out(ByLayer(), train, known, folds=3)
    expected = sum(
        leave_classes_out(
            Mahalanobis(), train.by_layer()[name], known.by_layer()[name], folds=3
        ).known
        for name in LAYERS
    )
    assert_allclose(found.known, expected, rtol=1e-5)


def test_outputs_of_other_layers_are_refused():
    model = network()
    fitted = Layered(layers=LAYERS).fit(model, loader())
    other = Outputs.of_layers(extract_layers(model, loader(), ["0", "4"]))
    with pytest.raises(ValueError, match=r"layers 0 \(5\), 3 \(4\), .* got 0 \(5\), 4"):
        fitted.fitted.known(other)
    moving = Layered(layers=LAYERS, epsilon=0.05).fit(model, loader())
    with pytest.raises(ValueError, match=r"layers step:0 \(5\), step:3 .* got 0 \(5\)"):
        moving.fitted.known(fitted.outputs(model, loader()))
    # A server's client sends arrays alone.
    bare = fitted.outputs(model, loader(n=6))
    arrays = Outputs(logits=bare.logits, features=bare.features)
    assert_array_equal(fitted.fitted.known(arrays), fitted.fitted.known(bare))


def test_layers_that_cannot_be_used_are_named():
    model = network()
    with pytest.raises(ValueError, match=r"of the network \(0, 1, .* 6\), got '9'"):
        extract_layers(model, loader(), ["9"])
    for layers in ([], ["0", "0"], [3]):
        with pytest.raises(ValueError, match="layers must be names of one or several"):
            Layered(layers=layers)

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.act, self.head = nn.ReLU(), nn.Linear(4, 2)

        def forward(self, rows):
            return self.head(self.act(self.act(rows)))

    with pytest.raises(ValueError, match="layer 'act' must be called once per pass"):
        extract_layers(Twice(), [torch.ones(2, 4)], ["act"])
