"""The page that shows what the demo did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from examples.demo.__main__ import Done

STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --soft: #5b6878; --paper: #fdfdfb;
  --box: #f2f4f1; --line: #d9dedb; --accent: #0b6e5f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --soft: #a3adb8; --paper: #14181c;
  --box: #1d2328; --line: #333b42; --accent: #5cc8b4; } }
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 17px/1.55 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1.25rem 5rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.3rem; margin: 3rem 0 .4rem; }
h2 span { color: var(--accent); margin-right: .5rem; }
p { max-width: 44rem; } p.lead { color: var(--soft); font-size: 1.1rem; }
pre { background: var(--box); border: 1px solid var(--line); border-radius: 6px; overflow: auto;
  padding: .8rem 1rem; font: 13.5px/1.45 ui-monospace, monospace; max-height: 24rem; }
pre b { color: var(--accent); font-weight: 600; }
figure { margin: 1rem 0; background: #fff; border: 1px solid var(--line); border-radius: 6px;
  padding: 1rem; overflow: auto; text-align: center; }
figure img { max-width: 100%; height: auto; }
details summary { cursor: pointer; color: var(--accent); margin: .6rem 0; }
a { color: var(--accent); }
"""


def page(steps: Sequence[Done], folder: Path) -> str:
    """The whole page; it needs nothing but the files of the folder."""
    body = "\n".join(
        line for number, done in enumerate(steps, 1) for line in part(number, done, folder)
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>fgg: from a grammar to a proved, trained parser</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>From a grammar to a proved, trained parser</h1>
<p class="lead">Each step is a command. This page shows what they printed and drew when
<code>make demo</code> ran.</p>
{body}
</main>
</body>
</html>
"""


def part(number: int, done: Done, folder: Path) -> Iterator[str]:
    """One step: its text, commands with their output, a file, a picture."""
    step = done.step
    yield f"<h2><span>{number}</span>{escape(step.title)}</h2>"
    yield f"<p>{marked(step.text)}</p>"
    for command, output in zip(step.commands, done.outputs, strict=True):
        printed = f"\n{escape(output)}" if output else ""
        yield f"<pre><b>$ {escape(command)}</b>{printed}</pre>"
    if step.show:
        text = (folder / step.show).read_text(encoding="utf-8")
        yield f"<details><summary>{escape(step.show)} ({len(text.splitlines())} lines)</summary>"
        yield f"<pre>{escape(text)}</pre></details>"
    if step.picture and (folder / step.picture).exists():
        source = escape(step.picture)
        yield f'<figure><img src="{source}" alt="{escape(step.title)}"></figure>'


def marked(text: str) -> str:
    """Text with `code` as HTML."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{x}</code>" if number % 2 else x for number, x in enumerate(pieces))
