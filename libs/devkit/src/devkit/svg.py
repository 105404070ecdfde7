"""Charts as SVG: bars, and lines over time."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import cycle

Bars = Sequence[tuple[str, Mapping[str, float]]]
"""A label and the lengths of its segments, by name."""

Points = Sequence[tuple[float, float]]
"""x and y, by x."""

_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#999999")
_WIDTH, _LABEL, _VALUE, _ROW, _BAR, _TOP = 760, 250, 80, 26, 18, 60
_LEFT, _RIGHT, _PLOT, _BELOW = 60, 740, 200, 40


def stacked(title: str, unit: str, bars: Bars) -> str:
    """One horizontal bar for each of `bars`, its segments side by side and its sum behind it."""
    colours = _colours(name for _, parts in bars for name in parts)
    longest = max((sum(parts.values()) for _, parts in bars), default=0) or 1
    scale = (_WIDTH - _LABEL - _VALUE) / longest
    drawn = [
        line
        for row, (label, parts) in enumerate(bars)
        for line in _bar(_TOP + row * _ROW, label, parts, colours, scale)
    ]
    return _chart(f"{title} ({unit})", _TOP + _ROW * len(bars) + 10, colours, drawn)


def lines(title: str, unit: str, across: str, series: Mapping[str, Points]) -> str:
    """A line for each of `series`, by name, from zero; `across` says what the horizontal axis is."""
    colours = _colours(series)
    right = max((x for points in series.values() for x, _ in points), default=0) or 1
    top = max((y for points in series.values() for _, y in points), default=0) or 1
    bottom = _TOP + _PLOT
    drawn = [_text(_LEFT, bottom + 30, across)]
    for part in (0, 0.25, 0.5, 0.75, 1):
        y = bottom - part * _PLOT
        drawn.append(f'<path d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="#dddddd"/>')
        drawn.append(_text(10, y + 4, _amount(part * top)))
        drawn.append(_text(_LEFT + part * (_RIGHT - _LEFT) - 10, bottom + 16, _amount(part * right)))
    for name, points in series.items():
        at = " ".join(f"{_LEFT + x / right * (_RIGHT - _LEFT):.1f},{bottom - y / top * _PLOT:.1f}" for x, y in points)
        drawn.append(f'<polyline points="{at}" fill="none" stroke="{colours[name]}" stroke-width="1.5"/>')
    return _chart(f"{title} ({unit})", bottom + _BELOW, colours, drawn)


def _amount(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:.3g}"


def _colours(names: Iterable[str]) -> dict[str, str]:
    return dict(zip(dict.fromkeys(names), cycle(_COLOURS), strict=False))


def _chart(title: str, height: int, colours: Mapping[str, str], drawn: Iterable[str]) -> str:
    """What is `drawn`, below the title and the names of the colours."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif">'
    top = [head, f'<rect width="{_WIDTH}" height="{height}" fill="white"/>', _text(10, 20, title, 14)]
    for at, (name, colour) in enumerate(colours.items()):
        x = 10 + at * (_WIDTH - 20) // len(colours)
        top += [_box(x, 32, 12, 12, colour), _text(x + 17, 42, name)]
    return "\n".join([*top, *drawn, "</svg>", ""])


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
