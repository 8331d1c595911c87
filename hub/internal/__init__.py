"""`@internal` jobs: a module defines what this deployment executes itself, and internal workers run it."""
