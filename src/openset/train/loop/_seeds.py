"""Random seeds: every draw is a function of seed, epoch and step.

Nothing depends on what ran before, so a run that was interrupted, or shares its device
with others, draws the same numbers as an undisturbed run.
"""

import numpy as np
import torch

_MAX = 2**63 - 1


def derived(seed: int, *place: int) -> int:
    """Derive a seed for a part of a run (an epoch, a chunk, a process).

    Examples
    --------
    >>> derived(0, 1) == derived(0, 1), derived(0, 1) == derived(0, 2)
    (True, False)
    """
    state = np.random.SeedSequence([seed, *place]).generate_state(1, np.uint64)
    return int(state[0]) & _MAX >> 1  # room to count steps on top


def start_step(seed: int, device: torch.device) -> None:
    """Set torch's generators for one update: the one of the device, and the CPU's.

    ``torch.manual_seed`` sets those of all devices; this is called before every update
    and costs less.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)
