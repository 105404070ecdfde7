"""Everything on a single machine: Kafka, Redis, the streams in a JVM, an API for each instance, and the gateway."""

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import urllib3
from urllib3.exceptions import HTTPError

from devkit import topics
from devkit.cluster.beside import Beside
from devkit.cluster.plan import Plan
from devkit.cluster.states import States
from devkit.events.formats import recode
from devkit.events.records import Recode
from devkit.registry import MODELS, SERVICES, app, by_name
from devkit.servers.child_process import LOCALHOST, Child, free_port, require_free_port
from devkit.servers.class_archive import ARCHIVE, shared_classes
from devkit.servers.kafka import Kafka
from devkit.servers.redis import Redis
from devkit.servers.schema_registry import SchemaRegistry
from streamstate import bootstrap
from streamstate.formats.registered.registry import Registry
from streamstate.profile import SERVICE as PROFILE
from streamstate.releases import file
from streamstate.settings import PREFIX, CommandSettings
from streamstate.spark import jars


class LocalCluster:
    """All processes, started and stopped in order. `say` is called with a line for each step.

    services: the services by the names of their apps. addresses: the APIs of the instances, by the same names, without
        a dropped first release.
    status: where the streams answer `/readyz` and `/metrics`.
    """

    def __init__(self, plan: Plan, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._say = say
        self.kafka = Kafka(plan.home / "kafka", plan.kafka_port, plan.cache / "kafka")
        self.redis = Redis(plan.home / "redis", plan.redis_port)
        self.registry = SchemaRegistry(plan.home / "registry", plan.registry_port, plan.cache / "registry")
        self.services = by_name(plan.services)
        self._instances = plan.addresses()
        self.url = f"http://{LOCALHOST}:{plan.gateway_port}"
        self.status = f"{LOCALHOST}:{free_port()}"
        self.beside = Beside(plan.home / "releases.json", self._release, say)
        self.addresses = {name: at for name, at in self._instances.items() if name not in self.beside.dropped}
        apart = [name for name in self.addresses if name in plan.apart]
        self.apart = {name: self.host(self._streaming([name]), f"{name}-stream") for name in apart}
        self.streams = self._shared()
        self.apis = [
            self.instance(name, number, at)
            for name, addresses in self.addresses.items()
            for number, at in enumerate(addresses)
        ]
        self.archiver = self.archiver_of(plan.archive, ARCHIVE_SECONDS="10")
        self.gateway = self.further_gateway(f"{LOCALHOST}:{plan.gateway_port}", RELEASES=str(self.beside.path))

    @property
    def settings(self) -> CommandSettings:
        """The settings of a command, with the addresses of the servers."""
        servers = {"kafka": self.kafka.bootstrap, "redis": self.redis.url, "archive": self._plan.archive}
        return CommandSettings.model_validate({**servers, "formats": self.formats, "registry": self.registry.url})

    @property
    def formats(self) -> dict[str, dict[str, str]]:
        """The formats of all topics, in the form of the setting."""
        return {"*": {"value": self._plan.value}} if self._plan.value else {}

    @property
    def recode(self) -> Recode:
        """Converts records to these formats."""
        return recode(self._plan.value, Registry(self.registry.url)) if self._plan.value else iter

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of a command about the cluster, without prefix."""
        return {**self._servers(), "GATEWAY": self.url, "RELEASES": str(self.beside.path.absolute())}

    @property
    def children(self) -> list[Child]:
        """All processes, in the order of their start."""
        registry = [self.registry] if self._plan.value else []
        archive = [self.archiver] if self._plan.archive else []
        streams = [self.streams, *self.apart.values()]
        return [self.kafka, self.redis, *registry, *archive, *streams, *self.apis, *self.beside.children, self.gateway]

    @contextmanager
    def running(self, *, services: bool = True) -> Iterator[Self]:
        """Run everything, or without `services` Kafka and Redis alone, until the end of the block.

        Raises `StreamStateError` with advice.
        """
        try:
            self.start_servers()
            if services:
                self.start_services()
            yield self
        finally:
            if not services:
                # Nobody waits for its records; by itself it takes five seconds to end.
                self.kafka.kill()
            self.stop()

    def start_services(self) -> None:
        """Start the streams, the APIs and the gateway. The servers must be running."""
        if self._plan.archive:
            self._say(f"starting the archiver, which writes to {self._plan.archive}")
            self.archiver.start()
        self._say("starting the streams, in one Spark session, and the APIs (10 to 30 s)")
        self.streams.start()
        self.tend()
        for child in [*self.apart.values(), *self.apis, self.gateway]:
            child.start()
        self.gateway.wait_until(lambda: answers(f"{self.url}/readyz"), timeout=60)

    def start_servers(self) -> None:
        """Start Kafka, create its topics, and start Redis."""
        require_free_port("the gateway", self._plan.gateway_port, "GATEWAY_PORT")
        require_free_port("Redis", self._plan.redis_port, "REDIS_PORT")
        self._say("looking for Spark's Kafka source (10 MB, fetched once: half a minute)")
        jars.fetch(self._plan.cache / "spark")
        self._say(f"starting Kafka on {self.kafka.bootstrap} (5 to 20 s; 43 MB, fetched once: a minute)")
        self.kafka.start()
        topics.create(self.kafka.bootstrap, topics.configurations((*SERVICES, *self._plan.services)))
        self._say(f"starting Redis on {self.redis.url} (a second)")
        self.redis.start()
        if self._plan.value:
            self._say(f"starting the schema registry on {self.registry.url} (the first time it is fetched)")
            self.registry.start()

    def stop(self) -> None:
        """Stop all processes, the servers last, and delete Spark's checkpoints."""
        users = [self.gateway, self.archiver, *self.apis, self.streams, *self.apart.values(), *self.beside.children]
        with ThreadPoolExecutor(len(users)) as executor:
            list(executor.map(Child.stop, users))
        self.redis.stop()
        self.registry.stop()
        self.kafka.stop()
        # A killed stream leaves its checkpoints in memory.
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def revive(self) -> None:
        """Restart ended processes, like Kubernetes, and start and stop releases."""
        self.tend()
        for child in self.children:
            if not child.alive:
                self._say(f"{child.name} has ended; starting it again (its log: {child.log})")
                child.start()

    def tend(self) -> None:
        """Start and stop releases as their file says. Without a dropped first release, shared streams start again."""
        self.beside.tend()
        for name in self.beside.dropped & self.addresses.keys():
            own = self.apart.pop(name, None)
            self._say(f"stopping the release {name}{'' if own else '; the streams of other services start again'}")
            (own or self.streams).stop()
            for number in range(len(self.addresses.pop(name))):
                api = next(each for each in self.apis if each.name == f"{name}-{number}")
                self.apis.remove(api)
                api.stop()
            if own is None:
                self.streams = self._shared()
                self.streams.start()

    def _release(self, name: str, release: file.ByHand) -> list[Child]:
        """The stream and the API of a release beside a service."""
        own = {**release.settings, "ADVERTISE": release.address}
        api = self.api(release.package, f"{name}-api", release.address, self._plan.home, {**self._servers(), **own})
        return [self._stream(name, ["streamstate.spark", release.package], own), api]

    def states(self, *services: str) -> States:
        """The states of `services`, or of all."""
        inputs = {name: app(self.services[name]).topics for name in services or self.addresses}
        return States(bootstrap.topics(self.settings.kafka, self.settings.security), self.redis.url, inputs)

    def ready(self) -> bool:
        """Whether every instance of every service is ready."""
        return all(answers(f"http://{at}/readyz") for addresses in self.addresses.values() for at in addresses)

    @property
    def checkpoints(self) -> Path:
        """The folder of Spark's checkpoints, in memory if possible; each cluster has its own."""
        memory = Path("/dev/shm")  # noqa: S108, a folder of its own is made in it
        return memory / f"streamstate-{self._plan.kafka_port}" if memory.is_dir() else self._plan.home / "checkpoints"

    def of_services(self, services: Iterable[str], **settings: str) -> Child:
        """A process for all streams of `services`, named by their apps, with further `settings`; health at `status`."""
        return self.host(self._streaming(services), STATUS_PORT=self.status.rpartition(":")[2], **settings)

    def host(self, instances: Iterable[str], name: str = "streams", **settings: str) -> Child:
        """A process for the streams of `instances`, each `<name>-<number>=host:port`, with further `settings`."""
        named = (instance.rpartition("-") for instance in instances)
        hosted = [f"{self.services.get(name, name)}-{number}" for name, _, number in named]
        return self._stream(name, ["devkit.cluster.streams", *hosted], settings)

    def _shared(self) -> Child:
        """A process for the streams of all services that have none of their own."""
        return self.of_services(name for name in self.addresses if name not in self.apart)

    def _streaming(self, services: Iterable[str]) -> list[str]:
        """The instances of `services` with a stream, as in `host`."""
        at = {name: self.addresses[name][: 1 if app(self.services[name]).any_instance else None] for name in services}
        return [f"{name}-{number}={each}" for name, of in at.items() for number, each in enumerate(of)]

    def deployment(self, package: str, name: str, topics: Mapping[str, str], **settings: str) -> Child:
        """A further stream of the service in `package`, called `name`, over other topics."""
        own = {"NAME": name, "TOPICS": json.dumps(dict(topics))}
        return self._stream(name, ["streamstate.spark", package], own | settings)

    def _stream(self, name: str, module: Sequence[str], settings: Mapping[str, str]) -> Child:
        # Reads come first when all cores are taken; a stream still gets a quarter of a core, and catches up later.
        argv = ["nice", "-n", "5", sys.executable, "-m", *module]
        return Child(name, argv, self._plan.home / f"{name}.log", self.stream_variables(settings))

    def stream_variables(self, settings: Mapping[str, str]) -> dict[str, str]:
        """The environment variables of a stream with these further settings."""
        spark = {"SPARK": shared_classes(self._plan.cache / ARCHIVE, settings.get("SPARK", "{}"))}
        paths = {"JARS": str(self._plan.cache / "spark"), "CHECKPOINTS": str(self.checkpoints)}
        return variables({**self._servers(), **paths, **settings, **spark})

    def instance(self, name: str, number: int, at: str, **settings: str) -> Child:
        """The API of an instance, with further `settings`."""
        service = self.services[name]
        package, declared = (service, {}) if service in MODELS else (PROFILE, {"PROFILE": service})
        return self._api(package, f"{name}-{number}", at, ADVERTISE=at, **declared, **settings)

    def _api(self, service: str, name: str, address: str, **settings: str) -> Child:
        return self.api(f"services.{service}", name, address, self._plan.home, {**self._servers(), **settings})

    @staticmethod
    def api(
        service: str,
        name: str,
        address: str,
        home: Path,
        settings: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
    ) -> Child:
        """An API of the service with this package, at `address`; `environment` has further variables."""
        argv = [sys.executable, "-m", "streamstate.web", service]
        # The processes of all services share the cores. Access is off: only the local machine reaches the ports.
        own = {"LISTEN": address, "WORKERS": "1", "ACCESS": "off"}
        return Child(name, argv, home / f"{name}.log", {**variables({**own, **settings}), **(environment or {})})

    def further_gateway(self, address: str, **settings: str) -> Child:
        """A gateway to all instances at `address`."""
        instances = json.dumps({name: ",".join(addresses) for name, addresses in self._instances.items()})
        return self._api("gateway", "gateway", address, INSTANCES=instances, **settings)

    def archiver_of(self, archive: str, **settings: str) -> Child:
        """A process that archives the inputs and dead letters of all services."""
        apps = [app(service) for service in self.services.values()]
        names = dict.fromkeys(topic for each in apps for topic in (*each.topics, each.dead_letters))
        own = {"ARCHIVE": archive, "ARCHIVE_TOPICS": json.dumps([*names])}
        argv = [sys.executable, "-m", "services.archive"]
        return Child(
            "archiver", argv, self._plan.home / "archiver.log", variables({**self._servers(), **own, **settings})
        )

    def _servers(self) -> dict[str, str]:
        servers = {"KAFKA": self.kafka.bootstrap, "REDIS": self.redis.url}
        if self._plan.value:
            servers |= {"FORMATS": json.dumps(self.formats), "REGISTRY": self.registry.url}
        if self._plan.archive:
            servers["ARCHIVE"] = self._plan.archive
        return servers


def variables(settings: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of `settings`, given by the names of the reference without prefix."""
    return {PREFIX + name: value for name, value in settings.items()}


def get(url: str) -> Any:
    """The JSON at `url`, problem or not. Raises urllib3's `HTTPError` when there is no answer."""
    return urllib3.request("GET", url, timeout=5, retries=False).json()


def answers(url: str) -> bool:
    """Whether `url` answers 200."""
    try:
        return urllib3.request("GET", url, timeout=5, retries=False).status == 200
    except HTTPError:
        return False
