"""What names is, for all who set it up."""

from services.events import KINDS, LISTENING_EVENTS
from services.names.model import ENRICHED
from streamstate.service import Service, Topic

SERVICE = Service(
    inputs=(*(Topic(kind, compacted=True) for kind in KINDS), Topic(LISTENING_EVENTS)), outputs=(Topic(ENRICHED),)
)
