// Package alive tells which processes are alive by the locks that they hold, not by
// what anybody wrote down.
//
// A process that wants to be known holds the [Lock] of an id as long as it lives: a
// lock by flock on the file of that id in a [Dir]. The id is alive while some process
// holds its lock. An [Identity] tells a process from a later one with the same pid.
//
// Promises:
//
//   - However a process ends, even by SIGKILL, its locks are free once it is gone.
//     Children do not inherit them.
//   - One process at a time holds the lock of an id. A process that waits for it
//     longer than Dir.Wait gets a [LockedError].
//   - A file that was left behind means nothing, and [Dir.Sweep] may remove it at any
//     time: no process keeps a lock on a removed file, and nobody who checks meanwhile
//     takes a dead id for a live one.
//   - On Linux, [Dir.Terminate] never signals a process other than the recorded one.
//
// Not promised: that it works in a folder that several machines share; that an id is
// still alive when the answer arrives; that outside Linux the pid still belongs to the
// process that holds the lock.
package alive
