"""The service `profile`, with workers killed after they have sent records and before they have committed."""

import os
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from services.profile.model import app as profile
from streamstate.app import App, Effect, Emit, FoldContext, Record
from streamstate.state.redis import RedisStore
from tests.integration.dying.settings import ProfileSettings
from tests.integration.fragile.model import FIXED

DEATHS = 3


def died() -> Path:
    """A file with a byte for each death."""
    return Path(os.environ[FIXED]).with_name("died")


class Dying:
    """A fold whose first commits with a record kill their workers."""

    def __init__(self, apply: Callable[[Sequence[Record[Any, Any]], FoldContext], Iterable[Effect]]) -> None:
        self._apply = apply

    def __call__(self, records: Sequence[Record[Any, Any]], context: FoldContext) -> Iterable[Effect]:
        effects = [*self._apply(records, context)]
        deaths = died().stat().st_size if died().exists() else 0
        if deaths < DEATHS and any(isinstance(effect, Emit) for effect in effects):
            setattr(RedisStore, "commit", _die)  # noqa: B010, a method of a class
        return effects


def _die(*_commits: Any, dry_run: bool = False) -> None:
    if dry_run:
        # Before the records are sent.
        return
    with died().open("ab") as file:
        file.write(b"x")
    os.kill(os.getpid(), signal.SIGKILL)


def app(settings: ProfileSettings) -> App:
    made = profile(settings)
    return replace(made, folds=tuple(replace(fold, apply=Dying(fold.apply)) for fold in made.folds))
