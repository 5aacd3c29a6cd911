"""An HTTP connection: uvicorn's, with a faster path for large bodies.

uvicorn hands a body to the application in pieces: three copies and a turn of the event
loop for every 64 KiB. Here the socket writes a body of declared length straight into
the memory the arrays are made from.
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

_LONGEST_HEAD = 128 << 10  # bytes; one read more may arrive before it is noticed
_OFFER = (b"upgrade", b"http2-settings")  # headers of an offer to change the protocol
_MOST_IGNORED = 16 << 20  # bytes of a body read and dropped after an early answer


class HttpConnection(asyncio.BufferedProtocol, HttpToolsProtocol):  # type: ignore[misc]
    """One connection."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits: BodyLimits = self.config.app.state.limits  # type: ignore[union-attr]
        self._upload: Upload | None = None
        self._is_offer = False
        self._ignored = 0
        self._of_head = 0  # bytes of headers (or trailers) that have not ended

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start a connection with a limit on requests that are sent ahead."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self.flow = _Flow(self.transport, self.pipeline)

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:
        """Return the memory the socket writes to."""
        return self._limits.scratch if self._upload is None else self._upload.rest

    def buffer_updated(self, nbytes: int) -> None:
        """Process what the socket wrote."""
        if self._upload is None:
            self._of_head += nbytes
            self.data_received(bytes(self._limits.scratch[:nbytes]))
            is_long = (
                self._of_head > _LONGEST_HEAD
            )  # the parser would keep them all in memory
            if is_long and not self.transport.is_closing():
                self.send_400_response(f"Headers of more than {_LONGEST_HEAD} bytes.")
            return
        self._upload.grow(nbytes)
        if self._upload.is_complete:
            self._finish()

    def data_received(self, data: bytes) -> None:
        """Process bytes; an offer to change the protocol is not taken up.

        Java's client and ``curl --http2`` offer HTTP/2 (``Upgrade: h2c``) with their
        first request. The parser then takes the body for the other protocol, so the
        request is parsed again without the offer.
        """
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            if not self._is_offer:  # CONNECT, which is answered already
                return
            (start,) = offer.args
            head = self._without_offer()
            self._is_offer = False
            self._renew_parser()
            self.data_received(head + data[start:])
        except httptools.HttpParserError:
            msg = "Invalid HTTP request received."
            self.logger.warning(msg)
            self.send_400_response(msg)

    def _without_offer(self) -> bytes:
        """Write the head of the request again, without the offer."""
        version = b"HTTP/" + self.parser.get_http_version().encode()
        lines = [b" ".join([self.parser.get_method(), self.url, version])]
        for name, value in self.headers:
            if name == b"connection":
                words = [word.strip() for word in value.split(b",")]
                kept = [word for word in words if word.lower() not in _OFFER]
                lines.append(b"connection: " + b", ".join(kept))
            elif name not in _OFFER:
                lines.append(name + b": " + value)
        return b"\r\n".join([*lines, b"", b""])

    def on_message_complete(self) -> None:
        """End a request."""
        if not self._is_offer:
            super().on_message_complete()

    def on_headers_complete(self) -> None:
        """Start a request; a large body takes the fast path."""
        is_connect = self.parser.get_method() == b"CONNECT"
        self._is_offer = self.parser.should_upgrade() and not is_connect
        if self._is_offer:
            return  # see data_received
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
        """Process a piece of a body."""
        self._of_head = 0
        if self._upload is not None:  # what arrived together with the headers
            self._upload.rest[: len(body)] = body
            self._upload.grow(len(body))
            return
        super().on_body(body)
        if self.cycle.response_complete:
            # A client may go on sending after an early answer (413, say). If the
            # connection were closed at once, the client could lose that answer.
            self._ignored += len(body)
            if self._ignored > _MOST_IGNORED:
                self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the application, if it waits for a body."""
        if self._upload is not None:
            self._upload.lose()
            self._upload = None
        super().connection_lost(exc)

    def _begun(self) -> Upload | None:
        """Reserve memory for a body on the fast path; None if it takes the other."""
        size = self._declared()
        if size is None:
            return None
        hold = Reservation(self._limits)
        try:
            hold.grow_to(size)
        except RequestError:
            return None  # the application meets the same limit and answers 503
        return Upload(hold, size)

    def _declared(self) -> int | None:
        """Return the length of a body that may take the fast path, else None."""
        is_predict = self.url.partition(b"?")[0] == b"/predict"
        if not is_predict or self.parser.get_method() != b"POST":
            return None
        if self.cycle is not None and not self.cycle.response_complete:
            return None  # pipelined: it has to wait for its turn
        headers = dict(self.headers)
        length = headers.get(b"content-length", b"")
        if b"transfer-encoding" in headers or not length.isdigit() or len(length) > 19:
            return None
        size = int(length)
        # A shorter body may have arrived whole with the headers.
        least = len(self._limits.scratch)
        kind = headers.get(b"content-type", b"").decode("latin-1")
        return size if least < size <= self._limits.largest(kind) else None

    def _finish(self) -> None:
        self._upload = None
        self.cycle.more_body = False
        self.cycle.message_event.set()
        # The parser never saw this body and still waits for it: make a new one.
        self._renew_parser()

    def _renew_parser(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)


class _Flow(FlowControl):
    """Stops reading while pipelined requests wait for their answers.

    Otherwise each answer would let in more requests than it finishes. The request that
    is being answered has arrived completely by then.
    """

    def __init__(self, transport: asyncio.Transport, waiting: Collection[Any]) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()


class _OneWrite:
    """Sends the headers of an answer together with its body: one packet, not two.

    Sending a packet takes about as long as a cheap detector needs for a batch.
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
