"""`streamstate route`, `lag` and `top`: where keys are answered, and how far the services are, by the gateway's map."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated
from urllib.parse import quote

import msgspec
import typer
from rich.console import RenderableType
from rich.live import Live

from streamstate.cli import output
from streamstate.cli.output import AsJson, Exit
from streamstate.cli.services import Service, beginning
from streamstate.cli.users.gateway import Gateway, gateway

PAUSE_S = 2.0
_MAP = "/processors"
Named = Annotated[list[str], typer.Argument(metavar="SERVICE", help="Services.", autocompletion=beginning)]
Positions = Mapping[str, int]


class PartitionLag(msgspec.Struct):
    """A partition of a service: the address of its owner, None for nobody, and records that its state lacks."""

    service: str
    partition: int
    owner: str | None
    ready: bool
    lag: int


class Activity(msgspec.Struct):
    """A service: records folded a second, records that its states lack, and its instances that own partitions."""

    service: str
    records_per_s: float
    lag: int
    instances: int


class _Partition(msgspec.Struct):
    partition: int
    owner: str | None
    ready: bool
    positions: Positions
    ends: Positions

    @property
    def lag(self) -> int:
        return sum(max(0, end - self.positions.get(topic, 0)) for topic, end in self.ends.items())


class _Processors(msgspec.Struct):
    """What is used here of the map that an instance gives."""

    service: str
    partitions: list[_Partition]


def route(
    service: Service,
    key: Annotated[str, typer.Argument(help="Key, as it stands in a path.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Show which partition a key is in, and which instance answers for it."""
    answer = gateway().get(f"/v1/route/{quote(service, safe='')}/{quote(key, safe='')}")
    columns = ("view", "topic", "partition", "owner", "epoch", "ready", "lag")
    rows = [["-" if view[column] is None else view[column] for column in columns] for view in answer["views"]]
    output.show(answer, output.table(columns, rows), as_json=as_json)


def lag(services: Named, *, as_json: AsJson = False) -> None:
    """Show how many records each partition lacks, and who owns it.

    The exit status is 1 when a partition is not ready.
    """
    asked = gateway()
    answer = [
        PartitionLag(of.service, p.partition, p.owner, p.ready, p.lag)
        for of in _maps(asked, services)
        for p in of.partitions
    ]
    rows = [(p.service, p.partition, p.owner or "-", "ready" if p.ready else "not ready", f"{p.lag:,}") for p in answer]
    output.show(answer, output.table(("service", "partition", "owner", "state", "lag"), rows), as_json=as_json)
    if not all(p.ready for p in answer):
        raise typer.Exit(Exit.REFUSED)


def top(services: Named, *, as_json: AsJson = False) -> None:
    """Show which services fold the most records a second, until Ctrl-C; with --json, once."""
    asked = gateway()
    before, since = list(_maps(asked, services)), time.monotonic()

    def seen() -> list[Activity]:
        nonlocal before, since
        time.sleep(PAUSE_S)
        now, at = list(_maps(asked, services)), time.monotonic()
        made = activity(before, now, at - since)
        before, since = now, at
        return made

    if as_json:
        output.document(seen())
        return
    with suppress(KeyboardInterrupt), Live(_table(activity(before, before, 1.0)), auto_refresh=False) as live:
        while True:
            live.update(_table(seen()), refresh=True)


def activity(before: Sequence[_Processors], now: Sequence[_Processors], seconds: float) -> list[Activity]:
    """What the services did in the `seconds` between two looks, the busiest first."""
    read = {of.service: _read(of) for of in before}
    made = [
        Activity(
            of.service,
            max(0, _read(of) - read[of.service]) / seconds,
            sum(p.lag for p in of.partitions),
            len({p.owner for p in of.partitions if p.owner}),
        )
        for of in now
    ]
    return sorted(made, key=lambda each: (-each.records_per_s, each.service))


def _read(of: _Processors) -> int:
    """Records that the states have read; after a reset, fewer than before."""
    return sum(sum(p.positions.values()) for p in of.partitions)


def _table(activities: Sequence[Activity]) -> RenderableType:
    rows = [(each.service, f"{each.records_per_s:,.0f}", f"{each.lag:,}", each.instances) for each in activities]
    return output.table(("service", "records/s", "lag", "instances"), rows)


def _maps(asked: Gateway, services: Iterable[str]) -> Iterable[_Processors]:
    for service in services:
        yield msgspec.convert(asked.get(f"/v1/{quote(service, safe='')}{_MAP}"), _Processors)
