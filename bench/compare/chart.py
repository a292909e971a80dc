"""Draws the picture of a comparison. Each ratio is a bar from 1, where both sides take the
same time: to the left if skillhost is faster, to the right if it is slower. The axis is
logarithmic, so half and double are equally far from 1."""
import math
from html import escape

WIDTH, LABELS, MARGIN = 900, 300, 90
ROW, GAP, HEAD, FOOT = 26, 46, 50, 56
TICKS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50]
# The first colours work on white and on dark pages, for viewers without media queries. The
# queries then choose the best colours for each.
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #6e7781; }
.title { font-size: 15px; font-weight: 600; }
.group { font-weight: 600; }
.value { font-weight: 600; }
.grid { stroke: #8c959f; stroke-opacity: 0.3; }
.one { stroke: #8c959f; stroke-width: 1.5; }
.faster { fill: #2f81c7; }
.slower { fill: #c4621d; }
.target { fill: #f2cc60; stroke: #6b4f00; }
@media (prefers-color-scheme: light) { text { fill: #3b434b; } }
@media (prefers-color-scheme: dark) { text { fill: #b6bec7; } }
"""


def charted(comparison):
    """Returns the rows that compare skillhost with another side, by group. Rows of `scale`
    compare skillhost with itself."""
    groups = {}
    for row in comparison["rows"]:
        if row["unit"] == "ratio" and row["group"] != "scale":
            groups.setdefault(row["group"], []).append(row)
    return groups


def svg(comparison):
    groups = charted(comparison)
    rows = [row for group in groups.values() for row in group]
    values = [row["value"] for row in rows] + [row["target"] for row in rows if row["target"]]
    low = max([tick for tick in TICKS if tick <= min(values)] or TICKS[:1])
    high = min([tick for tick in TICKS if tick >= max(values)] or TICKS[-1:])
    right = WIDTH - MARGIN
    bottom = HEAD + len(groups) * GAP + len(rows) * ROW

    def x_of(value):
        """Returns the x coordinate of a ratio. A value beyond the axis is at its end."""
        share = math.log(min(max(value, low), high) / low) / math.log(high / low)
        return LABELS + 10 + (right - LABELS - 10) * share

    parts = [text(16, 26, "Time that skillhost takes, as a multiple of the other side's", "title"),
             text(16, 46, "left of 1: faster than without a sandbox; diamond: the target")]
    for tick in TICKS:
        if low <= tick <= high:
            parts.append('<line class="%s" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>' % (
                "one" if tick == 1 else "grid", x_of(tick), HEAD + 8, x_of(tick), bottom + 6))
            parts.append(text(x_of(tick), bottom + 24, "%g" % tick, anchor="middle"))
    y = HEAD
    for group, members in groups.items():
        y += GAP
        parts.append(text(16, y - 18, group[0].upper() + group[1:], "group"))
        for row in members:
            parts += bar(row, x_of, y)
            y += ROW
    height = bottom + FOOT
    return "\n".join([
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" '
        'aria-label="Ratios of one run of bench/compare">' % (WIDTH, height),
        "<style>%s</style>" % STYLE, *parts,
        text(16, height - 10, "%s, %s" % (comparison["made"], comparison["machine"])),
        "</svg>\n"])


def bar(row, x_of, y):
    value = row["value"]
    start, end = sorted((x_of(1), x_of(value)))
    parts = [
        text(LABELS, y + 4, row["what"].replace("`", ""), anchor="end"),
        '<rect class="%s" x="%.1f" y="%d" width="%.1f" height="12" rx="2"/>' % (
            "faster" if value <= 1 else "slower", start, y - 6, max(end - start, 1)),
        text(WIDTH - 16, y + 4, "%.2f" % value if value < 10 else "%.0f" % value, "value", "end")]
    if row["target"]:
        x = x_of(row["target"])
        parts.append('<path class="target" d="M%.1f %d l5 5 l-5 5 l-5 -5 z"/>' % (x, y - 5))
    return parts


def text(x, y, content, kind=None, anchor=None):
    attributes = ' class="%s"' % kind if kind else ""
    attributes += ' text-anchor="%s"' % anchor if anchor else ""
    return '<text x="%.1f" y="%.1f"%s>%s</text>' % (x, y, attributes, escape(content))
