-- How many jobs a root could have at work at once when it began; 0 means that it is not known.
ALTER TABLE roots ADD COLUMN slots INTEGER NOT NULL DEFAULT 0;
