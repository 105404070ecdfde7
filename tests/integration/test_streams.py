"""Streams over the real ring: plays come in."""

import re
from contextlib import closing
from pathlib import Path
from typing import Any

from devkit.records import event
from tests.integration.driving import Driving

(SNIPPET,) = re.findall(r"^```python\n(.*?)^for ", Path("docs/using.md").read_text(), re.DOTALL | re.MULTILINE)


def test_a_play_shows_in_the_stream(driving: Driving) -> None:
    """The client is that of the documentation, here at the address of the cluster."""
    found: dict[str, Any] = {}
    exec(SNIPPET.replace("http://127.0.0.1:8080", driving.cluster.url), found)
    with closing(found["profiles"](7_001)) as profiles:
        assert next(profiles) is None
        for plays in (1, 2):
            driving.feed([event(7_001, 1, 2, 3, 1_760_000_000_000 + plays)])
            # A profile may come with new recommendations only.
            profile = next(each for each in profiles if each["eventCount"] != plays - 1)
            assert (profile["eventCount"], profile["topTenArtists"][0]["countPlays"]) == (plays, plays)
    read = driving.get("/v1/users/7001?explain=true").json()
    assert {name: profile[name] for name in ("eventCount", "lastListeningEvent", "topTenTracks")} == {
        name: read[name] for name in ("eventCount", "lastListeningEvent", "topTenTracks")
    }
    assert profile.keys() == read.keys()
