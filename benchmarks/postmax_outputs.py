"""Make the outputs that the items `openset reproduce postmax-...` were run on here.

    python benchmarks/postmax_outputs.py --out outputs
    openset reproduce postmax-table1 --outputs outputs

From the data sets and network outputs of `packaged_data.py`, one folder per network in
the layout of docs/papers/postmax.md:

* ImageNet, EfficientNet-Lite0: its saved features; ten of the thousand classes occur;
* CLINC150: MiniLM embeddings, an MLP; eight of ten domains are known;
* BANKING77: TF-IDF and SVD, an MLP; 45 of 77 intents are known.

As in the PostMax paper the threshold is chosen with unknowns of one kind that is close
to the known classes ("surrogate"); a second, easy one is for Tables 3 and 4. A folder
that exists is not made again.
"""

import argparse
import json
import lzma
import time
import warnings
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import packaged_data
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neural_network import MLPClassifier

from openset import Outputs, datasets

Parts = Mapping[str, Outputs]


def by_group(outputs: Outputs, prefix: str) -> dict[str, Outputs]:
    """Cut outputs into one part per group."""
    return {
        f"{prefix}/{name}": outputs.take(outputs.groups == name)
        for name in np.unique(outputs.groups)
    }


def imagenet() -> tuple[dict[str, str], Parts]:
    """EfficientNet-Lite0."""
    found = packaged_data.outputs("imagenet_lite0")
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
    weight, bias = (values.T.astype(np.float32) for values in layer(network, -1))

    def of(inputs: NDArray[Any], labels: NDArray[np.int64]) -> Outputs:
        first, shift = layer(network, 0)
        features = np.maximum(inputs @ first + shift, 0)
        logits = features @ network.coefs_[-1] + network.intercepts_[-1]
        return Outputs(
            logits=logits.astype(np.float32),
            features=features.astype(np.float32),
            labels=labels,
            weight=weight,
            bias=bias,
        )

    return of


def layer(network: MLPClassifier, i: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the weights and the bias of a layer."""
    return network.coefs_[i], network.intercepts_[i]


def unknown(of: Callable[..., Outputs], x: Any) -> Outputs:
    """Run a network over unknown samples."""
    return of(x, np.full(len(x), -1))


def clinc() -> tuple[dict[str, str], Parts]:
    """MiniLM embeddings; the intents of two domains, and out of scope, are unknown."""
    found = packaged_data.outputs("clinc150_minilm")
    classes = list(datasets.load("clinc150").classes)
    file = resources.files(datasets) / "files" / "clinc150.json.xz"
    domains = json.loads(lzma.decompress(file.read_bytes()))["domains"]
    held = {"auto_and_commute": "cars", "kitchen_and_dining": "kitchen"}
    names = [n for d in sorted(domains) if d not in held for n in domains[d]]
    numbers = [classes.index(name) for name in names]
    place = np.full(len(classes) + 1, -1)
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
        intents = [classes.index(n) for n in domains[domain]]
        parts[f"surrogate/{name}"] = unknown(of, x["val"][np.isin(y["val"], intents)])
        parts[f"unknown/{name}"] = unknown(of, x["test"][np.isin(y["test"], intents)])
    about = {
        "title": "CLINC150, MiniLM and an MLP",
        "surrogate": "out of scope",
        "easy": "kitchen",
    }
    return about, parts


def banking() -> tuple[dict[str, str], Parts]:
    """Words, SVD and an MLP; other intents and queries of CLINC150 are unknown."""
    bank, other = datasets.load("banking77"), datasets.load("clinc150")

    def part(data: datasets.Dataset, name: str) -> tuple[list[str], NDArray[np.int64]]:
        rows = data.parts[name]
        return [data.inputs[row] for row in rows], data.labels[rows]

    words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2)
    counts = words.fit_transform(part(bank, "train")[0])
    svd = TruncatedSVD(150, random_state=0).fit(counts)

    def embedded(texts: NDArray[Any]) -> NDArray[Any]:
        found = svd.transform(words.transform(texts))
        return found / (np.linalg.norm(found, axis=1, keepdims=True) + 1e-9)

    x = {name: embedded(part(bank, name)[0]) for name in ("train", "test")}
    y = {name: part(bank, name)[1] for name in ("train", "test")}
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

    queries = {name: embedded(part(other, name)[0]) for name in ("validation", "test")}
    is_scope = {name: part(other, name)[1] < 0 for name in queries}
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
        "surrogate/CLINC150 out of scope": unknown(
            of, queries["validation"][is_scope["validation"]]
        ),
        "unknown/other intents, A": intents("test", classes[45:61]),
        "unknown/other intents, B": intents("test", classes[61:]),
        "unknown/CLINC150 out of scope": unknown(of, queries["test"][is_scope["test"]]),
        "unknown/CLINC150 intents": unknown(of, queries["test"][~is_scope["test"]]),
    }


NETWORKS = {
    "imagenet-lite0": imagenet,
    "clinc150": clinc,
    "banking77": banking,
}


def main() -> None:
    """Write one folder per network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("outputs"))
    parser.add_argument("--names", nargs="+", default=list(NETWORKS))
    args = parser.parse_args()
    for name in args.names:
        folder = args.out / name
        if (folder / "network.json").exists():
            continue
        started = time.perf_counter()
        about, parts = NETWORKS[name]()
        for part, outputs in parts.items():
            outputs.save(folder / part)
        # Last: where this file exists, the folder is complete.
        text = json.dumps(about, indent=1, ensure_ascii=False)
        (folder / "network.json").write_text(f"{text}\n", encoding="utf-8")
        sizes = ", ".join(f"{part} {len(one)}" for part, one in parts.items())
        print(f"{name} ({time.perf_counter() - started:.0f} s): {sizes}", flush=True)


if __name__ == "__main__":
    main()
