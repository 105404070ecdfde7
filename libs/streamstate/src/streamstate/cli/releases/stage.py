"""`streamstate stage`: a release beside the others, silent until its promotion."""

import shlex
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Annotated, Any

import msgspec
import typer

from streamstate import bootstrap
from streamstate.cli import output
from streamstate.cli.output import AsJson, DryRun
from streamstate.cli.releases import beside
from streamstate.cli.releases.beside import DOCUMENT, Breaking, Side, look
from streamstate.cli.services import Deployment, Service, deployment, environment, imported
from streamstate.deployment import logs
from streamstate.errors import Declined, Misconfigured
from streamstate.processing.topic_settings import require_settings
from streamstate.releases import file
from streamstate.releases.record import Releases, first, staged
from streamstate.settings import PREFIX, require_known
from streamstate_client import Client, GatewayError

MB = 2**20

NewName = Annotated[str, typer.Option("--name", help="Default: the first name and a number.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE of a setting, without prefix.")]


class Staged(msgspec.Struct):
    """A planned or stored release: its settings, whether a supervisor starts it, and the command on Kubernetes.

    memory: an estimate of its state in Redis, in bytes: the size of the live release's.
    breaking: the differences of the answers' form that break clients, by the code and the settings of this command.
    """

    service: str
    release: str
    settings: Mapping[str, str]
    memory: int
    breaking: list[str]
    started: bool
    helm: str
    dry_run: bool


