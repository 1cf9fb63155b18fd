// Package childproc is both ends of one child: [Launcher] starts a process for
// one task and reads what became of it; [Conn] is the same wire seen from
// inside the child. The wire itself, its frames and its limits are in
// protocol.go, and that file is the whole contract.
//
// A child is this program again. Its task comes on stdin, so that it is in
// nobody's argv; its answer goes to stdout and its diagnostics to stderr, which
// are files, so that output of any size costs no memory and nobody who keeps
// them open can make the parent wait. Two pipes carry frames: down what the
// root wants, up what the child reports and asks for. When the down pipe ends,
// the root is gone and the child ends itself.
//
// Requests to a model need a permit of the root, one at a time; a child may have
// got its first with the start frame. It gives each back with a report that the
// root cuts to what can be; what it keeps comes back when it ends, however that
// is, and before others are asked to do what they may need one for.
// Every frame of a child counts as activity, and while something happens there
// is one now and then.
//
// When a clock has run out, the cancel frame grants one more turn to hand back
// what is there, and its request to the model is let pass; for any other reason a
// child is to end at once. What it has said, written and changed is kept either
// way.
//
// Truth: a child has succeeded when it exited 0 *and* its result frame says
// completed *and* its answer is there, whole. Words in an output decide nothing.
//
// Not promised: that a child heeds a cancel frame, which is why signals follow
// it; that its reports are true; that it is active when it says so.
package childproc
