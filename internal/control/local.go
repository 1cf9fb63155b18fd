package control

// Local is a client in the process of the root itself, for the terminal of the run. It needs no socket.
type Local struct{ server *Server }

// Local returns a client of s.
func (s *Server) Local() Local { return Local{s} }

// Snapshot is as [Client.Snapshot].
func (l Local) Snapshot() (Snapshot, error) { return *l.server.snapshot(l.server.last()), nil }

// Log is as [Client.Log].
func (l Local) Log(executionID string, from int64) (Entries, error) {
	entries, fault := l.server.log(&Log{executionID, from})
	if fault != nil {
		return Entries{Next: from}, fault
	}
	return *entries, nil
}

// Cancel is as [Client.Cancel].
func (l Local) Cancel(id string) error {
	return l.steer(Request{Type: TypeCancel, Cancel: &Cancel{ExecutionID: id}})
}

// Message is as [Client.Message].
func (l Local) Message(executionID, text string) error {
	return l.steer(Request{Type: TypeMessage, Message: &Message{executionID, text}})
}

// Pause is as [Client.Pause].
func (l Local) Pause(paused bool) error {
	if paused {
		return l.steer(Request{Type: TypePause})
	}
	return l.steer(Request{Type: TypeResume})
}

// steer is as Client.steer.
func (l Local) steer(r Request) error {
	if fault := l.server.steer(r); fault != nil {
		return fault
	}
	return nil
}
