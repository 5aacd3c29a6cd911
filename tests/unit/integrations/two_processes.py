"""What each of two processes does; a module of its own, so that it can be spawned."""

from torch import distributed


def worker(rank, port, splits, queue):
    """Update every metric with a share of the samples, and send what it computes."""
    # The shared set-up must come before torchmetrics, which imports torchvision.
    import tests.conftest  # noqa: F401, PLC0415
    from tests.unit.integrations import test_torchmetrics as shared  # noqa: PLC0415

    distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2
    )
    found = []
    for counts in splits:
        start = sum(counts[:rank])
        rows = slice(start, start + counts[rank])
        results = {}
        for name, metric in shared.everything().items():
            if counts[rank]:
                metric.update(*(part[rows] for part in shared.samples()))
            results[name] = shared.values(metric)
        found.append(results)
    queue.put((rank, found))
    distributed.destroy_process_group()
