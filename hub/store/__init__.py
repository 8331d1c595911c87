"""The store in Redis: connections to Redis, the names of all keys, and the scripts that change what is stored."""
