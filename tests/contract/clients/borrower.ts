// Borrows, renews and returns a slot; submits a task, runs it as its worker, and reads the result. `tsc --strict` accepts
// it, and it runs against a hub: node borrower.js URL RUNNER_SECRET ADMIN_SECRET. The slot makes its round once more in
// neutral names.
import createClient from "openapi-fetch";
import type { components, paths } from "./hub.js";

type Grant = components["schemas"]["Grant"];
type Problem = components["schemas"]["Problem"];
type Plain = "application/json" | "application/problem+json";

const [url, runnerSecret, adminSecret] = process.argv.slice(2);
if (!url || !runnerSecret || !adminSecret) throw new Error("say URL RUNNER_SECRET ADMIN_SECRET");
const runner = createClient<paths, Plain>({ baseUrl: url, headers: { "x-hub-secret": runnerSecret } });
const admin = createClient<paths, Plain>({ baseUrl: url, headers: { "x-hub-secret": adminSecret } });

function good<T>(said: { data?: T; error?: unknown }): T {
  if (said.data === undefined) throw new Error(JSON.stringify(said.error));
  return said.data;
}

const refused = await runner.POST("/session/borrow", { body: { labelKey: "no:such", waitForPool: false } });
const problem = refused.error as Problem;
const grant: Grant = good(
  await runner.POST("/session/borrow", {
    params: { header: { "Idempotency-Key": "typescript", "x-run-id": "nightly" } },
    body: { labelKey: "gpu:a100", ttlSeconds: 60 },
  }),
);
const held = { browserId: grant.browserId, leaseToken: grant.leaseToken };
const seconds: number = good(await runner.POST("/session/renew", { body: { ...held, ttlSeconds: 120 } })).ttlSeconds;
const returned: string = good(
  await runner.POST("/session/return", { body: { labelKey: grant.labelKey, ...held } }),
).returned;

const NEUTRAL = "application/vnd.capacity-hub+json";
const neutral = createClient<paths, typeof NEUTRAL>({
  baseUrl: url,
  headers: { "x-hub-secret": runnerSecret, Accept: NEUTRAL },
});
const lent = good(await neutral.POST("/session/borrow", { body: { label: "gpu:a100", ttlSeconds: 60 } }));
const { slotId, label, lease } = lent;
const longer = good(
  await neutral.POST("/session/renew", { body: { slotId, lease: { token: lease.token }, ttlSeconds: 120 } }),
);
const back = good(await neutral.POST("/session/return", { body: { slotId, label, lease: { token: lease.token } } }));

const room = { room_id: "typescript" };
const job = good(
  await admin.PUT("/v1/joblib/rooms/{room_id}/jobs", {
    params: { path: room },
    body: { category: "modifiers", name: "Rotate" },
  }),
);
const worker = job.worker_id ?? "";
const submitted = good(
  await admin.POST("/v1/joblib/rooms/{room_id}/tasks/{job_name}", {
    params: { path: { ...room, job_name: job.full_name } },
    body: { payload: { angle: 90 } },
  }),
);
if (!("id" in submitted)) throw new Error("one task was submitted, and many ids came back");
const { task } = good(await admin.POST("/v1/joblib/tasks/claim", { body: { worker_id: worker, start: true } }));
await admin.PATCH("/v1/joblib/tasks/{task_id}", {
  params: { path: { task_id: task?.id ?? "" } },
  body: { status: "completed", result: { images: 40 } },
});
const done = good(
  await admin.GET("/v1/joblib/tasks/{task_id}", {
    params: { path: { task_id: submitted.id }, header: { Prefer: "wait=5" } },
  }),
);
const status: "pending" | "claimed" | "running" | "completed" | "failed" | "cancelled" = done.status;
const old = { code: problem.code, slot: grant.browserId, seconds, returned, status, result: done.result };
console.log(JSON.stringify({ ...old, neutral: [slotId, label, lent.kind, longer.lease.ttlSeconds, back.returned] }));
