"""Verifying that rewritten grammars, plans and programs mean the same as their source."""
