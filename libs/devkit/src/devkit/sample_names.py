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

_ARTISTS = (
    "The {adjective} {thing}s",
    "{first} {last}",
    "{first} {last} Quartet",
    "{first} & the {thing}s",
    "{adjective} {thing}",
    "{place} {thing} Orchestra",
    "{verb} {place}",
    "{adjective} {last}",
)
_ALBUMS = (
    "{adjective} {thing}",
    "Songs for the {adjective} {thing}",
    "{verb} {place}",
    "Live in {place}",
    "The {thing} Sessions",
    "{adjective} & {verb}",
)
_TRACKS = (
    "{verb} the {thing}",
    "{adjective} {thing}",
    "{thing} in {place}",
    "{day} {thing}",
    "{first}'s {thing}",
    "{verb} on a {adjective} {day}",
    'The "{adjective}" One',
    "{verb} ({day} Version)",
)


def artist(draw: Random) -> str:
    """The name of an artist; two artists may have the same name."""
    return _compose(draw, _ARTISTS)


def album(draw: Random) -> str:
    """The title of an album."""
    return _compose(draw, _ALBUMS)


def track(draw: Random) -> str:
    """The title of a track."""
    return _compose(draw, _TRACKS)


def _compose(draw: Random, patterns: tuple[str, ...]) -> str:
    words = {kind: draw.choice(words) for kind, words in _LISTS.items()}
    return draw.choice(patterns).format_map(words)
