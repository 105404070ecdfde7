"""The page of the rights at Kafka and Redis, made from what the services are."""

from collections.abc import Iterable
from pathlib import Path

from devkit.registry import SERVICES, app
from devkit.tables import table
from services.gateway import limits
from services.gateway.settings import AccessSettings
from streamstate.acl import kafka, redis
from streamstate.app import App
from streamstate.settings import ServiceSettings

PATH = Path("docs/rights.md")
DELETIONS = ServiceSettings.model_fields["deletions"].default
_HEAD = """# Rights at Kafka and Redis

Made from the source by `make docs`. The users of the tests have these rights and no others. `streamstate acl kafka
SERVICE` and `streamstate acl redis SERVICE` print the commands that grant them, with the names of a deployment: a
release called `metrics-eu` has groups, transactional ids, dead letters and keys of that name.

Stream and API of a service share a user; an API alone needs Describe of its topics, and the keys of its service with
fewer commands. `--operator` adds what `verify`, `skip`, `allow`, `reset` and `dlq` need.
"""


def text() -> str:
    """The whole page."""
    return "\n".join(
        [
            _HEAD,
            "## Kafka\n",
            *(f"### {service}\n\n{_kafka(app(service))}" for service in SERVICES),
            "## Redis\n",
            "| user | keys | commands |\n| --- | --- | --- |",
            *_redis(),
            "\nAs lines of an ACL file, each behind `user`, without passwords:\n",
            *(f"    {redis.rule(service, [redis.keys(service)], redis.of_service())}" for service in SERVICES),
            "",
        ]
    )


def _kafka(of: App) -> str:
    users = {"service": kafka.of_service(of, DELETIONS), "operator": kafka.of_operators(of)}
    rows = (
        (right.kind, f"`{right.name}`", ", ".join(right.operations), user, right.why)
        for user, rights in users.items()
        for right in rights
    )
    return table(("resource", "name", "operations", "user", "for"), rows)


def _redis() -> Iterable[str]:
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
        allowed = " ".join(f"`+{command.replace('|', chr(92) + '|')}`" for command in sorted(commands))
        yield f"| {user} | `{keys}` | {allowed} |"
