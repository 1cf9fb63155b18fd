package session

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
	"qq/pkg/picture"
	"qq/pkg/tool"
)

// told collects what a person is told.
type told []string

func (t *told) Say(format string, args ...any) { *t = append(*t, fmt.Sprintf(format, args...)) }

// A transcript has no image, only where it is and what it was. Who continues the session gets the image again if it is
// still the same, and else is told, as the model is.
func TestImagesOfASession(t *testing.T) {
	st, dir := newStore(t), t.TempDir()
	const png = "\x89PNG\r\n\x1a\nthe bytes of an image"
	show := func(name string) picture.Image {
		image, err := picture.Read(strings.NewReader(png+name), filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(image.Name, image.Data, 0o600))
		return image
	}
	same, changed, gone, pipe, text := show("same"), show("changed"), show("gone"), show("pipe"), show("text")
	piped, err := picture.Read(strings.NewReader(png), "stdin")
	require.NoError(t, err)
	id := create(t, st, "/w",
		llm.Message{Role: llm.User, Content: "Compare.", Images: []picture.Image{same, changed, piped}},
		llm.Message{Role: llm.Assistant, Calls: []tool.Call{{ID: "c", Name: "read_file"}}},
		llm.Message{Role: llm.ToolRole, CallID: "c", Content: "gone: image/png",
			Images: []picture.Image{gone, pipe, text, same}},
		answer("Done."))
	assert.NotContains(t, raw(t, st, id), "the bytes")
	assert.Contains(t, raw(t, st, id), same.Sum)

	require.NoError(t, os.WriteFile(changed.Name, []byte(png+"other"), 0o600))
	require.NoError(t, os.WriteFile(text.Name, []byte("a text"), 0o600))
	require.NoError(t, os.Remove(gone.Name))
	require.NoError(t, os.Remove(pipe.Name))
	require.NoError(t, syscall.Mkfifo(pipe.Name, 0o600)) // nobody waits for it
	var said told
	k, err := st.Open(Choice{ID: id}, Header{}, &said)
	require.NoError(t, err)
	defer k.Close()
	require.Len(t, k.History, 4)
	assert.Equal(t, []picture.Image{same}, k.History[0].Images)
	assert.Equal(t, []picture.Image{same}, k.History[2].Images)
	assert.Equal(t, "Compare.\n[the image "+changed.Name+" was here, and has changed]\n"+
		"[the image stdin was here, and came through a pipe]", k.History[0].Content)
	assert.Equal(t, "gone: image/png\n[the image "+gone.Name+" was here, and is gone]\n"+
		"[the image "+pipe.Name+" was here, and cannot be read]\n"+
		"[the image "+text.Name+" was here, and has changed]", k.History[2].Content)
	require.Len(t, said, 5)
	assert.Equal(t, "the transcript is incomplete: the image "+gone.Name+" is gone: the model does not see it again",
		said[2])
	assert.Equal(t, []string(said), k.Warnings)
}
