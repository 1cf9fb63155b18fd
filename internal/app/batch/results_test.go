package batch

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"qq/pkg/task"
)

// A status that says it all is said once.
func TestComplaint(t *testing.T) {
	assert.Equal(t, "task 1: terminated", complaint(task.Task{}.Ended(task.Terminated, "")))
	assert.Equal(t, "task 1 (timeout): too slow", complaint(task.Task{}.Ended(task.Timeout, "too slow")))
}
