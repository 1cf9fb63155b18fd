package ceiling

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"qq/pkg/agents"
	"qq/pkg/picture"
	"qq/pkg/task"
)

// What only qq batch says about a task, an agent cannot say: its offsets could lie outside of the text.
func TestRestrictDropsWhatIsOfABatch(t *testing.T) {
	asked := task.Task{Text: "x", File: "a", OtherFiles: []string{"b"}, Slots: []int{99}, Broken: "no",
		Images: []picture.Image{{Name: "a"}}}
	got := Ceiling{}.Restrict(asked)
	assert.Equal(t, "x", got.Text)
	assert.Empty(t, got.File)
	assert.Empty(t, got.OtherFiles)
	assert.Empty(t, got.Images)
	assert.Empty(t, got.Slots)
	assert.Empty(t, got.Broken)
}

// Who chose the model of a task is kept all the way down: a model that a person named stays that, whoever passes it on.
func TestRestrictSaysWhoChoseTheModel(t *testing.T) {
	c := Ceiling{Agent: agents.Agent{Name: "middle"}}
	for _, row := range []struct {
		own       task.Task // of the agent that asks
		model, by string
	}{
		{task.Task{}, "", ""},
		{task.Task{}, "big", "middle"},
		{task.Task{Model: "big"}, "", ""},
		{task.Task{Model: "big"}, "big", ""}, // a person named it
		{task.Task{Model: "big"}, "other", "middle"},
		{task.Task{Model: "big", ModelBy: "top"}, "big", "top"},
	} {
		c.Task = row.own
		assert.Equal(t, row.by, c.Restrict(task.Task{Model: row.model}).ModelBy, "%v %q", row.own, row.model)
	}
	c.Task = task.Task{}
	assert.Empty(t, c.Restrict(task.Task{Model: "big", Part: true}).ModelBy)
}
