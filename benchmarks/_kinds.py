"""Problems with several kinds of unknowns.

Used by `missing_kinds.py` and `detector_ranks.py`. A *problem* is a data set of which
some classes are known, and kinds of unknowns: groups of the other classes, and samples
of other data sets.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from openset import Outputs

Floats = NDArray[np.float64]

N_TRAIN, N_KNOWN, N_TEST = 5000, 1000, 1500
N_KIND, N_KIND_TEST = 300, 500

DOMAINS = {
    "images": ("cifar10", "imagenet", "mnist", "notmnist", "omniglot", "svhn"),
    "text": ("banking", "clinc-lsa", "clinc-minilm"),
    "tables": (
        *("letter", "optdigits", "penbased", "satimage", "segment", "texture"),
        "vowel",
    ),
}


def half_of(family: str) -> str:
    """Say on which half a family is: in each domain, by name, every second is in B.

    Rules were first settled on half A and shown on half B.
    """
    for families in DOMAINS.values():
        if family in families:
            return "AB"[families.index(family) % 2]
    raise KeyError(family)


@dataclass(frozen=True, eq=False)
class Problem:
    """Known samples in three parts, and kinds of unknowns in two: what to train on."""

    name: str
    family: str
    train: tuple[Any, NDArray[np.int64]]
    known: tuple[Any, NDArray[np.int64]]
    test: tuple[Any, NDArray[np.int64]]
    kinds: dict[str, tuple[Any, Any]]
    networks: tuple[str, ...]
    n_classes: int
    given: Outputs | None = field(default=None, repr=False)
    """A network's own last layer, where the samples are features."""


def problems(data: Any, family: str, fresh: int = 0) -> Iterator[Problem]:
    """Give the problems of a family; `fresh` draws other known classes."""
    if family in DOMAINS["tables"]:
        yield from _tables(data, family, fresh)
    else:
        makers: dict[str, Callable[[Any, int], Iterator[Problem]]] = {
            "cifar10": lambda data, fresh: _photographs(data, "cifar10", fresh),
            "svhn": lambda data, fresh: _photographs(data, "svhn", fresh),
            "mnist": _mnist,
            "notmnist": _notmnist,
            "omniglot": _omniglot,
            "imagenet": _imagenet,
            "clinc-minilm": _clinc,
            "clinc-lsa": _clinc_words,
            "banking": _banking,
        }
        yield from makers[family](data, fresh)


