// Package alive tells which processes are alive, by locks and not by what anybody
// wrote down.
//
// A process that wants to be known holds the [Lock] of an id for its life: a
// lock by flock on the file of that id in a [Dir]. The id is alive while somebody
// holds its lock. An [Identity] tells a process from a later one that was given
// the same pid.
//
// What holds:
//
//   - However a process ends, also by SIGKILL, its locks are free once it is gone.
//     Children do not inherit them.
//   - One process at a time holds the lock of an id. Whoever has to wait for it
//     longer than Dir.Wait is told so by a [LockedError].
//   - A file that was left behind means nothing, and may be removed at any time by
//     [Dir.Sweep]: nobody is left with a lock on a file that has no name any more, and
//     whoever looks meanwhile takes nobody dead for alive.
//   - On Linux, [Dir.Terminate] never signals another process than the one that was
//     recorded.
//
// Not promised: that it works in a folder which several machines share; that who
// is alive still is when the answer arrives; that outside Linux the pid is still that
// of the process which holds the lock.
package alive
