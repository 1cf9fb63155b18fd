// Package childproc contains both ends of the connection between the root and a child process.
// [Launcher] starts a process for a job and returns the result of the job. [Conn] is the connection
// as the child sees it. The frames that the two ends exchange and the limits of the frames are
// defined in protocol.go.
//
// A child runs the same program as its parent. Its main function calls [Connect] before anything
// else. If Connect returns a Conn, the process is a child, and [Conn.Serve] does all its work: a
// [Runner] gets the task and returns the result. The parent gives a Launcher to a supervisor, and a
// [Program] to the Launcher, which says how to start children.
//
// The task comes on stdin, so no other process can read it in the arguments. The answer goes to
// stdout and diagnostics go to stderr. Both are files: output of any size costs no memory, and a
// process that keeps them open cannot make the parent wait. Frames travel on two pipes: the down
// pipe carries frames of the root, and the up pipe carries frames of the child. When the down pipe
// ends, the root is gone and the child ends itself.
//
// A child needs a permit of the root for each request to a model, and has only one at a time. The
// first permit may come with the start frame. The child gives each permit back with a report, and
// the root limits the values of the report to plausible ones. The root takes a permit back when the
// child ends for any reason, and when the child begins to wait for other children that may need a
// permit.
//
// Every frame of a child counts as activity. A child that works sends a frame from time to time.
//
// When a clock has run out, the cancel frame grants the child one more turn, with one request to
// the model, to hand back what it has. In all other cases a cancelled child must end at once. Its
// output, its reports and its changes to files are kept in either case.
//
// A child has succeeded if it exited with code 0, its result frame says completed, and its whole
// answer is there. Words in the output decide nothing.
//
// Not promised: that a child obeys a cancel frame, which is why signals follow it; that its reports
// are true; that it is active when it says so.
package childproc