def _cut(  # noqa: PLR0917 - the parts of a problem, in their order
    name: str,
    family: str,
    x: Any,
    y: NDArray[np.int64],
    known: NDArray[np.int64],
    groups: dict[str, NDArray[np.int64]],
    others: dict[str, tuple[Any, Any]],
    networks: tuple[str, ...],
    rng: np.random.Generator,
    covered: int | None = None,
) -> Problem:
    """Cut one pool of samples: the known classes in three, the others in two."""
    place = np.full(int(y.max()) + 1, -1)
    place[known] = np.arange(known.size)
    rows = rng.permutation(np.flatnonzero(place[y] >= 0))
    n = rows.size
    n_known, n_test = min(N_KNOWN, n // 5), min(N_TEST, n // 4)
    parts = np.split(rows, [n_known, n_known + n_test])
    held, tested, taught = parts[0], parts[1], parts[2][:N_TRAIN]
    if covered is not None:  # samples of the other classes are never seen again
        held, tested = (part[place[y[part]] < covered] for part in (held, tested))
    kinds = {}
    for kind, classes in groups.items():
        mine = rng.permutation(np.flatnonzero(np.isin(y, classes)))
        half = np.array_split(mine, 2)
        kinds[kind] = (x[half[0][:N_KIND]], x[half[1][:N_KIND_TEST]])
    for kind, (a, b) in others.items():
        kinds[kind] = _drawn(a, N_KIND, rng), _drawn(b, N_KIND_TEST, rng)
    return Problem(
        name=name,
        family=family,
        train=(x[taught], place[y[taught]]),
        known=(x[held], place[y[held]]),
        test=(x[tested], place[y[tested]]),
        kinds=kinds,
        networks=networks,
        n_classes=known.size,
    )


def _drawn(x: Any, n: int, rng: np.random.Generator) -> Any:
    return x[rng.permutation(len(x))[:n]]


def _halves(x: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    first, second = np.array_split(rng.permutation(len(x)), 2)
    return x[first], x[second]


def _groups(
    x: Floats,
    y: NDArray[np.int64],
    known: NDArray[np.int64],
    unknown: NDArray[np.int64],
    *,
    n: int,
    by_distance: bool,
) -> dict[str, NDArray[np.int64]]:
    """Group unknown classes: as they come, or near ones with near ones."""
    if by_distance:
        means = {c: x[y == c].mean(axis=0) for c in [*known, *unknown]}
        near = [
            min(np.linalg.norm(means[u] - means[k]) for k in known) for u in unknown
        ]
        unknown = unknown[np.argsort(near)]
    parts = np.array_split(unknown, min(n, unknown.size))
    return {f"classes {i}": part for i, part in enumerate(parts)}


def _tables(data: Any, family: str, fresh: int) -> Iterator[Problem]:
    own = data.load(family)
    x = np.concatenate([own["train_x"], own["test_x"]]).astype(np.float64)
    y = np.concatenate([own["train_y"], own["test_y"]])
    nets = [("mlp64",), ("mlp128-64", "linear"), ("mlp32",), ("mlp64-wide",)]
    for draw, networks in enumerate(nets, fresh):
        rng = np.random.default_rng([draw, *map(ord, family)])
        classes = rng.permutation(np.unique(y))
        known, unknown = np.split(classes, [-(-classes.size // 2)])
        scaled = (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-9)
        groups = _groups(
            scaled, y, known, unknown, n=4 + draw % 2, by_distance=draw % 2 == 0
        )
        yield _cut(f"{family}-{draw}", family, x, y, known, groups, {}, networks, rng)
    if (
        family == "letter" and not fresh
    ):  # a network of 20 classes, of which 6 are at hand
        rng = np.random.default_rng(99)
        classes = rng.permutation(np.unique(y))
        groups = _groups(x, y, classes[:20], classes[20:], n=3, by_distance=True)
        yield _cut(
            *("letter-few", family, x, y, classes[:20], groups, {}, ("mlp64",), rng),
            covered=6,
        )


def _grey(x: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return x[:, 2:30, 2:30].mean(axis=3).astype(np.uint8)


def _coloured(x: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.repeat(np.pad(x, ((0, 0), (2, 2), (2, 2)))[..., None], 3, axis=3)


def _pool(own: dict[str, Any], n: int) -> tuple[Any, NDArray[np.int64]]:
    if "train_x" not in own:
        return own["test_x"], own["test_y"]
    x, y = own["train_x"], own["train_y"]
    rows = np.random.default_rng(0).permutation(len(y))[:n]
    return x[rows], y[rows]


def _of_ten(  # noqa: PLR0917 - the parts of a problem, in their order
    family: str, x: Any, y: Any, others: Any, nets: Any, fresh: int
) -> Iterator[Problem]:
    for draw, networks in enumerate(nets, fresh):
        rng = np.random.default_rng([draw, *map(ord, family)])
        classes = rng.permutation(10)
        cut = np.array_split(classes[6:], 2)
        groups = {f"classes {i}": part for i, part in enumerate(cut)}
        yield _cut(
            *(f"{family}-{draw}", family, x, y, classes[:6], groups),
            *(others, networks, rng),
        )


def _mnist(data: Any, fresh: int) -> Iterator[Problem]:
    rng = np.random.default_rng(1)
    omni = data.load("omniglot28")
    others = {
        "letters": _halves(data.load("notmnist")["test_x"], rng),
        "characters": (omni["train_x"], omni["test_x"]),
        "house numbers": _halves(_grey(data.load("svhn")["test_x"][:4000]), rng),
    }
    nets = [("mlp128", "cnn1"), ("cnn2",), ("mlp64-deep",), ("cnn1",)]
    yield from _of_ten("mnist", *_pool(data.load("mnist"), 20000), others, nets, fresh)


def _notmnist(data: Any, fresh: int) -> Iterator[Problem]:
    rng = np.random.default_rng(2)
    omni, digits = data.load("omniglot28"), data.load("mnist")
    others = {
        "digits": (digits["train_x"][:5000], digits["test_x"]),
        "characters": (omni["train_x"], omni["test_x"]),
        "house numbers": _halves(_grey(data.load("svhn")["test_x"][:4000]), rng),
    }
    nets = [("mlp128", "cnn1"), ("cnn2",), ("mlp64-deep",), ("cnn1",)]
    yield from _of_ten(
        "notmnist", *_pool(data.load("notmnist"), 20000), others, nets, fresh
    )


def _photographs(data: Any, family: str, fresh: int) -> Iterator[Problem]:
    rng = np.random.default_rng(3)
    own = data.load(family)
    other = data.load("svhn" if family == "cifar10" else "cifar10")
    tiny = data.load("tinyimagenet32_val")
    # WordNet: food and places, which neither set has among its classes
    chosen = [i for i, w in enumerate(tiny["wnids"]) if w[:3] in {"n07", "n09", "n12"}]
    half = np.array_split(chosen, 2)
    food = tuple(tiny["test_x"][np.isin(tiny["test_y"], part)] for part in half)
    others = {
        "house numbers" if family == "cifar10" else "photographs": (
            other["train_x"][:3000],
            other["test_x"][:3000],
        ),
        "food and places": food,
        "letters": _halves(_coloured(data.load("notmnist")["test_x"][:3000]), rng),
    }
    nets = [("cnn3",), ("cnn4-wide",), ("mlp256",), ("cnn2",), ("cnn5",)]
    yield from _of_ten(family, *_pool(own, 16000), others, nets, fresh)


def _omniglot(data: Any, fresh: int) -> Iterator[Problem]:
    own = data.load("omniglot28")
    x, y, alphabet = own["train_x"], own["train_y"], own["train_alphabet"]
    rng = np.random.default_rng(4)
    others = {
        "digits": _halves(data.load("mnist")["test_x"], rng),
        "letters": _halves(data.load("notmnist")["test_x"], rng),
    }
    nets = [("mlp256",), ("cnn25",), ("mlp128", "cnn15"), ("cnn20-wide",)]
    for draw, networks in enumerate(nets, fresh):
        rng = np.random.default_rng([draw, 77])
        order = rng.permutation(30)
        mine = np.unique(y[np.isin(alphabet, order[:4])])
        known, same = np.split(rng.permutation(mine)[:60], [40])
        groups = {"same alphabets": same}
        for i in range(2):
            mine = order[4 + 4 * i : 8 + 4 * i]
            groups[f"alphabets {i}"] = np.unique(y[np.isin(alphabet, mine)])
        yield _cut(
            *(f"omniglot-{draw}", "omniglot", x, y, known, groups, others),
            *(networks, rng),
        )


def _imagenet(data: Any, fresh: int) -> Iterator[Problem]:
    """Give outputs of EfficientNet-Lite0: its own head, new heads for six classes."""
    parts = data.outputs("imagenet_lite0")
    head = parts.pop("head")
    rng = np.random.default_rng(5)
    kinds = {}
    strange, more = parts["test_unknown"], parts["surrogate"]
    for kind in np.unique(strange["groups"]).tolist():
        tested = strange["features"][strange["groups"] == kind]
        shown = more["features"][more["groups"] == kind]
        kinds[kind] = (shown, tested) if len(shown) else _halves(tested, rng)
    three = [parts[name] for name in ("fit", "calibration", "test_known")]
    if not fresh:
        yield Problem(
            name="imagenet-own",
            family="imagenet",
            train=(three[0]["features"], three[0]["labels"]),
            known=(three[1]["features"], three[1]["labels"]),
            test=(three[2]["features"], three[2]["labels"]),
            kinds=kinds,
            networks=("given",),
            n_classes=1000,
            given=Outputs(
                features=three[0]["features"][:1],
                logits=np.zeros((1, 1000), np.float32),
                weight=head["weight"],
                bias=head["bias"],
            ),
        )
    classes = np.unique(three[0]["labels"])
    nets = [("linear", "mlp128"), ("linear",), ("mlp64",)]
    for draw, networks in enumerate(nets, fresh):
        rng = np.random.default_rng([draw, 55])
        order = rng.permutation(classes)
        place = np.full(1000, -1)
        place[order[:6]] = np.arange(6)
        known = {
            name: (part["features"][rows], place[part["labels"][rows]])
            for name, part in zip(("train", "known", "test"), three, strict=True)
            for rows in [place[part["labels"]] >= 0]
        }
        near = {
            f"classes {i}": tuple(
                part["features"][np.isin(part["labels"], mine)] for part in three[1:]
            )
            for i, mine in enumerate((order[6:8], order[8:]))
        }
        yield Problem(
            name=f"imagenet-{draw}",
            family="imagenet",
            **known,
            kinds=kinds | near,
            networks=networks,
            n_classes=6,
        )


def _intents(  # noqa: PLR0917 - the parts of a problem, in their order
    name: str,
    family: str,
    parts: dict[str, tuple[Any, NDArray[np.int64]]],
    names: Any,
    untaught: list[str],
    others: dict[str, tuple[Any, Any]],
    networks: tuple[str, ...],
    covered: int | None = None,
) -> Problem:
    """CLINC150 with some domains untaught; parts are train, val and test."""
    place = {intent: i for i, intent in enumerate(names["class_names"])}
    of_domain = {
        domain: [place[intent] for intent in intents]
        for domain, intents in names["domains"].items()
    }
    rng = np.random.default_rng(len(name))
    label = np.full(len(place) + 1, -1)
    taught = [i for d in sorted(of_domain) if d not in untaught for i in of_domain[d]]
    label[rng.permutation(taught)] = np.arange(len(taught))

    def knowns(part: str, limit: int | None) -> tuple[Any, NDArray[np.int64]]:
        x, y = parts[part]
        rows = rng.permutation(np.flatnonzero(label[y] >= 0))
        if covered is not None and part != "train":
            rows = rows[label[y[rows]] < covered]
        return x[rows[:limit]], label[y[rows[:limit]]]

    kinds = {}
    for domain in untaught:
        # Validation and test samples of a domain: 300 and 450.
        kinds[domain] = tuple(
            parts[part][0][np.isin(parts[part][1], of_domain[domain])]
            for part in ("val", "test")
        )
    return Problem(
        name=name,
        family=family,
        train=knowns("train", None),
        known=knowns("val", None),
        test=knowns("test", None),
        kinds=kinds | others,
        networks=networks,
        n_classes=len(taught),
    )


def _clinc(data: Any, fresh: int) -> Iterator[Problem]:
    made, names = data.outputs("clinc150_minilm"), data.load("clinc150")
    domains = sorted(names["domains"])
    parts = {p: (made[p]["features"], made[p]["labels"]) for p in made}
    scope = np.concatenate(
        [parts["val"][0][parts["val"][1] < 0], parts["oos_train"][0]]
    )
    others = {"out of scope": (scope, parts["test"][0][parts["test"][1] < 0][:500])}
    nets = [("linear", "mlp256"), ("linear",), ("mlp128",), ("linear",)]
    for draw, networks in enumerate(nets, fresh):
        untaught = list(np.random.default_rng([draw, 8]).permutation(domains)[:4])
        yield _intents(
            *(f"clinc-minilm-{draw}", "clinc-minilm", parts, names, untaught),
            *(others, networks),
        )
    if fresh:
        return
    yield _intents(
        *("clinc-minilm-few", "clinc-minilm", parts, names, domains[:3], others),
        *(("linear",), 20),
    )


def _embedded(texts: dict[str, Any], fit: Any) -> dict[str, Floats]:
    words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2)
    counts = words.fit_transform(fit)
    svd = TruncatedSVD(150, random_state=0).fit(counts)
    made = {}
    for name, text in texts.items():
        x = svd.transform(words.transform(text))
        made[name] = x / (np.linalg.norm(x, axis=1, keepdims=True) + 1e-9)
    return made


def _clinc_words(data: Any, fresh: int) -> Iterator[Problem]:
    clinc, bank = data.load("clinc150"), data.load("banking77")
    x = _embedded(
        {
            "train": clinc["train_x"],
            "val": clinc["val_x"],
            "test": clinc["test_x"],
            "banking": bank["test_x"],
        },
        clinc["train_x"],
    )
    parts = {p: (x[p], clinc[f"{p}_y"]) for p in ("train", "val", "test")}
    rows = np.random.default_rng(0).permutation(len(clinc["train_y"]))[:7500]
    parts["train"] = (x["train"][rows], clinc["train_y"][rows])
    rng = np.random.default_rng(6)
    scope = _halves(x["test"][clinc["test_y"] < 0], rng)
    banking = tuple(_drawn(part, 400, rng) for part in _halves(x["banking"], rng))
    others = {"out of scope": scope, "other bank": banking}
    domains = sorted(clinc["domains"])
    nets = [("linear", "mlp256"), ("mlp128",), ("linear",)]
    for draw, networks in enumerate(nets, fresh):
        untaught = list(np.random.default_rng([draw, 9]).permutation(domains)[:3])
        yield _intents(
            *(f"clinc-lsa-{draw}", "clinc-lsa", parts, clinc, untaught, others),
            *(networks,),
        )


def _banking(data: Any, fresh: int) -> Iterator[Problem]:
    bank, clinc = data.load("banking77"), data.load("clinc150")
    texts = np.concatenate([bank["train_x"], bank["test_x"]])
    y = np.concatenate([bank["train_y"], bank["test_y"]])
    is_scope = clinc["test_y"] < 0
    embedded = _embedded(
        {
            "own": texts,
            "scope": clinc["test_x"][is_scope],
            "other intents": clinc["test_x"][~is_scope],
        },
        texts,
    )
    rng = np.random.default_rng(7)
    others = {
        "out of scope": _halves(embedded["scope"], rng),
        "other intents": _halves(embedded["other intents"], rng),
    }
    nets = [("linear", "mlp256"), ("mlp128",), ("linear",)]
    x = embedded["own"]
    for draw, networks in enumerate(nets, fresh):
        rng = np.random.default_rng([draw, 66])
        classes = rng.permutation(77)
        groups = _groups(x, y, classes[:45], classes[45:], n=3, by_distance=draw != 1)
        yield _cut(
            *(f"banking-{draw}", "banking", x, y, classes[:45], groups, others),
            *(networks, rng),
        )
