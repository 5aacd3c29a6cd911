"""Each loss against a slow, obvious version; numerical gradients; published values."""

import itertools
import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import expit
from torch import nn
from torch.autograd import gradcheck
from torch.func import functional_call

from openset.train.methods import (
    REGISTRY,
    find,
    make,
    mixing,
    openauc,
    proser,
    published_threshold,
    torchosr,
)
from openset.train.methods.arpl import compare
from openset.train.methods.arpl_cs import ARPLCS
from openset.train.methods.base import smooth_cross_entropy
from openset.train.networks import Classifier32, TwoNorms
from openset.train.networks.classifier32 import use_norms
from tests.train.tiny import N_CLASSES, image_network, rows_network

N = 6


@pytest.fixture
def batch():
    """Six rows of three classes, in float64."""
    torch.manual_seed(7)
    return torch.randn(N, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 1, 0, 1])


def made(name, n_extra=0, seed=28, **options):
    """Return a small network and a method of this name, in float64."""
    torch.manual_seed(seed)
    network = rows_network(N_CLASSES + n_extra)
    method = make(name, n_classes=N_CLASSES, network=network, **options)
    return network.double(), method.double()


def loss_of(name, batch, n_extra=0, **options):
    network, method = made(name, n_extra, **options)
    return float(method.loss(network, *batch)[0].detach()), network, method


# The slow, obvious versions: one sample at a time, Python's own sums.


def numbers(tensor):
    return tensor.detach().numpy().astype(float)


def log_softmax(z):
    total = sum(math.exp(v) for v in z)
    return [v - math.log(total) for v in z]


def softmax(z):
    return [math.exp(v) for v in log_softmax(z)]


def entropy_to(z, label, smoothing=0.0):
    """Cross-entropy with 1 − ε for the label and ε/(C − 1) for each other class."""
    loss = 0.0
    for c, log in enumerate(log_softmax(z)):
        target = 1 - smoothing if c == label else smoothing / (len(z) - 1)
        loss -= target * log
    return loss


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def distance(x, p):
    return sum((a - b) ** 2 for a, b in zip(x, p, strict=True)) / len(x)


def dot(x, p):
    return sum(a * b for a, b in zip(x, p, strict=True))


def length(x):
    return math.sqrt(sum(v * v for v in x))


def unit(z):
    return [v / (length(z) + 1e-4) for v in z]


# Cross-entropy and smoothing.


SCALES = {
    "softmax": list,
    "ceplus": list,
    "tsoftmax": unit,
    "logitnorm": lambda z: [v / ((length(z) + 1e-7) * 0.04) for v in z],
}


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_cross_entropy_is_the_obvious_one(batch, name, smoothing):
    loss, network, _ = loss_of(name, batch, smoothing=smoothing)
    pairs = zip(numbers(network(batch[0])), batch[1].tolist(), strict=True)
    expected = mean(entropy_to(SCALES[name](z), y, smoothing) for z, y in pairs)
    assert_allclose(loss, expected, rtol=1e-12)


# Points.


def of_points(name, x, y, *, points, radius, smoothing):
    """Loss of one sample."""
    distances = [distance(x, p) for p in points]
    own = distances[y]
    if name == "gcpl":
        logits, penalty = [-d for d in distances], own / 2
    elif name == "rpl":
        logits, penalty = distances, (own - radius) ** 2
    else:
        logits = [d - dot(x, p) for d, p in zip(distances, points, strict=True)]
        penalty = max(0.0, own - radius + 1)
    return entropy_to(logits, y, smoothing) + 0.2 * penalty


