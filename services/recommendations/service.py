"""What recommendations is, for all who set it up."""

from services.events import LISTENING_EVENTS
from streamstate.service import Service, Topic

SERVICE = Service(inputs=(Topic(LISTENING_EVENTS),), any_instance=True)
