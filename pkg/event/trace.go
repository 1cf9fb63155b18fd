package event

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
)

// The flags of a trace that are passed on: that somebody records it, and that its
// id is random in full.
const (
	flagSampled byte = 1 << 0
	flagRandom  byte = 1 << 1
)

// Trace is the place of one root in a trace after the W3C's "Trace Context": all
// that it does is one part of it, and what it starts is told where it hangs.
type Trace struct {
	ID     [16]byte // of the trace, never all zero
	Parent [8]byte  // the span of whoever started this root; zero: nobody did
	Root   [8]byte  // the span of this root itself
	Flags  byte
}

// NewTrace begins a trace. It counts as sampled: a program further down that
// asks its parent whether to record shall do so.
func NewTrace() Trace {
	t := Trace{Flags: flagSampled | flagRandom}
	fill(t.ID[:])
	fill(t.Root[:])
	return t
}

// StartTrace is the trace of a new root: the one that traceparent, the value of
// TRACEPARENT, leads to, and a new one where that is empty or not valid. Two roots
// that are started with the same traceparent have different spans.
func StartTrace(traceparent string) Trace {
	t, ok := ParseTraceparent(traceparent)
	if !ok {
		return NewTrace()
	}
	fill(t.Root[:])
	return t
}

// ParseTraceparent reads a traceparent, as strictly as its specification: small
// letters only, no id that is all zero, nothing after version 00, and of a later
// version only what 00 has. The Trace has no span for a root yet.
func ParseTraceparent(s string) (Trace, bool) {
	const size = 55 // 00-<32 digits>-<16 digits>-<2 digits>
	if len(s) < size || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return Trace{}, false
	}
	var t Trace
	var version, flags [1]byte
	if !unhex(version[:], s[:2]) || !unhex(t.ID[:], s[3:35]) || !unhex(t.Parent[:], s[36:52]) || !unhex(flags[:], s[53:size]) {
		return Trace{}, false
	}
	switch {
	case version[0] == 0xff, t.ID == [16]byte{}, t.Parent == [8]byte{}:
		return Trace{}, false
	case len(s) > size && (version[0] == 0 || s[size] != '-'):
		return Trace{}, false
	}
	t.Flags = flags[0] & (flagSampled | flagRandom) // others have no meaning yet and may not be passed on
	return t, true
}

// TraceID is the id of the trace in 32 digits, for [NewStream].
func (t Trace) TraceID() string { return hex.EncodeToString(t.ID[:]) }

// ParentID is the id of the span above this root in 16 digits, empty for none.
func (t Trace) ParentID() string {
	if t.Parent == [8]byte{} {
		return ""
	}
	return hex.EncodeToString(t.Parent[:])
}

// SpanID is the id of the span of an execution, or of a batch, in 16 digits. It
// follows from its id, so whoever knows that need not be told. The empty id is
// that of the root, whose span is its own in every process.
func (t Trace) SpanID(executionID string) string {
	span := t.Root
	if executionID != "" || span == [8]byte{} {
		sum := sha256.Sum256([]byte(executionID))
		copy(span[:], sum[:])
		notZero(span[:])
	}
	return hex.EncodeToString(span[:])
}

// Traceparent is what an execution hands to the programs that it starts, as
// TRACEPARENT.
func (t Trace) Traceparent(executionID string) string {
	return "00-" + t.TraceID() + "-" + t.SpanID(executionID) + "-" + hex.EncodeToString([]byte{t.Flags})
}

// Of is t with the span of the root being that of the execution of that id: for a
// root whose own events carry an id.
func (t Trace) Of(executionID string) Trace {
	_ = unhex(t.Root[:], t.SpanID(executionID))
	return t
}

// Sampled reports whether the trace is to be recorded.
func (t Trace) Sampled() bool { return t.Flags&flagSampled != 0 }

// fill makes a random id.
func fill(id []byte) {
	_, _ = rand.Read(id) // it ends the process rather than fail
	notZero(id)
}

// notZero changes an id that means "none".
func notZero(id []byte) {
	for _, b := range id {
		if b != 0 {
			return
		}
	}
	id[len(id)-1] = 1
}

// unhex reads the small hexadecimal digits of s, two for each byte of dst.
func unhex(dst []byte, s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	_, err := hex.Decode(dst, []byte(s))
	return err == nil
}
