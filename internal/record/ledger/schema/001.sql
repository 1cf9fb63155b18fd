-- The order of things is that of n, which only grows: no clock is asked for it.
-- Times are microseconds since 1970, 0 for none. Rows are appended, never
-- rewritten; only clearing and retention delete them.
PRAGMA application_id = 1903258727;

-- A qq process at work. It is alive while it holds the lock on its file.
CREATE TABLE roots (
  n       INTEGER PRIMARY KEY,
  id      TEXT NOT NULL UNIQUE,
  pid     INTEGER NOT NULL,
  process TEXT NOT NULL, -- when the process started, in words of the system: guards against a pid that is used again
  started INTEGER NOT NULL,
  dir     TEXT NOT NULL,
  command TEXT NOT NULL,
  after   INTEGER NOT NULL -- n of the last execution before its first: there is no index for its own
);

-- One row for each time that a root began to work on a batch.
CREATE TABLE batches (
  n       INTEGER PRIMARY KEY,
  id      TEXT NOT NULL,
  root    TEXT NOT NULL,
  dir     TEXT NOT NULL,
  joblog  TEXT NOT NULL,
  count   INTEGER NOT NULL,
  started INTEGER NOT NULL
);
CREATE INDEX batches_id ON batches (id);
CREATE INDEX batches_dir ON batches (dir);

-- A claim: a task that is about to be worked on.
CREATE TABLE executions (
  n       INTEGER PRIMARY KEY,
  id      TEXT NOT NULL UNIQUE,
  parent  TEXT NOT NULL,
  batch   TEXT NOT NULL,
  root    TEXT NOT NULL,
  session TEXT NOT NULL,
  agent   TEXT NOT NULL,
  model   TEXT NOT NULL,
  key     TEXT NOT NULL,
  dir     TEXT NOT NULL,
  nth     INTEGER NOT NULL,
  idx     INTEGER NOT NULL,
  depth   INTEGER NOT NULL,
  queued  INTEGER NOT NULL,
  claimed INTEGER NOT NULL,
  task    TEXT NOT NULL
);
CREATE INDEX executions_batch ON executions (batch, key, nth) WHERE batch <> '';
CREATE INDEX executions_parent ON executions (parent) WHERE parent <> '';

-- Attempts that were not the last.
CREATE TABLE attempts (
  n             INTEGER PRIMARY KEY,
  execution     INTEGER NOT NULL,
  number        INTEGER NOT NULL,
  started       INTEGER NOT NULL,
  ended         INTEGER NOT NULL,
  status        TEXT NOT NULL,
  input_tokens  INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  error         TEXT NOT NULL
);
CREATE INDEX attempts_execution ON attempts (execution);

-- Executions that began to do what cannot be undone, and those above them.
CREATE TABLE effects (execution INTEGER PRIMARY KEY);

-- The one result of an execution. An execution without is running, or was
-- interrupted when its root is not alive.
CREATE TABLE results (
  execution     INTEGER PRIMARY KEY,
  status        TEXT NOT NULL,
  attempts      INTEGER NOT NULL,
  ended         INTEGER NOT NULL,
  duration_ms   INTEGER NOT NULL,
  queued_ms     INTEGER NOT NULL,
  input_tokens  INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  recall        TEXT, -- by which this result is found to answer again
  error         TEXT NOT NULL,
  summary       TEXT, -- the beginning of an output that is longer
  record        TEXT NOT NULL, -- the result as JSON, without its output
  output        TEXT NOT NULL -- byte for byte
);
CREATE INDEX results_recall ON results (recall) WHERE recall IS NOT NULL;

CREATE VIEW runs AS
SELECT e.n, e.id, e.parent, e.batch, e.root, e.session, e.agent, e.model, e.task, e.key, e.nth, e.idx, e.depth, e.dir,
  coalesce(r.status, '') AS status,
  coalesce(r.attempts, 1 + (SELECT count(*) FROM attempts a WHERE a.execution = e.n)) AS attempts,
  e.queued, e.claimed, coalesce(r.ended, 0) AS ended,
  coalesce(r.duration_ms, 0) AS duration_ms, coalesce(r.queued_ms, 0) AS queued_ms,
  coalesce(r.input_tokens, 0) AS input_tokens, coalesce(r.output_tokens, 0) AS output_tokens,
  coalesce(r.error, '') AS error, coalesce(r.summary, r.output, '') AS summary
FROM executions e LEFT JOIN results r ON r.execution = e.n;
