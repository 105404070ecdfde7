"""What topics is, for all who set it up."""

from services.topics.settings import EXAMPLE
from streamstate.service import Service, Topic

SERVICE = Service(inputs=(Topic(EXAMPLE.topic, partitions=9),))
