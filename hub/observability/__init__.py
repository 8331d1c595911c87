"""The logs, metrics and traces by which operators watch a running hub."""
