"""Faults of a YAML file: each names the line, the fault, and the nearest name."""

from pathlib import Path

import pytest

from streamstate.errors import Misconfigured
from streamstate.profile.file import parse, read

HEAD = """\
name: habits
topic: listening-events
key: long
path: /v1/users/<key>/habits
fields: {device: str, ms: int, price: decimal(2)}
"""
RANKING = HEAD + "measures: {tops: {top: 3, of: device}}"
OVERALL = HEAD.replace("/<key>", "") + "measures:\n  all: {count: all, over: [7d, ever]}\n  "
MEASURE = HEAD + "measures:\n  plays: {count: all}\n  "


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "a profile is a map: name, topic, key, path, fields, measures"),
        ("- a", 1, "a profile is a map"),
        ("name: [", 1, "this is no YAML"),
        ('!!python/object/apply:os.system ["true"]', 1, "this is no YAML"),
        (HEAD, 1, "there is no measures; add the line measures: {plays: {count: all}}"),
        (HEAD + "measures: {}", 6, "declare a measure"),
        (HEAD + "parts: true\nmeasures: {plays: {count: all}}", 6, "no member parts; did you mean part?"),
        (HEAD + "key: int\nmeasures: {plays: {count: all}}", 6, "key is there twice"),
        (
            HEAD.replace("key: long", "key: lung") + "measures: {plays: {count: all}}",
            3,
            "there is no key lung: write long for",
        ),
        (HEAD.replace("<key>", "<user>") + "measures: {plays: {count: all}}", 4, "a path is such as"),
        (HEAD.replace("ms: int", "ms: float") + "measures: {plays: {count: all}}", 5, "'float' is no type"),
        (HEAD.replace("listening-events", "my topic") + "measures: {plays: {count: all}}", 2, "a topic has letters"),
        (HEAD.replace("listening-events", "..") + "measures: {plays: {count: all}}", 2, "a topic has letters"),
        (HEAD.replace("device:", "timestamp:") + "measures: {plays: {count: all}}", 5, "timestamp is Kafka's"),
        (MEASURE + "top: {top: 5,\n        of: devise}", 9, "there is no field devise; did you mean device?"),
        (MEASURE + "long: {count: all, wher: {ms: {ge: 3}}}", 8, "there is no member wher; did you mean where?"),
        (MEASURE + "long: {count: all, where: {mss: {ge: 3}}}", 8, "there is no field mss; did you mean ms?"),
        (MEASURE + "long: {count: all, where: {ms: {over: 3}}}", 8, "there is no comparison over"),
        (MEASURE + "long: {count: all, where: {ms: {ge: often}}}", 8, "'often' is no int"),
        (MEASURE + "long: {count: all, where: {price: {ge: 0.123}}}", 8, "price has more than 2 decimals"),
        (MEASURE + "long: {count: all, where: {price: {ge: dear}}}", 8, "or is no number of 64 bits"),
        (MEASURE + "long: {count: all, where: {price: {ge: .inf}}}", 8, "or is no number of 64 bits"),
        (MEASURE + "long: {count: all, where: {price: {ge: '1e400'}}}", 8, "or is no number of 64 bits"),
        (MEASURE + "long: {count: all, where: {any: {ms: {ge: 3}}}}", 8, "any has a list of conditions"),
        (MEASURE + "long: {count: all, where: {all: [{}]}}", 8, "all has a list of conditions"),
        (MEASURE + "long: {count: all, where: {any: [{1: {ge: 3}}]}}", 8, "1 is no text; put it into quotes"),
        (MEASURE + "long: {count: all, where: {any: [{ms: {ge: 3}, ms: {lt: 5}}]}}", 8, "ms is there twice"),
        (MEASURE + "long: {count: all, where: &a {any: [*a]}}", 8, "an alias is not read; write its members out"),
        (MEASURE + "long: " + "[" * 3_000, 1, "the members are nested too deeply"),
        (
            HEAD + "measures:\n" + "".join(f"  m{n}: {{count: all}}\n" for n in range(501)),
            6,
            "at most 500 measures; declare a second profile",
        ),
        (MEASURE + 'long: {count: all, where: {device: {eq: "\\ud800"}}}', 8, "surrogates not allowed"),
        (HEAD + "history: soon\nmeasures: {plays: {count: all}}", 6, "'soon' is no duration"),
        (HEAD + "summary: 2020-13-45\nmeasures: {plays: {count: all}}", 6, "this is no YAML: month must be in 1..12"),
        (HEAD + "summary: \x07\nmeasures: {plays: {count: all}}", 6, "this is no YAML: special characters"),
        (HEAD.replace("ms:", "'m\"s':") + "measures: {plays: {count: all}}", 5, "which no member of a field has"),
        (MEASURE + "week: {count: all, over: [1h, 7x]}", 8, "'7x' is no duration"),
        (MEASURE + "week: {count: all, over: 999d}", 8, "'999d' is no duration"),
        (MEASURE + "week: {count: all, over: [7d, 7d]}", 8, "name each window once"),
        (MEASURE + "visits: {sessions: 30m}", 8, "sessions need windows"),
        (MEASURE + "both: {count: all, total: ms}", 8, "found count and total"),
        (MEASURE + "none: {over: 7d}", 8, "found none"),
        (MEASURE + "sum: {total: device}", 8, "device is no number"),
        (MEASURE + "split: {top: 3, of: device, by: device}", 8, "top has no by"),
        (MEASURE + "many: {top: 9999, of: device}", 8, "a number from 1 to 1000"),
        (MEASURE + "alone: {top: 3}", 8, "of names the field"),
        (MEASURE + "windows: {count: all}", 8, "is not called key or windows"),
        (MEASURE + "played: {count: on}", 8, "YAML reads on as true; write true, or put it into quotes"),
        (MEASURE + "p: {count: all, where: {ms: {eq: 010}}}", 8, "YAML reads 010 as 8; write 8, or put it into quotes"),
        (MEASURE + "p: {count: all, where: {ms: {in: [1,\n 12:30]}}}", 9, "YAML reads 12:30 as 750; write 750"),
        (MEASURE + "p: {count: all, where: {ms: {eq: -0b11}}}", 8, "YAML reads -0b11 as -3; write -3"),
        (MEASURE + "p: {count: all, where: {ms: {eq: 0x1F}}}", 8, "YAML reads 0x1F as 31; write 31"),
        (MEASURE + "p: {count: all, where: {any: [{price: {eq: 1_000.5}}]}}", 8, "YAML reads 1_000.5 as 1000.5; write"),
        (MEASURE + "p: {count: all, where: {price: {eq: 1:30.5}}}", 8, "YAML reads 1:30.5 as 90.5; write 90.5"),
        (
            MEASURE + "p: {count: all, where: {price: {eq: '1_0'}}}",
            8,
            "price has more than 2 decimals, or is no number",
        ),
        (MEASURE + "p: {top: 1_0, of: ms}", 8, "YAML reads 1_0 as 10; write 10"),
        (MEASURE + 'p: {top: !!int "010", of: ms}', 8, "YAML reads 010 as 8; write 8"),
        (HEAD + 'part: !!bool "maybe"\nmeasures: {plays: {count: all}}', 6, "this is no YAML"),
        (HEAD + 'summary: !!timestamp "soon"\nmeasures: {plays: {count: all}}', 6, "this is no YAML"),
        (HEAD + "part: Yes\nmeasures: {plays: {count: all}}", 6, "YAML reads Yes as true; write true"),
        (HEAD + "compact: off\nmeasures: {plays: {count: all}}", 6, "YAML reads off as false; write false"),
        (MEASURE + "p: {count: all, where: {ms: {lt: 2026-11-28}}}", 8, "as a time; write milliseconds since 1970"),
        (HEAD.replace("decimal(2)", "decimal(2, round)") + "measures: {}", 5, 'quotes: price: "decimal(2, round)"'),
        (MEASURE + "split: {count: all, by: device, index: true}", 8, "an index is of a count or total, without by"),
        (MEASURE + "mean: {mean: ms, index: true}", 8, "an index is of a count or total, without by"),
        (
            MEASURE + "p: {count: all, over: [7d, ever], index: true}\n  p_7d: {count: ms, index: true}",
            9,
            "two indexes are called p_7d",
        ),
        (MEASURE.replace("/habits", "") + "p: {count: all, index: true}", 8, "the path goes on behind <key>"),
        (OVERALL + "p: {count: all, index: true}", 8, "the path goes on behind <key>"),
        (OVERALL + "s: {sessions: 30m, over: 7d}", 8, "over all keys, sessions has no windows"),
        (OVERALL + "r: {recent: 3, of: device, over: 7d}", 8, "over all keys, recent has no windows"),
        (OVERALL + "plays: {count: all, over: 4m}", 8, "over all keys, a window has at least 5m"),
        (OVERALL + "plays: {count: all, over: 1h, every: 2h}", 8, "over all keys, a window has at least one period"),
        (OVERALL + "plays: {count: all, every: 1h}", 8, "every is for count and total over windows, without by"),
        (OVERALL + "plays: {count: all, by: device, over: 7d, every: 1h}", 8, "every is for count and total over"),
        (OVERALL + "plays: {count: all, over: 7d, every: 7h}", 8, "a part of a day, such as 1h"),
        (MEASURE + "hours: {count: all, over: 7d, every: 1h}", 8, "every is for measures over all keys"),
        (HEAD + "where: {devise: {eq: tv}}\nmeasures: {plays: {count: all}}", 6, "did you mean device?"),
        (HEAD + "where: {timestamp: {ge: 3}}\nmeasures: {plays: {count: all}}", 6, "there is no field timestamp"),
        (HEAD.replace("ms: int", "ms: time(min)") + "measures: {plays: {count: all}}", 5, "time(us) or time(ns)"),
        (HEAD + "part: maybe\nmeasures: {plays: {count: all}}", 6, "part: expected true or false, found a text"),
        ("name: a", 1, "there is no topic; add the line topic: listening-events"),
        (HEAD + "measures:\n  plays {count: all}", 7, "no colon behind plays; write plays: {count: all}"),
        (HEAD + "measures:\n  plays {count: all, over: 7d}", 7, "not allowed here; write a colon and a space behind"),
        (HEAD + "measures: plays", 6, "measures: expected a map, found a text; write measures: {plays: "),
        (HEAD + "measures:\n  plays: all", 7, "plays: expected a map, found a text; write plays: {count: all}"),
        (
            MEASURE + "week: {count: all, over: 7}",
            8,
            "expected a text or a list, found a whole number; write over: 7d, or",
        ),
        (MEASURE + "week: {count: all, over: [7d, 168h]}", 8, "7d and 168h are one window; leave out a name"),
        (MEASURE + "tops: {top: device}", 8, "top: expected a whole number, found a text; write top: 10, of: device"),
        (MEASURE + "tops: {top: 0, of: device}", 8, "top is a number from 1 to 1000"),
        (MEASURE + "last: {recent: 0, of: device}", 8, "recent is a number from 1 to 1000"),
        (HEAD + "users: maybe\nmeasures: {plays: {count: all}}", 6, "users: expected true or false, found a text"),
        (
            HEAD + "compact: {plays: true}\nmeasures: {plays: {count: all}}",
            6,
            "compact: expected true or false, found a map",
        ),
        (MEASURE + "played: {count: al}", 8, "there is no field al; did you mean all?"),
        (HEAD + "measures: {1: {count: all}}", 6, "each name is a text; put numbers"),
        (HEAD + "measures:\n  plays: {count: all}\n  on: {count: all}", 6, "on and off into quotes"),
        (HEAD + "summary: 7\nmeasures: {plays: {count: all}}", 6, "a text, found a whole number; put it into quotes"),
        (HEAD.replace("key: long", "key: string") + "measures: {plays: {count: all}}", 3, "text for texts"),
        (HEAD + "measures:\n\tplays: {count: all}", 7, "cannot start any token; indent by spaces"),
        (HEAD.replace("ms: int", "ms: {type: int, memeber: a.b}") + "measures: {}", 5, "did you mean member?"),
        (HEAD.replace("ms: int", "ms: {type: int}") + "measures: {}", 5, "there is no member; add member: user.device"),
    ],
)
def test_a_fault_names_its_line(tmp_path: Path, text: str, line: int, reason: str) -> None:
    file = tmp_path / "habits.yaml"
    file.write_text(text)
    with pytest.raises(Misconfigured) as raised:
        read(file)
    assert str(raised.value).startswith(f"{file}:{line}: ")
    assert reason in str(raised.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff")
    for name in ("latin.yaml", "absent.yaml"):
        with pytest.raises(Misconfigured, match="name the YAML file of a profile"):
            read(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "packed"),
    [
        (RANKING, True),
        (RANKING + "\ncompact: false", False),
        (RANKING.replace("top: 3", "top: 65"), False),
        (RANKING.replace("device}}", "device, total: ms}}"), False),
        (RANKING.replace("/<key>", ""), False),
        (RANKING.replace("device}}", "device, over: 7d}}"), False),
    ],
)
def test_rankings_are_compact_wherever_all_of_them_can_be(text: str, packed: bool) -> None:
    assert parse(text).packed is packed
