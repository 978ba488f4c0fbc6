"""A chart of bars as SVG text, readable on light and on dark pages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

_WIDTH: Final = 760
_LABELS: Final = 190
_FIGURES: Final = 130
_ROW: Final = 24
_HEADING: Final = 38
_BAR: Final = 14
_ACROSS: Final = _WIDTH - _LABELS - _FIGURES

_STYLE: Final = """\
text { font: 13px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #1f2328; }
.heading { font-weight: 600; } .quiet { fill: #59636e; font-size: 12px; }
.ours { fill: #0969da; } .other { fill: #afb8c1; } .spread { stroke: #1f2328; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .quiet { fill: #9198a1; }
  .ours { fill: #4493f8; } .other { fill: #57606a; } .spread { stroke: #e6edf3; }
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A median with its spread."""

    label: str
    value: float
    low: float
    high: float
    is_ours: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Bars that share a unit and a scale."""

    heading: str
    unit: str
    bars: Sequence[Bar]


def bar_chart(title: str, groups: Sequence[Group]) -> str:
    """The chart; each group has its own scale, from zero to its longest bar or whisker."""
    height = 10 + sum(_HEADING + _ROW * len(group.bars) for group in groups)
    body = "\n".join(_groups(groups))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_STYLE}\n</style>\n{body}\n</svg>\n"
    )


def _groups(groups: Sequence[Group]) -> Iterator[str]:
    top = 0
    for group in groups:
        yield f'<text class="heading" x="0" y="{top + 26}">{escape(group.heading)}</text>'
        top += _HEADING
        scale = _ACROSS / (max(max(bar.value, bar.high) for bar in group.bars) or 1)
        for bar in group.bars:
            yield from _bar(bar, group.unit, scale, top)
            top += _ROW


def _bar(bar: Bar, unit: str, scale: float, top: int) -> Iterator[str]:
    middle = top + _ROW / 2
    low, high = _LABELS + bar.low * scale, _LABELS + bar.high * scale
    yield f'<text x="0" y="{middle + 4:g}">{escape(bar.label)}</text>'
    yield (
        f'<rect class="{"ours" if bar.is_ours else "other"}" x="{_LABELS}" y="{middle - _BAR / 2:g}" '
        f'width="{bar.value * scale:.1f}" height="{_BAR}" rx="2"/>'
    )
    if bar.high > bar.low:
        yield f'<path class="spread" d="M{low:.1f} {middle:g}H{high:.1f}"/>'
    figure = f"{bar.value:,.0f} {unit}"
    yield f'<text class="quiet" x="{_WIDTH - _FIGURES + 8}" y="{middle + 4:g}">{escape(figure)}</text>'
