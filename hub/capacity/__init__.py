"""Slots, the pools they lie in, and the leases of them."""
