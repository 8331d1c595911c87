"""Bearer tokens and shared secrets: the credentials of callers, their holders and their rights."""
