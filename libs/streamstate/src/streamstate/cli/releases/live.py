"""The live release of a service, for commands about what clients read."""

from dataclasses import replace

from streamstate.cli.services import Deployment, environment
from streamstate.errors import Misconfigured
from streamstate.processing.fitness import require_same_folds
from streamstate.releases import file
from streamstate.settings import PREFIX, CommandSettings, load
from streamstate.state.store import whole


def followed(of: Deployment) -> Deployment:
    """The deployment of the live release, or `of` where NAME or RELEASE_OF names a release.

    Raises `Misconfigured` where the settings of the live release are unknown, or the named release does not exist.
    """
    record = of.pointer.read()
    if record is None or record.live == of.app.name:
        return of
    if of.settings.name or of.settings.release_of:
        if of.app.name in record.releases:
            return of
        msg = f"{of.app.name} is no release of {of.app.release_of}: {_named(of, record.live)}"
        raise Misconfigured(msg)
    return _written(of, record.live) or _alike(of, record.live)


def as_stored(of: Deployment) -> Deployment:
    """The deployment of `followed`. Raises `Misconfigured` also where its settings are not those of its state."""
    release = followed(of)
    _require_own_state(release, "set the variables of its deployment")
    return release


def live_name(of: Deployment) -> str:
    """The name of the live release of the service."""
    record = of.pointer.read()
    return record.live if record else of.app.name


def _written(of: Deployment, live: str) -> Deployment | None:
    """The release `live` by the file of releases, None where the file has no such release."""
    path = of.settings.releases
    release = path and file.read(path).get(of.app.release_of, {}).get(live)
    if not release:
        return None
    own = {"NAME": live, "RELEASE_OF": of.app.release_of, **release.settings}
    with environment(own):
        return Deployment(of.service, release.package, load(CommandSettings), own)


def _alike(of: Deployment, live: str) -> Deployment:
    """The release `live` by the settings of `of`, which must be those of its state."""
    release = replace(of.release(live), own={"NAME": live, "RELEASE_OF": of.app.release_of})
    advice = f"{_named(of, live)} and its other settings, or {PREFIX}RELEASES to the file of releases"
    _require_own_state(release, advice)
    return release


def _require_own_state(of: Deployment, advice: str) -> None:
    """Raise `Misconfigured`, with `advice`, where other folds or settings made the state."""
    snapshots, _ = whole(of.store, range(of.topics.widest(of.app.topics)))
    try:
        require_same_folds(of.app, of.app.topics, snapshots.values())
    except Misconfigured as error:
        reason = str(error).partition(";")[0]
        msg = f"{reason}: {advice}"
        raise Misconfigured(msg) from error


def _named(of: Deployment, live: str) -> str:
    first = of.app.release_of
    beside = f" {PREFIX}RELEASE_OF={first}" if live != first else ""
    return f"{live} is live; set {PREFIX}NAME={live}{beside}"
