-- Executions without a result: they run, or were interrupted.
CREATE TABLE unfinished (execution INTEGER PRIMARY KEY);

-- How many tasks of a batch have which status. A task, (batch, key, nth), that was started several times
-- counts once, with the newest result; status is '' if it has none. Triggers keep the numbers: to count the
-- tasks of a large batch takes long.
CREATE TABLE counts (
  batch  TEXT NOT NULL, -- its id
  status TEXT NOT NULL,
  count  INTEGER NOT NULL,
  PRIMARY KEY (batch, status)
) WITHOUT ROWID;

INSERT INTO unfinished SELECT n FROM executions WHERE n NOT IN (SELECT execution FROM results);
INSERT INTO counts SELECT batch, status, count(*) FROM (
  SELECT e.batch, coalesce(r.status, '') AS status, max(e.n + ((r.status IS NOT NULL) << 60))
  FROM executions e LEFT JOIN results r ON r.execution = e.n WHERE e.batch <> '' GROUP BY e.batch, e.key, e.nth)
GROUP BY batch, status;

CREATE VIEW finished AS SELECT e.n, e.batch, e.key, e.nth, r.status
FROM executions e JOIN results r ON r.execution = e.n WHERE e.batch <> '';

-- Two rows for each execution of a task of which no newer one has a result. Its result adds 1 to its status, and -1
-- to older, the status of the next older result, or ''.
CREATE VIEW moves AS SELECT e.n, e.batch, d.by, coalesce((SELECT o.status FROM finished o
    WHERE o.batch = e.batch AND o.key = e.key AND o.nth = e.nth AND o.n < e.n ORDER BY o.n DESC LIMIT 1), '') AS older
FROM executions e CROSS JOIN (SELECT 1 AS by UNION ALL SELECT -1) d WHERE e.batch <> '' AND NOT EXISTS (
  SELECT 1 FROM finished o WHERE o.batch = e.batch AND o.key = e.key AND o.nth = e.nth AND o.n > e.n);

CREATE TRIGGER claimed AFTER INSERT ON executions BEGIN
  INSERT INTO unfinished VALUES (new.n);
  INSERT INTO counts SELECT new.batch, '', 1 WHERE new.batch <> '' AND NOT EXISTS (
    SELECT 1 FROM executions e WHERE e.batch <> ''
    AND e.batch = new.batch AND e.key = new.key AND e.nth = new.nth AND e.n <> new.n)
  ON CONFLICT DO UPDATE SET count = count + 1;
END;

CREATE TRIGGER finished_task AFTER INSERT ON results BEGIN
  DELETE FROM unfinished WHERE execution = new.execution;
  INSERT INTO counts SELECT batch, iif(by = 1, new.status, older), by FROM moves WHERE n = new.execution
  ON CONFLICT DO UPDATE SET count = count + excluded.count;
END;

-- Clearing deletes the result of an execution first, then the execution.
CREATE TRIGGER cleared_result AFTER DELETE ON results BEGIN
  INSERT INTO unfinished VALUES (old.execution);
  INSERT INTO counts SELECT batch, iif(by = 1, old.status, older), -by FROM moves WHERE n = old.execution
  ON CONFLICT DO UPDATE SET count = count + excluded.count;
END;

CREATE TRIGGER cleared_execution AFTER DELETE ON executions BEGIN
  DELETE FROM unfinished WHERE execution = old.n;
  UPDATE counts SET count = count - 1 WHERE batch = old.batch AND status = '' AND NOT EXISTS (
    SELECT 1 FROM executions e WHERE e.batch <> '' AND e.batch = old.batch AND e.key = old.key AND e.nth = old.nth);
END;

-- The prompts of people: a ledger with a large batch has few among very many.
CREATE INDEX executions_prompts ON executions (parent) WHERE parent = '' AND batch = '';
