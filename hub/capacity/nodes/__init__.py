"""Nodes: the owners of slots. They register, send heartbeats, drain and leave."""
