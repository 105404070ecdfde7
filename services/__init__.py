"""The deployable services, a folder each."""

from streamstate.service import modules

# Services may share an environment: the settings of all services are defined, so that only unknown names are refused.
modules(__name__, "settings")
