"""The shapes of bodies that callers send, and of answers that they get."""
