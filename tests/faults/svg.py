"""Line charts as SVG."""

from collections.abc import Mapping, Sequence
from html import escape
from itertools import cycle

Points = Sequence[tuple[float, float]]
"""x and y, by x."""

_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#999999")
_WIDTH, _TOP, _LEFT, _RIGHT, _PLOT, _BELOW = 760, 60, 60, 740, 200, 40


def lines(title: str, unit: str, across: str, series: Mapping[str, Points]) -> str:
    """A line for each of `series`, by name, from zero; `across` is the label of the horizontal axis."""
    colours = dict(zip(series, cycle(_COLOURS), strict=False))
    right = max((x for points in series.values() for x, _ in points), default=0) or 1
    top = max((y for points in series.values() for _, y in points), default=0) or 1
    bottom = _TOP + _PLOT
    size = f'viewBox="0 0 {_WIDTH} {bottom + _BELOW}"'
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">',
        f'<rect width="{_WIDTH}" height="{bottom + _BELOW}" fill="white"/>',
        _text(10, 20, f"{title} ({unit})", 14),
    ]
    for at, (name, colour) in enumerate(colours.items()):
        x = 10 + at * (_WIDTH - 20) // len(colours)
        drawn += [f'<rect x="{x}" y="32" width="12" height="12" fill="{colour}"/>', _text(x + 17, 42, name)]
    drawn.append(_text(_LEFT, bottom + 30, across))
    for part in (0, 0.25, 0.5, 0.75, 1):
        y = bottom - part * _PLOT
        drawn.append(f'<path d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="#dddddd"/>')
        drawn.append(_text(10, y + 4, _amount(part * top)))
        drawn.append(_text(_LEFT + part * (_RIGHT - _LEFT) - 10, bottom + 16, _amount(part * right)))
    for name, points in series.items():
        path = " ".join(f"{_LEFT + x / right * (_RIGHT - _LEFT):.1f},{bottom - y / top * _PLOT:.1f}" for x, y in points)
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colours[name]}" stroke-width="1.5"/>')
    return "\n".join([*drawn, "</svg>", ""])


def _amount(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:.3g}"


def _text(x: float, y: float, text: str, size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}">{escape(text)}</text>'
