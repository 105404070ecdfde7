"""One lab for the whole ring: real Kafka, Redis, Spark, all services, some of them in several instances."""

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from devkit import feed, generator
from devkit.demo import CACHE
from devkit.lab import Lab, Plan
from devkit.process import free_port
from streamstate.kafka.producer import producer
from tests.integration.driving import Driving

EVENTS = 20_000
SEED = 7
USERS = 300
# Small, so that every backlog takes several micro-batches.
BATCH_RECORDS = 1_000
INSTANCES = {"metrics": 2, "recommendations": 2, "clicks": 2, "topics": 3}


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    home = tmp_path_factory.mktemp("lab")
    ports = (free_port(), free_port(), free_port())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STREAMSTATE_BATCH_RECORDS", str(BATCH_RECORDS))
        lab = Lab(Plan(home, Path.cwd() / CACHE, *ports, INSTANCES), say=lambda _line: None)
    try:
        lab.start()
        yield lab
    finally:
        lab.stop()


@pytest.fixture(scope="session")
def driving(lab: Lab) -> Driving:
    """The lab, fed with seeded names and events, some of them broken, all of them folded."""
    catalogue = generator.Catalogue.make(SEED, artists=60)
    clock = generator.backlog(EVENTS, 86_400_000, lambda: 1_750_000_000_000)
    events = generator.events(catalogue, SEED, USERS, clock)
    driving = Driving(lab, producer(lab.kafka.bootstrap), events, random.Random(SEED))
    feed.send_names(driving.out, generator.names(catalogue))
    driving.feed(islice(events, EVENTS))
    driving.settle()
    return driving
