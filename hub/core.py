"""The hub: the parts of one hub process for one store."""

from __future__ import annotations

from hub.audit import AuditLog
from hub.capacity.agreed import Agreed
from hub.capacity.bundles import Bundles
from hub.capacity.hints import Hints
from hub.capacity.holds import Holds
from hub.capacity.lease_use import LeaseUse
from hub.capacity.leases import Leases
from hub.capacity.nodes.nodes import Nodes
from hub.capacity.pool_rules import PoolRules
from hub.capacity.pools import Pools
from hub.capacity.queue import Queue
from hub.capacity.task_slots import TaskSlots
from hub.capacity.tickets import Tickets
from hub.capacity.watching import Watching
from hub.hooks.hooks import Hooks
from hub.jobs.claims import TaskClaims
from hub.jobs.jobs import Jobs
from hub.jobs.pages import Pages
from hub.jobs.presence import Presence
from hub.jobs.progress import Progress
from hub.jobs.providers import Providers
from hub.jobs.quotas import Quotas
from hub.jobs.recent import Recent
from hub.jobs.schedules import Schedules
from hub.jobs.tasks import Tasks
from hub.jobs.validation import Validation
from hub.jobs.workers import Workers
from hub.settings import Settings
from hub.store.clock import HubClock
from hub.store.store import Store
from hub.teams.teams import Teams
from hub.tokens.tokens import Tokens
from hub.usage.usage import UsageDays


class Hub:
    """The parts of one hub process for one realm; all of them use the same store."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.settings = settings
        self.store = store
        store.node_timeout_ms = int(settings.node_timeout_s * 1000)
        self.clock = HubClock(store, settings.limits)
        self.agreed = Agreed(store, settings, self.clock.hub_id)
        self.audit = AuditLog(store, settings.audit_max_entries)
        self.nodes = Nodes(store, settings.node_token_s, settings.classes_max)
        self.pools = Pools(store, settings)
        self.hints = Hints(store, self.agreed, self.pools)
        self.queue = Queue(store, settings, self.pools, self.agreed, self.clock.hub_id)
        self.leases = Leases(store, settings, self.pools, self.queue, self.agreed)
        self.holds = Holds(store)  # after the leases, which are the first to be restored in a store that lost data
        self.rules = PoolRules(store, self.leases.memory)
        self.teams = Teams(store, self.pools)
        self.use = LeaseUse(store, settings)
        self.usage = UsageDays(store, settings, self.clock.hub_id)
        self.watching = Watching(store, self.holds, self.use)
        self.tickets = Tickets(store, self.leases.memory, self.leases.classes)
        self.bundles = Bundles(store, settings, self.leases, self.tickets)
        pages, recent = Pages(store), Recent(store)
        self.workers = Workers(store, settings, pages)
        self.jobs = Jobs(store, settings, pages, recent)
        self.tasks = Tasks(store, settings, self.jobs, pages, recent)
        self.claims = TaskClaims(store, settings, self.tasks, TaskSlots(store, self.bundles, settings))
        self.schedules = Schedules(store, settings, pages)
        self.progress = Progress(store)
        self.validation = Validation()
        self.quotas = Quotas(store, settings)
        self.providers = Providers(store, settings, pages, recent)
        self.tokens = Tokens(store, settings.node_token_s)
        self.hooks = Hooks(store)
        self.presence = Presence(store, settings, self.clock.hub_id)
