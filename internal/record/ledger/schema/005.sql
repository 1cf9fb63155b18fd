-- What tokens cost, in billionths of the currency of the user, as far as the prices were known; priced_tokens is how
-- many tokens these are.
ALTER TABLE attempts ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN cost INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN priced_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE results ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE results ADD COLUMN cost INTEGER NOT NULL DEFAULT 0;
ALTER TABLE results ADD COLUMN priced_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ends ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ends ADD COLUMN cost INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ends ADD COLUMN priced_tokens INTEGER NOT NULL DEFAULT 0;

-- The built-in model, extract, costs nothing: that is known.
DROP VIEW runs;
CREATE VIEW runs AS
SELECT e.n, e.id, e.parent, e.batch, e.root, e.session, e.agent, e.model, e.task, e.key, e.nth, e.idx, e.depth, e.dir,
  coalesce(r.status, '') AS status,
  coalesce(r.attempts, 1 + (SELECT count(*) FROM attempts a WHERE a.execution = e.n)) AS attempts,
  e.queued, e.claimed, coalesce(r.ended, 0) AS ended,
  coalesce(r.duration_ms, 0) AS duration_ms, coalesce(r.queued_ms, 0) AS queued_ms,
  coalesce(r.input_tokens, 0) AS input_tokens, coalesce(r.output_tokens, 0) AS output_tokens,
  coalesce(r.cached_tokens, 0) AS cached_tokens, coalesce(r.cost, 0) AS cost,
  coalesce(iif(e.model = 'extract', r.input_tokens + r.output_tokens, r.priced_tokens), 0) AS priced_tokens,
  coalesce(r.error, '') AS error, coalesce(r.summary, r.output, '') AS summary
FROM executions e LEFT JOIN results r ON r.execution = e.n;
