"""Nodes: who owns slots, and whether they are still there."""
