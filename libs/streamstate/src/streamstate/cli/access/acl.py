"""`streamstate acl`: the rights that the users of a service need at Kafka and at Redis."""

from typing import Annotated

import typer

from streamstate.cli import output
from streamstate.cli.output import AsJson
from streamstate.cli.services import Service, deployment
from streamstate.kafka import rights as kafka
from streamstate.state import redis_rights as redis
from streamstate.state.redis_reads import live_key

app = typer.Typer(
    help="The rights that a service needs at Kafka and Redis.", no_args_is_help=True, rich_markup_mode=None
)

User = Annotated[str, typer.Option(help="Name; default: the deployment's.")]
Operator = Annotated[
    bool, typer.Option("--operator", help="Add the rights for verify, skip, allow, reset, restore and dlq.")
]


@app.command("kafka")
def of_kafka(service: Service, user: User = "", *, operator: Operator = False, as_json: AsJson = False) -> None:
    """Print the commands to grant the user of SERVICE its topics, groups and transactional ids.

    The commands read an admin's properties from the file ADMIN: `streamstate acl kafka metrics | ADMIN=admin.conf sh`.
    """
    of = deployment(service)
    rights = [*kafka.of_service(of.app, of.settings.deletions), *(kafka.of_operators(of.app) if operator else ())]
    principal = f"User:{user or of.app.name}"
    output.show(rights, *(kafka.command(right, principal, of.settings.kafka) for right in rights), as_json=as_json)


@app.command("redis")
def of_redis(service: Service, user: User = "", *, operator: Operator = False, as_json: AsJson = False) -> None:
    """Print the command to grant the user of SERVICE its keys and commands, for `redis-cli` or an ACL file.

    Passwords are unchanged: `ACL SETUSER metrics on >PASSWORD` adds a password.
    """
    of = deployment(service)
    allowed = redis.of_operators() if operator else redis.of_service()
    beside = [live_key(of.app.release_of)] if of.app.release_of != of.app.name else []
    line = f"ACL SETUSER {redis.rule(user or of.app.name, dict.fromkeys([redis.keys(of.app.name), *beside]), allowed)}"
    output.show(line, line, as_json=as_json)
