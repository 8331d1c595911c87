"""The steps of a request between the pipeline and its endpoint: guards, time limits, counting, refusals."""
