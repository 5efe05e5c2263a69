"""The page as one file: its style, its scripts and what was computed, for use without a server.

The file asks for nothing: its policy allows the style and the scripts that are part of it, by their
digests, and forbids all requests. The galleries of documentation can embed it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re

from fgg.explore.asked import Answer
from fgg.explore.files import SCRIPTS, STYLES, page_file

_HEAD = re.compile(r"<!-- begin head -->.*?<!-- end head -->", re.DOTALL)
_SCRIPTS = re.compile(r"<!-- begin scripts -->.*?<!-- end scripts -->", re.DOTALL)


LOCAL: Answer = {"folder": None, "models": []}
"""What a page begins with that belongs to this machine alone, and what stands in its place."""


def exported(state: Answer) -> str:
    """A state of the page, its text and the answers of its views, as a self-contained page."""
    start = state.get("start")
    if isinstance(start, dict):
        state = {**state, "start": {**start, **LOCAL}}
    style = "\n".join(map(page_file, STYLES))
    script = "\n".join(map(page_file, SCRIPTS))
    data = json.dumps(state, ensure_ascii=True).replace("<", "\\u003c")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<link rel="icon" href="data:,">\n'
        f"<style>{style}</style>\n"
        f'<script type="application/json" id="exported">{data}</script>'
    )
    page = _HEAD.sub(lambda _: head, page_file("index.html"))
    return _SCRIPTS.sub(lambda _: f"<script>{script}</script>", page)


def _digest(text: str) -> str:
    """The source of a policy that allows one text."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
