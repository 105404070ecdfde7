"""`streamstate config`: the settings of a process in this environment."""

import os
import re

import msgspec
from pydantic_core import to_json

from streamstate.cli import output
from streamstate.cli.output import AsJson
from streamstate.cli.services import configured
from streamstate.settings import PREFIX, Settings, kinds, load

_HIDDEN = "***"
_SECRETS = (
    re.compile(r"(?<=://)(?P<before>[^:/@]*:)[^@]*(?=@)"),
    re.compile(r"(?P<before>\"[^\"]*(?:password|secret|token)[^\"]*\":\")[^\"]*", re.IGNORECASE),
)
"""In URLs, and in JSON. Whole secrets are hidden by their type."""


class SettingReport(msgspec.Struct):
    """A variable with its value, spelled as in the environment; `of` names the processes that read the variable."""

    variable: str
    value: str
    default: bool
    of: str


def config(*, as_json: AsJson = False) -> None:
    """Show every setting and its value; secrets are masked.

    Exit status 3: an unknown variable, with the nearest known name.
    """
    configured()
    settings = [setting for kind in dict.fromkeys(kinds()) for setting in _of(kind)]
    rows = [(each.variable, "default" if each.default else "set", each.of, each.value) for each in settings]
    output.show(settings, output.table(("variable", "", "read by", "value"), rows), as_json=as_json)


def _of(kind: type[Settings]) -> list[SettingReport]:
    """The settings defined by `kind` itself. Raises `Misconfigured`."""
    names = [name for name in kind.model_fields if name in kind.__annotations__]
    values = load(kind) if names else None
    given = {variable.upper() for variable in os.environ}
    of = " ".join((kind.__doc__ or "").split()).rstrip(".")
    return [
        SettingReport(
            f"{PREFIX}{name.upper()}", _text(getattr(values, name)), f"{PREFIX}{name.upper()}" not in given, of
        )
        for name in names
    ]


def _text(value: object) -> str:
    """`value` as spelled in a variable: lists and maps are JSON."""
    if value is None:
        return ""
    text = to_json(value).decode() if isinstance(value, tuple | dict) else str(value)
    for secret in _SECRETS:
        text = secret.sub(rf"\g<before>{_HIDDEN}", text)
    return text
