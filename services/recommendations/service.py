"""What recommendations is, for all who set it up."""

from services.events import LISTENING_EVENTS
from services.recommendations.settings import WindowSettings
from streamstate.service import Service, Topic

SERVICE = Service(inputs=(Topic(LISTENING_EVENTS),), settings=WindowSettings, any_instance=True)
