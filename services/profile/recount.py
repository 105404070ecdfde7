"""The recount of the declared profile."""

from services.profile.settings import ProfileSettings
from streamstate.profile.file import read
from streamstate.verify.profiles import recounted
from streamstate.verify.recount import Recounted


def recount(settings: ProfileSettings) -> Recounted:
    """Raises `Misconfigured` with the line of the first fault of the file."""
    return recounted(read(settings.profile))
