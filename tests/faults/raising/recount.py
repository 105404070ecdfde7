"""What metrics counts."""

from services.metrics.recount import RECOUNT as METRICS
from tests.faults.raising.model import APP

RECOUNT = METRICS.renamed(APP.name, {})
