"""Static pages of a process. Their files are read once, and load nothing from another server."""

import hashlib
from collections.abc import Iterable
from http import HTTPStatus
from importlib.resources.abc import Traversable
from pathlib import PurePath

from werkzeug.exceptions import NotFound

from streamstate.web.http.request import Request, Response
from streamstate.web.server.route import Handler

INDEX = "index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""A client caches a file, and revalidates it by its ETag."""


def static(files: Iterable[Traversable]) -> Handler:
    """A view that answers with the file of `files` named by its argument; without an argument, with `INDEX`.

    The view raises `NotFound` for another name.
    """
    answers = {file.name: _answer(file) for file in files}

    async def file(request: Request, name: str = INDEX) -> Response:
        if name not in answers:
            raise NotFound
        answer = answers[name]
        unchanged = answer.headers["ETag"] in request.headers.get("if-none-match", "")
        return answer._replace(status=HTTPStatus.NOT_MODIFIED, body=b"") if unchanged else answer

    return file


def _answer(file: Traversable) -> Response:
    body = file.read_bytes()
    tag = hashlib.sha256(body).hexdigest()[:16]
    return Response(200, body, {"Content-Type": TYPES[PurePath(file.name).suffix], "ETag": f'"{tag}"', **HEADERS})
