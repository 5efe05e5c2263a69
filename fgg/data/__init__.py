"""Data: corpora of examples, preprocessing, vocabularies, batches, windows of a token stream."""

from fgg.data.batches import Batches, BatchPosition, ExampleBatch
from fgg.data.corpus import Corpus, Skipped, read
from fgg.data.example import Example, brackets
from fgg.data.formats import FORMATS
from fgg.data.preprocess import (
    PUNCTUATION,
    as_characters,
    as_tags,
    bare_labels,
    keep,
    normal,
    of_length,
    without_punctuation,
)
from fgg.data.streams import TokenStream, Window, Windows, token_stream
from fgg.data.text_files import find
from fgg.data.vocabulary import Vocabulary
from fgg.data.vocabulary import build as build_vocabulary
from fgg.data.vocabulary import load as load_vocabulary
from fgg.inputs.tokens import word_shape

__all__ = [
    "FORMATS",
    "PUNCTUATION",
    "BatchPosition",
    "Batches",
    "Corpus",
    "Example",
    "ExampleBatch",
    "Skipped",
    "TokenStream",
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
    "token_stream",
    "without_punctuation",
    "word_shape",
]
