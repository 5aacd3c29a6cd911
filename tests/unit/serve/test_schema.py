"""Schemathesis reads the OpenAPI schema and sends what a tester would not think of."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from openset import serve

schemathesis = pytest.importorskip("schemathesis", reason="a foreign tester")
from schemathesis import GenerationMode  # noqa: E402  # after the guard
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
OPERATIONS = [  # nothing can be wrong with a request that has no parameters
    ("POST", "/predict", "positive"),
    ("POST", "/predict", "negative"),
    ("GET", "/healthz", "positive"),
    ("GET", "/metrics", "positive"),
    ("GET", "/rejector", "positive"),
]


@pytest.mark.parametrize(("method", "path", "mode"), OPERATIONS)
def test_no_request_finds_a_server_error_or_an_undescribed_answer(
    rejector, method, path, mode
):
    ask(rejector, method, path, mode)


def ask(rejector, method, path, mode):
    """Send a hundred requests; return the statuses of their answers."""
    application = serve.app(rejector, max_bytes=1 << 20)
    schema = schemathesis.openapi.from_asgi("/openapi.json", application)
    strategy = schema[path][method].as_strategy(generation_mode=GenerationMode(mode))
    statuses = set()

    @given(case=strategy)
    @settings(
        max_examples=100,
        deadline=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def send(case):
        answer = case.call()
        statuses.add(answer.status_code)
        assert answer.status_code < 500, answer.text
        # Methods and paths that do not exist are described by HTTP itself.
        if answer.status_code not in {404, 405}:
            case.validate_response(answer, checks=CHECKS)

    send()
    assert statuses
    return statuses
