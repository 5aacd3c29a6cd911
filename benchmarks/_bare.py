"""The least a server can do: read a body into memory, and answer two bytes.

Plain sockets, a thread for each connection, no HTTP beyond the length of the body: what
is left is the way of the bytes through the system.
"""

import re
import socket
import sys
import threading

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def talk(connection: socket.socket) -> None:
    """Read body after body."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    place = memoryview(bytearray(64 << 20))
    head = b""
    while True:
        got = connection.recv(64 << 10)
        if not got:
            return
        head += got
        found = re.search(rb"(?i)content-length: *(\d+).*?\r\n\r\n", head, re.DOTALL)
        if found is None:
            continue
        size, n = int(found[1]), len(head) - found.end()
        place[:n] = head[found.end() :]
        while n < size:
            n += connection.recv_into(place[n:size])
        connection.sendall(_ANSWER)
        head = b""


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        print(f"http://127.0.0.1:{port}", file=sys.stderr, flush=True)
        while True:
            connection, _ = listening.accept()
            threading.Thread(target=talk, args=(connection,), daemon=True).start()
