"""What clicks is, for all who set it up."""

from services.clicks.model import CLICKS_PER_REGION, USER_CLICKS, USER_REGIONS
from streamstate.service import Service, Topic

SERVICE = Service(
    # The regions are not compacted: where users were is wanted again when the state is built anew.
    inputs=(Topic(USER_REGIONS), Topic(USER_CLICKS)),
    outputs=(Topic(CLICKS_PER_REGION, compacted=True),),
)
