"""The console: who may look at it and act in it, its files, and what it shows that no other route tells."""
