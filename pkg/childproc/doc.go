// Package childproc is both ends of one child: [Launcher] starts a process for a job
// and reads what became of it, [Conn] is the connection seen from inside the child.
// The frames that they exchange and their limits are in protocol.go: that file is the
// whole contract.
//
// A child is this program again. Its main calls [Connect] before anything else; when
// that returns a Conn, the process is a child, and [Conn.Serve] is its whole life: a
// [Runner] gets the task and returns the result. The parent hands a Launcher to a
// supervisor and says with a [Program] how its children are started.
//
// The task comes on stdin, so no other process sees it in the arguments. The answer
// goes to stdout and diagnostics to stderr. Both are files: output of any size costs
// no memory, and a process that keeps them open cannot make the parent wait. Frames
// travel on two pipes: down what the root wants, up what the child reports and asks
// for. When the down pipe ends, the root is gone and the child ends itself.
//
// A request to a model needs a permit of the root, one at a time. The first may come
// with the start frame. The child gives each back with a report, whose values the root
// limits to plausible ones. The root takes a permit back when the child ends, by
// whatever cause, and when the child begins to wait for others that may need it.
//
// Every frame of a child counts as activity. A child at work sends one now and then.
//
// When a clock has run out, the cancel frame grants one more turn, with a request to
// the model, to hand back what is there. For any other reason a child has to end at
// once. What it has said, written and changed is kept either way.
//
// Truth: a child has succeeded when it exited 0, its result frame says completed, and
// its answer is there, whole. Words in an output decide nothing.
//
// Not promised: that a child obeys a cancel frame, which is why signals follow it; that
// its reports are true; that it is active when it says so.
package childproc
