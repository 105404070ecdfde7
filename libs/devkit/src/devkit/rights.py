"""The page of the rights at Kafka and Redis, made from the declarations of the services."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from devkit.registry import SERVICES, app
from devkit.tables import table
from services.gateway import limits
from services.gateway.settings import AccessSettings
from streamstate.kafka import rights as kafka
from streamstate.settings import ServiceSettings
from streamstate.state import redis_rights as redis

PATH = Path("docs/rights.md")
DELETIONS = ServiceSettings.model_fields["deletions"].default
Resources = Mapping[tuple[str, str], tuple[str, ...]]
"""By kind and name: the operations of a service, further operations of an operator, and their purpose."""

_COLUMNS = ("operations", "operator, besides", "for")
_HEAD = """# Rights at Kafka and Redis

Made from the source by `make docs`; the tests run with exactly these rights. `streamstate acl kafka SERVICE` and
`streamstate acl redis SERVICE` print the commands for a deployment: a release `metrics-eu` has groups, transactional
ids, dead letters and keys of that name. `--operator` adds the rights for `verify`, `skip`, `allow`, `reset` and `dlq`.

Stream and API of a service share a user. An API alone needs Describe of its topics, and fewer commands of Redis.
"""


def text() -> str:
    """The whole page."""
    resources = {service: _resources(service) for service in SERVICES}
    common = dict(set.intersection(*(set(each.items()) for each in resources.values())))
    return "\n".join(
        [
            _HEAD,
            "## Kafka\n\nEvery service:\n",
            table(
                ("resource", "name", *_COLUMNS),
                sorted((kind, f"`{name}`", *row) for (kind, name), row in common.items()),
            ),
            "Topics and totals:\n",
            table(
                ("service", "resource", "names", *_COLUMNS),
                ((name, *row) for name, each in resources.items() for row in _own(each, common)),
            ),
            "## Redis\n",
            table(("user", "keys", "commands"), _redis()),
        ]
    )


def _resources(service: str) -> Resources:
    """The resources of `service`; SERVICE stands for its name."""
    rights = {"service": kafka.of_service(app(service), DELETIONS), "operator": kafka.of_operators(app(service))}
    found: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    purposes: dict[tuple[str, str], list[str]] = defaultdict(list)
    for user, each in rights.items():
        for right in each:
            own = right.kind != "topic" or right.name == app(service).dead_letters
            key = right.kind, right.name.replace(app(service).name, "SERVICE", 1) if own else right.name
            found[key][user] = ", ".join(right.operations)
            purposes[key].append(right.why)
    return {
        key: (users.get("service", ""), users.get("operator", ""), "; ".join(purposes[key]))
        for key, users in found.items()
    }


def _own(resources: Resources, common: Resources) -> Iterable[Sequence[str]]:
    """A row for all resources with the same kind and rights, apart from the resources in `common`."""
    names: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for (kind, name), row in resources.items():
        if (kind, name) not in common:
            names[kind, *row].append(f"`{name}`")
    for (kind, *rights), called in names.items():
        yield kind, ", ".join(called), *rights


def _redis() -> Iterable[Sequence[str]]:
    of_limits = redis.commands([limits.SCRIPT]) | {*redis.RUNNING, *redis.CONNECTION, *redis.CLUSTER}
    prefix = AccessSettings.model_fields["limits_prefix"].default
    service = redis.of_service()
    users = {
        "stream and API": ("~{SERVICE:*", service),
        "API alone": ("~{SERVICE:*", redis.of_reader()),
        "operator, besides": ("~{SERVICE:*", redis.of_operators() - service),
        "gateway, for limits": (f"~{prefix}:limit:*", of_limits),
    }
    for user, (keys, commands) in users.items():
        allowed = " ".join(f"+{command.replace('|', chr(92) + '|')}" for command in sorted(commands))
        yield user, f"`{keys}`", f"`{allowed}`"
