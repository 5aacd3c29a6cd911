"""uvicorn, stopped so gently that no accepted request is lost."""

import asyncio
import logging
import signal
import socket
from contextlib import suppress
from types import FrameType

import uvicorn
from fastapi import FastAPI

_LINGER = 0.5  # seconds an open connection has to send its last request
_LOG = logging.getLogger("uvicorn.error")


class Server(uvicorn.Server):
    """A server that says goodbye.

    Left alone, uvicorn drops two kinds of requests at the signal: those on their way
    over a connection that is between two requests, which it closes at once, and those
    over connections the system has accepted and the server not yet. Here the latter
    are taken in, and open connections stay a moment longer; the answer to their next
    request says that it is the last one (``Connection: close``).
    """

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, answer what comes over open connections, then close."""
        self.config.app.state.stopping = True  # type: ignore[union-attr]
        await self._take_in(sockets or [])
        loop = asyncio.get_running_loop()
        end = loop.time() + _LINGER
        while self.server_state.connections and loop.time() < end:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)

    async def _take_in(self, listening: list[socket.socket]) -> None:
        loop = asyncio.get_running_loop()
        for one in listening:
            loop.remove_reader(one.fileno())
        for _ in range(3):
            await asyncio.sleep(0)  # let connections in the making be made
        waiting = []
        for one in listening:
            with suppress(BlockingIOError):
                while True:
                    waiting.append(one.accept()[0])
        for server in self.servers:
            server.close()  # at once: whoever connects from here on is refused
        for connection in waiting:
            connection.settimeout(0)
            await loop.connect_accepted_socket(self._protocol, connection)

    def _protocol(self) -> asyncio.Protocol:
        kind = self.config.http_protocol_class
        return kind(  # type: ignore[call-arg]
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note the signal; a second Ctrl-C does not wait."""
        # uvicorn would raise the signal again at the end: a clean stop is exit code 0.
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True


def run(application: FastAPI, *, host: str, port: int, stop_seconds: float) -> None:
    """Serve until a signal; see :func:`openset.serve.run`."""
    config = uvicorn.Config(
        application,
        timeout_graceful_shutdown=max(1, round(stop_seconds)),
        access_log=False,  # /metrics counts them
        server_header=False,
        lifespan="off",
    )
    is_v6 = ":" in host
    with _listening(host, port, is_v6=is_v6) as one:
        taken = one.getsockname()[1]
        _LOG.info("Serving at http://%s:%d", f"[{host}]" if is_v6 else host, taken)
        Server(config).run(sockets=[one])


def _listening(host: str, port: int, *, is_v6: bool) -> socket.socket:
    family = socket.AF_INET6 if is_v6 else socket.AF_INET
    # The protocol must be named: asyncio turns Nagle's algorithm off only for sockets
    # that say they are TCP, and with it on every answer waits 40 ms for an ACK.
    one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind((host, port))
        one.listen(2048)
    except OSError as error:
        one.close()
        msg = f"openset.serve.run: cannot listen on {host} port {port}: {error}"
        raise OSError(msg) from error
    return one
