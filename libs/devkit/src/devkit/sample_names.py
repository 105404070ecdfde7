"""Names of invented artists, albums and tracks, put together from word lists."""

from random import Random

_WORDS = {
    "adjective": (
        "Amber Bitter Blue Borrowed Brave Broken Burning Careless Distant Electric Empty Fading "
        "Gentle Golden Hollow Idle Little Lonely Lost Midnight Northern Paper Patient Quiet "
        "Restless Salted Scarlet Silent Silver Sleeping Slow Stolen Sudden Tender Velvet "
        "Wandering Wild Winter Wooden Young"
    ),
    "thing": (
        "Anchor Arrow Avenue Bird Bridge Candle Canyon Carousel Cloud Comet Compass Ember Engine "
        "Feather Fire Garden Harbour Heart Horizon Island Lantern Letter Lighthouse Machine "
        "Meadow Mirror Moon Mountain Ocean Orchard Parade River Shadow Signal Sparrow Station "
        "Storm Summer Telescope Tiger Tower Train Window Willow"
    ),
    "verb": (
        "Breathing Building Calling Carrying Chasing Climbing Counting Crossing Dancing Dreaming "
        "Drifting Falling Finding Following Forgetting Holding Leaving Losing Painting Reading "
        "Remembering Running Singing Waiting"
    ),
    "place": (
        "Lisbon Oslo Havana Kyoto Marseille Tbilisi Reykjavik Valparaíso Zürich Kraków Malmö "
        "Naples Dakar Cork Montréal Tromsø Galway Ghent Lagos Porto"
    ),
    "first": (
        "Ada Alma Anouk Björn Cleo Dario Edith Emil Farah Greta Hugo Ines Iris Jonas Kaia Leon "
        "Lúcia Mateo Mira Nadia Noé Olga Otto Paloma Ravi Rosa Saskia Tomás Vera Yusuf"
    ),
    "last": (
        "Abara Bergström Castellano Dvořák Eriksen Fontaine Galván Hartmann Ito Jensen Kowalski "
        "Lindqvist Moreau Novák Okafor Petrov Quintero Rossi Sørensen Tanaka Ueda Varga Weiss "
        "Yilmaz Zamora"
    ),
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
}
_LISTS = {kind: words.split() for kind, words in _WORDS.items()}

_PATTERNS = {
    "artist": (
        "The {adjective} {thing}s|{first} {last}|{first} {last} Quartet|{first} & the {thing}s|"
        "{adjective} {thing}|{place} {thing} Orchestra|{verb} {place}|{adjective} {last}"
    ),
    "album": (
        "{adjective} {thing}|Songs for the {adjective} {thing}|{verb} {place}|Live in {place}|"
        "The {thing} Sessions|{adjective} & {verb}"
    ),
    "track": (
        "{verb} the {thing}|{adjective} {thing}|{thing} in {place}|{day} {thing}|{first}'s {thing}|"
        '{verb} on a {adjective} {day}|The "{adjective}" One|{verb} ({day} Version)'
    ),
}
"""Patterns of names by kind, separated by `|`."""


def name(draw: Random, kind: str) -> str:
    """The name of an artist, album or track; two items may have the same name."""
    words = {sort: draw.choice(words) for sort, words in _LISTS.items()}
    return draw.choice(_PATTERNS[kind].split("|")).format_map(words)
