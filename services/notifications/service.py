"""What notifications is, for all who set it up."""

from services.notifications.model import NOTIFICATION_WINDOWS, NOTIFICATIONS, OPEN, TICK
from streamstate.service import Service, Topic

SERVICE = Service(
    inputs=(Topic(OPEN), Topic(TICK)),
    outputs=(Topic(NOTIFICATIONS), Topic(NOTIFICATION_WINDOWS)),
)
