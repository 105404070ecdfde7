"""Reads over HTTP by several clients at once, each on a kept-alive connection."""

import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

CLIENTS = 16


@dataclass(frozen=True)
class Reads:
    """What the clients saw: answers a second, and milliseconds in the middle and for the slowest hundredth."""

    per_second: float
    p50_ms: float
    p99_ms: float


def measure(address: str, paths: Sequence[str], seconds: float, clients: int = CLIENTS) -> Reads:
    """Ask `paths` in turn for `seconds`, by `clients` at once. Raises `ConnectionError` when an answer is not 200."""
    times: list[float] = []
    failures: list[Exception] = []
    end = time.monotonic() + seconds

    def client(first: int) -> None:
        try:
            with connect(address) as connection:
                for at in range(first, 10**9, clients):
                    if time.monotonic() > end:
                        return
                    started = time.perf_counter()
                    path = paths[at % len(paths)]
                    if (status := ask(connection, path)) != 200:
                        msg = f"{path} answered {status}"
                        raise ConnectionError(msg)
                    times.append(time.perf_counter() - started)
        except OSError as error:
            failures.append(error)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return Reads(len(times) / seconds, percentile(times, 0.5) * 1000, percentile(times, 0.99) * 1000)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that is not below `share` (0 to 1) of `values`."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def connect(address: str) -> socket.socket:
    """A connection to `address` (host:port)."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def ask(connection: socket.socket, path: str) -> int:
    """The status of the answer, which is read to its end. Raises `ConnectionError` when the server closes."""
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    found = b""
    while b"\r\n\r\n" not in found:
        found += _some(connection)
    head, _, body = found.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += _some(connection)
    return int(head.split(maxsplit=2)[1])


def _some(connection: socket.socket) -> bytes:
    some = connection.recv(65_536)
    if not some:
        msg = "the server closed the connection"
        raise ConnectionError(msg)
    return some
