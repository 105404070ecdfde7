"""The deployable services: a folder of each, named like its chart."""

from streamstate.bootstrap import service_modules

# Services may share an environment: the settings of all services are defined, so that only unknown names are refused.
service_modules(__name__, "settings")
