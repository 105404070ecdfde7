"""The live release of a service, for commands about what clients read."""

from streamstate.cli.services import Deployment, stored
from streamstate.errors import Misconfigured
from streamstate.processing.fitness import require_same_folds
from streamstate.settings import PREFIX
from streamstate.state.store import whole


def followed(of: Deployment) -> Deployment:
    """The deployment of the live release, or `of` where it is chosen by its name.

    Raises `Misconfigured` where no stream of the live release has stored its settings, or `of` is no release.
    """
    record = of.pointer.read()
    if record is None or record.live == of.app.name or (of.chosen and of.app.name in record.releases):
        return of
    beside = f" {PREFIX}RELEASE_OF={of.app.release_of}" if record.live != of.app.release_of else ""
    advice = f"{record.live} is live; set {PREFIX}NAME={record.live}{beside}"
    if of.chosen:
        msg = f"{of.app.name} is no release of {of.app.release_of}: {advice}"
        raise Misconfigured(msg)
    if live := stored(of.settings, [record.live]).get(record.live):
        return live
    msg = f"no stream of {record.live} has stored its settings: start one, or, since {advice} and its other settings"
    raise Misconfigured(msg)


def as_stored(of: Deployment) -> Deployment:
    """The deployment of `followed`. Raises `Misconfigured` also where its settings are not those of its state."""
    release = followed(of)
    snapshots, _ = whole(release.store, range(release.topics.widest(release.app.topics)))
    try:
        require_same_folds(release.app, release.app.topics, snapshots.values())
    except Misconfigured as error:
        reason = str(error).partition(";")[0]
        msg = f"{reason}: set the variables of its deployment"
        raise Misconfigured(msg) from error
    return release


def live_name(of: Deployment) -> str:
    """The name of the live release of the service."""
    record = of.pointer.read()
    return record.live if record else of.app.name
