"""Processes: several answer, one that dies is replaced, a stop loses nothing."""

import json
import os
import signal
import socket
import threading
from pathlib import Path

import httpx
import numpy as np
import pytest
from tests.serve.conftest import npz
from tests.serve.live import serving
from tests.waiting import PATIENCE, wait_until


class Caller(threading.Thread):
    """Sends one request after the other until nobody listens any more."""

    def __init__(self, live, n, *, keep):
        super().__init__(daemon=True)
        rng = np.random.default_rng(0)
        logits, features = rng.normal(size=(n, 3)), rng.normal(size=(n, 5))
        headers = {} if keep else {"Connection": "close"}
        body = npz(logits=logits, features=features)
        address = f"{live.url}/predict/npz"
        self.request = httpx.Request("POST", address, content=body, headers=headers)
        self.port, self.n, self.answered, self.lost = live.port, n, 0, []

    def run(self):
        """Send until the port is closed; what breaks in an answer is lost."""
        with httpx.Client(timeout=PATIENCE) as client:
            while True:
                try:
                    answer = client.send(self.request, stream=True)
                except httpx.TransportError:
                    # Not accepted, or closed while idle: no answer had begun.
                    wait_until(lambda: is_refused(self.port))  # it does stop
                    return
                try:
                    found = json.loads(answer.read())
                except Exception as error:  # half an answer
                    self.lost.append(repr(error))
                    continue
                if len(found.get("decisions", ())) == self.n:
                    self.answered += 1
                else:
                    self.lost.append(found)


def is_refused(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
    except ConnectionError:
        return True
    return False


@pytest.mark.parametrize("keep", [True, False], ids=["keep-alive", "one-shot"])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_stop_under_load_loses_no_accepted_request(folder, keep, workers):
    with serving(folder, "--workers", workers) as live:
        callers = [Caller(live, n, keep=keep) for n in (1, 1, 100, 10_000)]
        for caller in callers:
            caller.start()
        wait_until(lambda: all(caller.answered >= 5 for caller in callers))
        assert live.stop() in {0, -signal.SIGTERM}
        for caller in callers:
            caller.join()
    assert [caller.lost for caller in callers] == [[], [], [], []]


@pytest.fixture(scope="module")
def two(folder):
    with serving(folder, "--workers", 2) as live:
        yield live


def counted(live):
    text = live.get("/metrics").text
    lines = [one for one in text.splitlines() if one.startswith("openset_samples_tot")]
    return sum(float(line.split()[-1]) for line in lines)


def ask(live, n):
    logits, features = np.zeros((1, 3)), np.ones((1, 5))
    for _ in range(n):  # each on a connection of its own
        body = {"logits": logits.tolist(), "features": features.tolist()}
        assert live.post(json=body).status_code == 200


def children(live):
    parent = Path(f"/proc/{live.process.pid}")
    pids = (parent / "task" / parent.name / "children").read_text("utf-8").split()
    words = {pid: Path(f"/proc/{pid}/cmdline").read_text("utf-8") for pid in pids}
    return [int(pid) for pid in pids if "spawn_main" in words[pid]]


def test_whoever_is_asked_counts_for_all(two):
    before = counted(two)
    ask(two, 20)
    assert {counted(two) - before for _ in range(6)} == {20.0}


def test_one_that_dies_is_replaced_and_its_counts_stay(two):
    ask(two, 6)
    before, old = counted(two), children(two)
    os.kill(old[0], signal.SIGKILL)
    wait_until(lambda: len({*children(two)} - {*old}) == 1)
    ask(two, 6)
    assert counted(two) == before + 6


def test_what_is_wrong_is_said_and_ends_the_server(folder, tmp_path):
    for place, options in ((tmp_path / "none", []), (folder, ["--model", "none"])):
        with pytest.raises(RuntimeError, match="none"), serving(place, *options):
            pass
    taken = pytest.raises(RuntimeError, match="Address already in use")
    with serving(folder) as live, taken, serving(folder, "--port", live.port):
        pass
