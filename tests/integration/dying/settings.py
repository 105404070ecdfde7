"""The settings of the service `profile`."""

from services.profile.settings import ProfileSettings

__all__ = ["ProfileSettings"]
