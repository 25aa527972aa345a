"""Diagrams as SVG, for notebooks."""
from __future__ import annotations

from html import escape
from typing import NamedTuple, Sequence

_SIZE = 260
_LEFT = 46
_TOP = 26
_HISTOGRAM = 46
_WIDTH = _LEFT + _SIZE + 14
_HEIGHT = _TOP + _SIZE + 12 + _HISTOGRAM + 40
# Characters of a title that are visible.
_MAX_TITLE = 38


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


class Interval(NamedTuple):
    """The share of outcomes that central intervals promise to cover, and the share that they cover."""

    promised: float
    coverage: float
    lower: float
    upper: float


class Cell(NamedTuple):
    """The outcomes between two levels of their forecasts, and how many the forecasts promise."""

    lower: float
    upper: float
    observations: int
    expected: float


class _Bar(NamedTuple):
    """A bar of the diagram. Its height is relative to the heights of the other bars."""

    lower: float
    upper: float
    height: float
    text: str


def _x(value: float) -> str:
    return f"{_LEFT + value * _SIZE:.1f}"


def _y(value: float) -> str:
    return f"{_TOP + (1 - value) * _SIZE:.1f}"


def _visible(title: str) -> str:
    """The beginning and the end, which has the version."""
    if len(title) <= _MAX_TITLE:
        return title
    first = _MAX_TITLE // 3
    return f"{title[:first]}\u2026{title[first + 1 - _MAX_TITLE:]}"


def _axes(label: str) -> list[str]:
    bottom = _TOP + _SIZE
    out = [f'<rect x="{_LEFT}" y="{_TOP}" width="{_SIZE}" height="{_SIZE}" fill="none" '
           'stroke="#999"/>',
           f'<line x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}" stroke="#999" '
           'stroke-dasharray="4 3"/>']
    for tick in (0, 0.25, 0.5, 0.75, 1):
        out.append(f'<text x="{_LEFT - 6}" y="{_y(tick)}" text-anchor="end" '
                   f'dominant-baseline="middle">{tick:g}</text>')
        out.append(f'<text x="{_x(tick)}" y="{_HEIGHT - 22}" text-anchor="middle">{tick:g}</text>')
    out.append(f'<text x="{_LEFT + _SIZE / 2}" y="{_HEIGHT - 5}" text-anchor="middle">'
               f'{escape(label)}</text>')
    out.append(f'<text transform="translate(11 {bottom - _SIZE / 2}) rotate(-90)" '
               'text-anchor="middle">observed frequency</text>')
    return out


def _histogram(bars: Sequence[_Bar]) -> list[str]:
    most = max((bar.height for bar in bars), default=0)
    base = _TOP + _SIZE + 12 + _HISTOGRAM
    out = []
    for bar in bars:
        height = _HISTOGRAM * bar.height / (most or 1)
        width = max((bar.upper - bar.lower) * _SIZE - 1, 1)
        out.append(f'<rect x="{_x(bar.lower)}" y="{base - height:.1f}" width="{width:.1f}" '
                   f'height="{height:.1f}" fill="#bbb"><title>{bar.text}</title></rect>')
    return out


def _circle(x: float, y: float, radius: float, text: str) -> str:
    return (f'<circle cx="{_x(x)}" cy="{_y(y)}" r="{radius:.1f}" fill="#d95f0e" fill-opacity="0.8">'
            f'<title>{text}</title></circle>')


def _line(points: Sequence[tuple[float, float]]) -> str:
    line = " ".join(f"{_x(x)},{_y(y)}" for x, y in points)
    return f'<polyline points="{line}" fill="none" stroke="#08519c"/>'


def _legend(row: int, color: str, text: str) -> str:
    """Where predictions are low and frequencies high, diagrams are empty."""
    return f'<text x="{_LEFT + 6}" y="{_TOP + 14 * row}" fill="{color}">{text}</text>'


def _svg(title: str, summary: str, content: Sequence[str]) -> str:
    return "".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" font-family="sans-serif" font-size="11">',
        f"<title>{escape(title)}: {summary}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="16" font-weight="bold">{escape(_visible(title))}</text>', *content,
        "</svg>"])


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
    out = []
    if band:
        ends = [(b.prediction, b.upper) for b in band] + [
            (b.prediction, b.lower) for b in reversed(band)]
        polygon = " ".join(f"{_x(x)},{_y(y)}" for x, y in ends)
        out.append(f'<polygon points="{polygon}" fill="#9ecae1" fill-opacity="0.5"><title>expected '
                   'of a calibrated model</title></polygon>')
        out.append(_legend(1, "#3182bd", "band: if the model were calibrated"))
    out += _axes(f"predicted probability of: {event}")
    if steps:
        out.append(_line([(x, y) for lower, upper, y in steps for x in (lower, upper)]))
        out.append(_legend(2, "#08519c", "line: isotonic fit of the frequencies"))
    out += [_circle(p.predicted, p.frequency, 2 + 5 * (p.observations / most) ** 0.5,
                    f"says {100 * p.predicted:.1f} %, is {100 * p.frequency:.1f} % "
                    f"({p.observations} observations)") for p in points]
    out += _histogram([_Bar(p.lower, p.upper, p.observations, f"{p.observations} observations")
                       for p in points])
    return _svg(title, f"predictions and frequencies differ by {100 * off:.1f} percentage points on "
                "average", out)


def coverage_svg(intervals: Sequence[Interval], cells: Sequence[Cell], title: str) -> str:
    """The coverage of the central intervals of forecasts of a number.

    cells: all, ascending, or none. With them a line shows the share of outcomes below each level, and
    a histogram the outcomes relative to those promised, the probability integral transform.
    """
    total = sum(cell.observations for cell in cells)
    if not intervals and not total:
        return ""
    out = _axes("promised probability")
    if total:
        stated, observed, line = 0.0, 0, [(0.0, 0.0)]
        for cell in cells:
            stated += cell.expected
            observed += cell.observations
            line.append((min(stated / total, 1.0), observed / total))
        out += [_line(line), _legend(1, "#08519c", "line: outcomes below each level")]
    for i in intervals:
        out.append(f'<line x1="{_x(i.promised)}" y1="{_y(i.lower)}" x2="{_x(i.promised)}" '
                   f'y2="{_y(i.upper)}" stroke="#d95f0e"/>')
        out.append(_circle(i.promised, i.coverage, 4, f"{100 * i.promised:.3g} % intervals cover "
                           f"{100 * i.coverage:.1f} % ({100 * i.lower:.1f} to {100 * i.upper:.1f})"))
    if intervals:
        out.append(_legend(2, "#d95f0e", "points: central intervals"))
    out += _histogram([_Bar(c.lower, c.upper, c.observations / c.expected if c.expected else 0.0,
                            f"{c.observations} outcomes, {c.expected:.0f} promised") for c in cells])
    covered = ", ".join(f"{100 * i.promised:.3g} % intervals cover {100 * i.coverage:.1f} %"
                        for i in intervals)
    return _svg(title, covered or "outcomes below each level", out)
