"""Settings with lists of names, separated by commas."""

from collections.abc import Sequence

from pydantic import AfterValidator


def names(text: str) -> list[str]:
    """The names in `text`."""
    return list(filter(None, text.split(",")))


def known(kind: str, choices: Sequence[str]) -> AfterValidator:
    """Restrict the names of a setting to `choices`; `kind` is the noun for errors."""

    def require(text: str) -> str:
        if unknown := set(names(text)) - set(choices):
            msg = f"there is no {kind} {', '.join(sorted(unknown))}; choose from {', '.join(choices)}"
            raise ValueError(msg)
        return text

    return AfterValidator(require)
