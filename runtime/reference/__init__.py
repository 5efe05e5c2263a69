"""The reference engine: the sum-product of any finite grammar [CR §5]."""
