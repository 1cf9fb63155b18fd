package agent

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/tools/files"
	"qq/pkg/llm"
	"qq/pkg/picture"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// sighted is a model of which it is known that it sees, that it is blind, or neither.
type sighted struct {
	chat
	sees, blind bool
}

func (s sighted) Sees() bool  { return s.sees }
func (s sighted) Blind() bool { return s.blind }

// The agent reads the images of its job, and what it read counts as a call of read_file. A model that is known to see
// none stops the job, also for an image in the conversation before.
func TestLook(t *testing.T) {
	const png = "\x89PNG\r\n\x1a\n\x00"
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.png"), []byte(png), 0o600))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	look := func(m sighted, history []llm.Message, images ...picture.Image) (*run, error) {
		r := &run{Agent: Agent{Model: m, History: history}, job: task.Job{Task: task.Task{Images: images}}}
		r.space = files.Open(root)
		return r, r.look(context.Background())
	}
	named, given := picture.Image{Name: "a.png"}, picture.Image{Name: "stdin", Data: []byte(png)}
	for _, m := range []sighted{{sees: true}, {}} {
		asked := []picture.Image{named, given}
		r, err := look(m, nil, asked...)
		require.NoError(t, err)
		assert.Equal(t, png, string(r.job.Images[0].Data))
		assert.Equal(t, m.sees, len(r.unsure) == 0)
		assert.Equal(t, given, r.job.Images[1])
		assert.Nil(t, asked[0].Data, "the task of the caller stays as it is")

		space := files.Open(root)
		space.Show()
		read, _ := space.Reading().Lookup("read_file")
		require.Len(t, r.looked, 1)
		digest := Digest(read.Run(context.Background(), r.looked[0].Arguments))
		assert.Equal(t, digest, r.looked[0].Digest, "the cache asks again in this way")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.png"), []byte(png[:8]+"\x01"), 0o600))
		assert.NotEqual(t, digest, Digest(read.Run(context.Background(), r.looked[0].Arguments)), "of the same size")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.png"), []byte(png), 0o600))
	}
	for _, history := range [][]llm.Message{nil, {{Role: llm.User, Images: []picture.Image{given}}}} {
		var images []picture.Image
		if history == nil {
			images = append(images, named)
		}
		_, err := look(sighted{blind: true}, history, images...)
		assert.Equal(t, task.Misused, task.StatusOf(err))
	}
	_, err = look(sighted{blind: true}, nil)
	assert.NoError(t, err)
	_, err = look(sighted{sees: true}, nil, picture.Image{Name: "gone.png"})
	assert.Equal(t, task.Misused, task.StatusOf(err))

	assert.Equal(t, "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", Digest(tool.Text("x")),
		"texts have the digest that they had")
}
