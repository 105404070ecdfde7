"""A profile with every kind of measure, and its events."""

import json
from decimal import Decimal
from typing import Any

import yaml
from hypothesis import strategies as st

from streamstate.profile.file import parse

DECLARED = """
name: everything
topic: events
key: long
path: /v1/users/<key>/everything
history: 4d
fields: {device: str, artist: {type: int, member: track.artist}, loud: bool, price: decimal(2), ms: int}
measures:
  plays: {count: all, over: [1h, 2d, 3d, ever], index: true}
  priced: {count: price}
  devices: {count: all, by: device, over: [2d, ever]}
  loudness: {total: ms, by: loud, over: [1h, ever]}
  spent: {total: price, over: [ever, 2d], index: true}
  long: {total: ms, where: {ms: {ge: 0}}, over: 2d, index: true}
  least: {least: ms, over: [2d, ever]}
  most: {most: price, by: device, over: [2d, ever]}
  mean: {mean: ms, over: [3d, ever]}
  costs: {mean: price, by: device}
  firstSeen: {first: timestamp, over: [1h, ever]}
  lastSeen: {last: timestamp}
  firstDevice: {first: device, over: [2d, ever]}
  lastPrice: {last: price, where: {device: {ne: tv}}, over: [2d, ever]}
  artists: {top: 3, of: artist, over: [2d, ever]}
  others: {top: 2, of: artist}
  loudest: {top: 2, of: device, total: ms, over: [2d, ever]}
  listened: {top: 4, of: price, where: {any: [{loud: {eq: true}}, {artist: {in: [1, -3]}}]}, over: [ever, 2d]}
  different: {distinct: artist, over: [1h, ever]}
  quiet: {distinct: device, where: {loud: {eq: false}, all: [{ms: {lt: 3}}]}, over: [2d]}
  latest: {recent: 3, of: device, over: [1h, 3d, ever]}
  sittings: {sessions: 30m, over: [2d, 3d]}
rules:
  binge: {when: {plays: {gt: 2}}, over: 1h, cooldown: 30m}
  many: {when: {plays: {ge: 5}}, over: ever}
  loudly: {when: {long: {ge: 3, lt: 9}}}
  spender: {when: {spent: {gt: 1.5}}, over: ever, cooldown: 2d}
  varied: {when: {different: {ne: 1}}, over: 1h}
  low: {when: {least: {lt: 0}}, over: 2d}
  least: {when: {least: {lt: -3}}, over: ever}
  sitting: {when: {sittings: {in: [2, 3]}}, over: 2d, cooldown: 1d}
"""
EVERYTHING = parse(DECLARED)
COMPACT = parse(
    "\n".join(line for line in DECLARED.splitlines() if "loudest" not in line).replace("everything", "compact")
    + "\ncompact: true\n"
)

_WORDS = yaml.safe_load(DECLARED)
_LISTED = ("firstDevice", "lastPrice", "latest")
OVERALL_DECLARED = _WORDS | {
    "name": "overall",
    "path": "/v1/overall",
    "rules": {},
    "measures": {
        name: words | ({"over": "ever"} if name in _LISTED else {}) | ({"index": False} if "index" in words else {})
        for name, words in _WORDS["measures"].items()
        if name != "sittings"
    },
}
"""Over all keys, lists have no windows, and there are no rules."""
OVERALL = parse(yaml.safe_dump(OVERALL_DECLARED))

REKEYED = parse("""
name: rekeyed
topic: purchases
key: value.buyer.id
path: /v1/users/<key>/rekeyed
where: {kind: {ne: free}}
fields: {buyer: {type: int(text), member: buyer.id}, kind: str, cents: int}
measures:
  purchases: {count: all, over: [1h, ever]}
  spent: {total: cents, over: [2d, ever]}
  kinds: {top: 2, of: kind}
  latest: {recent: 3, of: cents}
rules:
  many: {when: {purchases: {gt: 2}}, over: ever}
""")
"""With the key from the value."""
purchases: st.SearchStrategy[bytes] = st.fixed_dictionaries(
    {
        "buyer": st.none() | st.fixed_dictionaries({"id": st.sampled_from([None, 0, 1, 2, "1", 1.0, "x", -1, 0.5])}),
        "kind": st.none() | st.sampled_from(["book", "tea", "free", "free", 1]),
        "cents": st.none() | st.integers(-5, 5) | st.sampled_from(["many", 2**40]),
    }
).map(lambda value: json.dumps(value).encode())

absent = st.none()
profile_events: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "key": st.integers(1, 2),
        "device": absent | st.sampled_from(["phone", "tv", "é", "", "a b"]),
        "artist": absent | st.integers(-3, 12) | st.sampled_from([2**63 - 1, -(2**63)]),
        "loud": absent | st.booleans(),
        "price": absent | st.integers(-300, 300).map(lambda cents: Decimal(cents) / 100),
        "ms": absent | st.integers(-5, 5),
    }
)


def event_json(event: dict[str, Any]) -> bytes:
    fields = {name: of for name, of in event.items() if name not in ("key", "timestamp")}
    members = {name: float(of) if isinstance(of, Decimal) else of for name, of in fields.items()}
    artist = members.pop("artist")
    track = (
        {"track": {"artist": artist} if members["loud"] else None} if artist is None else {"track": {"artist": artist}}
    )
    return json.dumps(track | {name: of for name, of in members.items() if of is not None or len(name) > 4}).encode()
