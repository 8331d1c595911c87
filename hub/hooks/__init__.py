"""Hooks: programs of users that are told of events over HTTP, signed, at least once, in order per object."""
