"""What editors need: an index of symbols, a formatter, a lexer for highlighting."""
