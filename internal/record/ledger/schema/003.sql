-- How much of the journal of a root that may still append to it is in the database.
CREATE TABLE journals (
  root  TEXT PRIMARY KEY,
  bytes INTEGER NOT NULL
);
