"""The jobs API: workers, jobs, tasks and providers over HTTP, one module per noun."""
