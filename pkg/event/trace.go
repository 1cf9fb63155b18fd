package event

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
)

// The flags of a trace that are passed on: it is recorded, and its id is fully random.
const (
	flagSampled byte = 1 << 0
	flagRandom  byte = 1 << 1
)

// Trace is the trace that a root is a part of, as in the W3C recommendation "Trace
// Context".
type Trace struct {
	ID     [16]byte // of the trace, never all zero
	Parent [8]byte  // span that started the root; zero means none
	Flags  byte     // sampled and random, as in a traceparent
}

// NewTrace returns a new trace. It is marked as sampled, so that a program that a task
// starts also records its spans.
func NewTrace() Trace {
	t := Trace{Flags: flagSampled | flagRandom}
	_, _ = rand.Read(t.ID[:]) // never fails
	notZero(t.ID[:])
	return t
}

// StartTrace returns the trace of a new root: the one in traceparent (the value of
// TRACEPARENT), or a new one if that is empty or not valid.
func StartTrace(traceparent string) Trace {
	if t, ok := ParseTraceparent(traceparent); ok {
		return t
	}
	return NewTrace()
}

// ParseTraceparent parses a traceparent as strictly as the W3C requires: lower case only,
// no id of zeros only, and nothing after the fields of version 00. Of a later version it
// reads only these fields.
func ParseTraceparent(s string) (Trace, bool) {
	const size = 55 // 00-<32 digits>-<16 digits>-<2 digits>
	if len(s) < size || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return Trace{}, false
	}
	var t Trace
	var version, flags [1]byte
	if !unhex(version[:], s[:2]) || !unhex(t.ID[:], s[3:35]) || !unhex(t.Parent[:], s[36:52]) ||
		!unhex(flags[:], s[53:size]) {
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

// TraceID returns the id of the trace as 32 hexadecimal digits.
func (t Trace) TraceID() string { return hex.EncodeToString(t.ID[:]) }

// ParentID returns the id of the span that started the root as 16 hexadecimal digits, ""
// if there is none.
func (t Trace) ParentID() string {
	if t.Parent == [8]byte{} {
		return ""
	}
	return hex.EncodeToString(t.Parent[:])
}

// SpanID returns the id of the span of an execution as 16 hexadecimal digits. It is
// computed from the id of the execution, so nobody has to pass it on.
func (t Trace) SpanID(executionID string) string {
	sum := sha256.Sum256([]byte(executionID))
	span := sum[:8]
	notZero(span)
	return hex.EncodeToString(span)
}

// Traceparent returns the value of TRACEPARENT for the programs that an execution starts.
func (t Trace) Traceparent(executionID string) string {
	return "00-" + t.TraceID() + "-" + t.SpanID(executionID) + "-" + hex.EncodeToString([]byte{t.Flags})
}

// Sampled reports whether the trace is to be recorded.
func (t Trace) Sampled() bool { return t.Flags&flagSampled != 0 }

// notZero changes an id of zeros only, which would mean "none".
func notZero(id []byte) {
	for _, b := range id {
		if b != 0 {
			return
		}
	}
	id[len(id)-1] = 1
}

// unhex reads the lower-case hexadecimal digits of s, two for each byte of dst.
func unhex(dst []byte, s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	_, err := hex.Decode(dst, []byte(s))
	return err == nil
}
