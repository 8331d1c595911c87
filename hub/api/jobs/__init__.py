"""The jobs API: workers, jobs, tasks, schedules and providers over HTTP, with one module for each."""
