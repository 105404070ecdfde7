"""The use case of the declared profile."""

from services.profile.settings import ProfileSettings
from streamstate.app import App
from streamstate.profile import profile_app, read


def app(settings: ProfileSettings) -> App:
    """Raises `Misconfigured` with the line of the first fault of the file."""
    return profile_app(read(settings.profile))
