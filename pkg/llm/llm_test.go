package llm

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"

	"qq/pkg/task"
)

func TestErrorText(t *testing.T) {
	assert.EqualError(t, &Error{Kind: Busy, Problem: "the server is busy"}, "the server is busy")
	assert.EqualError(t, &Error{Problem: "no model x", Hint: "ollama pull x"}, "no model x\nhint: ollama pull x")
}

func TestErrorUnwraps(t *testing.T) {
	err := error(&Error{Kind: BrokenStream, Problem: "it broke off", Err: io.ErrUnexpectedEOF})
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.NoError(t, errors.Unwrap(&Error{Problem: "x"}))
}

func TestTaskStatus(t *testing.T) {
	for kind, want := range map[Kind]task.Status{
		Unreachable:     task.Unavailable,
		Busy:            task.Unavailable,
		BrokenStream:    task.Broken,
		ContextOverflow: task.Failed,
		UnknownModel:    task.Misused,
		Rejected:        task.Failed,
		Unsupported:     task.Failed,
		Server:          task.Failed,
		"":              task.Failed,
	} {
		assert.Equal(t, want, (&Error{Kind: kind}).TaskStatus(), kind)
	}
}

// TestElsewhere: another model is asked if the server cannot be had, and not if it answered, in whatever way. What
// passes is sent again.
func TestElsewhere(t *testing.T) {
	for kind, want := range map[Kind]struct{ elsewhere, passing bool }{
		Unreachable: {true, true}, Busy: {true, true}, Open: {true, false}, Quota: {true, false},
		BrokenStream: {false, true}, ContextOverflow: {}, UnknownModel: {}, Rejected: {}, Misconfigured: {},
		Unsupported: {}, Server: {}, Spent: {}, TooLong: {}, "": {},
	} {
		e := &Error{Kind: kind, Problem: "connection refused, busy, insufficient_quota"}
		assert.Equal(t, want.elsewhere, e.Elsewhere(), kind)
		assert.Equal(t, want.passing, e.Passing(), kind)
	}
}
