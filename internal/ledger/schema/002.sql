-- How a root came to the end of its work on a batch. One that died wrote none.
CREATE TABLE ends (
  batch  INTEGER PRIMARY KEY, -- n of the row of that work
  status TEXT NOT NULL,
  ended  INTEGER NOT NULL
);
