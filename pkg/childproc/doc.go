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
// Truth: a child has succeeded when it exited 0 *and* its result frame says
// completed *and* its answer is there, whole. Words in an output decide nothing.
//
// Not promised: that a child heeds a cancel frame. That is why signals follow it.
package childproc
