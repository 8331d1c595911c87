"""`@internal` jobs: jobs that a module of this deployment defines and that its internal workers execute."""
