"""What each of two processes does; a module of its own, so that it can be spawned."""

from torch import distributed


def worker(rank, meeting, splits):
    """Update every metric with a share of the samples, and return what it computes.

    The processes meet over the file `meeting`, which nobody else knows.
    """
    from tests.integrations import test_torchmetrics as shared  # noqa: PLC0415

    distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=2
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
    distributed.destroy_process_group()
    return found
