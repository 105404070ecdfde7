"""Settings that name things, separated by commas."""

from collections.abc import Sequence

from pydantic import AfterValidator


def names(text: str) -> list[str]:
    """What `text` names."""
    return list(filter(None, text.split(",")))


def known(kind: str, choices: Sequence[str]) -> AfterValidator:
    """Let a setting name some of `choices` only, each of which is a `kind`."""

    def require(text: str) -> str:
        if unknown := set(names(text)) - set(choices):
            msg = f"there is no {kind} {', '.join(sorted(unknown))}; choose from {', '.join(choices)}"
            raise ValueError(msg)
        return text

    return AfterValidator(require)
