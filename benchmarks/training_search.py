"""What else might make training faster: more networks, larger batches, fewer launches.

    python benchmarks/training_search.py --root data --seconds 540   # on a GPU
    python benchmarks/training_search.py --table                     # into README.md
    python benchmarks/training_search.py --root data --tiny          # try it on a CPU

Each measurement is written to the results file as soon as it is made, and not repeated:
run the command again until it says that nothing is left. Three questions:

- *at once*: images per second of 1 to 16 networks that are trained at the same time
  (CE+, CIFAR-10, as in `training.py`), with and without torch.compile;
- *batch*: the same for one network with batches of 128 to 1,024 images;
- *launch*: convolutions of several networks, forward and backward, each by itself and
  as one grouped convolution, in both orders of memory; seconds for all nine layers of
  `classifier32`. It tells whether training several networks by grouped convolutions
  could pay before anyone writes it.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from _measure import put_section
from _training_runs import few, need_gpu
from training import WARM, machine

RESULTS = Path(__file__).parent / "results" / "training_search.json"
AT_ONCE = (1, 2, 5, 8, 10, 16)
BATCHES = (128, 256, 512, 1024)
GROUPS = (2, 5, 8)
WAYS = ("recorded", "compiled")
ORDERS = ("channels last", "channels first")
# Side, channels in and out, and stride of the convolutions of `classifier32`.
LAYERS = (
    (32, 3, 64, 1), (32, 64, 64, 1), (32, 64, 128, 2), (16, 128, 128, 1),
    (16, 128, 128, 1), (16, 128, 128, 2), (8, 128, 128, 1), (8, 128, 128, 1),
    (8, 128, 128, 2),
)  # fmt: skip


def names() -> Iterator[tuple[str, ...]]:
    """Name all measurements, the short ones first."""
    yield from (("launch", str(n), order) for n in GROUPS for order in ORDERS)
    yield from (("batch", str(n), way) for n in BATCHES for way in WAYS)
    yield from (("at once", str(n), way) for n in AT_ONCE for way in WAYS)


def speed(data: Any, n: int, batch: int, epochs: int, *, compiled: bool) -> float:
    """Train `n` networks for a few epochs; return images per second of all."""
    from openset import train

    splits = (0, 2, 3, 4)
    jobs = [
        train.Job.of(
            method="ceplus",
            data=data,
            split=splits[i % len(splits)],
            seed=i,
            epochs=epochs,
            batch=batch,
            validation=0,
        )
        for i in range(n)
    ]
    done = train.fit_jobs(jobs, train.Execution(compiled=compiled, progress=False))
    return sum(
        statistics.median(line["samples_per_second"] for line in one.log[WARM:-1])
        for one in done
    )


def launches(n: int, order: str, batch: int, repeats: int) -> dict[str, float]:
    """Time the convolutions of `n` networks: one after the other, and grouped."""
    import torch
    from torch.nn.functional import conv2d

    is_gpu = torch.cuda.is_available()
    device = "cuda" if is_gpu else "cpu"
    is_last = order == "channels last"
    layout = torch.channels_last if is_last else torch.contiguous_format
    kinds: dict[str, Any] = {"device": device}
    kinds["dtype"] = torch.bfloat16 if is_gpu else torch.float32

    def tensor(*shape: int) -> Any:
        made = torch.randn(*shape, **kinds).contiguous(memory_format=layout)
        return made.requires_grad_()

    def once(inputs: list[Any], weights: list[Any], stride: int, groups: int) -> None:
        for x, w in zip(inputs, weights, strict=True):
            out = conv2d(x, w, stride=stride, padding=1, groups=groups)
            torch.autograd.grad(out, (x, w), torch.ones_like(out))

    found = {"one by one": 0.0, "grouped": 0.0}
    for side, a, b, stride in LAYERS:
        alone = [tensor(batch, a, side, side) for _ in range(n)]
        kernels = [tensor(b, a, 3, 3) for _ in range(n)]
        joined = [tensor(batch, n * a, side, side)], [tensor(n * b, a, 3, 3)]
        for name, arguments in (
            ("one by one", (alone, kernels, stride, 1)),
            ("grouped", (*joined, stride, n)),
        ):
            times = []
            for _ in range(repeats + 2):  # the first two choose kernels
                started = time.perf_counter()
                once(*arguments)
                if is_gpu:
                    torch.cuda.synchronize()
                times.append(time.perf_counter() - started)
            found[name] += statistics.median(times[2:])
    return found


def measure(args: argparse.Namespace) -> None:
    """Measure what the file does not hold yet, until the time is up."""
    from openset import datasets

    path = Path("runs/tiny/training_search.json") if args.tiny else args.json
    path.parent.mkdir(parents=True, exist_ok=True)
    found = json.loads(path.read_text()) if path.exists() else {}
    found = {**machine(args.epochs), "found": {}} | found
    left = [one for one in names() if ", ".join(one) not in found["found"]]
    if args.tiny:  # one of each kind
        some = {("2", ORDERS[0]), ("256", WAYS[0]), ("2", WAYS[0])}
        left = [one for one in left if one[1:] in some]
    started, data = time.monotonic(), None
    while left and (not args.seconds or time.monotonic() - started < args.seconds):
        kind, number, way = one = left.pop(0)
        if kind == "launch":
            size = (8, 2) if args.tiny else (128, 20)
            value: Any = launches(int(number), way, *size)
        else:
            if data is None:
                data = datasets.load("cifar10", args.root)
                data = few(data) if args.tiny else data
            n = int(number) if kind == "at once" else 1
            batch = 128 if kind == "at once" else int(number)
            compiled = way == "compiled"
            value = speed(data, n, batch, args.epochs, compiled=compiled)
        found["found"][", ".join(one)] = value
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(found, indent=1))
        temporary.replace(path)
        print(", ".join(one), value, flush=True)
    print(f"{len(left)} measurements left, in {path}", flush=True)


def table(found: dict[str, Any]) -> str:
    """Return the section of the README."""
    values = found["found"]
    lines = [
        f"`python benchmarks/training_search.py`, {found['gpu']}, torch "
        f"{found['torch']}: CIFAR-10, six known classes, `classifier32`, CE+, bf16, "
        f"images per second as in the section before.",
    ]
    for kind, numbers, text in (
        ("at once", AT_ONCE, "networks at once, batch 128"),
        ("batch", BATCHES, "one network, batch"),
    ):
        lines += ["", f"| {text} | {' | '.join(WAYS)} |", "|---|---:|---:|"]
        for n in numbers:
            cells = [values.get(f"{kind}, {n}, {way}") for way in WAYS]
            shown = ["" if v is None else f"{v:,.0f}" for v in cells]
            lines.append(f"| {n} | {' | '.join(shown)} |")
    lines += [
        "",
        "Convolutions of several networks, forward and backward, batch 128, "
        "milliseconds for all nine layers:",
        "",
        "| networks | order of memory | one by one | one grouped convolution |",
        "|---:|---|---:|---:|",
    ]
    for n in GROUPS:
        for order in ORDERS:
            one = values.get(f"launch, {n}, {order}")
            if one is not None:
                cells = [f"{1e3 * one[key]:.2f}" for key in ("one by one", "grouped")]
                lines.append(f"| {n} | {order} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", default=None, help="folder of the data sets")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument(
        "--seconds",
        type=int,
        default=0,
        help="begin no measurement after so many seconds; the same command goes on",
    )
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--tiny", action="store_true", help="try it on a CPU")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        if not args.json.exists():
            msg = f"{args.json} does not exist: measure first, on a GPU"
            raise SystemExit(msg)
        text = table(json.loads(args.json.read_text()))
        put_section("Speed of training: a search (GPU)", text)
        print(text)
        return
    if args.tiny:
        args.epochs = WARM + 2
    else:
        need_gpu("; --tiny tries it on the CPU")
    measure(args)


if __name__ == "__main__":
    main()
