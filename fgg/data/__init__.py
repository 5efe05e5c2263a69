"""Data: corpora as streams of examples, vocabularies, batches, streams of tokens."""

from fgg.data.batches import Batch, Batches, Position
from fgg.data.changes import (
    PUNCTUATION,
    as_characters,
    as_tags,
    bare_labels,
    keep,
    normal,
    of_length,
    without_punctuation,
)
from fgg.data.corpus import FORMATS, Corpus, Skipped, read
from fgg.data.example import Example, brackets
from fgg.data.finding import find
from fgg.data.shapes import shape
from fgg.data.streams import Tokens, Window, Windows, token_stream
from fgg.data.vocabulary import Vocabulary
from fgg.data.vocabulary import build as build_vocabulary
from fgg.data.vocabulary import load as load_vocabulary

__all__ = [
    "FORMATS",
    "PUNCTUATION",
    "Batch",
    "Batches",
    "Corpus",
    "Example",
    "Position",
    "Skipped",
    "Tokens",
    "Vocabulary",
    "Window",
    "Windows",
    "as_characters",
    "as_tags",
    "bare_labels",
    "brackets",
    "build_vocabulary",
    "find",
    "keep",
    "load_vocabulary",
    "normal",
    "of_length",
    "read",
    "shape",
    "token_stream",
    "without_punctuation",
]
