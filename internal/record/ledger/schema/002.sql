-- Whether only the log of the batch tells what was done before that work.
ALTER TABLE batches ADD COLUMN alone INTEGER NOT NULL DEFAULT 0;

-- How a root came to the end of its work on a batch. One that died wrote none.
CREATE TABLE ends (
  batch         INTEGER PRIMARY KEY, -- n of the row of that work
  status        TEXT NOT NULL,
  ended         INTEGER NOT NULL,
  input_tokens  INTEGER NOT NULL, -- of all that was done for it, at any depth
  output_tokens INTEGER NOT NULL
);
