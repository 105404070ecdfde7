"""What metrics counts."""

from dataclasses import replace

from services.metrics.recount import RECOUNT as METRICS
from tests.faults.raising.model import APP

RECOUNT = replace(METRICS, service=APP.name)
