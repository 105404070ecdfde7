"""The store in Redis (or Valkey): readable keys, a script for each write, and a transaction for a read.

All keys of a partition start with its hash tag `{<app>:<partition>}`, and so share a slot of a Redis Cluster:

    {metrics:7}          hash of the partition:
                         owner, epoch, format, count:<name>, expired:<family>
                         backup: time of the last backup, milliseconds since 1970
                         for each topic: offset:<topic>, time:<topic>, target:<topic>, origin:<topic>,
                         begin:<topic>, fold:<topic>
                         placed:<topic>: the partitioner of sampled keys
                         decisions of operators: allow:<topic>, skip:<topic>:<offset>, rate
                         begun, ended: numbers of the last commit at its begin and end, different after half
                         a commit, deletion or restore
                         record: number of the record of releases by which outputs were published, or later
                         offset:user deletions: next offset of the deletions
    {metrics:deployment} service and settings of the deployment, as JSON, for commands
    {metrics:live}       record of the releases of the service, as JSON, where there are several
    {metrics:7}:<key>    string (Put), hash (Merge), stream (Append, the number as id), or sorted set
                         (IncrementScores with negated scores, PushRecent, Insert, UpdateIndex with scores 0)
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import redis
from redis.cluster import RedisCluster
from redis.connection import Connection
from redis.exceptions import MovedError, NoScriptError, RedisClusterException, ResponseError

from streamstate.errors import Fenced, IncompleteCommit, Inexact, Misconfigured, Superseded
from streamstate.state.operations import Read
from streamstate.state.redis_connections import Client
from streamstate.state.redis_link import (
    ATTEMPTS,
    BETWEEN_NODES,
    NODE_FAILED,
    PAUSE_S,
    failure,
    packed,
    still_between_nodes,
)
from streamstate.state.redis_reads import (
    NO_TRANSACTION,
    READ,
    Command,
    Script,
    as_script,
    decode_claim,
    decode_snapshot,
    pack,
    read_commands,
    script_keys,
    tag,
    trouble_key,
)
from streamstate.state.store import FORMAT, NOTHING, OPEN, Allowance, Claim, Commit, Origin, Snapshot, committed

TOGETHER = 500
"""The most changes of commits sent at once: Redis serves no other client between them."""

_Call = tuple[int, Sequence[str | bytes | int]]
"""A partition and the script's arguments."""

_MISCONFIGURED = "MISCONFIGURED "
_INCOMPLETE = "INCOMPLETE "
_OVERFLOW = "OVERFLOW "
_FENCED = 2
_SERVER, _CLAIM, _COMMIT = Script("server.lua"), Script("server.lua", "claim.lua"), Script("buckets.lua", "commit.lua")
_SKIP, _MEND, _FENCE = Script("skip.lua"), Script("mend.lua"), Script("fence.lua")
SCRIPTS = (READ, _SERVER, _CLAIM, _COMMIT, _SKIP, _MEND, _FENCE)
"""All scripts of a service's store."""


def elsewhere(instances: Collection[str], group: str, redis: str) -> str:
    """The error for instances of the consumer group `group` without a status in this Redis, at the URL `redis`."""
    verb = "does" if len(instances) == 1 else "do"
    return (
        f"{', '.join(sorted(instances))} of the same consumer group {verb} not write to this Redis ({redis}), and the "
        f"group {group} would split the partitions between two states: give all instances of a deployment the same "
        "STREAMSTATE_REDIS, and another environment at this Kafka a STREAMSTATE_GROUP of its own, then start this "
        "instance again; or find in the log of Redis why it refuses writes"
    )


