package session

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
)

const (
	first  = "01a2067b-0001-7000-8000-00000000aaaa"
	second = "01a2067b-0002-7000-8000-00000000bbbb"
)

// write writes a transcript of an execution with one message.
func write(t *testing.T, a Archive, root, id string) {
	t.Helper()
	k := a.Of(root).Keep(Header{ID: id, Agent: "coder", Parent: "p", Batch: "b", Depth: 2}, 1)
	k.Append(llm.Entry{Message: user("do " + id)})
	k.Close()
	require.Empty(t, k.Warnings)
}

// loaded reads the only transcript that id names.
func loaded(a Archive, id string) (Transcript, error) {
	st, whole, err := a.Find(id)
	if err != nil {
		return Transcript{}, err
	}
	return st.Load(whole)
}

// A second attempt appends to the transcript of the first, even if that ended within a line.
func TestKeepContinues(t *testing.T) {
	a := Archive{Dir: filepath.Join(t.TempDir(), "transcripts")}
	write(t, a, "root", first)
	path := a.Of("root").path(first)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"time":"20`)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	write(t, a, "root", first)
	got, err := loaded(a, first)
	require.NoError(t, err)
	assert.Equal(t, Header{V: 1, ID: first, Agent: "coder", Parent: "p", Batch: "b", Depth: 2,
		Created: got.Header.Created}, got.Header)
	assert.Equal(t, []llm.Message{user("do " + first), user("do " + first)}, got.Messages())
	assert.Empty(t, got.Damaged)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.EqualValues(t, 0o600, info.Mode())

	k := a.Of("root").Keep(Header{ID: second}, 1)
	k.Close()
	_, err = loaded(a, second)
	assert.ErrorIs(t, err, ErrNotFound, "nothing was said")
}

// An error in writing is one warning, and the agent goes on.
func TestKeepWarns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	k := Archive{Dir: file}.Of("root").Keep(Header{ID: first}, 1)
	for range 2 {
		k.Append(llm.Entry{Message: user("hello")})
	}
	k.Close()
	require.Len(t, k.Warnings, 1)
	assert.Contains(t, k.Warnings[0], "the transcript is incomplete")

	k = Archive{Dir: t.TempDir()}.Of("root").Keep(Header{ID: "../../file"}, 1)
	assert.Contains(t, k.Warnings[0], "is no id")
}

// A prompt that was made for the task is in the transcript, and not in the conversation.
func TestSystemPrompt(t *testing.T) {
	a := Archive{Dir: t.TempDir()}
	k := a.Of("root").Keep(Header{ID: first}, 1)
	k.Append(llm.Entry{Message: llm.Message{Role: llm.System, Content: "be good"}})
	k.Append(llm.Entry{Message: user("hello")})
	k.Close()
	got, err := loaded(a, first)
	require.NoError(t, err)
	assert.Len(t, got.Entries, 2)
	assert.Equal(t, []llm.Message{user("hello")}, got.Messages())
}

func TestArchive(t *testing.T) {
	a := Archive{Dir: filepath.Join(t.TempDir(), "none")}
	list, more, err := a.List(0)
	require.NoError(t, err)
	assert.Empty(t, list)
	assert.False(t, more)
	_, err = loaded(a, first)
	require.ErrorIs(t, err, ErrNotFound)

	// Roots and transcripts by their age.
	ids := []string{first, second, "01a2067b-0003-7000-8000-00000000bbbb"}
	for i, id := range ids {
		root := fmt.Sprintf("000%d", i/2)
		write(t, a, root, id)
		at := time.Now().Add(time.Duration(i-10) * time.Hour)
		require.NoError(t, os.Chtimes(a.Of(root).path(id), at, at))
	}
	require.NoError(t, os.WriteFile(filepath.Join(a.Dir, "no root"), nil, 0o600))
	for limit, want := range map[int][]string{0: {ids[2], ids[1], ids[0]}, 1: {ids[2]}, 2: {ids[2], ids[1]},
		3: {ids[2], ids[1], ids[0]}} {
		list, more, err := a.List(limit)
		require.NoError(t, err)
		var got []string
		for _, s := range list {
			got = append(got, s.ID)
			assert.Equal(t, "do "+s.ID, s.Title)
		}
		assert.Equal(t, want, got, limit)
		assert.Equal(t, len(want) < len(ids), more, limit)
	}
	for id, want := range map[string]string{ids[1]: ids[1], "0000aaaa": first, "01a2067b-0002": second} {
		got, err := loaded(a, id)
		require.NoError(t, err)
		assert.Equal(t, want, got.Header.ID)
	}
	for _, id := range []string{"bbbb", "01a2067b"} {
		_, err := loaded(a, id)
		assert.ErrorContains(t, err, "is several", id)
	}
	for _, id := range []string{"", "../x", "zz"} {
		_, err := loaded(a, id)
		assert.ErrorIs(t, err, ErrNotFound, id)
	}

	atWork := map[string]bool{}
	for _, id := range ids {
		in, _, err := a.Find(id)
		require.NoError(t, err)
		atWork[filepath.Base(in.dir)] = true
	}
	gone, err := a.Prune(0, atWork)
	require.NoError(t, err)
	assert.Empty(t, gone, "what is at work keeps its transcripts")
	gone, err = a.Prune(8*time.Hour+time.Minute, nil)
	require.NoError(t, err)
	assert.ElementsMatch(t, ids[:2], gone)
	assert.NoDirExists(t, filepath.Join(a.Dir, "0000"))
	in, id, err := a.Find("01a2067b-0003")
	require.NoError(t, err)
	require.NoError(t, in.Remove(id))
	list, _, err = a.List(0)
	require.NoError(t, err)
	assert.Empty(t, list)
}
