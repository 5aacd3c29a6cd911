"""Answers one request for decisions, of ``/predict`` or of the protocol v2."""

from collections.abc import Callable

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from openset.serve import _body
from openset.serve._body import BatchRequest
from openset.serve._connections import CURRENT
from openset.serve._errors import RequestError
from openset.serve._executor import Executor
from openset.serve._limits import Limits
from openset.serve._metrics import Metrics
from openset.serve._responses import BatchAnswer, Decider
from openset.serve._traffic import Traffic

Parse = Callable[[bytes], BatchRequest]
Write = Callable[[BatchAnswer], Response]


class Predict:
    """Answers requests for decisions."""

    def __init__(
        self,
        decider: Decider,
        metrics: Metrics,
        limits: Limits,
        traffic: Traffic | None,
    ) -> None:
        self._decider = decider
        self._metrics = metrics
        self._limits = limits
        self._traffic = traffic
        self._executor = Executor(always_threads=decider.model is not None)

    async def answer(self, request: Request) -> Response:
        """Answer ``POST /predict``."""
        kind = _body.accepted(request.headers.get("accept", ""))

        def parse(body: bytes) -> BatchRequest:
            return _body.parse(
                body,
                content_type=request.headers.get("content-type", ""),
                encoding=request.headers.get("content-encoding", ""),
                query=request.query_params,
                names=self._decider.names,
                takes_images=self._decider.takes_images,
                keep=self._decider.invalid == "reject",
                max_bytes=self._limits.max_bytes,
            )

        def write(one: BatchAnswer) -> Response:
            return Response(self._decider.written(one, kind), media_type=kind)

        return await self.decide(request, parse, write)

    async def decide(
        self, request: Request, parse: Parse, write: Write, *, key: str = "detail"
    ) -> Response:
        """Read, decide and answer; an error becomes a 4xx answer that says what.

        Parameters
        ----------
        request
            Its body is not read yet.
        parse, write
            From the body to the arrays, and from the decisions to the answer.
        key
            Of the message in the answer to a bad request.
        """
        headers = request.headers
        try:
            with self._limits.body() as body:
                content = await body.read(
                    request.receive,
                    headers.get("content-type", ""),
                    headers.get("content-length"),
                )
                connection = CURRENT.get()
                if connection is not None:
                    connection.work()
                with self._limits.working():
                    one, response = await self._executor.run(
                        lambda: self._work(content, parse, write), len(content)
                    )
        except ClientDisconnect:
            # The client is gone; only the metrics see this.
            return Response(status_code=499)
        except RequestError as error:
            more = {503: {"Retry-After": "1"}, 408: {"Connection": "close"}}
            return JSONResponse(
                {key: str(error)},
                status_code=error.status,
                headers=more.get(error.status),
            )
        self._metrics.samples(one.decisions)
        return response

    def _work(
        self, content: bytes, parse: Parse, write: Write
    ) -> tuple[BatchAnswer, Response]:
        try:
            asked = parse(content)
            one = self._decider(asked)
            if self._traffic is not None and one.outputs is not None:
                ids = asked.ids if asked.ids is None else asked.ids[one.has_outputs]
                self._traffic.add(one.outputs, ids)
            return one, write(one)
        except RequestError:
            raise
        except ValueError as error:
            raise RequestError(422, str(error)) from error
        except MemoryError as error:
            msg = "predict: the batch must fit into memory, got one that does not"
            raise RequestError(413, msg) from error
