"""Running programs on tensors: semirings, numerics, engines, decoding and learning."""
