"""What can be said about a grammar: errors, B-FGG status, equations, a description."""
