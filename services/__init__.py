"""The deployable services, one folder each."""

from streamstate.service import modules

# Services may share an environment: the settings of all are defined, so that only other names are refused.
modules(__name__, "settings")
