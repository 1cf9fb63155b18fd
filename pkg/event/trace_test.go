package event

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	traceID  = "0af7651916cd43dd8448eb211c80319c"
	parentID = "b7ad6b7169203331"
	valid    = "00-" + traceID + "-" + parentID + "-01"
)

func TestParseTraceparent(t *testing.T) {
	for s, sampled := range map[string]bool{
		valid:                                         true,
		"00-" + traceID + "-" + parentID + "-00":      false,
		"00-" + traceID + "-" + parentID + "-ff":      true,
		"00-" + traceID + "-" + parentID + "-fe":      false,
		"01-" + traceID + "-" + parentID + "-01":      true,
		"cc-" + traceID + "-" + parentID + "-01-more": true,
		"fe-" + traceID + "-" + parentID + "-00-":     false,
	} {
		got, ok := ParseTraceparent(s)
		require.True(t, ok, s)
		assert.Equal(t, traceID, got.TraceID(), s)
		assert.Equal(t, parentID, got.ParentID(), s)
		assert.Equal(t, sampled, got.Sampled(), s)
		assert.Zero(t, got.Flags&^3, "%s: flags without a meaning are dropped", s)
	}
	for _, s := range []string{
		"", "00", valid + "-", valid + "-00", valid + "0", valid[:54], " " + valid, valid + "\n",
		"ff" + valid[2:], "0A" + valid[2:], "0x" + valid[2:],
		"cc" + valid[2:] + "more", // what follows begins with a dash
		strings.ToUpper(valid),
		"00-" + strings.Repeat("0", 32) + "-" + parentID + "-01",
		"00-" + traceID + "-" + strings.Repeat("0", 16) + "-01",
		"00_" + valid[3:], valid[:35] + "_" + valid[36:], valid[:52] + "_" + valid[53:],
		"00-" + traceID[:31] + "g-" + parentID + "-01", "00-" + traceID + "-" + parentID + "-0g",
		"00-" + traceID[:31] + "-" + parentID + "00-01",
	} {
		got, ok := ParseTraceparent(s)
		assert.False(t, ok, "%q", s)
		assert.Zero(t, got, "%q", s)
	}
}

func TestStartTrace(t *testing.T) {
	one := StartTrace(valid)
	assert.Equal(t, traceID, one.TraceID())
	assert.Equal(t, parentID, one.ParentID())
	assert.NotEqual(t, one.SpanID("one root"), one.SpanID("another"), "two roots under the same span are two spans")

	for _, s := range []string{"", "ff" + valid[2:]} {
		fresh := StartTrace(s)
		assert.NotEqual(t, traceID, fresh.TraceID())
		assert.Empty(t, fresh.ParentID())
		assert.True(t, fresh.Sampled())
		assert.NotEqual(t, fresh.TraceID(), NewTrace().TraceID())
	}
}

// What is handed down leads back to the same trace, and to the span of whoever
// handed it down.
func TestTraceparent(t *testing.T) {
	for _, trace := range []Trace{NewTrace(), StartTrace(valid), StartTrace(valid[:53] + "00")} {
		for _, id := range []string{"", "0197c3f0-0000-7000-8000-000000000000", "x"} {
			down, ok := ParseTraceparent(trace.Traceparent(id))
			require.True(t, ok, trace.Traceparent(id))
			assert.Equal(t, trace.ID, down.ID)
			assert.Equal(t, trace.Flags, down.Flags)
			assert.Equal(t, trace.SpanID(id), down.ParentID())
		}
		assert.Equal(t, trace.SpanID("x"), NewTrace().SpanID("x"), "it follows from the id alone")
		assert.NotEqual(t, trace.SpanID("x"), trace.SpanID("y"))
	}
	id := make([]byte, 8)
	notZero(id)
	assert.Equal(t, []byte{0, 0, 0, 0, 0, 0, 0, 1}, id)
}

func FuzzParseTraceparent(f *testing.F) {
	for _, s := range []string{valid, "cc" + valid[2:] + "-x", "ff" + valid[2:], strings.ToUpper(valid), "00-",
		strings.Repeat("-", 55)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := ParseTraceparent(s)
		if !ok {
			assert.Zero(t, got)
			return
		}
		require.GreaterOrEqual(t, len(s), len(valid))
		require.Equal(t, s[2:53], got.traceparentOf(got.ParentID())[2:53])
		down, ok := ParseTraceparent(got.Traceparent("x"))
		require.True(t, ok)
		require.Equal(t, got.ID, down.ID)
		require.Equal(t, got.Flags, down.Flags)
	})
}

// traceparentOf is what the holder of a span would say.
func (t Trace) traceparentOf(span string) string {
	return "00-" + t.TraceID() + "-" + span + "-00"
}
