"""The picture in the README: `make demo && python docs/overview.py` writes docs/overview.svg.

It shows what the demo has drawn side by side: a rule, the same rule in rank space, and a parse.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parent
DEMO = DOCS.parent / "demo"
HEIGHT, GAP, TOP = 330.0, 36.0, 64.0
FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"


def drawn(name: str, *options: str) -> str:
    """A picture of the demo's grammar."""
    words = [sys.executable, "-m", "fgg", "draw", "english.fgg", *options, "-o", name]
    subprocess.run(words, cwd=DEMO, check=True, stderr=subprocess.DEVNULL)
    return (DEMO / name).read_text(encoding="utf-8")


def placed(svg: str, x: float, y: float, most: float) -> tuple[str, float]:
    """A picture at a place, at most so high, and its width there."""
    size = re.match(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"', svg)
    assert size is not None
    width, height = map(float, size.groups())
    scale = min(1.0, most / height)
    start = (
        f'<svg x="{x:.1f}" y="{y:.1f}" width="{width * scale:.1f}" height="{height * scale:.1f}"'
    )
    more = svg[size.end() :]
    return f"{start}{more}", width * scale


def overview() -> str:
    """The whole picture."""
    panels = [
        ("You write a rule", "phrases that grow", drawn("rule.svg", "--rule", "grow")),
        (
            "fggc sums its states out",
            "rank space, proved equal",
            drawn("rank_rule.svg", "--after", "rank_space", "--rule", "grow"),
        ),
        (
            "Trained on plain text, it parses",
            "one of its trees",
            (DEMO / "tree.svg").read_text(encoding="utf-8"),
        ),
    ]
    x, body = GAP, []
    for title, note, svg in panels:
        inner, width = placed(svg, x, TOP + 14, HEIGHT - TOP - 30)
        width = max(width, 240.0)
        body.append(
            f'<text x="{x + 14:.1f}" y="34" font-size="17" font-weight="bold">{title}</text>'
        )
        body.append(f'<text x="{x + 14:.1f}" y="55" font-size="14" fill="#59636e">{note}</text>')
        body.append(inner)
        x += width + GAP
    style = f'font-family="{FONT}" fill="#1f2328"'
    start = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {x:.0f} {HEIGHT:.0f}" {style}>'
    return "\n".join(
        [
            start,
            f'<rect width="{x:.0f}" height="{HEIGHT:.0f}" fill="#ffffff"/>',
            *body,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    (DOCS / "overview.svg").write_text(overview(), encoding="utf-8")
