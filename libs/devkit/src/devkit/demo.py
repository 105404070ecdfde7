"""`make demo`: everything on this machine, fed and answering, until Ctrl-C."""

import fcntl
import json
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Literal, Self

from confluent_kafka import KafkaException
from pydantic import Field, model_validator
from pydantic_settings import BaseSettings
from urllib3.exceptions import HTTPError

from devkit import DevkitError
from devkit.cluster.local_cluster import LocalCluster, get
from devkit.cluster.plan import Plan
from devkit.events.feed import Feed
from devkit.events.lfm import Files
from devkit.names import known, names
from devkit.registry import EXAMPLES, MODELS, STANDARD, app
from streamstate import bootstrap
from streamstate.errors import StreamStateError
from streamstate.keys import LONG
from streamstate.profile import SERVICE as PROFILE
from streamstate.settings import PREFIX

HOME, CACHE = Path(".demo"), Path(".cache")
ENVIRONMENT = HOME / "env"
"""Sourced by a shell, gives commands the addresses of the demo."""
VARIABLES = ("KAFKA", "REDIS", "RELEASES", "FORMATS", "REGISTRY", "ARCHIVE", "GATEWAY", "PROFILE")
FOLDED_S = 300
RETRY_S = 15
"""Seconds before another start of a process that cannot be started, such as a Kafka with a full disk."""


class DemoSettings(BaseSettings):
    """The demo."""

    once: bool = Field(False, description="end after the first profile")
    lfm: Path | None = Field(None, description="folder of LFM-1b files in place of invented events")
    skip_malformed: bool = Field(False, description="skip malformed lines")
    gateway_port: int = Field(8080, description="port")
    kafka_port: int = Field(9092, description="port")
    redis_port: int = Field(6379, description="port")
    registry_port: int = Field(8081, description="port")
    format: Literal["", "avro", "protobuf", "jsonschema"] = Field(
        "", description="format of all values: avro, protobuf or jsonschema"
    )
    metrics_instances: int = Field(1, ge=1, le=8, description="number of instances")
    topics_instances: int = Field(1, ge=1, le=9, description="number of instances")
    examples: Annotated[str, known("example", EXAMPLES)] = Field(
        "", description=f"further services, separated by commas: {', '.join(EXAMPLES)}"
    )
    profile: str = Field("", description="YAML files of further profiles, separated by commas")
    archive: str = Field("", description="folder, or URI, of an archive")

    @model_validator(mode="after")
    def _ports_differ(self) -> Self:
        names: dict[int, str] = {}
        for name in ("GATEWAY_PORT", "KAFKA_PORT", "REDIS_PORT", "REGISTRY_PORT"):
            port = getattr(self, name.lower())
            if port in names:
                msg = f"{names[port]} and {name} are both {port}; give one of them another port"
                raise ValueError(msg)
            names[port] = name
        return self

    @property
    def plan(self) -> Plan:
        """The services, their instances and ports."""
        instances = {"metrics": self.metrics_instances, "topics": self.topics_instances}
        ports = (self.gateway_port, self.kafka_port, self.redis_port)
        services = (*STANDARD, *names(self.examples), *names(self.profile))
        return Plan(HOME, CACHE, *ports, instances, services, self.format, self.registry_port, self.archive)


def main() -> int:
    """The exit status: 0, or 1 after a failure, with its reason on standard error."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A shell that has sourced the file of an earlier demo must not configure the processes of this one.
    for name in VARIABLES:
        os.environ.pop(PREFIX + name, None)
    try:
        settings = bootstrap.configure(DemoSettings)
        with alone(HOME), running(LocalCluster(settings.plan, say)) as cluster:
            show(cluster, settings)
    except KeyboardInterrupt:
        return 0
    except StreamStateError as error:
        sys.stderr.write(f"demo: {error}\n")
        return 1
    return 0


@contextmanager
def alone(home: Path) -> Iterator[None]:
    """Lock the folder of the demo's state for the body. Raises `DevkitError` while another process has the lock."""
    home.mkdir(exist_ok=True)
    folder = os.open(home, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            msg = f"a demo of this clone runs already (its addresses: {home / 'env'}); end it, or use another clone"
            raise DevkitError(msg) from error
        yield
    finally:
        os.close(folder)


@contextmanager
def running(cluster: LocalCluster) -> Iterator[LocalCluster]:
    """The started cluster, stopped after the body; a second Ctrl-C or SIGTERM kills it."""

    def kill(*_: object) -> None:
        for child in cluster.children:
            child.signal_kill()

    try:
        cluster.start_servers()
        cluster.start_services()
        ENVIRONMENT.write_text(environment(cluster))
        yield cluster
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, kill)
        say("stopping; Ctrl-C kills what has not stopped")
        cluster.stop()


