# SPDX-License-Identifier: Apache-2.0
"""Draws a score as a picture: recall by dose, and right causes by confidence."""

from typing import Any, Dict, List, Sequence, Tuple

SIDE, MARGIN = 320, 50
COLOURS = ('#1b6ca8', '#c8553d', '#588157', '#8d6a9f', '#e09f3e', '#4d4d4d', '#2a9d8f', '#b56576', '#6d597a', '#7f5539', '#386641', '#9a031e')


def at(x: float, y: float, left: int) -> Tuple[float, float]:
    """The place of a point given as shares, 0 to 1."""
    return left + x * SIDE, MARGIN + (1 - y) * SIDE


def frame(left: int, title: str, below: str, ticks: Sequence[Tuple[float, str]]) -> List[str]:
    lines = [f'<rect x="{left}" y="{MARGIN}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#999"/>',
             f'<text x="{left}" y="{MARGIN - 14}" font-weight="bold">{title}</text>',
             f'<text x="{left + SIDE / 2}" y="{MARGIN + SIDE + 36}" text-anchor="middle">{below}</text>']
    for place, name in ticks:
        x, y = at(place, 0, left)
        lines.append(f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{name}</text>')
    for share in (0, 0.5, 1):
        x, y = at(0, share, left)
        lines.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{100 * share:.0f} %</text>')
    return lines


def line(points: Sequence[Tuple[float, float]], colour: str) -> List[str]:
    joined = ' '.join(f'{x:.1f},{y:.1f}' for x, y in points)
    return [f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="1.5"/>',
            *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points)]


def svg(score: Dict[str, Any], most: float = 2.5) -> str:
    """Recall by dose, up to `most` times typical latency, and the reliability diagram."""
    left, right = MARGIN, 3 * MARGIN + SIDE + 70
    lines = frame(left, 'Recall by dose', 'injected time as a share of typical latency',
                  [(share / most, f'{share:g}') for share in (0, 0.5, 1, 1.5, 2, 2.5)])
    for i, (name, fault) in enumerate(score['faults'].items()):
        cells = sorted((cell['ratio'], cell['recall']) for cell in fault['doses'].values() if cell['ratio'])
        colour = COLOURS[i % len(COLOURS)]
        points = [at(min(ratio / most, 1), recall, left) for ratio, recall in cells]
        lines += line(points, colour)
        y = MARGIN + 14 + 16 * i
        lines.append(f'<text x="{left + SIDE + 12}" y="{y}" fill="{colour}">{name}</text>')
    lines += frame(right, 'Confidence', 'confidence said', [(share, f'{100 * share:.0f} %') for share in (0, 0.5, 1)])
    (x0, y0), (x1, y1) = at(0, 0, right), at(1, 1, right)
    lines.append(f'<line x1="{x0}" y1="{y0}" x2="{x1}" y2="{y1}" stroke="#bbb" stroke-dasharray="4"/>')
    lines += line([at(row['confidence'], row['right'], right) for row in score['calibration']], COLOURS[0])
    width, height = right + SIDE + MARGIN, SIDE + 2 * MARGIN + 10
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">'
            f'<rect width="{width}" height="{height}" fill="white"/>' + ''.join(lines) + '</svg>\n')
