"""The commands of pages about one service: each prints the answer shown."""

import re
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import urllib3

from devkit.cluster.local_cluster import variables
from services.events import LISTENING_EVENTS
from tests.deployment import Deployment
from tests.integration.releases import Releases
from tests.integration.served import served
from tests.integration.terminal import ANYTHING, Example, Terminal, examples, run_python
from tests.waiting import REQUEST_S, until

RECOMMENDATIONS, FORMATS, PROFILE = "docs/recommendations.md", "docs/formats.md", Path("docs/profile.md")


def follow(releases: Releases, url: str, typed: Iterable[Example]) -> None:
    servers = variables({"KAFKA": releases.cluster.kafka.bootstrap})
    with closing(Terminal({8080: int(url.rpartition(":")[2])}, servers)) as terminal:
        for example in typed:
            # Names are of another service.
            answer = (example.answer or "").replace('"warnings":[]', f'"warnings":"{ANYTHING}"')
            terminal.follow(example._replace(answer=answer or None))


def test_recommendations_are_controlled(releases: Releases, tmp_path: Path) -> None:
    name, settings = "recommendations", {"RECOMMENDATION_RULES": "true", "SHOWN": "100"}
    releases.create("listening-events", "recommendation-rules", "shown", f"{name}-dlq")
    deployment = Deployment(releases.cluster, name, host=releases.make)
    deployment.service = name
    with served(deployment, name, tmp_path, **settings) as url:
        follow(releases, url, examples(RECOMMENDATIONS))


def test_a_byte_order_mark_is_read(releases: Releases, tmp_path: Path) -> None:
    [typed] = [example for example in examples(FORMATS) if example.answer]
    _, _, formats = typed.lines[0].partition("STREAMSTATE_FORMATS=")
    releases.create("user-clicks", "user-regions", "clicks-per-region", "clicks-dlq")
    deployment = Deployment(releases.cluster, "clicks", host=releases.make)
    deployment.service = "clicks"
    with served(deployment, "clicks", tmp_path, FORMATS=formats.strip("'")) as url:
        follow(releases, url, [typed])


def test_a_play_of_the_year_2100_is_clamped(releases: Releases, tmp_path: Path) -> None:
    releases.create(LISTENING_EVENTS, "metrics-dlq")
    deployment = Deployment(releases.cluster, "metrics", host=releases.make)
    deployment.topic = LISTENING_EVENTS
    with served(deployment, "metrics", tmp_path, EVENT_BEYOND="clamp") as url:
        run_python("docs/using.md", releases.cluster.kafka.bootstrap)

        def clamped() -> bool:
            answer = urllib3.request("GET", f"{url}/v1/users/1/metrics", timeout=REQUEST_S).json()
            return str(answer.get("lastListeningEvent")).startswith(str(datetime.now(UTC).date() + timedelta(days=1)))

        until(clamped, "a last play of tomorrow")


def test_events_of_one_kind_are_counted(releases: Releases, tmp_path: Path) -> None:
    [text] = re.findall(r"^```yaml\n(# paid.yaml.*?)^```$", PROFILE.read_text(), re.DOTALL | re.MULTILINE)
    (file := tmp_path / "paid.yaml").write_text(text)
    releases.create("shop-events", "paid-dlq")
    deployment = Deployment(releases.cluster, "paid", host=releases.make)
    deployment.service = "profile"
    [typed] = [example for example in examples(str(PROFILE)) if "shop-events" in str(example.lines)]
    with served(deployment, "profile", tmp_path, PROFILE=str(file)) as url:
        follow(releases, url, [typed])
