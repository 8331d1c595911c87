"""The contract: the content of `/openapi.json` and `/asyncapi.json`, made from the code, and the files that hold it
(`make contract`)."""
