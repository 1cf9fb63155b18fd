// Package ledger stores every execution of an agent: when it was claimed (recorded
// before its start), by which root, how each attempt ended, and the result. Resume and
// the cache are queries to it.
//
// A [Recorder] writes for one root, a qq process. It appends to the journal of that
// root: the batches that the root begins and ends, claims, failed attempts, side
// effects and results. A journal is the truth until it is indexed. A [Ledger] is the SQLite database
// that indexes them: [Open] reads into it what is new in the journals, and removes
// the journals of dead roots. So a root opens no database to run its tasks.
//
// Promises:
//
//   - When Claim has returned, the death of the process cannot lose the claim. When
//     Finish or Touch has returned, a power failure cannot lose that either.
//   - Nothing is rewritten: an execution has one result, the first. Whether an
//     execution without a result is running or was interrupted is not stored: it
//     is running as long as its root holds the lock on its lock file.
//   - One root at a time works on a batch.
//   - The order of the rows says which of two records is newer, not the clock. Journals
//     are read in the order of the ids of their roots, which sort by time. Clocks serve
//     display, retention and the time filters only.
//   - An output is stored byte for byte.
//
// Results become durable in groups: those that wait while the disk syncs share the
// next sync.
//
// Not promised: that the record survives a disk that loses synced data; that a folder
// shared by several machines works; the order of executions of two roots that ran at
// the same time; that an attempt reported just before a power failure is kept. A
// damaged database is reported and not touched.
package ledger