@pytest.mark.parametrize("name", ["gcpl", "rpl", "arpl"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("radius", [0.0, 1.05])
def test_point_losses_are_the_obvious_ones(batch, name, smoothing, radius):
    network, method = made(name, weight=0.2, smoothing=smoothing)
    if name != "gcpl":
        method.radius.data.fill_(radius)  # 1.05: some samples lie inside the hinge
    loss = method.loss(network, *batch)[0]
    rows, points = numbers(network.backbone(batch[0])), numbers(method.points)
    expected = mean(
        of_points(name, x, y, points=points, radius=radius, smoothing=smoothing)
        for x, y in zip(rows, batch[1].tolist(), strict=True)
    )
    assert_allclose(float(loss.detach()), expected, rtol=1e-10)


def test_distances_do_not_suffer_from_half_precision():
    torch.manual_seed(0)
    features, points = torch.randn(5, 64) + 10, torch.randn(3, 64) + 10
    expected = ((features[:, None] - points) ** 2).mean(dim=2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        distances, _ = compare(features, points)
    torch.testing.assert_close(distances, expected, rtol=1e-4, atol=1e-4)


# ARPL with confusing samples.


class Fixed(nn.Module):
    """A generator that always makes the same images."""

    def __init__(self, images):
        super().__init__()
        self.images = nn.Parameter(images)

    def forward(self, noise):
        """Return them."""
        return self.images


class MeanPixel(nn.Module):
    """A discriminator that looks at the mean."""

    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(3.0))

    def forward(self, images):
        """Return a logit per image."""
        return self.slope * images.flatten(1).mean(dim=1) - 1


@pytest.fixture
def confusing():
    """ARPL+CS in float64 with fixed generated images, and a batch."""
    torch.manual_seed(5)
    network = image_network(N_CLASSES).double()
    scales = {"mean": (0.1, 0.2, 0.3), "std": (0.5, 0.6, 0.7)}
    method = ARPLCS(n_classes=N_CLASSES, network=network, confusion=0.4, **scales)
    fakes = torch.rand(4, 3, 32, 32, dtype=torch.float64)
    method.generator, method.discriminator = Fixed(fakes), MeanPixel()
    labels = torch.tensor([0, 1, 2, 0])
    return network, method.double(), torch.rand_like(fakes), labels


def normalised(images):
    shift, scale = np.array([0.1, 0.2, 0.3]), np.array([0.5, 0.6, 0.7])
    return torch.from_numpy(
        (numbers(images) - shift[:, None, None]) / scale[:, None, None]
    )


def features_with(network, images, which):
    use_norms(network, which)
    features = numbers(network.backbone(images))
    use_norms(network, 0)
    return features


def certainty(rows, points):
    """Take exp of the mean over samples of Σ q ln q."""
    sums = []
    for x in rows:
        q = softmax([distance(x, p) for p in points])
        sums.append(sum(v * math.log(v) for v in q))
    return math.exp(mean(sums))


def test_the_three_updates_of_confusing_samples_have_the_obvious_losses(confusing):
    network, method, real, labels = confusing
    fakes, points = normalised(method.generator.images), numbers(method.points)
    reals, made = (
        expit(3 * numbers(one).mean(axis=(1, 2, 3)) - 1) for one in (real, fakes)
    )
    confusion = 0.4 * certainty(features_with(network, fakes, 1), points)
    arpl = mean(
        entropy_to([distance(x, p) - dot(x, p) for p in points], y)
        + 0.1 * max(0.0, distance(x, points[y]) + 1)
        for x, y in zip(features_with(network, real, 0), labels.tolist(), strict=True)
    )
    expected = {
        "discriminate": -np.log(reals).mean() - np.log(1 - made).mean(),
        "generate": -np.log(made).mean() + confusion,
        "confuse": arpl + confusion,
        "loss": arpl,
    }
    for update, value in expected.items():
        loss = getattr(method, update)(network, real, labels)[0]
        assert_allclose(float(loss.detach()), value, rtol=1e-6)


def test_a_probability_that_underflows_gives_no_nan(confusing):
    network, method, images, _ = confusing
    method.points.data[0] += 1e3
    value = method.certainty(network, images)
    value.backward()
    assert_allclose(float(value.detach()), 1.0)
    assert torch.isfinite(method.points.grad).all()


def test_generated_images_have_batch_norms_of_their_own(confusing):
    network, method, real, labels = confusing
    norms = [m.norms for m in network.modules() if isinstance(m, TwoNorms)]
    counts = {"loss": [1, 0], "confuse": [2, 1], "generate": [2, 2]}
    counts["discriminate"] = [2, 2]
    for update, expected in counts.items():
        getattr(method, update)(network, real, labels)
        assert [int(norm.num_batches_tracked) for norm in norms[0]] == expected


def test_the_generator_gets_a_gradient_only_from_its_own_update(confusing):
    network, method, real, labels = confusing
    for update in ("discriminate", "confuse", "loss"):
        getattr(method, update)(network, real, labels)[0].backward()
        assert method.generator.images.grad is None
    method.generate(network, real, labels)[0].backward()
    assert bool((method.generator.images.grad != 0).any())


@pytest.mark.parametrize(("side", "widths"), [(32, ()), (64, (64,))])
def test_generator_and_discriminator_have_the_published_layers(side, widths):
    torch.manual_seed(0)
    published = ARPLCS(n_classes=3, network=image_network(3), side=side)
    generator, discriminator = published.generator, published.discriminator
    widths = (100, 512, 256, 128, *widths, 3)
    convolutions = 16 * sum(a * b for a, b in itertools.pairwise(widths))
    count = sum(p.numel() for p in generator.parameters())
    assert count == convolutions + 2 * sum(widths[1:-1])
    convolutions = 16 * (3 * 128 + 128 * 256 + 256 * 512 + 512 * 1024)
    count = sum(p.numel() for p in discriminator.parameters())
    assert count == convolutions + 2 * (256 + 512) + 1025
    images = generator(torch.randn(2, 100, 1, 1))
    assert images.shape == (2, 3, side, side)
    assert bool(((images >= 0) & (images <= 1)).all())
    assert discriminator(images).shape == (2,)
    weights = next(m for m in generator if isinstance(m, nn.ConvTranspose2d)).weight
    assert_allclose(float(weights.detach().std()), 0.02, rtol=0.02)


def test_generator_and_discriminator_have_the_published_optimisers(confusing):
    _, method, *_ = confusing
    for part in set(method.parts.values()):
        (group,) = method.optimiser(part).param_groups
        assert (group["lr"], group["betas"]) == (2e-4, (0.5, 0.999))
        assert group["params"] == list(method.get_submodule(part).parameters())


# OpenAUC.

# In both there is a pair of one class whose known sample is classified correctly.
PARTNERS = {3: [1, 2, 0], 6: [2, 3, 0, 4, 5, 1]}
SHARES = [0.3, 0.8, 0.55, 0.1, 0.9, 0.45]


def not_random(monkeypatch, module):
    def shuffled(n, device):
        return torch.tensor(PARTNERS[n])

    def beta(alpha, n, device):
        return torch.tensor(SHARES[:n], dtype=torch.float64)

    monkeypatch.setattr(module, "shuffled", shuffled, raising=False)
    monkeypatch.setattr(module, "beta", beta, raising=False)


def obvious_openauc(network, batch, *, gate, place, preset):
    """Loss of a preset, one pair after the other."""
    inputs, labels = batch[0], batch[1].tolist()
    logits = numbers(network(inputs))
    hidden = numbers(network.before(inputs, place))
    is_released = preset == "released"  # halves: the first is ranked, the second mixed
    known, first = (range(3), 3) if is_released else (range(6), 0)

    def score(z):
        return max(z) if is_released else max(softmax(z))

    total, hits, pairs = 0.0, 0, 0
    for i in known:
        own, partner = first + i, first + PARTNERS[len(known)][i]
        if labels[own] == labels[partner]:
            continue
        pairs += 1
        z = list(logits[i])
        if gate and z.index(max(z)) != labels[i]:
            continue
        hits += 1
        row = SHARES[0] * hidden[own] + (1 - SHARES[0]) * hidden[partner]
        features = network.after(torch.from_numpy(row)[None], place)
        mixture = list(numbers(network.head(features))[0])
        total += (1 + score(mixture) - score(z)) ** 2
    term = total / max(1, hits if is_released else pairs)
    own = mean(entropy_to(z, y) for z, y in zip(logits, labels, strict=True))
    return own + term / 2


@pytest.mark.parametrize("name", ["openauc", "acc_auc"])
@pytest.mark.parametrize("place", ["input", "first", "penultimate"])
@pytest.mark.parametrize("preset", ["paper", "released"])
def test_openauc_is_the_obvious_one(batch, monkeypatch, name, place, preset):
    not_random(monkeypatch, openauc)
    options = {"place": place, "preset": preset}
    loss, network, method = loss_of(name, batch, weight=0.5, **options)
    expected = obvious_openauc(network, batch, gate=method.gate, **options)
    assert_allclose(loss, expected, rtol=1e-10)


def test_odd_batches_have_no_halves(batch):
    odd = batch[0][:5], batch[1][:5]
    loss, network, _ = loss_of("openauc", odd, weight=5.0, preset="released")
    expected = smooth_cross_entropy(network(odd[0]), odd[1], 0)
    assert_allclose(loss, float(expected.detach()))


# Unit-norm logits and the extra output.


def test_published_thresholds_from_8_classes_on_reject_nothing():
    assert published_threshold(6) == 0.25
    idle = [c for c in range(2, 11) if published_threshold(c) < 1 / c]
    assert idle == [8, 9, 10]
    with pytest.raises(ValueError, match=r"n_classes must be in 2\.\.10"):
        published_threshold(11)


def obvious_extra(network, known, labels, others):
    """Mean cross-entropy over C + 1 unit-norm logits; others have the last label."""
    losses = [
        entropy_to(unit(numbers(network(x[None]))[0]), y)
        for x, y in [
            *zip(known, labels.tolist(), strict=True),
            *((x, N_CLASSES) for x in others),
        ]
    ]
    return mean(losses)


@pytest.mark.parametrize(("n", "n_made"), [(6, 3), (5, 2)])
def test_noise_softmax_is_the_obvious_one(batch, n, n_made):
    network, method = made("noise", n_extra=1)
    part = batch[0][:n], batch[1][:n]
    torch.manual_seed(3)
    loss = float(method.loss(network, *part)[0].detach())
    torch.manual_seed(3)
    rows = torch.rand(n_made, 4, dtype=torch.float64) * part[0].max()
    assert_allclose(loss, obvious_extra(network, *part, rows), rtol=1e-12)


PARTNER_OF = [1, 0, 4, 2, 5, 0]


@pytest.mark.parametrize(("n", "n_made"), [(6, 3), (5, 3)])
def test_overlay_softmax_is_the_obvious_one(batch, monkeypatch, n, n_made):
    exists = [True, False, True, True, True, True][:n]
    drawn = torch.tensor(PARTNER_OF[:n]), torch.tensor(exists)
    monkeypatch.setattr(torchosr, "other_class", lambda labels: drawn)
    part = batch[0][:n], batch[1][:n]
    loss, network, _ = loss_of("overlay", part, n_extra=1)
    overlays = [
        (batch[0][i] + batch[0][PARTNER_OF[i]]) / 2 for i in range(n_made) if exists[i]
    ]
    assert_allclose(loss, obvious_extra(network, *part, overlays), rtol=1e-12)


@pytest.mark.parametrize("name", ["noise", "overlay"])
def test_the_score_is_the_probability_of_not_being_extra(batch, name):
    network, method = made(name, n_extra=1)
    features = network.backbone(batch[0])
    logits, known = method.respond(network, features)
    for i, z in enumerate(numbers(network.head(features))):
        assert_allclose(numbers(logits)[i], unit(z)[:-1], rtol=1e-12)
        assert_allclose(numbers(known)[i], 1 - softmax(unit(z))[-1], rtol=1e-12)
        margin = method.published_margin(numbers(logits), numbers(known))[i]
        assert_allclose(margin, max(unit(z)[:-1]) - unit(z)[-1], rtol=1e-9)


# Negatives.


@pytest.fixture
def outside():
    """Four rows more, far from the others."""
    torch.manual_seed(8)
    return 2 * torch.randn(4, 4, dtype=torch.float64) + 1


def flat(z):
    """Cross-entropy to equal probabilities."""
    return -mean(log_softmax(z))


def energy(z):
    return -math.log(sum(math.exp(v) for v in z))


def of_objectosphere(own, known, outside):
    """Weight 0.3, length 1: of some samples the features are longer."""
    each = [
        one + 0.3 * max(0.0, 1.0 - length(f)) ** 2
        for one, (_, f) in zip(own, known, strict=True)
    ]
    return mean([*each, *(flat(z) + 0.3 * length(f) ** 2 for z, f in outside)])


def of_energy_bounded(own, known, outside):
    """Weight 0.7, bounds -1.2 and -1: some samples keep to them and some do not."""
    above = [max(0.0, energy(z) + 1.2) ** 2 for z, _ in known]
    below = [max(0.0, -1.0 - energy(z)) ** 2 for z, _ in outside]
    assert any(above)
    assert any(below)
    assert not all(above + below)
    return mean(own) + 0.7 * (mean(above) + mean(below))


# By method: its loss from cross-entropies, and logits and features of both kinds.
WITH_NEGATIVES = {
    "entropic": lambda own, _, outside: mean([*own, *(flat(z) for z, _ in outside)]),
    "outlier_exposure": lambda own, _, outside: (
        mean(own) + 0.5 * mean(flat(z) for z, _ in outside)
    ),
    "objectosphere": of_objectosphere,
    "energy_bounded": of_energy_bounded,
}
OPTIONS = {
    "objectosphere": {"weight": 0.3, "length": 1.0},
    "energy_bounded": {"weight": 0.7, "m_in": -1.2, "m_out": -1.0},
}


def obvious(name, network, batch, outside, smoothing=0.0):
    known, others = (
        list(zip(numbers(network(x)), numbers(network.backbone(x)), strict=True))
        for x in (batch[0], outside)
    )
    labels = batch[1].tolist()
    own = [entropy_to(z, y, smoothing) for (z, _), y in zip(known, labels, strict=True)]
    return WITH_NEGATIVES[name](own, known, others)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("name", WITH_NEGATIVES)
def test_losses_with_negatives_are_the_obvious_ones(batch, outside, name, smoothing):
    network, method = made(name, smoothing=smoothing, **OPTIONS.get(name, {}))
    loss, logits = method.loss(network, *batch, outside)
    expected = obvious(name, network, batch, outside, smoothing)
    assert_allclose(float(loss.detach()), expected, rtol=1e-12)
    assert_allclose(numbers(logits), numbers(network(batch[0])), rtol=1e-12)


def test_the_objectosphere_score_is_probability_times_length(batch):
    network, method = made("objectosphere")
    features = network.backbone(batch[0])
    logits, known = method.respond(network, features)
    for z, f, s in zip(*map(numbers, (logits, features, known)), strict=True):
        assert_allclose(s, max(softmax(z)) * length(f), rtol=1e-12)


def test_each_paper_has_its_number_of_negatives():
    counts = {name: made(name)[1].n_negatives(128) for name in WITH_NEGATIVES}
    assert list(counts.values()) == [128, 256, 128, 256]
    assert made("entropic", ratio=0.29)[1].n_negatives(100) == 29  # 28.999… as a float
    assert made("entropic", ratio=0.01)[1].n_negatives(3) == 1


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("entropic", {"ratio": 0}, r"ratio must be a number in \(0, inf"),
        ("outlier_exposure", {"weight": -1}, r"weight must be a number in \[0, inf\)"),
        ("energy_bounded", {"m_in": -5.0}, "m_out must be above m_in, got -5.0 with"),
        ("energy_bounded", {"m_out": np.inf}, r"m_out must be a number in \(-inf, inf"),
        ("logitnorm", {"temperature": 0}, r"temperature must be a number in \(0, inf"),
        ("openauc", {"preset": "text"}, "preset must be one of 'paper', 'released'"),
    ],
)
def test_impossible_options_are_refused(name, options, message):
    with pytest.raises(ValueError, match=f"method {name}: {message}"):
        made(name, **options)


