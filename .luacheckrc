-- What luacheck knows of the Lua files: the Redis they run in, and the modules of hub/store/library.py.
std = 'lua51+hub'
max_line_length = 140
unused_args = true
self = false

stds.hub = {
  read_globals = {
    redis = {fields = {'call', 'pcall', 'error_reply', 'status_reply', 'sha1hex', 'log', 'register_function'}},
    server = {fields = {'call', 'pcall', 'error_reply', 'status_reply', 'sha1hex', 'log', 'register_function'}},
    cjson = {fields = {'encode', 'decode', 'null'}},
    FUNCTIONS = {other_fields = true},  -- what Redis knows commands as
    register = {}, wake = {},
  },
}

local modules = {
  'numbers', 'times', 'ids', 'keys', 'lenient', 'allowances', 'reserve', 'command', 'notifications', 'holders', 'history', 'audit', 'hook_labels', 'hooks', 'hubs', 'pools', 'orders', 'slot_digests', 'drains', 'items', 'caps', 'wants', 'classes', 'free_slots', 'patterns', 'pool_rules', 'teams', 'team_turns', 'team_shares', 'team_rounds', 'team_counts', 'team_listings', 'team_tickets', 'team_matches', 'team_lines', 'team_waiters', 'team_needs', 'team_leases', 'team_recalls', 'team_changes', 'shared', 'turns', 'alternatives', 'bundle_wishes', 'bundle_line', 'listings', 'class_listings', 'lines', 'line_limits', 'class_heads', 'class_counts', 'slot_classes', 'served_caps', 'reserved_slots', 'revocations', 'lease_limits',
  'suspects', 'lease_texts', 'freshness', 'holds', 'kept_holds', 'held_slots', 'slots', 'belonging', 'node_processes', 'liveness', 'reports', 'queue_order', 'attempts', 'tickets', 'usage', 'usage_days', 'bundles', 'leases', 'endings', 'foreign_items',
  'supply', 'choosing', 'matching', 'fast_borrow', 'fits', 'waiters', 'handoffs', 'bundle_plans', 'published_pools', 'bundle_limits', 'bundle_cells', 'bundle_nodes', 'bundle_stocks', 'bundle_supply', 'bundle_handoffs', 'reserver', 'reserve_turns', 'bundle_rounds', 'placing', 'releases', 'bundle_ends', 'lease_use', 'renewals', 'nodes', 'serving_classes', 'serving_below', 'serving', 'spill_over', 'queue', 'bundle_queue', 'newcomers', 'publications',
  'tokens', 'quotas', 'names', 'events', 'tasks', 'progress', 'job_queue', 'claims', 'claim_terms', 'job_limits', 'limited_tasks', 'limit_changes', 'limit_rooms', 'task_slots', 'task_renewals', 'payload_values', 'limit_counts', 'put_off_tasks', 'waited_slots', 'claimed_tasks', 'jobs', 'uniques', 'blocked', 'chains', 'outcomes', 'recalls', 'submissions', 'schedules', 'workers', 'incarnations', 'providers',
  'dead_workers', 'connections',
  'doctor_members', 'doctor_line_members', 'doctor_task_members', 'doctor_classes', 'doctor_lines', 'doctor_bundles', 'doctor_team_members', 'doctor_team_rows', 'doctor_team_recalls', 'doctor_teams', 'doctor_team_lines', 'doctor_indexes', 'doctor_slots', 'doctor_slot_repair', 'doctor_places', 'doctor_nodes', 'doctor_pools', 'doctor_waits', 'doctor_queue', 'doctor_hubs', 'doctor_tasks', 'doctor_held_tasks', 'doctor_limit_members', 'doctor_limits', 'doctor_task_slots', 'doctor_workers', 'doctor_jobs', 'doctor_providers', 'doctor_schedules', 'doctor', 'record_times', 'records',
}
for _, name in ipairs(modules) do stds.hub.read_globals[name] = {other_fields = true} end

globals = {'call_state', 'store'}  -- what a call does, and how the store stands, is noted by whoever changes it
