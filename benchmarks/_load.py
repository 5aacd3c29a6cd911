"""A client that sends one request again and again; prints what it measured as JSON."""

import argparse
import json
import socket
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit


def ask(connection: socket.socket, request: bytes) -> bool:
    """Send a request, read its answer, and return whether it was good."""
    connection.sendall(request)
    got = b""
    while (end := got.find(b"\r\n\r\n")) < 0:
        part = connection.recv(1 << 18)
        if not part:
            return False
        got += part
    head = got[:end].lower()
    length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
    left = length - (len(got) - end - 4)
    while left > 0:
        part = connection.recv(1 << 18)
        if not part:
            return False
        left -= len(part)
    return head.startswith(b"http/1.1 200")


def main() -> None:
    """Load a server from a thread per connection."""
    parser = argparse.ArgumentParser()
    for name in ("--url", "--body", "--kind"):
        parser.add_argument(name, required=True)
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    given = parser.parse_args()
    parts, body = urlsplit(given.url), Path(given.body).read_bytes()
    head = (
        f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        f"Content-Type: {given.kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    request = head.encode() + body
    took: list[float] = []
    errors: list[str] = []
    end = time.perf_counter() + given.seconds

    def work() -> None:
        with socket.create_connection((parts.hostname, parts.port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (start := time.perf_counter()) < end:
                if not ask(connection, request):
                    errors.append("")
                    return
                took.append(time.perf_counter() - start)

    start = time.perf_counter()
    threads = [threading.Thread(target=work) for _ in range(given.connections)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    wall = time.perf_counter() - start
    took.sort()
    found = {
        "n": len(took),
        "errors": len(errors),
        "p50": 1e3 * took[len(took) // 2],
        "p99": 1e3 * took[int(0.99 * len(took))],
        "rate": len(took) / wall,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
