"""From text to grammars and programs. Symbolic: nothing here imports torch."""

from fgg.compiler.front import load_text
from fgg.compiler.loading import Loaded, load, load_content, load_file, loads

__all__ = ["Loaded", "load", "load_content", "load_file", "load_text", "loads"]
