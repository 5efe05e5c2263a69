"""The JSON format of the `fggs` library: grammars read from it and written to it."""

from fgg.json.read import from_json, read_json_text
from fgg.json.write import to_json

__all__ = ["from_json", "read_json_text", "to_json"]
