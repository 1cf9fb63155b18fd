-- How many tasks of a batch that nobody works on have which status. It is counted when it is first
-- asked for, and again after runs were cleared.
CREATE TABLE counts (
  batch  INTEGER NOT NULL, -- n of the last row of the batch
  status TEXT NOT NULL,
  count  INTEGER NOT NULL,
  PRIMARY KEY (batch, status)
) WITHOUT ROWID;
