"""How tests wait: for something to be so, never for a moment to pass."""

import time

PATIENCE = 600.0
"""Seconds after which something must hang. It ends a test; it never decides one."""


def wait_until(condition):
    """Return as soon as `condition()` is true."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)
