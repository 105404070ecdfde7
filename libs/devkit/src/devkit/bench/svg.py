"""Bar charts as SVG."""

from collections.abc import Mapping, Sequence
from html import escape

Bars = Sequence[tuple[str, Mapping[str, float]]]
"""A label and the lengths of its segments, by name."""

_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#999999")
_WIDTH, _LABEL, _VALUE, _ROW, _BAR, _TOP = 760, 250, 80, 26, 18, 60


def stacked(title: str, unit: str, bars: Bars) -> str:
    """One horizontal bar for each of `bars`, its segments side by side and its sum behind it."""
    names = list(dict.fromkeys(name for _, parts in bars for name in parts))
    colours = {name: _COLOURS[at % len(_COLOURS)] for at, name in enumerate(names)}
    longest = max((sum(parts.values()) for _, parts in bars), default=0) or 1
    scale = (_WIDTH - _LABEL - _VALUE) / longest
    height = _TOP + _ROW * len(bars) + 10
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif">'
    lines = [head, f'<rect width="{_WIDTH}" height="{height}" fill="white"/>', _text(10, 20, f"{title} ({unit})", 14)]
    for at, (name, colour) in enumerate(colours.items()):
        x = 10 + at * (_WIDTH - 20) // len(colours)
        lines += [_box(x, 32, 12, 12, colour), _text(x + 17, 42, name)]
    for row, (label, parts) in enumerate(bars):
        lines += _bar(_TOP + row * _ROW, label, parts, colours, scale)
    return "\n".join([*lines, "</svg>", ""])


def _bar(y: int, label: str, parts: Mapping[str, float], colours: Mapping[str, str], scale: float) -> list[str]:
    lines, x = [_text(10, y + 14, label)], float(_LABEL)
    for name, amount in parts.items():
        lines.append(_box(x, y, amount * scale, _BAR, colours[name]))
        x += amount * scale
    return [*lines, _text(x + 6, y + 14, f"{sum(parts.values()):.3g}")]


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'


def _text(x: float, y: float, text: str, size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}">{escape(text)}</text>'
