"""Several server processes on one port."""

import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import httpx
import pytest
import uvicorn
from uvicorn.supervisors.multiprocess import SIGNALS

from openset import Rejector, serve
from openset.serve._run import _Supervisor
from tests.unit.serve.live import serving
from tests.unit.serve.test_model import network
from tests.unit.serve.test_stop import Caller, batch
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="looks for processes in /proc"
)


def ids(live):
    """Process numbers of the workers."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int(_stat(folder)[1])
            command = (folder / "cmdline").read_text()
        except OSError:  # it has ended meanwhile
            continue
        if parent == live.process.pid and "spawn_main" in command:
            found.add(int(folder.name))
    return found


def _stat(folder):
    """Fields from the state on; the name before them may hold anything."""
    return (folder / "stat").read_text().rsplit(")", 1)[1].split()


def _is_alive(process):
    try:
        return _stat(Path("/proc") / str(process))[0] != "Z"
    except OSError:
        return False


def count(live, path, status):
    text = live.get("/metrics").text
    found = re.search(rf'requests_total{{path="{path}",status="{status}"}} (\S+)', text)
    return float(found[1]) if found else 0.0


@pytest.fixture(scope="module")
def two(folder):
    with serving(folder, "--workers", 2) as live:
        yield live


def test_all_of_them_answer_and_whoever_is_asked_counts_for_all(two):
    # Connections that stay open are dealt out to both.
    clients = [httpx.Client(base_url=two.url, timeout=PATIENCE) for _ in range(8)]
    before = count(two, "/healthz", 200)
    for _ in range(5):
        for client in clients:
            assert client.get("/healthz").status_code == 200
    assert {count(two, "/healthz", 200) for _ in range(10)} == {before + 40}
    for client in clients:
        client.close()


def test_one_that_is_asked_to_stop_leaves_the_port_open(folder):
    with serving(folder, "--workers", 2) as live:
        before = ids(live)
        os.kill(min(before), signal.SIGTERM)
        wait_until(lambda: len(ids(live) - before) == 1 and len(ids(live)) == 2)
        for _ in range(10):
            assert live.get("/healthz").status_code == 200
        assert live.stop() == 0


def test_a_stop_answers_those_who_wait_to_be_accepted(folder):
    body = batch(200)
    head = (
        f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-npz\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    with serving(folder, "--workers", 2) as live:
        callers = [
            socket.create_connection(("127.0.0.1", live.port)) for _ in range(200)
        ]
        for one in callers:
            one.sendall(head + body)
        live.process.send_signal(signal.SIGTERM)
        answers = []
        for one in callers:
            one.settimeout(PATIENCE)
            with one, one.makefile("rb") as stream:
                answers.append(stream.readline())
        assert answers == [b"HTTP/1.1 200 OK\r\n"] * 200
        assert live.process.wait(timeout=PATIENCE) == 0


def test_a_replacement_serves_what_the_others_serve(folder, logits_folder, tmp_path):
    """Whatever is saved in the folder meanwhile; every answer says which it is."""
    mine = tmp_path / "rejector"
    shutil.copytree(folder, mine)
    with serving(mine, "--workers", 2) as live:
        version = live.get("/healthz").json()["rejector"]
        before = ids(live)
        shutil.rmtree(mine)
        shutil.copytree(logits_folder, mine)
        for worker in before:
            os.kill(worker, signal.SIGKILL)
        wait_until(lambda: len(ids(live) - before) == 2)
        assert live.get("/rejector").json()["detector"] == "postmax"
        answer = live.get("/healthz")
        assert answer.json() == {"status": "ok", "rejector": version}
        assert answer.headers["X-Openset-Rejector"] == version
        assert live.stop() == 0


@pytest.mark.parametrize("options", [[], ["--workers", 2]])
def test_a_killed_server_leaves_no_copies_for_long(
    folder, tmp_path, monkeypatch, options
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    def copies():
        return {path.parents[1] for path in tmp_path.rglob("manifest.json")}

    with serving(folder, *options) as live:
        left = copies()
        assert len(left) == (1 if options else 0), "one process reads it once"
        workers = ids(live)
        live.process.kill()
        live.process.wait()
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
    assert copies() == left
    with serving(folder, *options) as live:
        assert not copies() & left
        assert live.get("/rejector").json()["detector"] == "postmax"
        assert live.stop() == 0
    assert copies() == set()


def test_a_replacement_that_cannot_start_ends_the_server(logits_folder, tmp_path):
    """A port that accepts and never answers would be worse."""
    model = network(tmp_path / "model.onnx")
    with serving(logits_folder, "--model", model, "--workers", 2) as live:
        before = ids(live)
        model.write_bytes(b"something else")
        os.kill(min(before), signal.SIGKILL)
        live.read_until("must be the network the other processes serve")
        assert live.process.wait(timeout=PATIENCE) not in {0, None}
        assert not any(_is_alive(one) for one in before)


def test_one_that_dies_is_replaced_and_its_counts_stay(two):
    before = ids(two)
    assert len(before) == 2
    assert two.get("/no/such/page").status_code == 404
    seen = count(two, "other", 404)
    for victim in before:
        os.kill(victim, signal.SIGKILL)
    wait_until(lambda: len(ids(two) - before) == 2)
    assert two.get("/healthz").status_code == 200  # accepted once somebody is there
    assert count(two, "other", 404) == seen


def test_one_that_dies_before_it_answers_the_supervisor_is_replaced_at_once():
    """Without that, this waits for the answer as long as for anything that hangs."""
    config = uvicorn.Config(
        "no:app", workers=1, timeout_worker_healthcheck=int(PATIENCE)
    )
    handlers = {one: signal.getsignal(one) for one in SIGNALS}
    supervisor = _Supervisor(config, sockets=[])
    try:
        supervisor.init_processes()
        victim = supervisor.processes[0]
        os.kill(victim.pid, signal.SIGSTOP)  # it will not answer
        pipe = os.dup(victim.child_conn.fileno())

        def kill():
            select.select([pipe], [], [])  # the question has arrived
            os.close(pipe)
            os.kill(victim.pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        supervisor.keep_subprocess_alive()
        killer.join()
        assert supervisor.processes[0] is not victim
    finally:
        for one, handler in handlers.items():
            signal.signal(one, handler)
        for process in supervisor.processes:
            process.kill()
            process.join()


@pytest.mark.parametrize("keep", [True, False], ids=["keep-alive", "one-shot"])
def test_a_stop_under_load_loses_no_accepted_request(folder, keep):
    with serving(folder, "--workers", 2) as live:
        callers = [Caller(live.port, n, keep=keep) for n in (1, 1, 100, 5000)]
        for caller in callers:
            caller.start()
        wait_until(lambda: all(caller.answered >= 5 for caller in callers))
        workers = ids(live)
        assert live.stop() == 0
        for caller in callers:
            caller.join()
    assert [caller.lost for caller in callers] == [[], [], [], []]
    assert not any(_is_alive(one) for one in workers)


def test_without_a_parent_they_end(folder):
    with serving(folder, "--workers", 2) as live:
        workers = ids(live)
        live.process.kill()
        wait_until(lambda: not any(_is_alive(one) for one in workers))


def test_what_is_wrong_is_said_without_a_traceback(folder, tmp_path):
    for arguments, words in (
        ([str(tmp_path)], "is not a rejector"),
        ([str(folder), "--model", "no.onnx"], "no such file: no.onnx"),
    ):
        start = "from openset.cli import main; main()"
        command = [sys.executable, "-c", start, "serve", *arguments]
        done = subprocess.run(  # noqa: S603  # our own command
            [*command, "--port", "0", "--workers", "2"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        assert words in " ".join(done.stderr.split())
        assert "Traceback" not in done.stderr


def test_several_processes_need_a_function(folder):
    application = serve.app(Rejector.load(folder))
    for bad in (application, lambda: application):
        with pytest.raises(
            TypeError, match="application must be an importable function"
        ):
            serve.run(bad, port=0, workers=2)
    make = partial(serve.app, Rejector.load(folder))
    with pytest.raises(ValueError, match="workers must be"):
        serve.run(make, port=0, workers=0)
    with pytest.raises(ValueError, match="stop_seconds must be a number in"):
        serve.run(make, port=0, stop_seconds=float("inf"))
