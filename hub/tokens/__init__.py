"""Bearer tokens: who a caller of the jobs API is, and what he may do there."""
