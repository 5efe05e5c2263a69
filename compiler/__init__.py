"""From text to grammars and programs. Symbolic: nothing here imports torch."""

from fgg.compiler.resolve.load import Loaded, load, load_content, load_file, load_text, loads

__all__ = ["Loaded", "load", "load_content", "load_file", "load_text", "loads"]
