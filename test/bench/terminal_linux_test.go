package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/test/terminal"
)

// TestTerminal: a question is answered once it stands there, and who waits for
// one that never comes is told to stop.
func TestTerminal(t *testing.T) {
	person, program, err := terminal.Open()
	require.NoError(t, err)
	defer program.Close()
	answered := make(chan error, 1)
	go func() { answered <- answerOnce(t.Context(), person, "well? ", "yes\n") }()
	_, err = io.WriteString(program, "some text\nwell? ")
	require.NoError(t, err)
	typed, err := bufio.NewReader(program).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "yes\n", typed)
	require.NoError(t, <-answered)

	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, answerOnce(short, person, "well? ", "yes\n"), os.ErrDeadlineExceeded)

	go func() { answered <- answerOnce(t.Context(), person, "well? ", "yes\n") }()
	require.NoError(t, person.Close())
	assert.Error(t, <-answered)
}
