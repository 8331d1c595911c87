"""What a request meets between the pipeline and its endpoint: guards, time, counting, refusals."""
