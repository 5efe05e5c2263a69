"""Starting the explorer: what FILE is, and what the page begins with."""

from __future__ import annotations

import os
from pathlib import Path

from fgg import __version__
from fgg.api.saved import is_model, model_file
from fgg.compiler.resolve.files import read_named
from fgg.compiler.resolve.load import load_content
from fgg.explore.asked import Answer, Home
from fgg.explore.highlight import lexer_rules
from fgg.library import library_names, library_text, library_title
from fgg.plan.devices import DEVICES

FIRST = "pcfg"
"""The library grammar that the page begins with where no FILE is given."""
MAX_LISTED = 200


def opened(file: str | None, memory: int) -> tuple[Home, Answer]:
    """The home of an explorer of FILE, and the state that its page begins with.

    FILE may be a grammar, FGG JSON, a trained model, the name of a library grammar, or None. Raises
    GrammarError if it cannot be read.
    """
    name, text, query = f"{FIRST}.fgg", library_text(FIRST), None
    home = Home(memory=memory)
    if file is not None and is_model(file):
        from fgg.runtime.model.saving import read

        saved = read(model_file(file))
        name, text, query = f"{saved.name}.fgg", saved.text, saved.query
        path = os.path.realpath(model_file(file))
        home = Home(name, os.path.dirname(path), path, memory)
    elif file is not None:
        given = read_named(file)
        name, text = given.name, given.text
        if given.is_json:
            from fgg.grammar.printer import print_grammar

            text = print_grammar(load_content(text, name, folder=given.folder).checked())
            name = f"{Path(name).stem}.fgg"
        if os.path.lexists(file):
            home = Home(name, os.path.realpath(given.folder or "."), None, memory)
    return home, start_state(home, name, text, query)


def start_state(home: Home, name: str, text: str, query: str | None = None) -> Answer:
    """What a page begins with."""
    return {
        "version": __version__,
        "name": Path(name).name,
        "text": text,
        "query": query,
        "folder": home.folder,
        "trained": home.model is not None,
        "models": list(models_in(home)),
        "library": [{"name": n, "title": library_title(n)} for n in library_names()],
        "devices": [{"name": d.name, "title": d.title} for d in DEVICES.values()],
        "lexer": lexer_rules(),
    }


def models_in(home: Home) -> list[str]:
    """The trained models in the explorer's folder, by name."""
    if home.place is None:
        return []
    try:
        names = sorted(entry.name for entry in home.place.iterdir())[:MAX_LISTED]
    except OSError:
        return []
    return [name for name in names if is_model(home.place / name)]
