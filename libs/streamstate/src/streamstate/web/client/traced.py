"""A span of each call of another instance that is made for a request."""

from collections.abc import Mapping

from streamstate.deployment.logs import TRACE_PARENT
from streamstate.deployment.spans import Spans
from streamstate.web.client.connections import Connections
from streamstate.web.http.request import Response


class TracedConnections(Connections):
    """Calls in the trace of the `traceparent` that they have; those without one are made in the background."""

    def __init__(self, spans: Spans) -> None:
        super().__init__()
        self._spans = spans

    async def get(self, address: str, target: str, headers: Mapping[str, str]) -> Response:
        if TRACE_PARENT not in headers:
            return await super().get(address, target, headers)
        with self._spans.call(address, headers[TRACE_PARENT]) as span:
            answer = await super().get(address, target, {**headers, TRACE_PARENT: self._spans.parent(span)})
            span.set_attribute("http.response.status_code", answer.status)
            return answer
