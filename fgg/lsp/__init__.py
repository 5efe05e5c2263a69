"""The language server, `fggc lsp`: what editors show about a grammar while it is written."""
