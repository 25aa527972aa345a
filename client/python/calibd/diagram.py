"""Reliability diagrams as SVG, for notebooks."""
from __future__ import annotations

from html import escape
from typing import NamedTuple, Sequence

_SIZE = 260
_LEFT = 46
_TOP = 26
_HISTOGRAM = 46
_WIDTH = _LEFT + _SIZE + 14
_HEIGHT = _TOP + _SIZE + 12 + _HISTOGRAM + 40


class Point(NamedTuple):
    """A bin that is not empty: the ends of its predictions, its observations, and their means."""

    lower: float
    upper: float
    observations: int
    predicted: float
    frequency: float


class Band(NamedTuple):
    """The frequencies that are to be expected of a calibrated model at one prediction."""

    prediction: float
    lower: float
    upper: float


def _x(value: float) -> str:
    return f"{_LEFT + value * _SIZE:.1f}"


def _y(value: float) -> str:
    return f"{_TOP + (1 - value) * _SIZE:.1f}"


def _axes(event: str) -> list[str]:
    bottom = _TOP + _SIZE
    out = [f'<rect x="{_LEFT}" y="{_TOP}" width="{_SIZE}" height="{_SIZE}" fill="none" '
           'stroke="#999"/>',
           f'<line x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}" stroke="#999" '
           'stroke-dasharray="4 3"/>']
    for tick in (0, 0.25, 0.5, 0.75, 1):
        out.append(f'<text x="{_LEFT - 6}" y="{_y(tick)}" text-anchor="end" '
                   f'dominant-baseline="middle">{tick:g}</text>')
        out.append(f'<text x="{_x(tick)}" y="{_HEIGHT - 22}" text-anchor="middle">{tick:g}</text>')
    out.append(f'<text x="{_LEFT + _SIZE / 2}" y="{_HEIGHT - 5}" text-anchor="middle">predicted '
               f'probability of: {escape(event)}</text>')
    out.append(f'<text transform="translate(11 {bottom - _SIZE / 2}) rotate(-90)" '
               'text-anchor="middle">observed frequency</text>')
    return out


def _histogram(points: Sequence[Point]) -> list[str]:
    most = max(point.observations for point in points)
    base = _TOP + _SIZE + 12 + _HISTOGRAM
    out = []
    for point in points:
        height = _HISTOGRAM * point.observations / most
        width = max((point.upper - point.lower) * _SIZE - 1, 1)
        out.append(f'<rect x="{_x(point.lower)}" y="{base - height:.1f}" width="{width:.1f}" '
                   f'height="{height:.1f}" fill="#bbb"><title>{point.observations} observations'
                   '</title></rect>')
    return out


def reliability_svg(points: Sequence[Point], event: str, title: str, band: Sequence[Band] = (),
                    steps: Sequence[tuple[float, float, float]] = ()) -> str:
    """The diagram with a histogram of the predictions below it; empty bins are not drawn.

    event: what the predictions are the probabilities of. band: ascending. steps: the recalibrated
    probability between two predictions, as (lower, upper, recalibrated).
    """
    if not points:
        return ""
    most = max(point.observations for point in points)
    off = sum(p.observations * abs(p.predicted - p.frequency) for p in points) / sum(
        p.observations for p in points)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
           f'viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" font-family="sans-serif" font-size="11">',
           f"<title>{escape(title)}: predictions and frequencies differ by {100 * off:.1f} "
           "percentage points on average</title>",
           f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
           f'<text x="{_LEFT}" y="16" font-weight="bold">{escape(title)}</text>']
    if band:
        ends = [(b.prediction, b.upper) for b in band] + [
            (b.prediction, b.lower) for b in reversed(band)]
        polygon = " ".join(f"{_x(x)},{_y(y)}" for x, y in ends)
        out.append(f'<polygon points="{polygon}" fill="#9ecae1" fill-opacity="0.5"><title>expected '
                   'of a calibrated model</title></polygon>')
    out += _axes(event)
    if steps:
        line = " ".join(f"{_x(x)},{_y(y)}" for lower, upper, y in steps for x in (lower, upper))
        out.append(f'<polyline points="{line}" fill="none" stroke="#08519c"/>')
    # Where predictions are low and frequencies high, diagrams are empty.
    for i, (color, text) in enumerate((("#3182bd", "band: if the model were calibrated"),
                                       ("#08519c", "line: isotonic fit of the frequencies"))):
        if (band, steps)[i]:
            out.append(f'<text x="{_LEFT + 6}" y="{_TOP + 14 * (i + 1)}" fill="{color}">{text}</text>')
    for point in points:
        radius = 2 + 5 * (point.observations / most) ** 0.5
        out.append(f'<circle cx="{_x(point.predicted)}" cy="{_y(point.frequency)}" r="{radius:.1f}" '
                   f'fill="#d95f0e" fill-opacity="0.8"><title>says {100 * point.predicted:.1f} %, is '
                   f'{100 * point.frequency:.1f} % ({point.observations} observations)</title>'
                   '</circle>')
    return "".join(out + _histogram(points) + ["</svg>"])
