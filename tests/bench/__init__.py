"""Benchmarks: each promise about speed, measured against a baseline in the same run. `make bench` runs them all."""