def show(cluster: LocalCluster, settings: DemoSettings) -> None:
    """Feed, wait until all is folded, show an answer of each service, and go on feeding unless `once` is set."""
    files = Files(settings.lfm, settings.skip_malformed) if settings.lfm else None
    feed = Feed(cluster.kafka.bootstrap, HOME / "fed", files, settings.format, cluster.recode)
    feed.load(say)
    user = first_user(files) if files else 1
    own = next(of_profiles((service for service in cluster.services.values() if service not in MODELS), user), "")
    answer = f"{cluster.url}{own or f'/v1/users/{user}'}"
    say(f"folding; {answer} answers from the records folded so far (10 s to a minute)")
    wait_folded(cluster)
    say(f"folded, and fed until Ctrl-C\n\n{look_next(cluster, answer)}")
    if settings.once:
        sys.stdout.write(f"\n{json.dumps(get(answer), ensure_ascii=False)}\n")
        return
    # A Kafka that is away holds the feed up, and nothing else.
    threading.Thread(target=feed_on, args=(feed,), daemon=True).start()
    tend(cluster)


def feed_on(feed: Feed) -> None:
    """Feed until the process ends, also after events that Kafka has refused."""
    while True:
        try:
            for _ in feed.live():
                pass
        except KafkaException as error:
            say(f"Kafka has not taken all events ({error.args[0].str()}); the feed goes on")


def say(line: str) -> None:
    """Print a line of progress, with the time since the start."""
    sys.stdout.write(f"[{time.monotonic() - _STARTED:5.1f} s] {line}\n")
    sys.stdout.flush()


def tend(
    cluster: LocalCluster, say: Callable[[str], None] = say, pause_s: float = 1.0, retry_s: float = RETRY_S
) -> None:
    """Restart ended processes, and say when Kafka does not answer, until Ctrl-C."""
    silence, failure = "", ""
    while True:
        time.sleep(pause_s)
        try:
            cluster.revive()
            failure = ""
        except DevkitError as error:
            # The rest is the end of a log, with its times.
            before, failure = failure, str(error).partition("\n")[0]
            if failure != before:
                say(f"{error}\n{cluster.url}/ answers from the state so far; trying again every {retry_s:g} s")
            time.sleep(retry_s)
        now = silence_of(cluster)
        if now != silence:
            say(f"Kafka {now}; {cluster.url}/ answers from the state of that time" if now else "Kafka answers again")
            silence = now


def silence_of(cluster: LocalCluster) -> str:
    """Since when Kafka has not answered, by the gateway; empty while Kafka, or no gateway, answers."""
    with suppress(HTTPError):
        return str(get(f"{cluster.url}/readyz").get("kafka", ""))
    return ""


def wait_folded(cluster: LocalCluster) -> None:
    """Until the states have reached the topics' present ends and all APIs are ready. Staged releases start meanwhile.

    Raises `StreamStateError` with the reason after five minutes.
    """
    states = cluster.states()
    ends = states.ends()

    def folded() -> bool:
        cluster.beside.tend()
        return states.caught_up(ends) and cluster.ready()

    cluster.streams.wait_until(folded, timeout=FOLDED_S)


def of_profiles(services: Iterable[str], key: int) -> Iterator[str]:
    """The path of the answer of each profile among `services` for `key`."""
    for service in services:
        if app(service).service == PROFILE:
            # Further views are of indexes, and need parameters.
            yield app(service).views[0].path.replace("<key>", str(key))


def look_next(cluster: LocalCluster, answer: str) -> str:
    """Five lines: the page, an answer, a command, the logs, and the end."""
    return f"""  page     {cluster.url}/
  answer   curl {answer}
  command  . {ENVIRONMENT}; .venv/bin/streamstate status
  logs     {HOME}/*.log
  stop     Ctrl-C; the next start goes on from here, and make demo-clean removes all"""


def environment(cluster: LocalCluster) -> str:
    """The lines of a shell that set the environment of the commands for `cluster`."""
    unset = " ".join(PREFIX + name for name in VARIABLES)
    return f"unset {unset}\n" + "".join(
        f"export {PREFIX}{name}={shlex.quote(value)}\n" for name, value in cluster.variables.items()
    )


def first_user(files: Files) -> int:
    """A user of the files."""
    key, _ = next(files.events())
    return LONG.decode(key)


_STARTED = time.monotonic()

if __name__ == "__main__":
    raise SystemExit(main())
