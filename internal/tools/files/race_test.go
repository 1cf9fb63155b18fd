package files

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/internal/standin"
	"qq/pkg/tool"
)

const competed = 40

// compete edits place after place of the file x in dir, in competition with
// other processes, and prints a line for each edit that worked.
func compete(dir string) int {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 1
	}
	set := allTools(root)
	edit, _ := set.Lookup("edit_file")
	for i := range competed {
		r := edit.Run(context.Background(), json.RawMessage(standin.Args("path", "x",
			"old_text", fmt.Sprintf("place %d.", i), "new_text", fmt.Sprintf("place %d.", i+1))))
		if !r.Failed {
			fmt.Println(i)
		} else if !strings.HasPrefix(r.Content, "Error: x: old_text is not there: the nearest is line 2:\nplace ") {
			fmt.Fprintln(os.Stderr, r.Content)
			return 1
		}
	}
	return 0
}

func TestOneOfManyProcesses(t *testing.T) {
	dir, _ := plant(t, map[string]string{"x": "begin\nplace 0.\nend\n"})
	var children []*exec.Cmd
	var out [3]strings.Builder
	for i := range out {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), roleKey+"="+dir)
		cmd.Stdout, cmd.Stderr = &out[i], os.Stderr
		require.NoError(t, cmd.Start())
		children = append(children, cmd)
	}
	var done []string
	for i, cmd := range children {
		assert.NoError(t, cmd.Wait())
		done = append(done, strings.Fields(out[i].String())...)
	}
	assert.Len(t, done, competed, "each place is edited once")
	assert.Equal(t, fmt.Sprintf("begin\nplace %d.\nend\n", competed), onDisk(t, dir, "x"))
}

// TestReplacedMeanwhile: that others put new files into the place of one is no
// reason why it could not be read or an edit of it not be shown.
func TestReplacedMeanwhile(t *testing.T) {
	dir, set := plantAll(t, map[string]string{"x": "some text\n"})
	read, _ := set.Lookup("read_file")
	edit, _ := set.Lookup("edit_file")
	ctx, cancel := context.WithCancel(t.Context())
	var other sync.WaitGroup
	defer other.Wait()
	defer cancel()
	other.Go(func() {
		for ctx.Err() == nil {
			assert.NoError(t, os.WriteFile(filepath.Join(dir, "new"), []byte("some text\n"), 0o600))
			assert.NoError(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "x")))
		}
	})
	for range 2000 {
		require.Equal(t, "some text\n", read.Run(ctx, json.RawMessage(standin.Args("path", "x"))).Content)
		_, err := edit.(tool.Planner).Plan(ctx, json.RawMessage(standin.Args("path", "x", "old_text", "some",
			"new_text", "other")))
		require.NoError(t, err)
	}
}

const canary = "OUTSIDE-THE-ROOT"

// arena is a working directory with a folder beside it that nothing may touch.
type arena struct {
	work, out string
	set       tool.Set
}

func newArena(t *testing.T) *arena {
	dir, set := plantAll(t, nil)
	a := &arena{work: dir, out: filepath.Join(filepath.Dir(dir), "out"), set: set}
	for _, f := range []string{"x", "a/x", "a/b/x", "b/x"} {
		p := filepath.Join(a.out, f)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o700))
		require.NoError(t, os.WriteFile(p, []byte(canary+"\n"), 0o600))
	}
	return a
}

// reset makes the working directory what it was.
func (a *arena) reset(t require.TestingT) {
	entries, err := os.ReadDir(a.work)
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, os.RemoveAll(filepath.Join(a.work, e.Name())))
	}
	for _, f := range []string{"x", "a/x", "a/b/x", "c/x"} {
		p := filepath.Join(a.work, f)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o700))
		require.NoError(t, os.WriteFile(p, []byte("inside\n"), 0o600))
	}
	for link, target := range map[string]string{"l1": "a", "l2": "../out", "l3": a.out, "a/l4": "../../out/a",
		"l5": "out", "l6": "../out/x"} {
		require.NoError(t, os.Symlink(target, filepath.Join(a.work, link)))
	}
}

// outside is all that is not in the working directory.
func (a *arena) outside(t require.TestingT) map[string]string {
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(filepath.Dir(a.work), func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == a.work {
			return filepath.SkipDir
		}
		info, err := e.Info()
		require.NoError(t, err)
		text := ""
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(p)
			require.NoError(t, err)
			text = string(data)
		}
		all[p] = fmt.Sprint(info.Mode(), info.ModTime(), text)
		return nil
	}))
	return all
}

// disturb puts links in the place of files and folders and takes them away again,
// and renames folders, n times. What fails, because a tool was there meanwhile,
// fails.
func (a *arena) disturb(n, seed int) {
	at := func(name string) string { return filepath.Join(a.work, name) }
	swaps := []struct{ name, target string }{{"a", a.out}, {"a/b", "../../out/b"}, {"a/x", "../../out/x"},
		{"c", "../out"}, {"x", a.out + "/x"}, {"l1", "../out"}}
	for i := range n {
		s := swaps[(i+seed)%len(swaps)]
		hold := at(fmt.Sprintf("hold%d", i))
		os.Rename(at(s.name), hold)
		os.Symlink(s.target, at(s.name))
		os.Remove(at(s.name))
		os.Rename(hold, at(s.name))
		os.Rename(at("c"), at("d"))
		os.Rename(at("d"), at("c"))
	}
}

