"""An archive as an archiver leaves it, made from the present records of a topic."""

from collections.abc import Mapping
from itertools import pairwise

from streamstate.history.archive.files import Archive
from streamstate.history.archive.rows import batch, row
from streamstate.history.archive.segments import Segment
from streamstate.kafka.admin import Topics
from streamstate.kafka.history import TopicHistory


def archive(folder: str, kafka: str, shares: Mapping[str, float], files: int = 3) -> dict[tuple[str, int], int]:
    """Archive the first part of each partition of topics, in several files; returns the ends by topic and partition.

    shares: the archived share (0 to 1) by topic.
    """
    topics, kept = Topics(kafka), Archive(folder)
    history, ends = TopicHistory(topics), {}
    for topic, share in shares.items():
        origin = topics.origin(topic)
        places = [(topic, partition) for partition in range(origin.partitions)]
        for place, end in topics.ends(places).items():
            with history.log(place) as log:
                records = list(log.up_to(end))
            ends[place] = round(end * share)
            for first, until in pairwise(sorted({ends[place] * number // files for number in range(files + 1)})):
                held = [row(message) for message in records if first <= (message.offset() or 0) < until]
                kept.write(place, Segment(first, until - 1), origin.id, [batch(held)])
    return ends
