"""`streamstate diff`: the answers of two releases for a sample of keys."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
import typer
from rich.console import RenderableType

from streamstate.app import App
from streamstate.cli import output
from streamstate.cli.output import AsJson, Exit
from streamstate.cli.releases.beside import Name, ask, breaking, look, recorded, refused_more
from streamstate.cli.services import Deployment, Service
from streamstate.errors import BadRecord
from streamstate.kafka.reading import read_to_end
from streamstate.processing.decode import raw_record, topics_with_header_ids
from streamstate.profile.measure import is_window
from streamstate.releases.record import next_release, require
from streamstate.view import View
from streamstate_client import Refused, Reply

SHOWN = 10
"""The most differences printed for people."""

WIDTH, BEFORE = 60, 20
"""The most characters of a value, and of those before a difference, printed for people."""

ATTEMPTS = 3
"""Comparisons of an answer of which members change meanwhile."""

Sample = Annotated[int, typer.Option(min=1, max=10_000, help="Number of keys.")]
Keys = Annotated[list[str] | None, typer.Option("--key", help="Default: keys of the newest records.")]


class AnswerDifference(msgspec.Struct):
    """The path of an answer, and its members with both values; `missing` are releases without the answer."""

    path: str
    members: dict[str, tuple[Any, Any]]
    missing: list[str]


class MemberCount(msgspec.Struct):
    """In how many of the `answers` of a view a member differs, such as `plays.7d`.

    An empty member: the number of keys that a single release knows.
    """

    view: str
    member: str
    differing: int
    answers: int


class Diff(msgspec.Struct):
    """The comparison of the answers of the live release and `release`.

    `summary` counts the differences by view and member, most first. `breaking` are the differences of the answers' form
    that break clients, `refused` the lines of `refused_more`.
    """

    service: str
    live: str
    release: str
    answers: int
    equal: int
    breaking: list[str]
    refused: list[str]
    summary: list[MemberCount]
    differences: list[AnswerDifference]


def diff(
    service: Service, release: Name = "", *, sample: Sample = 100, key: Keys = None, as_json: AsJson = False
) -> None:
    """Compare the answers of the live release with a staged release's, for a sample of keys.

    The gateway's key needs the scope admin.
    """
    of, record = recorded(service)
    name = release or next_release(record)
    require(record, name)
    form = breaking(name)
    paths = {path: view.name for view in _views(of.app) for path in _paths(of, view, key, sample)}
    differences = [found for path in paths if (found := _difference(path, record.live, name))]
    refused = refused_more(look(of, name), look(of, record.live))
    equal, summary = len(paths) - len(differences), _summed(paths, differences)
    answer = Diff(of.app.release_of, record.live, name, len(paths), equal, form, refused, summary, differences)
    output.show(answer, *_overview(answer), as_json=as_json)
    if differences or form:
        raise typer.Exit(Exit.REFUSED)


def _views(app: App) -> Iterator[View[Any]]:
    return (view for view in app.views if view.key and not view.over_all_partitions)


def _paths(of: Deployment, view: View[Any], keys: Sequence[str] | None, most: int) -> list[str]:
    texts = keys or _sampled(of, view, most)
    return [view.path.replace("<key>", quote(text, safe="")) for text in texts]


def _sampled(of: Deployment, view: View[Any], most: int) -> list[str]:
    """The keys of the newest records of the view's topic, over all of its partitions."""
    topic, codec = str(view.topic), view.key
    assert codec
    places = [(topic, partition) for partition in range(of.topics.partitions(topic))]
    begins, ends = of.topics.begins(places), of.topics.ends(places)
    share = max(1, most // len(places))
    # A key has several records.
    starts = {place: max(begins[place], end - 5 * share) for place, end in ends.items() if end > begins[place]}
    found: dict[int, dict[str, None]] = {}
    header_ids = topic in topics_with_header_ids(of.app)
    for message in read_to_end(of.settings.kafka, starts, of.settings.security) if starts else ():
        try:
            text = str(codec.decode(raw_record(message, header_ids=header_ids)[2]))
        except BadRecord:
            continue
        of_partition = found.setdefault(message.partition() or 0, {})
        of_partition.pop(text, None)
        of_partition[text] = None
    return [text for of_partition in found.values() for text in [*of_partition][-share:]][:most]


def _difference(path: str, live: str, release: str) -> AnswerDifference | None:
    """The members of the release's answer that differ from equal answers of the live release, before and after it.

    Each answer demands the position of the previous answer, so the release has folded what the live release had.
    A member that changes each time, such as the time of an answer, is left out.
    """
    before, found = _answer(path, live), dict[str, tuple[Any, Any]]()
    for _ in range(ATTEMPTS):
        other = _answer(path, release, before.position)
        if other.value == before.value:
            break
        after = _answer(path, live, other.position)
        if before.value and other.value and after.value:
            differing = _differing(before.value, other.value)
            found |= {name: pair for name, pair in differing.items() if after.value.get(name) == pair[0]}
            if differing.keys() <= found.keys():
                break
        elif bool(before.value) == bool(after.value):
            return AnswerDifference(path, {}, [release if before.value else live])
        before = after
    return AnswerDifference(path, found, []) if found else None


def _answer(path: str, release: str, after: str = "") -> Reply:
    """The answer of a release at the position `after` at least, an empty answer for an unknown key."""
    try:
        return ask(path, release, after)
    except Refused as error:
        if error.status == 404:
            return Reply({}, "")
        raise


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {name: (one.get(name), other.get(name)) for name in {**one, **other} if one.get(name) != other.get(name)}


def _summed(paths: Mapping[str, str], differences: Sequence[AnswerDifference]) -> list[MemberCount]:
    """The number of differing answers by view and member; `paths` are of all answers, with the name of the view."""
    answers, found = Counter(paths.values()), Counter[tuple[str, str]]()
    for each in differences:
        places = [place for name, pair in each.members.items() for place in _places(name, *pair)]
        found.update((paths[each.path], place) for place in places or [""])
    return [MemberCount(view, member, count, answers[view]) for (view, member), count in found.most_common()]


def _places(name: str, one: Any, other: Any) -> Iterator[str]:
    """The member `name`, or its windows that differ."""
    if not (isinstance(one, dict) and isinstance(other, dict) and all(map(is_window, {**one, **other}))):
        yield name
        return
    yield from (f"{name}.{window}" for window in {**one, **other} if one.get(window) != other.get(window))


def _overview(answer: Diff) -> Iterator[RenderableType]:
    yield f"{answer.equal:,} of {answer.answers:,} answers of {answer.live} and {answer.release} are equal"
    several = len({of.view for of in answer.summary}) > 1
    for of in answer.summary:
        count = f"{of.differing:,} of {of.answers:,}"
        said = f"{of.member}: {count} differ" if of.member else f"{count} are unknown to one of the releases"
        yield f"  {f'{of.view} ' * several}{said}"
    for each in answer.differences[:SHOWN]:
        if each.missing:
            yield f"  {each.path}: unknown to {each.missing[0]}"
        yield from shown(each.path, each.members)
    yield from (f"  breaks clients: {line}" for line in answer.breaking)
    yield from answer.refused


def shown(path: str, members: Mapping[str, tuple[Any, Any]]) -> Iterator[str]:
    """A line for each place in `members` that differs."""
    found = [place for name, pair in members.items() for place in _leaves(name, *pair)]
    lines = [f"  {path} {place}: {before} → {after}" for place, *pair in found for before, after in [_cut(*pair)]]
    yield from lines if len(lines) <= SHOWN else [*lines[: SHOWN - 1], f"  {path}: and {len(lines) - SHOWN + 1} more"]


def _leaves(place: str, one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    """The places below `place` that differ, with both values; of two lists the items that only one of them has."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name, pair in _differing(one, other).items():
            yield from _leaves(f"{place}.{name}", *pair)
    elif isinstance(one, list) and isinstance(other, list):
        own = [each for each in one if each not in other], [each for each in other if each not in one]
        yield (place, *own) if any(own) else (f"{place}, in another order", one, other)
    else:
        yield place, one, other


def _cut(*values: Any) -> list[str]:
    """The values as JSON, cut before and behind the place where they begin to differ."""
    texts = [msgspec.json.encode(value).decode() for value in values]
    equal = next((at for at, each in enumerate(zip(*texts, strict=False)) if len({*each}) > 1), 0)
    begin = max(0, equal - BEFORE) if max(map(len, texts)) > WIDTH else 0
    return [f"{'…' * bool(begin)}{text[begin : begin + WIDTH]}{'…' * (len(text) > begin + WIDTH)}" for text in texts]
