"""The page of the rights at Kafka and Redis, made from the declarations of the services."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from devkit.docs.tables import table
from devkit.registry import SERVICES, app
from services.gateway.access import limits
from services.gateway.settings import AccessSettings
from streamstate.app import App
from streamstate.kafka.security import rights as kafka
from streamstate.kafka.security.rights import Right
from streamstate.settings import ServiceSettings
from streamstate.state import redis_rights as redis

PATH = Path("docs/rights.md")
DELETIONS = ServiceSettings.model_fields["deletions"].default
INPUTS, DERIVED, TOTALS = "inputs", "derived topics", "totals"
_HEAD = """# Rights at Kafka and Redis

Made from the source by `make docs`; the tests run with exactly these rights. `streamstate acl kafka SERVICE` and
`streamstate acl redis SERVICE` print the commands for a deployment, by its name. `--operator` adds the rights for
`verify`, `skip`, `allow`, `reset`, `restore` and `dlq`; `backup`, and `unload` without `--snapshot`, need the user
`backup`. Stream and API share a user; an API alone needs Describe of its topics, and fewer commands of Redis.
"""


_ARCHIVER = "`streamstate archive acl TOPIC …` prints the rights of an [archiver](history.md#the-archiver).\n"


def text() -> str:
    """The whole page."""
    rights = {row for service in SERVICES for row in _rights(app(service))}
    return "\n".join(
        [
            _HEAD,
            "## Kafka\n",
            table(("resource", "name", "operations", "operator, besides", "for"), sorted(rights)),
            table(("service", INPUTS, DERIVED, TOTALS), (_topics(service, app(service)) for service in SERVICES)),
            _ARCHIVER,
            "## Redis\n",
            table(("user", "keys", "commands"), _redis()),
        ]
    )


def _rights(service: App) -> Iterable[tuple[str, ...]]:
    """The rows of resources of `service`: operations of the service, further operations of an operator, purpose."""
    users = {"service": kafka.of_service(service, DELETIONS), "operator": kafka.of_operators(service)}
    granted: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    purposes: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for user, rights in users.items():
        for right in rights:
            name = _name(service, right)
            granted[right.kind, name][user] = ", ".join(right.operations)
            purposes[right.kind, name][right.why] = None
    for resource, operations in granted.items():
        yield *resource, operations.get("service", ""), operations.get("operator", ""), "; ".join(purposes[resource])


def _name(service: App, right: Right) -> str:
    """The role of a topic of `service`, else the resource's name, where SERVICE stands for the service's name."""
    if right.kind != "topic" or right.name == service.dead_letters:
        return f"`{right.name.replace(service.name, 'SERVICE', 1)}`"
    roles = {
        DELETIONS: f"`{DELETIONS}`",
        **dict.fromkeys(_derived(service), DERIVED),
        **dict.fromkeys(_totals(service), TOTALS),
    }
    return roles.get(right.name, INPUTS)


def _derived(service: App) -> Sequence[str]:
    return [service.output(topic) for topic in service.emits]


def _totals(service: App) -> Sequence[str]:
    return [totals.topic for totals in service.totals]


def _topics(name: str, service: App) -> Sequence[str]:
    roles = (dict.fromkeys(service.topics), _derived(service), _totals(service))
    return name, *(", ".join(f"`{topic}`" for topic in topics) for topics in roles)


def _redis() -> Iterable[Sequence[str]]:
    of_limits = redis.commands([limits.SCRIPT]) | {*redis.RUNNING, *redis.CONNECTION, *redis.CLUSTER}
    prefix = AccessSettings.model_fields["limits_prefix"].default
    service, own = redis.of_service(), " ".join(f"~{key}" for key in redis.keys("SERVICE"))
    users = {
        "stream and API": (own, service),
        "API alone": (own, redis.of_reader()),
        "operator, besides": (own, redis.of_operators() - service),
        "backup": ("~{*", {*redis.BACKUP, *redis.CONNECTION, *redis.CLUSTER}),
        "gateway, for limits": (f"~{prefix}:limit:*", of_limits),
    }
    for user, (keys, commands) in users.items():
        allowed = " ".join(f"+{command.replace('|', chr(92) + '|')}" for command in sorted(commands))
        yield user, f"`{keys}`", f"`{allowed}`"
