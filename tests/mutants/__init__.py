"""Mistakes planted in the scripts, one at a time: the state machine must find each of them."""
