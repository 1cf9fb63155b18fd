package childproc

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

// TestUnkept: stdout of a child is a file in QQ_HOME. A full disk there is not blamed on stdout.
func TestUnkept(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no full device:", err)
	}
	defer full.Close()
	_, err = full.WriteString("answer")
	require.Error(t, err)
	problem, hint := task.Explain(unkept(err))
	assert.Equal(t, "keep the answer in a file in QQ_HOME: no space left on device", problem)
	assert.Contains(t, hint, "the disk of QQ_HOME")
}

// What a child says that it did is kept, as far as it makes sense.
func TestDidOfAChild(t *testing.T) {
	l := launcher(t, nil)
	said := `{"type":"result","result":{"status":"completed","bytes":2,"did":{"calls":{"a":-5,"b":2},` +
		`"commands":[{"command":"x\ny","exit_code":1}],"more_commands":-1}}}` + "\n"
	r := l.Launch(t.Context(), job("mimic", said))
	assert.Equal(t, task.Completed, r.Status, r.Err())
	want := task.Did{Calls: map[string]int{"b": 2}, Commands: []task.Command{{Line: "x y", ExitCode: 1}}}
	assert.Equal(t, &want, r.Did)
}
