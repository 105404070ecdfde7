"""A server as a process of its own, asked byte by byte."""

import json
import socket
from contextlib import AbstractContextManager
from functools import partial
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

from devkit.servers.child_process import Child
from tests.serving import new_address, running
from tests.waiting import REQUEST_S

KNOWN = "/v1/numbers/7"


def serving(home: Path, **settings: str) -> AbstractContextManager[Child]:
    """The process of an API, named by its address; a single number exists."""
    address = new_address()
    return running("tests.unit.web", address, home, {"ADVERTISE": address, **settings}, f"http://{address}{KNOWN}")


def connect(address: str) -> socket.socket:
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=REQUEST_S)


def request(path: str, *headers: str, method: str = "GET") -> bytes:
    """A request with these header lines."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: here", *headers, "", ""]).encode()


def post(body: bytes, *headers: str) -> bytes:
    """A request for many keys."""
    return request("/v1/many", *headers, method="POST") + body


def whole(client: socket.socket) -> bytes:
    """All that comes until the server closes."""
    return b"".join(iter(partial(client.recv, 65_536), b""))


def ask(client: socket.socket, sent: bytes) -> tuple[HTTPResponse, Any]:
    """The answer to these bytes on a connection: the response, and its JSON."""
    client.sendall(sent)
    response = HTTPResponse(client)
    response.begin()
    return response, json.loads(response.read())


def answer(address: str, sent: bytes) -> tuple[HTTPResponse, Any]:
    """The same on a new connection."""
    with connect(address) as client:
        return ask(client, sent)
