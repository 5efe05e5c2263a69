"""Verifying: whether rewritten grammars, plans and programs mean what their source means."""