# PROSER.


@pytest.mark.parametrize("dummies", [1, 3])
@pytest.mark.parametrize("place", ["input", "first", "penultimate"])
def test_proser_is_the_obvious_one(batch, monkeypatch, dummies, place):
    not_random(monkeypatch, proser)
    exists = [True, False, True, True, True, True]
    drawn = torch.tensor(PARTNER_OF), torch.tensor(exists)
    monkeypatch.setattr(proser, "other_class", lambda labels: drawn)
    options = {"second": 0.7, "mixed": 0.4, "dummies": dummies, "place": place}
    loss, network, method = loss_of("proser", batch, **options)

    def outputs(features):
        dummy = max(numbers(method.dummy(features))[0])
        return [*numbers(network.head(features))[0], dummy]

    hidden = numbers(network.before(batch[0], place))
    first, second, mixed = [], [], []
    for i, y in enumerate(batch[1].tolist()):
        z = outputs(network.backbone(batch[0][i][None]))
        first.append(entropy_to(z, y))
        second.append(entropy_to([v for c, v in enumerate(z) if c != y], N_CLASSES - 1))
        if exists[i]:
            row = SHARES[0] * hidden[i] + (1 - SHARES[0]) * hidden[PARTNER_OF[i]]
            features = network.after(torch.from_numpy(row)[None], place)
            mixed.append(entropy_to(outputs(features), N_CLASSES))
    expected = mean(first) + 0.7 * mean(second) + 0.4 * mean(mixed)
    assert_allclose(loss, expected, rtol=1e-10)


