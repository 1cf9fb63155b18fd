// Package ledger is the record of every execution: what was claimed, by whom,
// how each attempt ended and what came of it. Resume and cache are questions to
// it.
//
// A [Root] is one qq process at work. It claims an [Execution] before the work
// starts, appends the attempts that failed, and finishes it with a result. A
// [Batch] is a list of tasks that several roots may have worked on, one after the
// other: each that begins appends a row.
//
// What holds:
//
//   - When Claim has returned, the death of the process cannot lose the claim;
//     when Finish has returned, neither can a power failure lose the result.
//   - Nothing is rewritten. Whether an execution without a result is running or
//     was interrupted is not stored: it depends on whether its root is alive,
//     which is whether somebody holds the lock on the file of that root.
//   - Order is that of the rows. Clocks give the times that are shown, and what
//     retention and the filters for time go by.
//   - An output is kept byte for byte.
//
// One goroutine of each process writes, in groups: whatever waits while a commit
// is under way shares the next one. Another syncs the log when there are results in
// it, while the next claims are written.
// Several processes may write at once; they wait for each other.
//
// A prompt without children does not open the database: [Recorder] writes its
// claim and its result to a journal, a file of its own, which whoever opens the
// database next takes in.
//
// Not promised: that the record outlives a disk that loses what it said was
// synced; that a folder shared by several machines works; that an attempt
// which was reported just before a crash is kept when nothing was committed
// since. A damaged database is reported and left as it is.
package ledger
