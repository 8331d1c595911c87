"""Realms as calls meet them: which one is meant, and what a call in one asks of the others."""
