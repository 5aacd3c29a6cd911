"""Make the outputs that the items `openset reproduce postmax-...` were run on here.

    python benchmarks/postmax_outputs.py --out outputs
    openset reproduce postmax-table1 --outputs outputs

From the data sets and network outputs of `packaged_data.py`, one folder per network in
the layout of docs/papers/postmax.md:

* ImageNet, EfficientNet-Lite0: its saved features; ten of the thousand classes occur;
* CLINC150: MiniLM embeddings, an MLP; eight of ten domains are known;
* BANKING77: TF-IDF and SVD, an MLP; 45 of 77 intents are known;
* CIFAR-10, SVHN, MNIST: six classes known, small convolutional networks trained here
  (`_networks.py`), minutes each on two cores.

As in the PostMax paper the threshold is chosen with unknowns of one kind that is close
to the known classes ("surrogate"); a second, easy one is for Tables 3 and 4. A folder
that exists is not made again.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import _networks
import numpy as np
import packaged_data
import real_data
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neural_network import MLPClassifier

from openset import Outputs

EPOCHS = {"mnist": 4, "svhn": 6, "cifar10": 8}
Parts = Mapping[str, Outputs]


def by_group(outputs: Outputs, prefix: str) -> dict[str, Outputs]:
    """Cut outputs into one part per group."""
    return {
        f"{prefix}/{name}": outputs.take(outputs.groups == name)
        for name in np.unique(outputs.groups)
    }


def imagenet(data: Any) -> tuple[dict[str, str], Parts]:
    """EfficientNet-Lite0."""
    found = data.outputs("imagenet_lite0")
    head = found.pop("head")
    parts = {name: Outputs(**one, **head) for name, one in found.items()}
    about = {
        "title": "ImageNet, EfficientNet-Lite0",
        "surrogate": "birds",
        "easy": "house numbers",
    }
    return about, {
        "train": parts["fit"],
        "validation": parts["calibration"],
        "test": parts["test_known"],
        **by_group(parts["surrogate"], "surrogate"),
        **by_group(parts["test_unknown"], "unknown"),
    }


def mlp(x: Any, y: Any, hidden: int) -> Callable[..., Outputs]:
    """Train a network with one hidden layer; return a function to its outputs."""
    network = MLPClassifier(
        (hidden,), alpha=1e-4, max_iter=60, random_state=0, n_iter_no_change=1000
    )
    with warnings.catch_warnings():  # the number of epochs is meant
        warnings.simplefilter("ignore")
        network.fit(x, y)
    return lambda inputs, labels: real_data.outputs(
        network, inputs, labels, np.full(len(labels), "")
    )


def unknown(of: Callable[..., Outputs], x: Any) -> Outputs:
    """Run a network over unknown samples."""
    return of(x, np.full(len(x), -1))


def clinc(data: Any) -> tuple[dict[str, str], Parts]:
    """MiniLM embeddings; the intents of two domains, and out of scope, are unknown."""
    text, found = data.load("clinc150"), data.outputs("clinc150_minilm")
    domains = sorted(text["domains"])
    held = {"auto_and_commute": "cars", "kitchen_and_dining": "kitchen"}
    names = [n for d in domains if d not in held for n in text["domains"][d]]
    numbers = [text["class_names"].index(name) for name in names]
    place = np.full(len(text["class_names"]) + 1, -1)
    place[numbers] = np.arange(len(numbers))
    x = {part: one["features"] for part, one in found.items()}
    y = {part: one["labels"] for part, one in found.items()}
    mine = {part: place[y[part]] >= 0 for part in ("train", "val", "test")}
    of = mlp(x["train"][mine["train"]], place[y["train"][mine["train"]]], 256)

    def known(part: str) -> Outputs:
        return of(x[part][mine[part]], place[y[part][mine[part]]])

    parts = {
        "train": known("train"),
        "validation": known("val"),
        "test": known("test"),
        "surrogate/out of scope": unknown(
            of, np.concatenate([x["oos_train"], x["val"][y["val"] < 0]])
        ),
        "unknown/out of scope": unknown(of, x["test"][y["test"] < 0]),
    }
    for domain, name in held.items():
        intents = [text["class_names"].index(n) for n in text["domains"][domain]]
        parts[f"surrogate/{name}"] = unknown(of, x["val"][np.isin(y["val"], intents)])
        parts[f"unknown/{name}"] = unknown(of, x["test"][np.isin(y["test"], intents)])
    about = {
        "title": "CLINC150, MiniLM and an MLP",
        "surrogate": "out of scope",
        "easy": "kitchen",
    }
    return about, parts


def banking(data: Any) -> tuple[dict[str, str], Parts]:
    """Words, SVD and an MLP; other intents and queries of CLINC150 are unknown."""
    bank, other = data.load("banking77"), data.load("clinc150")
    words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2)
    counts = words.fit_transform(bank["train_x"])
    svd = TruncatedSVD(150, random_state=0).fit(counts)

    def embedded(texts: NDArray[Any]) -> NDArray[Any]:
        found = svd.transform(words.transform(texts))
        return found / (np.linalg.norm(found, axis=1, keepdims=True) + 1e-9)

    x = {part: embedded(bank[f"{part}_x"]) for part in ("train", "test")}
    y = {part: bank[f"{part}_y"] for part in ("train", "test")}
    rng = np.random.default_rng(0)
    classes = rng.permutation(77)
    place = np.full(77, -1)
    place[classes[:45]] = np.arange(45)
    rows = rng.permutation(np.flatnonzero(place[y["train"]] >= 0))
    held, rows = np.split(rows, [len(rows) // 6])
    of = mlp(x["train"][rows], place[y["train"][rows]], 128)

    def known(part: str, chosen: NDArray[np.intp]) -> Outputs:
        return of(x[part][chosen], place[y[part][chosen]])

    def intents(part: str, chosen: NDArray[np.int64]) -> Outputs:
        return unknown(of, x[part][np.isin(y[part], chosen)])

    is_scope = {part: other[f"{part}_y"] < 0 for part in ("val", "test")}
    queries = {part: embedded(other[f"{part}_x"]) for part in ("val", "test")}
    about = {
        "title": "BANKING77, TF-IDF and an MLP",
        "surrogate": "other intents, A",
        "easy": "CLINC150 out of scope",
    }
    return about, {
        "train": known("train", rows),
        "validation": known("train", held),
        "test": known("test", np.flatnonzero(place[y["test"]] >= 0)),
        "surrogate/other intents, A": intents("train", classes[45:61]),
        "surrogate/CLINC150 out of scope": unknown(of, queries["val"][is_scope["val"]]),
        "unknown/other intents, A": intents("test", classes[45:61]),
        "unknown/other intents, B": intents("test", classes[61:]),
        "unknown/CLINC150 out of scope": unknown(of, queries["test"][is_scope["test"]]),
        "unknown/CLINC150 intents": unknown(of, queries["test"][~is_scope["test"]]),
    }


def images(name: str) -> Callable[[Any], tuple[dict[str, str], Parts]]:
    """Return a function that trains a small network on six classes of an image set."""
    make = {
        "mnist": (_networks.mnist, "MNIST", "digits 6 and 7", "letters"),
        "cifar10": (_networks.cifar, "CIFAR-10", "frogs and horses", "house numbers"),
        "svhn": (_networks.svhn, "SVHN", "numbers 6 and 7", "photographs"),
    }
    problem, title, hard, easy = make[name]

    def made(data: Any) -> tuple[dict[str, str], Parts]:
        found = _networks.of_small(problem(data), epochs=EPOCHS[name])
        about = {
            "title": f"{title}, 6 classes, small CNN",
            "surrogate": hard,
            "easy": easy,
        }
        return about, {
            "train": found["train"],
            "validation": found["known"],
            "test": found["test_known"],
            **by_group(found["surrogate"], "surrogate"),
            **by_group(found["test_unknown"], "unknown"),
        }

    return made


NETWORKS = {
    "imagenet-lite0": imagenet,
    "clinc150": clinc,
    "banking77": banking,
    **{name: images(name) for name in EPOCHS},
}


def main() -> None:
    """Write one folder per network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("outputs"))
    parser.add_argument("--names", nargs="+", default=list(NETWORKS))
    args = parser.parse_args()
    data = packaged_data.reader()
    for name in args.names:
        folder = args.out / name
        if (folder / "network.json").exists():
            continue
        started = time.perf_counter()
        about, parts = NETWORKS[name](data)
        for part, outputs in parts.items():
            outputs.save(folder / part)
        # Last: where this file exists, the folder is complete.
        text = json.dumps(about, indent=1, ensure_ascii=False)
        (folder / "network.json").write_text(f"{text}\n", encoding="utf-8")
        sizes = ", ".join(f"{part} {len(one)}" for part, one in parts.items())
        print(f"{name} ({time.perf_counter() - started:.0f} s): {sizes}", flush=True)


if __name__ == "__main__":
    main()
