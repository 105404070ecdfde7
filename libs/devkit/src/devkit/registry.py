"""The services that there are: every folder of `services` with a `service.py`."""

import importlib
from collections.abc import Mapping
from typing import cast

import services
from streamstate import bootstrap
from streamstate.app import App, dead_letter_topic
from streamstate.service import Service, Topic

SERVICES: Mapping[str, Service] = {name: module.SERVICE for name, module in services.modules("service").items()}
"""By name, in alphabetical order."""


def topics() -> Mapping[str, Topic]:
    """The topics that all of them read and write, by name, dead letters included."""
    declared = [topic for service in SERVICES.values() for topic in (*service.inputs, *service.outputs)]
    dead_letters = [Topic(dead_letter_topic(name)) for name in SERVICES]
    return {topic.name: topic for topic in [*declared, *dead_letters]}


def app(service: str) -> App:
    """What `service` folds and answers, with the settings of the environment. Raises `Misconfigured`."""
    declared = services.declared(importlib.import_module(f"services.{service}.model"), "app")
    return cast("App", bootstrap.made(declared))