// No sequence of calls reads or writes outside of the working directory, whatever
// is put in the way between a check and the use of a path.
func TestNothingOutsideIsTouched(t *testing.T) {
	a := newArena(t)
	before := a.outside(t)
	names := []string{"a", "b", "x", "c", "d", "l1", "l2", "l3", "l4", "l5", "l6", "..", "out", "new"}
	rapid.Check(t, func(rt *rapid.T) {
		a.reset(rt)
		for range rapid.IntRange(1, 6).Draw(rt, "calls") {
			path := strings.Join(rapid.SliceOfN(rapid.SampledFrom(names), 1, 4).Draw(rt, "path"), "/")
			path = rapid.SampledFrom([]string{"", "", "", "", "../out/", a.work + "/", a.out + "/", "/"}).Draw(rt,
				"prefix") + path
			c := rapid.SampledFrom([]struct{ name, args string }{
				{"read_file", standin.Args("path", path)},
				{"list_files", standin.Args("path", path)},
				{"list_directory", standin.Args("path", path)},
				{"grep_file", standin.Args("path", path, "pattern", ".")},
				{"write_file", standin.Args("path", path, "content", "written\n")},
				{"create_file", standin.Args("path", path, "content", "created\n")},
				{"edit_file", standin.Args("path", path, "old_text", "inside", "new_text", "edited")},
				{"edit_file", standin.Args("path", path, "old_text", canary[:7], "new_text", "edited")},
				{"delete_file", standin.Args("path", path)},
			}).Draw(rt, "call")
			seed := rapid.IntRange(0, 5).Draw(rt, "seed")
			var adversary sync.WaitGroup
			adversary.Go(func() { a.disturb(12, seed) })
			in, planErr := intent(t, a.set, c.name, c.args)
			r := standin.CallTool(t, a.set, c.name, c.args)
			adversary.Wait()
			told := fmt.Sprint(in, planErr, r.Content)
			// The call itself may hold the letters of the canary that it looks for.
			if strings.Contains(told, canary) {
				rt.Fatalf("%s %s: %s", c.name, c.args, told)
			}
			for _, p := range r.Changed {
				if !filepath.IsLocal(p) {
					rt.Fatalf("%s %s changed %s", c.name, c.args, p)
				}
			}
		}
		assert.Equal(rt, before, a.outside(rt))
	})
}

// toggle makes the file x and the folder a links, and then again what they were,
// with what the calls took away.
func (a *arena) toggle() {
	at := func(name string) string { return filepath.Join(a.work, name) }
	os.Symlink("../out/x", at("x2"))
	os.Rename(at("x2"), at("x"))
	os.WriteFile(at("x2"), []byte("inside\n"), 0o600)
	os.Rename(at("x2"), at("x"))

	os.RemoveAll(at("hold"))
	os.Rename(at("a"), at("hold"))
	os.Symlink(a.out, at("a"))
	os.Remove(at("a"))
	os.Rename(at("hold"), at("a"))
	os.Mkdir(at("a"), 0o700) // is no link here
	os.WriteFile(at("a/x"), []byte("inside\n"), 0o600)
}

// The same with one folder and one file that are links half of the time, so that
// the moment between the check and the use of a path is met.
func TestLinksComeAndGo(t *testing.T) {
	a := newArena(t)
	before := a.outside(t)
	a.reset(t)
	calls := []struct{ name, args string }{
		{"read_file", `{"path":"a/x"}`}, {"read_file", `{"path":"x"}`}, {"list_directory", `{"path":"a"}`},
		{"grep_file", `{"path":"a","pattern":"."}`}, {"grep_file", `{"path":"a/x","pattern":"."}`},
		{"write_file", `{"path":"a/new","content":"new"}`}, {"create_file", `{"path":"a/b/new2","content":"new"}`},
		{"edit_file", `{"path":"a/x","old_text":"OUT","new_text":"in"}`},
		{"edit_file", `{"path":"x","old_text":"inside","new_text":"x"}`},
		{"delete_file", `{"path":"a/new"}`}, {"delete_file", `{"path":"a/b/new2"}`},
	}
	ctx, stop := context.WithCancel(t.Context())
	var adversary sync.WaitGroup
	adversary.Go(func() {
		for ctx.Err() == nil {
			a.toggle()
		}
	})
	for i := range 3000 {
		c := calls[i%len(calls)]
		r := standin.CallTool(t, a.set, c.name, c.args)
		in, err := intent(t, a.set, c.name, c.args)
		if told := fmt.Sprint(r.Content, in, err); strings.Contains(told, canary) {
			t.Errorf("%s %s: %s", c.name, c.args, told)
			break
		}
	}
	stop()
	adversary.Wait()
	assert.Equal(t, before, a.outside(t))
}
