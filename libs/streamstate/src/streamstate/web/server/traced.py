"""A span of each request, from the moment when it came to the head of its answer."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from streamstate.deployment.logs import TRACE_PARENT
from streamstate.deployment.spans import Spans

Handle = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]

ANSWERS = "/v1/"
"""The paths of which there are spans begin so: probes and maps are asked for all the time."""

_NAME = TRACE_PARENT.encode()


def traced(handle: Handle, spans: Spans) -> Handle:
    """`handle`, which answers HTTP and says in `scope["route"]` for which route, with a span of each request.

    The request has the `traceparent` of its span from then on, so that logs and calls of others are in its trace.
    """

    async def answer(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if not scope["path"].startswith(ANSWERS):
            await handle(scope, receive, send)
            return
        fields = scope["headers"]
        with spans.request(scope["method"], dict(fields).get(_NAME, b"").decode("latin-1")) as span:

            async def tell(message: MutableMapping[str, Any]) -> None:
                await send(message)
                if message["type"] == "http.response.start":
                    spans.answered(span, scope["route"], message["status"])

            others = [(name, text) for name, text in fields if name != _NAME]
            scope["headers"] = [*others, (_NAME, spans.parent(span).encode())]
            await handle(scope, receive, tell)

    return answer