def test_the_proser_score_is_the_best_known_minus_the_best_dummy(batch):
    network, method = made("proser", dummies=2)
    features = network.backbone(batch[0])
    logits, known = method.respond(network, features)
    dummy = numbers(method.dummy(features)).max(axis=1)
    assert_allclose(numbers(known), numbers(logits).max(axis=1) - dummy)


def test_proser_mixes_after_the_sixth_convolution_unless_told():
    method = make("proser", n_classes=6, network=Classifier32(6))
    assert method.at == "conv6"


# Gradients.


OF_GRADIENTS = {
    "softmax": {"smoothing": 0.1},
    "arpl": {"smoothing": 0.1},
    "acc_auc": {"place": "first", "weight": 0.5},
    "openauc": {"place": "input", "weight": 0.5},
    "proser": {"mixed": 0.5, "dummies": 2},
    **OPTIONS,
}
CASES = [(n, OF_GRADIENTS.get(n, {})) for n in REGISTRY.built_in() if n != "arpl_cs"]


class Learner(nn.Module):
    """Network and method as one module, the way a training loop holds them."""

    def __init__(self, network, method):
        super().__init__()
        self.network, self.method = network, method

    def forward(self, *batch):
        """Loss of a batch."""
        return self.method.loss(self.network, *batch)[0]


