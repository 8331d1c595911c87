"""Slots, the pools they lie in, and the grants of them."""
