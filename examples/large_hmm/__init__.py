"""Very large HMMs: a language model and a tagger."""
