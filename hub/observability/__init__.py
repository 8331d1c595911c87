"""Logs and metrics: what an operator sees of a running hub."""
