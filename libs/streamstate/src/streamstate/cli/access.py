"""`streamstate acl`: the rights of services at Kafka and Redis; `streamstate keys`: API keys of the gateway."""

from typing import Annotated

import msgspec
import typer

from streamstate.cli import output
from streamstate.cli.output import AsJson
from streamstate.cli.services import Service, deployment
from streamstate.kafka.security import rights as kafka
from streamstate.state import redis_rights as redis
from streamstate.state.redis_reads import live_key
from streamstate.view import READ
from streamstate.web.access import keys as api_keys

acl = typer.Typer(
    help="The rights that a service needs at Kafka and Redis.", no_args_is_help=True, rich_markup_mode=None
)

User = Annotated[str, typer.Option(help="Default: the deployment's name.")]
Operator = Annotated[bool, typer.Option("--operator", help="Add an operator's rights.")]


@acl.command("kafka")
def of_kafka(service: Service, user: User = "", *, operator: Operator = False, as_json: AsJson = False) -> None:
    """Print the commands to grant the user of SERVICE its topics, groups and transactional ids.

    With an admin's properties: `streamstate acl kafka metrics | ADMIN=admin.conf sh`.
    """
    of = deployment(service)
    rights = [*kafka.of_service(of.app, of.settings.deletions), *(kafka.of_operators(of.app) if operator else ())]
    principal = f"User:{user or of.app.name}"
    output.show(rights, *(kafka.command(right, principal, of.settings.kafka) for right in rights), as_json=as_json)


@acl.command("redis")
def of_redis(service: Service, user: User = "", *, operator: Operator = False, as_json: AsJson = False) -> None:
    """Print the command to grant the user of SERVICE its keys and commands, for `redis-cli` or an ACL file.

    Passwords stay: `ACL SETUSER metrics on >PASSWORD` adds one.
    """
    of = deployment(service)
    allowed = redis.of_operators() if operator else redis.of_service()
    beside = [live_key(of.app.release_of)] if of.app.release_of != of.app.name else []
    line = f"ACL SETUSER {redis.rule(user or of.app.name, dict.fromkeys([*redis.keys(of.app.name), *beside]), allowed)}"
    output.show(line, line, as_json=as_json)


keys = typer.Typer(help="API keys of the gateway.", no_args_is_help=True, rich_markup_mode=None)


class NewKey(msgspec.Struct):
    """A new key, shown once, and its line in the file of keys."""

    key: str
    line: str


@keys.callback()
def _keys() -> None:
    """Without a callback, typer would omit the name of a single command."""


@keys.command()
def new(
    name: Annotated[str, typer.Argument(help="Lower case letters, digits, . _ and -.")],
    scope: Annotated[list[str] | None, typer.Option(help="read (default), explore or admin; repeatable.")] = None,
    requests_per_s: Annotated[int | None, typer.Option(min=1, help="Default: the gateway's.")] = None,
    cost_per_s: Annotated[int | None, typer.Option(min=1, help="Default: the gateway's.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Print a new key, and the line with its hash for the file ACCESS_KEYS. The key is not stored."""
    secret = api_keys.generate()
    given = {"requests_per_s": requests_per_s, "cost_per_s": cost_per_s}
    entry = {"name": name, "sha256": api_keys.digest(secret), "scopes": scope or [READ], **given}
    try:
        key = msgspec.convert(entry, api_keys.Key)
    except msgspec.ValidationError as error:
        raise typer.BadParameter(str(error)) from error
    made = NewKey(secret, msgspec.json.encode(key).decode())
    output.show(made, f"key:  {made.key}", f"line: {made.line}", as_json=as_json)
