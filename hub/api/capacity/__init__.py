"""The endpoints of capacity: nodes, pools, leases, and the queue of borrows."""
