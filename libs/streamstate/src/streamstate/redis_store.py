"""The store in Redis (or Valkey): readable keys, and one server-side script for each verb.

A partition's keys all start with its hash tag, `{<app>:<partition>}`, so that they share a slot of a Redis Cluster:

    {metrics:7}                      hash: owner, epoch, offset:<topic>, target:<topic>, count:<name>
    {metrics:7}:<key>                string (Put), hash (Merge), sorted set (Rank, with negated scores; Push)
"""

import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, assert_never

import msgspec
import redis
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError
from redis.retry import Retry

from streamstate.errors import Fenced
from streamstate.state import Claim, Commit, Fields, Newest, Read, Snapshot, Top, Value

_pack = msgspec.msgpack.encode


def connect(url: str, timeout: float) -> redis.Redis:
    """A client that never repeats a command by itself, with `timeout` in seconds for connecting and for each answer.

    redis-py's own retry sends a command again after a lost reply, and so may apply it several times.
    """
    return redis.Redis.from_url(
        url,
        protocol=2,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        retry=Retry(NoBackoff(), 0),
        health_check_interval=0,
    )


class _Script:
    def __init__(self, name: str) -> None:
        self.text = resources.files("streamstate").joinpath("lua", name).read_text()
        self.sha = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


_CLAIM, _COMMIT, _READ = _Script("claim.lua"), _Script("commit.lua"), _Script("read.lua")


class RedisStore:
    """The `Store` of one app. Safe for threads, as the client is."""

    def __init__(self, client: redis.Redis, app: str) -> None:
        self._client = client
        self._app = app

    def claim(self, partition: int, owner: str, ends: Mapping[str, int]) -> Claim:
        arguments = [part for topic, end in ends.items() for part in (topic, end)]
        epoch, server, *stored = self._call(_CLAIM, partition, owner, *arguments)
        offsets = zip(stored[::2], stored[1::2], strict=True)
        positions = {topic.decode(): int(offset) for topic, offset in offsets if offset}
        return Claim(partition, int(epoch), server.decode(), positions)

    def commit(self, commit: Commit) -> None:
        claim = commit.claim
        applied, *found = self._call(
            _COMMIT,
            claim.partition,
            commit.topic,
            "" if commit.expected is None else commit.expected,
            commit.next,
            claim.epoch,
            claim.server,
            _pack(commit.operations),
            _pack(commit.counters),
        )
        if not applied:
            epoch, offset, server = (part.decode() or "none" for part in found)
            msg = (
                f"{self._tag(claim.partition)} refused {commit.topic} {commit.expected} to {commit.next} of epoch "
                f"{claim.epoch}: it holds offset {offset}, epoch {epoch}, on server {server}; claim it again"
            )
            raise Fenced(msg)

    def read(self, wanted: Mapping[int, Sequence[Read]]) -> Mapping[int, Snapshot]:
        if len(wanted) == 1:
            answers = [self._call(_READ, partition, _pack(reads)) for partition, reads in wanted.items()]
        else:
            answers = self._read_many(wanted)
        return {
            partition: _snapshot(reads, answer)
            for (partition, reads), answer in zip(wanted.items(), answers, strict=True)
        }

    def _read_many(self, wanted: Mapping[int, Sequence[Read]]) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        for partition, reads in wanted.items():
            pipeline.evalsha(_READ.sha, 1, self._tag(partition), _pack(reads))
        try:
            return list(pipeline.execute())
        except NoScriptError:
            return [self._call(_READ, partition, _pack(reads)) for partition, reads in wanted.items()]

    def _call(self, script: _Script, partition: int, *arguments: str | bytes | int) -> Any:
        tag = self._tag(partition)
        try:
            return self._client.evalsha(script.sha, 1, tag, *arguments)
        except NoScriptError:
            return self._client.eval(script.text, 1, tag, *arguments)

    def _tag(self, partition: int) -> str:
        return f"{{{self._app}:{partition}}}"


def _pairs(flat: Sequence[bytes]) -> list[tuple[str, int]]:
    return [(name.decode(), int(float(number))) for name, number in zip(flat[::2], flat[1::2], strict=True)]


def _snapshot(reads: Sequence[Read], answer: Sequence[Any]) -> Snapshot:
    held = dict(zip(answer[0][::2], answer[0][1::2], strict=True))
    owner = held.pop(b"owner", None)
    epoch = int(held.pop(b"epoch", 0))
    numbers: dict[str, dict[str, int]] = {"offset": {}, "target": {}, "count": {}}
    for name, number in held.items():
        group, _, key = name.decode().partition(":")
        numbers[group][key] = int(number)
    values = [_value(read, found) for read, found in zip(reads, answer[1:], strict=True)]
    return Snapshot(
        None if owner is None else owner.decode(), epoch, numbers["offset"], numbers["target"], numbers["count"], values
    )


def _value(read: Read, found: Any) -> Any:
    match read:
        case Value():
            return found
        case Fields():
            return dict(_pairs(found))
        case Top():
            return [(member, -score) for member, score in _pairs(found)]
        case Newest():
            return _pairs(found)
        case _:
            assert_never(read)
