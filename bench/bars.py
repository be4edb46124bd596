"""Bar charts as SVG: the same numbers make the same bytes."""

# For the pages of bench/run and bench/scale/run. A plotting library would write its version, dates and random names
# into each file, so each run would change all plots in the repository.

import html
import itertools

# Pixels: the column of labels, the longest bar, a bar and the gap below it, the title above, the scale below.
LABEL, WIDTH, BAR, GAP, TOP, BOTTOM = 230, 420, 16, 8, 34, 34
COLOURS = ("#3b6ea5", "#d98c3f")


def nice_step(highest):
    """Distance of grid lines: a power of ten times 1, 2 or 5, so that there are at most six."""
    steps = (factor * 10.0**power for power in itertools.count(-6) for factor in (1, 2, 5))
    return next(step for step in steps if highest / step <= 6)


def bars(title, unit, rows, mark=None):
    """rows: (label, value, least, most, emphasised). mark: a value with a line of its own, such as 1 of a ratio. What is
    longer than six times the median bar is cut, and says so by its number."""
    # Otherwise one slow program would make all other bars too short to compare.
    middle = sorted(row[1] for row in rows)[len(rows) // 2]
    highest = min(max(max(row[1], row[3]) for row in rows), 6 * middle)
    step = nice_step(highest)
    # Every bar begins at 0. A scale that begins elsewhere would show small differences as large ones.
    scale = WIDTH / highest
    height = TOP + len(rows) * (BAR + GAP) + BOTTOM
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABEL + WIDTH + 90}" height="{height}" '
           'font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="10" y="20" font-size="14" font-weight="bold">{html.escape(title)}</text>']
    bottom = height - BOTTOM
    for i in range(int(highest / step + 1e-9) + 1):
        # Grid lines come before the bars, so they lie behind them.
        x = LABEL + i * step * scale
        out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#ddd"/>'
                   f'<text x="{x:.1f}" y="{bottom + 15}" text-anchor="middle" fill="#555">{i * step:g}</text>')
    out.append(f'<text x="{LABEL + WIDTH}" y="{bottom + 29}" text-anchor="end" fill="#555">{html.escape(unit)}</text>')
    for i, (label, value, least, most, emphasised) in enumerate(rows):
        y = TOP + i * (BAR + GAP) + GAP / 2
        end = LABEL + min(value, highest) * scale
        reach = LABEL + min(most, highest) * scale
        text = y + BAR - 4
        # The label, the bar, a black line from the least to the most, and the number behind whichever ends last.
        out.append(f'<text x="{LABEL - 8}" y="{text:.1f}" text-anchor="end">{html.escape(label)}</text>'
                   f'<rect x="{LABEL}" y="{y:.1f}" width="{end - LABEL:.1f}" height="{BAR}" '
                   f'fill="{COLOURS[0 if emphasised else 1]}"/>'
                   f'<line x1="{LABEL + min(least, highest) * scale:.1f}" y1="{y + BAR / 2:.1f}" x2="{reach:.1f}" '
                   f'y2="{y + BAR / 2:.1f}" stroke="black"/>'
                   f'<text x="{max(end, reach) + 6:.1f}" y="{text:.1f}">{value:.3g}</text>')
    if mark is not None and mark <= highest:
        x = LABEL + mark * scale
        out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="black" stroke-dasharray="4 3"/>')
    return "\n".join(out + ["</svg>", ""])