def stage(
    service: Service,
    *,
    name: NewName = "",
    set_: Set = None,
    breaking: Breaking = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Put a release beside the live release: it builds a state of its own, and publishes nothing.

    `make demo` starts the release; elsewhere the command prints how. `streamstate drop` undoes it.
    """
    of = deployment(service)
    settings = _settings(set_ or ())
    before = of.pointer.read()
    record = before or first(of.app.release_of)
    side = look(of, record.live)
    _require_running(of, side)
    release = name or _next_name(record)
    after = staged(record, release)
    own = own_settings(of, release, settings)
    with _of_set(settings):
        _require_valid(of, own)
    differences = _differences(of, side, own)
    if not (breaking or dry_run):
        beside.require_unbroken(release, differences)
    memory = _require_memory(of, record.live)
    if not dry_run:
        with of.locked("stage"):
            of.pointer.replace(before, after)
            _start(of, release, own)
    helm, started = helm_install(of, release, own), bool(of.settings.releases)
    answer = Staged(of.app.release_of, release, _changed(of, own), memory, differences, started, helm, dry_run)
    output.show(answer, _text(answer, record.live, service), as_json=as_json)


def _start(of: Deployment, release: str, settings: Mapping[str, str]) -> None:
    """Write the release into the file in RELEASES, if there is one, whose reader starts it."""
    if path := of.settings.releases:
        by_hand = file.ByHand(f"127.0.0.1:{_free_port()}", of.package, dict(settings))
        file.change(path, of.app.release_of, release, by_hand)


def _settings(given: Sequence[str]) -> dict[str, str]:
    """The settings of `--set`. Raises `Misconfigured` for an unknown name."""
    for each in given:
        if "=" not in each:
            raise typer.BadParameter(f"--set {each}: write NAME=VALUE")
    settings = {n.removeprefix(PREFIX): text for n, _, text in (each.partition("=") for each in given)}
    with _of_set(settings):
        require_known({f"{PREFIX}{n}": text for n, text in settings.items()})
    return settings


@contextmanager
def _of_set(settings: Mapping[str, str]) -> Iterator[None]:
    """Errors of the body about `settings` name the option instead of the environment."""
    try:
        yield
    except Misconfigured as error:
        text = str(error)
        given = [name for name in settings if f"{PREFIX}{name}" in text]
        if not given:
            raise
        reasons = text.removeprefix("change the environment: ").replace(PREFIX, "")
        msg = f"correct {', '.join(f'--set {name}=' for name in given)}: {reasons}"
        raise Misconfigured(msg) from error


def own_settings(of: Deployment, release: str, settings: Mapping[str, str]) -> Mapping[str, str]:
    """The settings of the release: the first's, `settings`, its name, and its own group where the first has a GROUP."""
    group = {"GROUP": ""} if of.settings.group else {}
    first = {name: text for name, text in of.own.items() if text is not None}
    return {**first, "NAME": release, "RELEASE_OF": of.app.release_of, **group, **settings}


def _changed(of: Deployment, settings: Mapping[str, str]) -> Mapping[str, str]:
    """Those of `settings` that differ from the first release's."""
    return {name: text for name, text in settings.items() if of.own.get(name) != text}


def _require_running(of: Deployment, side: Side) -> None:
    if not side.ready:
        name = side.of.app.name
        msg = f"{name} is {side.word}: a release needs a ready one beside it; `streamstate status {of.service}`"
        raise Declined(msg)


def _next_name(record: Releases) -> str:
    base, _, number = record.live.rpartition("-")
    base = base if base and number.isdigit() else record.live
    return next(name for n in count(2) if (name := f"{base}-{n}") not in record.releases)


def _require_valid(of: Deployment, settings: Mapping[str, str]) -> None:
    """Raise `Misconfigured` where the release would refuse these settings at its start.

    Raises `Declined` for a release that reads a topic of its own which no release writes.
    """
    with environment({**of.own, **settings}):
        release = deployment(of.service)
        app, findings, truncated = release.app, release.findings(), release.streams.truncated_topics
    if strange := sorted(app.own - of.app.own):
        msg = f"only a publishing release writes {', '.join(strange)}: install the change as a service of another name"
        raise Declined(msg)
    of.topics.describe(dict.fromkeys((*app.topics, *app.outputs)))
    require_settings(findings, {}, truncated)


def _differences(of: Deployment, side: Side, settings: Mapping[str, str]) -> list[str]:
    """How answers by these settings break clients of the live release; none in an image without APIs."""
    try:
        before, after = document(of, {}), document(of, settings)
    except Misconfigured:
        return []
    owners = (snapshot.owner for snapshot in side.snapshots.values() if snapshot.owner)
    with suppress(GatewayError):
        # The code of the live release may be older than the code of this command.
        before = Client(f"http://{next(owners)}").get(DOCUMENT)
    return beside.differences(before, after)


def document(of: Deployment, settings: Mapping[str, str]) -> Any:
    """The document of an API with further `settings`, without a connection."""
    with environment({**of.own, **settings, "ACCESS": "off"}):
        routes = imported("streamstate.web.api").create(of.package).flask
    logs.configure("stderr")
    return msgspec.json.decode(msgspec.json.encode(routes.document()))


def _require_memory(of: Deployment, live: str) -> int:
    """The bytes of the live state. Raises `Declined` if Redis has no room for a second state of this size."""
    found = bootstrap.footprint(of.settings, live)
    if not found.fits:
        msg = (
            f"the state of {live} takes about {found.state / MB:,.0f} MB, and Redis has {found.left / MB:,.0f} MB left "
            "up to 90 % of maxmemory: raise maxmemory first"
        )
        raise Declined(msg)
    return found.state


def helm_install(of: Deployment, release: str, settings: Mapping[str, str]) -> str:
    """The command that installs the release on Kubernetes with the values of the first release."""
    first = of.app.release_of
    values = {name: text for name, text in _changed(of, settings).items() if name != "NAME"}
    sets = " ".join(f"--set-string {shlex.quote(f'settings.{name}={_escaped(text)}')}" for name, text in values.items())
    return f"helm get values {first} -o yaml | helm install {release} charts/{of.service} -f - {sets}"


def _escaped(text: str) -> str:
    return text.replace(",", "\\,")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _text(answer: Staged, live: str, service: str) -> str:
    verb = "would be staged" if answer.dry_run else "is staged"
    lines = [f"{answer.release} {verb} beside {live}; its state takes about {answer.memory / MB:,.0f} MB"]
    lines += [f"  breaks clients: {line}" for line in answer.breaking]
    if answer.dry_run:
        return "\n".join(lines)
    if answer.started:
        lines.append("`make demo`, or whatever reads the file in STREAMSTATE_RELEASES, starts it")
    else:
        lines.append(f"on Kubernetes, start it by: {answer.helm}")
        variables = " ".join(f"{PREFIX}{name}={shlex.quote(text)}" for name, text in answer.settings.items())
        lines.append(f"elsewhere, start its stream and its API with these variables besides: {variables}")
    ways = f"next: `streamstate wait {service} {answer.release}`; `streamstate drop {service} {answer.release}`"
    lines.append(f"{ways} undoes it")
    return "\n".join(lines)
