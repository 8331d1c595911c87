"""The contract: what `/openapi.json` says of every operation, and the file that says it (`make contract`)."""
