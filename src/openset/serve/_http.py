"""HTTP on a connection: uvicorn's, with a shorter way for large bodies.

uvicorn cuts a body into pieces and hands each to the application: three copies and a
turn of the event loop for every 64 KiB. A batch of declared length is read here by the
socket itself into the memory it stays in; nothing looks at its bytes before the arrays
are made.
"""

import asyncio
from collections.abc import Collection
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import (
    HttpToolsProtocol,
    RequestResponseCycle,
)

from openset.serve._body_limits import UPLOAD, BodyLimits, Reservation, Upload
from openset.serve._errors import RequestError

_LONGEST_HEAD = 128 << 10  # bytes, or one read more
_MOST_IGNORED = 16 << 20  # bytes read, and dropped, after an answer that came early


class HttpConnection(asyncio.BufferedProtocol, HttpToolsProtocol):  # type: ignore[misc]
    """One connection."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits: BodyLimits = self.config.app.state.limits  # type: ignore[union-attr]
        self._upload: Upload | None = None
        self._ignored = 0
        self._of_head = 0  # bytes of headers (or trailers) that have not ended

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; requests that are sent ahead are not read without end."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self.flow = _Flow(self.transport, self.pipeline)

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:
        """Give the place the socket writes to."""
        return self._limits.scratch if self._upload is None else self._upload.rest

    def buffer_updated(self, nbytes: int) -> None:
        """Take what the socket wrote."""
        if self._upload is None:
            self._of_head += nbytes
            self.data_received(bytes(self._limits.scratch[:nbytes]))
            is_long = self._of_head > _LONGEST_HEAD  # the parser would keep all of it
            if is_long and not self.transport.is_closing():
                self.send_400_response(f"Headers of more than {_LONGEST_HEAD} bytes.")
            return
        self._upload.grow(nbytes)
        if self._upload.is_complete:
            self._finish()

    def on_headers_complete(self) -> None:
        """Begin a request; a large body of it comes the short way."""
        self._ignored = self._of_head = 0
        self._upload = self._begun()
        if self._upload is not None:
            self.scope[UPLOAD] = self._upload  # type: ignore[literal-required]
        super().on_headers_complete()
        if self._upload is not None and self.cycle.waiting_for_100_continue:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.cycle.waiting_for_100_continue = False
        self.cycle.transport = _OneWrite(self.cycle)  # type: ignore[assignment]

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._of_head = 0
        if self._upload is not None:  # what came together with the headers
            self._upload.rest[: len(body)] = body
            self._upload.grow(len(body))
            return
        super().on_body(body)
        if self.cycle.response_complete:
            # Whoever sends on after the answer may do so for a while: closed at once,
            # the connection would take the answer with it.
            self._ignored += len(body)
            if self._ignored > _MOST_IGNORED:
                self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the application, if it waits."""
        if self._upload is not None:
            self._upload.lose()
            self._upload = None
        super().connection_lost(exc)

    def _begun(self) -> Upload | None:
        """Make room for a body that comes the short way, or return None."""
        size = self._declared()
        if size is None:
            return None
        hold = Reservation(self._limits)
        try:
            hold.grow_to(size)
        except RequestError:
            return None  # the application says it again, to the client
        return Upload(hold, size)

    def _declared(self) -> int | None:
        """Return the length of a body that may come the short way, or None."""
        is_predict = self.url.partition(b"?")[0] == b"/predict"
        if not is_predict or self.parser.get_method() != b"POST":
            return None
        if self.cycle is not None and not self.cycle.response_complete:
            return None  # pipelined: its turn comes later, or never
        headers = dict(self.headers)
        length = headers.get(b"content-length", b"")
        if b"transfer-encoding" in headers or not length.isdigit() or len(length) > 19:
            return None
        size = int(length)
        # A shorter one may already be here as a whole, in the scratch.
        least = len(self._limits.scratch)
        return size if least < size <= self._limits.max_bytes else None

    def _finish(self) -> None:
        self._upload = None
        self.cycle.more_body = False
        self.cycle.message_event.set()
        # The parser still waits for this body; the next request gets a new one.
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)


class _Flow(FlowControl):
    """Reads no further while requests wait that were sent ahead.

    Each answer would let more of them in than it takes away. All of the request that
    is being answered has come by then, so nobody waits for the rest of it.
    """

    def __init__(self, transport: asyncio.Transport, waiting: Collection[Any]) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()


class _OneWrite:
    """Holds the head of an answer back until its body comes: one packet, not two.

    To send one takes the system about as long as a cheap detector takes for a batch.
    """

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._transport = cycle.transport
        self._head: bytes | None = None
        self._then = cycle.on_response
        cycle.on_response = self._done

    def write(self, data: bytes) -> None:
        if not self._cycle.response_started:  # 100 Continue
            self._transport.write(data)
        elif self._head is None:
            self._head = data
        else:
            self._transport.write(self._head + data)
            self._head = b""

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def _done(self) -> None:
        self._flush()
        self._then()

    def _flush(self) -> None:
        if self._head:  # an answer without a body
            self._transport.write(self._head)
            self._head = b""
