package event

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
)

// The flags of a trace that are passed on: the trace is recorded, and its id is fully random. Other
// flags are cleared.
const (
	flagSampled byte = 1 << 0
	flagRandom  byte = 1 << 1
)

// Trace identifies the W3C trace ("Trace Context") to which all spans of a root belong.
type Trace struct {
	ID     [16]byte // of the trace, never all zero
	Parent [8]byte  // span that started the root; zero means none
	Flags  byte     // sampled and random, as in a traceparent
}

// NewTrace returns a new trace with a random id. It is marked as sampled, so that programs started
// by a task record their spans too.
func NewTrace() Trace {
	t := Trace{Flags: flagSampled | flagRandom}
	_, _ = rand.Read(t.ID[:]) // never fails
	notZero(t.ID[:])
	return t
}

// StartTrace returns the trace of a new root. That is the trace in traceparent, the value of the
// variable TRACEPARENT, or a new one if traceparent is empty or not valid.
func StartTrace(traceparent string) Trace {
	if t, ok := ParseTraceparent(traceparent); ok {
		return t
	}
	return NewTrace()
}

// ParseTraceparent parses a traceparent as strictly as the W3C requires: digits in lower case, no
// id of zeros only, and in version 00 nothing after the known fields. In a later version further
// fields are ignored. It returns false if s is not valid.
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

// ParentID returns the id of the span that started the root as 16 hexadecimal digits, or "" if
// there is none.
func (t Trace) ParentID() string {
	if t.Parent == [8]byte{} {
		return ""
	}
	return hex.EncodeToString(t.Parent[:])
}

// SpanID returns the id of the span of an execution as 16 hexadecimal digits. It is computed from
// the execution id, so every process gets the same one without being told.
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

// notZero sets the last byte of id to 1 if all bytes are zero, because such an id would mean
// "none".
func notZero(id []byte) {
	for _, b := range id {
		if b != 0 {
			return
		}
	}
	id[len(id)-1] = 1
}

// unhex decodes the hexadecimal digits of s into dst, two for each byte. It returns false if s
// contains anything but lower-case digits.
func unhex(dst []byte, s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	_, err := hex.Decode(dst, []byte(s))
	return err == nil
}
