"""``POST /predict``: answers one request."""

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from openset.serve import _body
from openset.serve._body_limits import UPLOAD, BodyLimits, Reservation
from openset.serve._errors import RequestError
from openset.serve._executor import Executor
from openset.serve._metrics import Metrics
from openset.serve._npy import Buffer
from openset.serve._responses import BatchAnswer, Decider


class Predict:
    """Answers requests for decisions."""

    def __init__(self, decider: Decider, metrics: Metrics, limits: BodyLimits) -> None:
        self._decider = decider
        self._metrics = metrics
        self._limits = limits
        self._executor = Executor()

    async def answer(self, request: Request) -> Response:
        """Answer a request; an error becomes a 4xx answer that says what is wrong."""
        upload = request.scope.get(UPLOAD)
        hold = Reservation(self._limits) if upload is None else upload.hold
        kind = _body.accepted(request.headers.get("accept", ""))
        try:
            body = await self._limits.read(request, hold)
            one, content = await self._executor.run(
                lambda: self._work(request, body, kind), len(body)
            )
        except ClientDisconnect:
            return Response(
                status_code=499
            )  # the client is gone; only the metrics see this
        except RequestError as error:
            later = {"Retry-After": "1"} if error.status == 503 else None
            document = {"detail": str(error)}
            return JSONResponse(document, status_code=error.status, headers=later)
        finally:
            hold.release()
        self._metrics.samples(one.decisions.scores.known, one.n_unknown)
        return Response(content, media_type=kind)

    def _work(
        self, request: Request, body: Buffer, kind: str
    ) -> tuple[BatchAnswer, bytes]:
        try:
            asked = _body.parse(
                body,
                content_type=request.headers.get("content-type", ""),
                encoding=request.headers.get("content-encoding", ""),
                query=request.query_params,
                names=self._decider.names,
                max_bytes=self._limits.max_bytes,
            )
            one = self._decider(asked)
            return one, self._decider.written(one, kind)
        except RequestError:
            raise
        except ValueError as error:
            raise RequestError(422, str(error)) from error
        except MemoryError as error:
            msg = "predict: the batch must fit into memory, got one that does not"
            raise RequestError(413, msg) from error