@pytest.mark.parametrize(
    ("name", "options"), [*CASES, ("openauc", {"preset": "released", "weight": 0.5})]
)
def test_gradients_are_those_of_small_differences(batch, outside, name, options):
    learner = Learner(*made(name, find(name).n_extra, **options))
    moved = {n: p for n, p in learner.named_parameters() if p.requires_grad}
    given = (*batch, outside) if name in WITH_NEGATIVES else batch

    def loss(*values):
        torch.manual_seed(11)  # the same partners, shares and noise every time
        return functional_call(learner, dict(zip(moved, values, strict=True)), given)

    assert gradcheck(loss, tuple(moved.values()))


# Mixing.


@pytest.mark.parametrize("alpha", [1, 2, 5])
def test_shares_follow_the_beta_distribution(alpha):
    torch.manual_seed(0)
    draws = mixing.beta(alpha, 5000, torch.device("cpu")).numpy()
    assert stats.kstest(draws, stats.beta(alpha, alpha).cdf).pvalue > 0.01


def test_a_shuffle_is_a_permutation_and_all_are_equally_likely():
    torch.manual_seed(0)
    draws = [
        tuple(mixing.shuffled(3, torch.device("cpu")).tolist()) for _ in range(3000)
    ]
    counts = [draws.count(order) for order in itertools.permutations(range(3))]
    assert sum(counts) == 3000
    assert stats.chisquare(counts).pvalue > 0.01


def test_partners_are_drawn_evenly_from_the_other_classes():
    torch.manual_seed(0)
    labels = torch.tensor([0, 0, 1, 1, 2])
    draws = torch.stack([mixing.other_class(labels)[0] for _ in range(2000)])
    assert bool((labels[draws] != labels).all())
    counts = np.bincount(draws[:, 0].numpy(), minlength=5)
    assert counts[:2].tolist() == [0, 0]
    assert stats.chisquare(counts[2:]).pvalue > 0.01
