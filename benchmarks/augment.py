"""Time the augmentation, part by part, and compare the devices.

    PYTHONPATH=src python benchmarks/augment.py [--device cuda] [--images 30000]

Prints medians of 9 calls on random 32 × 32 images; on CUDA also whether the result is
the CPU's, bit by bit, and whether the host ever waits for the device.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from _measure import need_device

from openset.train import recipe
from openset.train.augment import crop_and_flip, rand_augment


def median_ms(function: Callable[[], object], *, is_cuda: bool, repeats: int) -> float:
    """Return the median wall time in milliseconds, the device's work included."""
    times = []
    for _ in range(repeats + 2):
        if is_cuda:
            torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        if is_cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:]) * 1e3


def main() -> None:
    """Time all parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", type=int, default=30_000)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    need_device(options.device, trial="augment.py --device cpu --images 300")
    is_cuda = options.device == "cuda"
    name = torch.cuda.get_device_name() if is_cuda else "CPU"
    print(f"torch {torch.__version__} on {name}, {options.images} images")

    generator = torch.Generator().manual_seed(0)
    host = torch.randint(
        256, (options.images, 3, 32, 32), dtype=torch.uint8, generator=generator
    )
    images = host.to(options.device)
    pipeline = recipe("ceplus", "cifar10").pipeline
    normalize = pipeline.normalizer().to(options.device)
    parts = {
        "rand_augment(1, 6)": lambda: rand_augment(images, 1, 6, generator),
        "crop_and_flip": lambda: crop_and_flip(images, generator=generator),
        "normalize": lambda: normalize(images),
        "pipeline ceplus": lambda: pipeline.augment(images, generator),
    }
    for part, function in parts.items():
        took = median_ms(function, is_cuda=is_cuda, repeats=options.repeats)
        print(f"{part:22s} {took:8.2f} ms {options.images / took:8.0f} images/ms")

    if is_cuda:
        same = True
        for magnitude in range(31):
            few = [
                rand_augment(some, 2, magnitude, torch.Generator().manual_seed(1))
                for some in (host[:2000], images[:2000])
            ]
            same &= torch.equal(few[0], few[1].cpu())
        few = [
            pipeline.augment(some, torch.Generator().manual_seed(1))
            for some in (host, images)
        ]
        same &= torch.equal(few[0], few[1].cpu())
        print("CUDA equals the CPU bit by bit:", same)
        torch.cuda.set_sync_debug_mode("error")
        normalize(pipeline.augment(images, generator))
        torch.cuda.set_sync_debug_mode("default")
        print("the host never waits: True")


if __name__ == "__main__":
    main()
