package ceiling

import (
	"testing"

	"github.com/stretchr/testify/assert"

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
