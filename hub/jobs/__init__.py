"""Workers, the jobs they offer, the tasks that are submitted to them, and the providers they answer for."""
