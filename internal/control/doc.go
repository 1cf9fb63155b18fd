// Package control is the socket of a root: a server in each root, and the client with which
// every face, such as qq runs cancel, looks at a run and steers it. A face has no other way
// in but this socket and the record. protocol.go is the whole contract; docs/control.md
// explains it to those who write a client.
//
// Flow: [Start] makes a [Server], which opens its socket a moment later, so that a short
// prompt pays nothing for it. [Dial] connects a [Client]. The server checks who connects,
// says hello, and answers requests. It asks the [Tree] for jobs and tells it what to cancel.
// A subscription joins the stream of events; each client has a queue of its own.
//
// Promises:
//
//   - A client never slows the root down: nothing that the tree does waits for one. A client
//     that does not read is dropped when its queue is full or a write takes too long.
//   - A subscriber misses no event after its snapshot, and gets them in their order, or it
//     loses its connection. If the last line is no end, it has missed some.
//   - Only the same user and the superuser can connect. On Linux, no process of an agent's
//     tree can: see allowed.
//   - A root that cannot open its socket says so once and works on without it.
//
// Not promised: that a socket file belongs to a live root. The folder that the socket is in
// tells that, by its lock; whoever sweeps that folder removes the socket as well.
package control
