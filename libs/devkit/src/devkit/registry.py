"""The services that there are: every folder of `services` with a `service.py`."""

import importlib
from collections.abc import Mapping
from typing import cast

from streamstate import bootstrap
from streamstate.app import App, dead_letter_topic
from streamstate.service import Service, Topic, declared, modules

SERVICES: Mapping[str, Service] = {name: module.SERVICE for name, module in modules("services", "service").items()}
"""By name, in alphabetical order."""


def topics() -> Mapping[str, Topic]:
    """The topics that all of them read and write, by name, dead letters included."""
    of_services = [topic for service in SERVICES.values() for topic in (*service.inputs, *service.outputs)]
    dead_letters = [Topic(dead_letter_topic(name)) for name in SERVICES]
    return {topic.name: topic for topic in [*of_services, *dead_letters]}


def app(service: str) -> App:
    """What `service` folds and answers, with the settings of the environment. Raises `Misconfigured`."""
    made = bootstrap.made(declared(importlib.import_module(f"services.{service}.model"), "app"))
    return cast("App", made)
