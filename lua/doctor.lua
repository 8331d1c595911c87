-- The doctor: the check and the repair for each kind of subject.
-- A check is called with `say(word, wrong)`, which notes the word where `wrong` is true, with the limits timeout_ms and grace_ms of
-- doctor/check, and with the fields of one subject. A repair is called with the arguments of doctor/repair; it checks its subject again
-- before it changes anything.
local doctor = {}

doctor.checks = {
  store = doctor_nodes.check_store,
  slots = doctor_slots.check, places = doctor_places.check, pools = doctor_pools.check,
  nodes = doctor_nodes.check, parts = doctor_nodes.check_part,
  tickets = doctor_queue.check_ticket, queues = doctor_queue.check, waits = doctor_waits.check,
  runs = doctor_hubs.check_run, hubs = doctor_hubs.check, reserver = doctor_bundles.check_reserver,
  tasks = doctor_tasks.check, workers = doctor_workers.check, links = doctor_workers.check_link,
  classed = doctor_classes.check, offers = doctor_classes.check_offer, lines = doctor_lines.check, wants = doctor_lines.check_want,
  jobs = doctor_jobs.check, providers = doctor_providers.check, schedules = doctor_schedules.check,
  members = doctor_indexes.check, groups = doctor_limits.check,
  policies = doctor_team_rows.check, shares = doctor_teams.check_share, team_lines = doctor_team_lines.check,
}

doctor.repairs = {
  store = doctor_nodes.repair_store, counter = doctor_nodes.repair_counter,
  slots = doctor_slot_repair.repair, unmanaged = doctor_slot_repair.withdraw_unmanaged, places = doctor_places.repair,
  pools = doctor_pools.repair, waits = serving.pool,
  drains = doctor_nodes.repair_drain, parts = doctor_nodes.repair_part,
  tickets = doctor_queue.repair_ticket, queues = doctor_queue.repair, runs = doctor_hubs.repair_run,
  hubs = doctor_hubs.repair, reserver = doctor_bundles.repair_reserver,
  tasks = doctor_tasks.repair, counts = doctor_jobs.repair_count, holdings = doctor_jobs.repair_holding,
  workers = doctor_workers.repair, links = doctor_workers.repair_link,
  classed = doctor_classes.repair, offers = doctor_classes.repair_offer, stocks = doctor_classes.repair_count,
  lines = doctor_lines.repair, wants = doctor_lines.repair_want,
  jobs = doctor_jobs.repair, providers = doctor_providers.repair, schedules = doctor_schedules.repair,
  members = doctor_indexes.repair, groups = doctor_limits.repair, task_leases = doctor_task_slots.repair_lease,
  team_leases = doctor_teams.repair_lease, shares = doctor_teams.repair_share, team_lines = doctor_team_lines.repair,
}

return doctor
