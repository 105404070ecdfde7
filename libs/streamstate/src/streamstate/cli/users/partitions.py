"""`streamstate route`, `lag` and `top`: the owners of keys, and the progress of services, from the gateway."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
import typer
from rich.console import RenderableType
from rich.text import Text

from streamstate.cli import output
from streamstate.cli.output import AsJson, Exit
from streamstate.cli.services import Service, Services, gateway

SYSTEM = "/v1/system"

Key = Annotated[str, typer.Argument()]


class PartitionLag(msgspec.Struct):
    """A partition of a service: the address of its owner, None without owner, and its missing records."""

    service: str
    partition: int
    owner: str | None
    ready: bool
    lag: int


def route(service: Service, key: Key, *, as_json: AsJson = False) -> None:
    """Show the partition of a key, its owner and lag."""
    answer = gateway().get(f"/v1/route/{quote(service, safe='')}/{quote(key, safe='')}")
    columns = ("view", "topic", "partition", "owner", "epoch", "ready", "lag")
    rows = [["-" if view[column] is None else view[column] for column in columns] for view in answer["views"]]
    output.show(answer, output.table(columns, rows), as_json=as_json)


def lag(services: Services = None, *, as_json: AsJson = False) -> None:
    """Show lag, in records, and owner of each partition."""
    asked = gateway()
    names = services or [of["name"] for of in asked.get(SYSTEM)["services"]]
    answer = [
        PartitionLag(name, held["partition"], held["owner"], held["ready"], _lag(held))
        for name in names
        for held in asked.get(f"/v1/{quote(name, safe='')}/processors")["partitions"]
    ]
    rows = [(p.service, p.partition, p.owner or "-", "ready" if p.ready else "not ready", f"{p.lag:,}") for p in answer]
    output.show(answer, output.table(("service", "partition", "owner", "state", "lag"), rows), as_json=as_json)
    if not all(p.ready for p in answer):
        raise typer.Exit(Exit.REFUSED)


def top(*, as_json: AsJson = False) -> None:
    """Show reads, lag, freshness, dead letters and instances until Ctrl-C; with --json, once."""
    asked = gateway()
    if as_json:
        output.document(asked.get(SYSTEM))
        return
    with suppress(KeyboardInterrupt), output.live() as show:
        for event in asked.follow(f"{SYSTEM}/stream", lambda error: show(Text(str(error)))):
            show(_busiest(msgspec.json.decode(event.data)["services"]))


def _lag(held: Mapping[str, Any]) -> int:
    return sum(max(0, end - held["positions"].get(topic, 0)) for topic, end in held["ends"].items())


def _busiest(services: Sequence[Mapping[str, Any]]) -> RenderableType:
    columns = ("service", "state", "reads/s", "lag", "behind", "dead letters", "instances")
    ranked = sorted(services, key=lambda of: (-of["readsPerSecond"], of["name"]))
    return output.table(columns, map(_row, ranked))


def _row(of: Mapping[str, Any]) -> tuple[object, ...]:
    """`behind` is the time since the state last had all records of its topics."""
    state = "ready" if of["ready"] else f"{of['progress']:.0%} built"
    behind = "-" if of["freshnessMs"] is None else f"{of['freshnessMs']:,} ms"
    instances = {owner["address"] for owner in of["owners"] if owner["state"] != "none"}
    counts = (f"{of['readsPerSecond']:,.1f}", f"{of['lag']:,}", behind, f"{of['deadLetters']:,}")
    return of["name"], state, *counts, len(instances)
