"""What a user would write without `openset serve`: FastAPI on uvicorn, as they come."""

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from fastapi import FastAPI, Request
from pydantic import BaseModel

from openset import Outputs, Rejector

rejector = Rejector.load(Path(sys.argv[1]))
app = FastAPI()


class Batch(BaseModel):
    """A request as JSON."""

    logits: list[list[float]]
    features: list[list[float]] | None = None


def answer(outputs: Outputs) -> dict[str, Any]:
    """Decide, and answer as our server does."""
    decided = rejector.decide(outputs)
    return {
        "decisions": decided.labels.tolist(),
        "names": [rejector.name_of(label) for label in decided.labels.tolist()],
        "predicted": decided.predicted.tolist(),
        "known": decided.known.tolist(),
        "threshold": rejector.threshold.value,
        "n_unknown": decided.n_rejected,
    }


@app.post("/json")
def from_json(batch: Batch) -> dict[str, Any]:
    """Decide on rows."""
    features = None if batch.features is None else np.array(batch.features)
    return answer(Outputs(logits=np.array(batch.logits), features=features))


@app.post("/binary")
async def from_binary(request: Request) -> dict[str, Any]:
    """Decide on the arrays of a .npz."""
    with np.load(io.BytesIO(await request.body())) as arrays:
        return answer(Outputs(**arrays))


if __name__ == "__main__":
    uvicorn.run(app, port=0, access_log=False)