class RedisStore:
    """The `Store` of one app. Safe for threads, as the client is."""

    def __init__(self, client: Client, app: str) -> None:
        self._client = client
        self._app = app

    def claim(
        self,
        partition: int,
        owner: str,
        ends: Mapping[str, int],
        origins: Mapping[str, Origin] = NOTHING,
        begins: Mapping[str, int] = NOTHING,
        folds: Mapping[str, str] = NOTHING,
    ) -> Claim:
        given = {
            "ends": {topic: str(end) for topic, end in ends.items()},
            "begins": {topic: str(begin) for topic, begin in begins.items()},
            "origins": {topic: f"{origin.id}/{origin.partitions}" for topic, origin in origins.items()},
            "folds": folds,
            "open": str(OPEN),
        }
        [answer] = self._evaluate(_CLAIM, [(partition, [owner, FORMAT, pack(given)])])
        return decode_claim(partition, answer)

    def commit(self, *commits: Commit, dry_run: bool = False) -> None:
        calls = ([_commit_call(commit, dry_run) for commit in together] for together in _round_trips(commits))
        answers = [answer for together in calls for answer in self._evaluate(_COMMIT, together)]
        inexact = [index for index, answer in enumerate(answers) if isinstance(answer, ResponseError)]
        for commit, answer in zip(commits, answers, strict=True):
            if not isinstance(answer, ResponseError) and not answer[0]:
                hash_tag = tag(self._app, commit.claim.partition)
                raise Fenced(_refusal(hash_tag, commit, *map(bytes.decode, answer[1:])))
            if answer == [_FENCED]:
                raise Superseded(commit.record)
        if inexact:
            raise Inexact(inexact)

    def read(self, wanted: Mapping[int, Sequence[Read]]) -> Mapping[int, Snapshot]:
        return self._read(wanted, whole=True)

    def inspect(self, partition: int, reads: Sequence[Read]) -> Snapshot:
        """A snapshot of a partition, which may hold a part of a commit."""
        return self._read({partition: reads}, whole=False)[partition]

    def _read(self, wanted: Mapping[int, Sequence[Read]], *, whole: bool) -> Mapping[int, Snapshot]:
        asked = [(tag(self._app, partition), reads) for partition, reads in wanted.items()]
        try:
            answers = _transact(self._client, [read_commands(*each) for each in asked])
        except NO_TRANSACTION:
            execute: Callable[..., list[Any]] = self._client.execute_command
            answers = [execute(*as_script(*each)) for each in asked]
        return {
            p: decode_snapshot(*each, answer, whole=whole)
            for p, each, answer in zip(wanted, asked, answers, strict=True)
        }

    def require_fit(self, partitions: Iterable[int]) -> None:
        """Raise `Misconfigured`, as a claim does, when a server of these partitions would lose their state."""
        self._evaluate(_SERVER, [(partition, []) for partition in partitions])

    def fence(self, partitions: Iterable[int], record: int) -> Mapping[int, Snapshot]:
        calls: list[_Call] = [(partition, [record]) for partition in partitions]
        answers = zip(calls, self._evaluate(_FENCE, calls), strict=True)
        return {p: decode_snapshot(tag(self._app, p), (), [answer]) for (p, _), answer in answers}

    def skip(self, partition: int, topic: str, offset: int, reason: str) -> None:
        [stored] = self._evaluate(_SKIP, [(partition, [topic, offset, reason])])
        if stored is not None:
            raise committed(topic, partition, offset, int(stored))

    def allow(self, partition: int, topic: str, allowance: Allowance) -> None:
        self._client.hset(tag(self._app, partition), f"allow:{topic}", f"{allowance.before} {allowance.reason}")

    def throttle(self, partition: int, rate: float | None) -> None:
        key = tag(self._app, partition)
        self._client.hdel(key, "rate") if rate is None else self._client.hset(key, "rate", rate)

    def report_placed(self, partition: int, topic: str, partitioner: str) -> None:
        """Store which partitioner places the sampled keys of `topic`."""
        self._client.hset(tag(self._app, partition), f"placed:{topic}", partitioner)

    def half_commit(self, partition: int) -> int | None:
        """The number of the commit, or reset, applied in part to `partition`; None for a complete partition."""
        begun, ended = self._client.hmget(tag(self._app, partition), "begun", "ended")
        return None if begun == ended else int(begun or 0)

    def mend(self, partition: int, half_commit: int) -> bool:
        """Mark `partition` as complete if it still holds a part of the commit of this number; returns success."""
        [mended] = self._evaluate(_MEND, [(partition, [half_commit])])
        return bool(mended)

    def report_trouble(self, instance: str, text: str, valid_ms: int) -> None:
        """Store, for `valid_ms` milliseconds, that the stream `instance` uses this Redis, and why it does not fold.

        `instance` is the name of its status, or the address of its API, which answers from the state meanwhile.
        """
        self._client.set(trouble_key(self._app, instance), text, px=valid_ms)

    def troubles(self, statuses: Mapping[str, str]) -> dict[str, str | None]:
        """The stored reason of each instance, empty without trouble; None for an instance without a report.

        statuses: the names of the reports, by instance.
        """
        found: dict[str, Any] = {each: self._client.get(trouble_key(self._app, at)) for each, at in statuses.items()}
        return {instance: None if text is None else text.decode() for instance, text in found.items()}

    def _evaluate(self, script: Script, calls: Sequence[_Call]) -> list[Any]:
        """The answers to `calls`, made in one round trip; loads the script into a server that lacks it.

        The refusal of an inexact number is an answer; any other error is raised.
        """
        answers = self._send(script, calls)
        unknown = [index for index, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        if unknown:
            self._client.script_load(script.text)
            for index, answer in zip(unknown, self._send(script, [calls[i] for i in unknown]), strict=True):
                answers[index] = answer
        for (partition, _), answer in zip(calls, answers, strict=True):
            if isinstance(answer, ResponseError) and str(answer).startswith(_INCOMPLETE):
                raise IncompleteCommit(tag(self._app, partition)) from answer
            if isinstance(answer, ResponseError) and str(answer).startswith(_MISCONFIGURED):
                raise Misconfigured(str(answer).removeprefix(_MISCONFIGURED)) from answer
            if isinstance(answer, Exception) and not str(answer).startswith(_OVERFLOW):
                raise answer
        return answers

    def _send(self, script: Script, calls: Sequence[_Call]) -> list[Any]:
        if len(calls) == 1:
            # A pipeline takes some 10 µs more; redis-py's `register_script` adds `SCRIPT EXISTS` to each round trip.
            [(partition, arguments)] = calls
            try:
                return [self._client.evalsha(script.sha, *script_keys(tag(self._app, partition)), *arguments)]
            except ResponseError as error:
                return [error]
        pipeline = self._client.pipeline(transaction=False)
        for partition, arguments in calls:
            # redis-py refuses `evalsha` in a cluster's pipeline, but routes the command.
            pipeline.execute_command("EVALSHA", script.sha, *script_keys(tag(self._app, partition)), *arguments)
        return pipeline.execute(raise_on_error=False)


def _transact(client: redis.Redis | RedisCluster, transactions: Sequence[Sequence[Command]]) -> list[list[Any]]:
    """The answers to each transaction, in one round trip, or at a cluster in one for each. Raises the first error.

    Each has at least one command, and all its keys are in the slot of the first command's key. Safe for threads.
    """
    if isinstance(client, RedisCluster):
        return [_transact_in_cluster(client, commands) for commands in transactions]
    return _exchange(client, transactions)


def _transact_in_cluster(client: RedisCluster, commands: Sequence[Command]) -> list[Any]:
    """Routed by hand, since redis-py takes ASK for the new place of the slot, and leaves MOVED to the caller."""
    key = commands[0][1]
    for _ in range(ATTEMPTS):
        node = client.get_node_from_key(key)  # type: ignore[no-untyped-call]
        try:
            return _exchange(client.get_redis_connection(node), [commands])[0]
        except MovedError as error:
            client.nodes_manager.move_slot(error)
        except BETWEEN_NODES:
            time.sleep(PAUSE_S)
        except NODE_FAILED:
            with suppress(RedisClusterException):
                client.nodes_manager.initialize(last_failed_node_name=node.name)
            raise
    raise still_between_nodes(key)


def _exchange(client: redis.Redis, transactions: Sequence[Sequence[Command]]) -> list[list[Any]]:
    # A pipeline of redis-py takes three times the CPU time, and makes dictionaries of some answers.
    pool = client.connection_pool
    connection = pool.get_connection()
    try:
        connection.send_packed_command([b"".join(map(packed, transactions))])  # type: ignore[no-untyped-call]
        outcomes = [_outcome(connection, len(commands)) for commands in transactions]
    except BaseException:
        # Outstanding answers would be read as answers to the next command.
        connection.disconnect()  # type: ignore[no-untyped-call]
        raise
    finally:
        pool.release(connection)
    for error, _ in outcomes:
        if error is not None:
            raise error
    return [answers for _, answers in outcomes]


def _outcome(connection: Connection, commands: int) -> tuple[Exception | None, list[Any]]:
    """The whole reply to a transaction of `commands` commands: the failure or None, and the answers."""
    queued = [_answer(connection) for _ in range(1 + commands)]
    refusal = next((answer for answer in queued if isinstance(answer, Exception)), None)
    answers = _answer(connection)
    return failure(refusal, answers), answers


def _answer(connection: Connection) -> Any:
    try:
        return connection.read_response()
    except ResponseError as error:
        return error


def _round_trips(commits: Sequence[Commit]) -> Iterator[Sequence[Commit]]:
    """`commits` in order, grouped into round trips of at most `TOGETHER` changes."""
    begin, size = 0, 0
    for index, commit in enumerate(commits):
        if index > begin and size + commit.changes > TOGETHER:
            yield commits[begin:index]
            begin, size = index, 0
        size += commit.changes
    if commits:
        yield commits[begin:]


def _commit_call(commit: Commit, dry_run: bool) -> _Call:
    claim, record = commit.claim, commit.record
    packed = pack(commit.steps), pack(commit.operations), pack(commit.counters)
    return claim.partition, [claim.epoch, claim.server, *packed, "" if record is None else record, *[1] * dry_run]


def _refusal(hash_tag: str, commit: Commit, epoch: str, server: str, topic: str, offset: str) -> str:
    (step,) = (step for step in commit.steps if step.topic == topic)
    return (
        f"{hash_tag} refused {topic} {step.expected} to {step.next} of epoch {commit.claim.epoch}: it holds offset "
        f"{offset or 'none'}, epoch {epoch or 'none'}, on server {server}; claim it again"
    )
