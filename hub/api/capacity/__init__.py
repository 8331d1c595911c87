"""The routes of capacity: nodes, pools, leases, the queue."""
