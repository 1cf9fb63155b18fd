package agents

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tree writes files and returns the working and the settings folder.
func tree(t *testing.T, files map[string]string) (work, config string) {
	t.Helper()
	top := t.TempDir()
	for name, text := range files {
		p := filepath.Join(top, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o700))
		require.NoError(t, os.WriteFile(p, []byte(text), 0o600))
	}
	work, config = filepath.Join(top, "work"), filepath.Join(top, "config")
	require.NoError(t, os.MkdirAll(work, 0o700))
	return work, config
}

// trusted trusts the files of a checkout as they are when it is made.
type trusted map[string]string

func (t trusted) Sum(file string) string { return t[file] }

// trust trusts some files in work; all of them if none is named.
func trust(t *testing.T, work string, files ...string) trusted {
	t.Helper()
	if len(files) == 0 {
		for _, d := range Dirs(work, "", nil) {
			names, err := d.names()
			require.NoError(t, err)
			for _, n := range names {
				files = append(files, filepath.Join(d.Path, n))
			}
		}
	}
	sums := trusted{}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(work, f))
		require.NoError(t, err)
		sums[f] = fmt.Sprintf("%x", sha256.Sum256(data))
	}
	return sums
}

func says(description string) string {
	return "---\ndescription: " + description + "\ntools: Read\n---\nDo it.\n"
}

func TestLookupPrecedence(t *testing.T) {
	places := []string{"work/.qq/agents", "work/.claude/agents", "work/.agents/agents", "config/qq/agents"}
	files := map[string]string{}
	for _, p := range places {
		files[p+"/coder.md"] = says(p)
	}
	for i, p := range append(places, "") {
		work, config := tree(t, files)
		top := filepath.Dir(work)
		r := Load(Dirs(work, config, trust(t, work)))
		a, err := r.Lookup("coder")
		require.NoError(t, err)
		var hidden []string
		if p == "" {
			assert.Equal(t, BuiltIn, a.Source)
		} else {
			assert.Equal(t, p, a.Description)
			assert.Equal(t, filepath.Join(top, p, "coder.md"), a.Source)
			for _, h := range places[i+1:] {
				hidden = append(hidden, filepath.Join(top, h, "coder.md"))
			}
			hidden = append(hidden, BuiltIn)
		}
		list := r.List()
		at := slices.IndexFunc(list, func(e Entry) bool { return e.Agent.Name == "coder" })
		require.GreaterOrEqual(t, at, 0)
		assert.Equal(t, a, list[at].Agent)
		assert.Equal(t, hidden, list[at].Hides)
		delete(files, p+"/coder.md")
	}
}

func TestLookupAgreesWithList(t *testing.T) {
	work, config := tree(t, map[string]string{
		"work/.qq/agents/A_b.md":          says("one"),
		"work/.qq/agents/a-b.md":          says("two"),
		"work/.qq/agents/claims.md":       "---\nname: default\ndescription: d\n---\nx",
		"work/.qq/agents/other.md":        "---\nname: special\ndescription: d\n---\nx",
		"work/.claude/agents/special.md":  says("by file name"),
		"work/.claude/agents/explorer.md": "no front matter",
		"work/.claude/agents/README.md":   "not an agent",
		"config/qq/agents/mine.md":        says("mine"),
	})
	r := Load(Dirs(work, config, trust(t, work)))
	list := r.List()
	var names []string
	for _, e := range list {
		names = append(names, e.Agent.Name)
		a, err := r.Lookup(e.Agent.Name)
		if e.Err != nil {
			assert.Equal(t, e.Err, err)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, e.Agent, a)
	}
	assert.Equal(t, []string{"A_b", "analyzer", "coder", "database", "default", "executor", "explorer", "mine",
		"planner", "researcher", "security", "special", "summarizer", "worker"}, names)
	at := func(name string) Entry { return list[slices.Index(names, name)] }
	assert.Equal(t, []string{filepath.Join(work, ".qq/agents/a-b.md")}, at("A_b").Hides)
	assert.Equal(t, BuiltIn, at("default").Agent.Source, "the name of the file goes before a claim")
	assert.Equal(t, []string{filepath.Join(work, ".qq/agents/claims.md")}, at("default").Hides)
	assert.Equal(t, "by file name", at("special").Agent.Description)
	assert.ErrorContains(t, at("explorer").Err, "explorer.md:1: no front matter")
	assert.Equal(t, []string{BuiltIn}, at("explorer").Hides)
}

// TestStranger: a file of a checkout that is not trusted replaces no agent of the user and no built-in
// one, however it writes the name. Its other agents can be used.
func TestStranger(t *testing.T) {
	files := map[string]string{
		"work/.qq/agents/Default.md":      says("theirs"),
		"work/.claude/agents/EXPLORER.md": says("theirs"),
		"work/.claude/agents/nice.md":     "---\nname: explorer\ndescription: goes after the file of that name\n---\nx",
		"work/.agents/agents/mine.md":     says("theirs"),
		"work/.qq/agents/code_review.md":  says("theirs"),
		"work/.qq/agents/coder.md":        "broken",
		"work/.qq/agents/helper.md":       "---\ndescription: theirs\nmodel: ollama:gpt-oss:120b-cloud\n---\nx",
		"config/qq/agents/own.md":         "---\nname: Code-Review\ndescription: own\n---\nx",
		"config/qq/agents/mine.md":        says("own"),
	}
	work, config := tree(t, files)
	look := func(r *Registry, name string) Agent {
		a, err := r.Lookup(name)
		require.NoError(t, err, name)
		return a
	}
	r := Load(Dirs(work, config, nil))
	for _, name := range []string{"default", "DEFAULT", "explorer", "Explorer", "coder"} {
		a := look(r, name)
		assert.Equal(t, BuiltIn, a.Source, name)
		assert.False(t, a.Untrusted)
	}
	assert.Equal(t, "own", look(r, "mine").Description)
	assert.Equal(t, "own", look(r, "code_review").Description, "although a file has that name")
	helper := look(r, "helper")
	assert.True(t, helper.Untrusted)
	assert.Empty(t, helper.Model)
	assert.Equal(t, []string{`model "ollama:gpt-oss:120b-cloud" is on another machine, and the file is not trusted: ` +
		"the model of the run is used"}, helper.Warnings)
	claims := map[string]string{}
	for _, c := range r.Claims("Helper") {
		claims[c.File] = c.Hides
	}
	assert.Equal(t, map[string]string{
		".qq/agents/Default.md": BuiltIn, ".claude/agents/EXPLORER.md": BuiltIn,
		".agents/agents/mine.md":    filepath.Join(config, "qq/agents/mine.md"),
		".qq/agents/code_review.md": filepath.Join(config, "qq/agents/own.md"),
		".qq/agents/helper.md":      "",
	}, claims)
	claims = map[string]string{}
	for _, c := range r.Claims("") {
		claims[c.File] = c.Agent.Model
	}
	assert.Contains(t, claims, ".qq/agents/helper.md", "it has a model on another machine")
	for _, e := range r.List() {
		switch e.Agent.Name {
		case "default":
			assert.Equal(t, []string{filepath.Join(work, ".qq/agents/Default.md")}, e.Ignored)
			assert.Empty(t, e.Hides)
		case "coder":
			assert.Equal(t, e.Err != nil, e.Agent.Source != BuiltIn, "the broken file is listed too")
		}
	}

	sums := trust(t, work, ".qq/agents/Default.md", ".qq/agents/helper.md")
	r = Load(Dirs(work, config, sums))
	assert.Equal(t, "theirs", look(r, "default").Description)
	assert.Equal(t, "ollama:gpt-oss:120b-cloud", look(r, "helper").Model)
	assert.Equal(t, BuiltIn, look(r, "explorer").Source, "each file is trusted by itself")
	require.NoError(t, os.WriteFile(filepath.Join(work, ".qq/agents/Default.md"), []byte(says("theirs!")), 0o600))
	assert.Equal(t, "theirs", look(r, "default").Description, "a run sees one version")
	assert.Equal(t, BuiltIn, look(Load(Dirs(work, config, sums)), "default").Source, "it has changed")
}

func TestRemote(t *testing.T) {
	for model, want := range map[string]bool{
		"ollama:gpt-oss:120b-cloud": true, "glm-4.6:Cloud": true, "library/x:cloud": true,
		"ollama:registry.local:5000/library/x:120b-cloud": true, "ollama:x:cloud ": true, "localhost:80/x:4b": false,
		"": false, "auto": false, "ollama:qwen3:4b": false, "cloud": false, "cloud-model:4b": false,
	} {
		assert.Equal(t, want, Remote(model), model)
	}
}

// TestFallbackNeedsTrust: a fallback in a checkout, wherever it is, does not count without trust, and says so.
func TestFallbackNeedsTrust(t *testing.T) {
	for fallback, want := range map[string]bool{"[]": false, "ollama:qwen3": true, "[x:cloud, lab:m]": true} {
		work, config := tree(t, map[string]string{
			"work/.qq/agents/far.md": "---\ndescription: d\nfallback: " + fallback + "\n---\nx",
		})
		r := Load(Dirs(work, config, nil))
		assert.Equal(t, want, len(r.Claims("")) == 1, fallback)
		a, err := r.Lookup("far")
		require.NoError(t, err)
		assert.True(t, a.Untrusted)
		assert.Equal(t, want, len(a.Warnings) == 1, fallback)
		r = Load(Dirs(work, config, trust(t, work, ".qq/agents/far.md")))
		a, err = r.Lookup("far")
		require.NoError(t, err)
		assert.Empty(t, a.Warnings)
		assert.False(t, a.Untrusted)
	}
}

// TestModels: a file that is not trusted cannot choose a model of another server, nor by an alias of the user.
func TestModels(t *testing.T) {
	known := Models{Servers: []string{"lab", "openai"}, Aliases: []string{"fast"}}
	for model, want := range map[string]bool{
		"lab:qwen3": true, " LAB:qwen3": true, "openai:": true, "fast": true, "Fast": true, "x:cloud": true,
		"": false, "auto": false, "extract": false, "ollama:lab": false, "lab": false, "qwen3:4b": false,
		"faster": false, "ollama:lab:7b": false, "labs:x": false,
	} {
		assert.Equal(t, want, known.Remote(model), model)
		work, config := tree(t, map[string]string{
			"work/.qq/agents/far.md":   "---\ndescription: d\nmodel: \"" + model + "\"\n---\nx",
			"config/qq/agents/mine.md": "---\ndescription: d\nmodel: fast\n---\nx",
		})
		r := Load(Dirs(work, config, nil))
		r.Models = known
		a, err := r.Lookup("far")
		require.NoError(t, err)
		assert.Equal(t, want, a.Model == "" && len(a.Warnings) > 0 && model != "", model)
		assert.Equal(t, want, len(r.Claims("")) == 1, model)
		a, err = r.Lookup("mine")
		require.NoError(t, err)
		assert.Equal(t, "fast", a.Model, "the user's own")
		r = Load(Dirs(work, config, trust(t, work, ".qq/agents/far.md")))
		r.Models = known
		a, err = r.Lookup("far")
		require.NoError(t, err)
		assert.Equal(t, strings.TrimSpace(model), a.Model, "it is trusted")
	}
}

// TestTooManyFiles: a checkout cannot keep qq busy with a folder of definitions. Other files do not count, nor does
// the folder of the user.
func TestTooManyFiles(t *testing.T) {
	work, config := tree(t, map[string]string{"work/.qq/agents/one.md": says("d"),
		"config/qq/agents/two.md": says("d")})
	more := func(dir, end string) {
		for i := range maxFiles {
			require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)+end), nil, 0o600))
		}
	}
	more(filepath.Join(work, ".qq/agents"), ".txt")
	more(filepath.Join(config, "qq/agents"), ".md")
	r := Load(Dirs(work, config, nil))
	for _, name := range []string{"one", "two"} {
		_, err := r.Lookup(name)
		assert.NoError(t, err, name)
	}
	more(filepath.Join(work, ".qq/agents"), ".md")
	r = Load(Dirs(work, "", nil))
	_, err := r.Lookup("one")
	assert.ErrorContains(t, err, "Agent not found")
	assert.ErrorContains(t, r.List()[0].Err, "has more than 1000 definitions")
}

func TestLookupNames(t *testing.T) {
	work, _ := tree(t, map[string]string{
		"work/.qq/agents/A_b.md":    says("d"),
		"work/.qq/agents/file.md":   "---\nname: Real_Name\ndescription: d\n---\nx",
		"work/.qq/agents/a.b.md":    "---\nname: dotted\ndescription: d\n---\nx",
		"work/.qq/agents/.hid.md":   says("d"),
		"work/.qq/agents/sub/in.md": says("d"),
		"work/.qq/x.md":             says("outside"),
	})
	r := Load(Dirs(work, "", nil))
	for _, name := range []string{"A_b", "a-b", "a_B", "real-name", "REAL_NAME", "dotted", "Default"} {
		_, err := r.Lookup(name)
		assert.NoError(t, err, name)
	}
	for _, name := range []string{"../x", "..", ".", "", "/etc/passwd", "sub/in", `sub\in`, "a.b", ".hid", "a-b.md",
		"a b", "a\x00b", "file",
		strings.Repeat("x", 65)} {
		_, err := r.Lookup(name)
		var missing *NotFoundError
		require.ErrorAs(t, err, &missing, name)
		assert.Equal(t, name, missing.Name)
	}
}

func TestNotFoundText(t *testing.T) {
	work, _ := tree(t, map[string]string{"work/.qq/agents/mine.md": says("d"), "work/.qq/agents/bad.md": "x"})
	_, err := Load(Dirs(work, "", nil)).Lookup("nobody")
	assert.EqualError(t, err, "Agent not found in registry: nobody (known: analyzer, coder, database, default, "+
		"executor, explorer, mine, planner, researcher, security, summarizer, worker)")
	_, err = Load(Dirs(work, "", nil)).Lookup("mien")
	assert.ErrorContains(t, err, "summarizer, worker)\nhint: did you mean mine?")
}

func TestBrokenFilesStayAlone(t *testing.T) {
	work, _ := tree(t, map[string]string{
		"work/.qq/agents/good.md":     says("good"),
		"work/.qq/agents/huge.md":     "---\nname: huge\n---\n" + strings.Repeat("x", MaxSize),
		"work/.qq/agents/types.md":    "---\nname: types\nmax_turns: [1]\n---\nx",
		"work/.qq/agents/dir.md/x.md": "x",
	})
	agents := filepath.Join(work, ".qq", "agents")
	require.NoError(t, syscall.Mkfifo(filepath.Join(agents, "pipe.md"), 0o600))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(agents, "gone.md")))
	r := Load(Dirs(work, "", nil))
	_, err := r.Lookup("good")
	require.NoError(t, err)
	for name, want := range map[string]string{
		"huge": "is larger than 256 KiB", "types": `types.md:3: "max_turns" must be`, "dir": "is not a regular file",
		"pipe": "is not a regular file", "gone": "no such file",
	} {
		_, err := r.Lookup(name)
		assert.ErrorContains(t, err, "read agent file "+filepath.Join(agents, name+".md")+":")
		assert.ErrorContains(t, err, want)
	}
	broken := 0
	for _, e := range r.List() {
		if e.Err != nil {
			broken++
		}
	}
	assert.Equal(t, 5, broken)
}

func TestLinks(t *testing.T) {
	work, config := tree(t, map[string]string{
		"work/docs/inside.md":      says("inside"),
		"elsewhere/outside.md":     says("outside"),
		"elsewhere/stolen.md":      says("stolen"),
		"work/.qq/agents/plain.md": says("plain"),
	})
	top := filepath.Dir(work)
	require.NoError(t, os.Symlink("../../../elsewhere/stolen.md", filepath.Join(work, ".qq/agents/stolen.md")))
	require.NoError(t, os.MkdirAll(filepath.Join(work, ".claude"), 0o700))
	require.NoError(t, os.Symlink(filepath.Join(top, "elsewhere"), filepath.Join(work, ".claude/agents")))
	require.NoError(t, os.MkdirAll(filepath.Join(work, ".agents"), 0o700))
	require.NoError(t, os.Symlink("../docs", filepath.Join(work, ".agents/agents")))

	r := Load(Dirs(work, "", nil))
	_, err := r.Lookup("stolen")
	assert.ErrorContains(t, err, "read agent file")
	_, err = r.Lookup("outside")
	var missing *NotFoundError
	assert.ErrorAs(t, err, &missing)
	a, err := r.Lookup("inside")
	require.NoError(t, err)
	assert.Equal(t, "inside", a.Description)
	require.Len(t, a.Warnings, 1)
	assert.Contains(t, a.Warnings[0], "read agent folder "+filepath.Join(work, ".claude/agents"))
	assert.Error(t, r.List()[0].Err, "the folder that leads out is listed")

	// The user's own folder may lead anywhere.
	require.NoError(t, os.MkdirAll(filepath.Join(config, "qq"), 0o700))
	require.NoError(t, os.Symlink(filepath.Join(top, "elsewhere"), filepath.Join(config, "qq/agents")))
	a, err = Load(Dirs(work, config, nil)).Lookup("outside")
	require.NoError(t, err)
	assert.Equal(t, "outside", a.Description)
}

func TestLookupReadsOnlyWhatIsAsked(t *testing.T) {
	work, _ := tree(t, map[string]string{"work/.qq/agents/one.md": says("d"), "work/.qq/agents/two.md": says("d")})
	r := Load(Dirs(work, "", nil))
	l := r.scan()
	for _, f := range l.files {
		if !f.named("default") {
			f.agent = func() (Agent, error) {
				t.Errorf("%s was read", f.source)
				return Agent{}, errors.New("unwanted")
			}
		}
	}
	a, err := r.Lookup("DEFAULT")
	require.NoError(t, err)
	assert.Equal(t, BuiltIn, a.Source)
}

func TestLoadReadsNothing(t *testing.T) {
	work, _ := tree(t, nil)
	r := Load(Dirs(work, "", nil))
	require.NoError(t, os.MkdirAll(filepath.Join(work, ".qq/agents"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(work, ".qq/agents/late.md"), []byte(says("d")), 0o600))
	_, err := r.Lookup("late")
	assert.NoError(t, err)
}

// A glance shows the agents that a look-up finds, and no others.
func TestGlance(t *testing.T) {
	work, config := tree(t, map[string]string{
		"work/.qq/agents/coder.md":      says("of a checkout without trust"),
		"work/.qq/agents/helper.md":     says("helps"),
		"work/.qq/agents/broken.md":     "---\nname: [\n---\n",
		"config/qq/agents/explorer.md":  says("of the user"),
		"config/qq/agents/claims.md":    "---\nname: default\ndescription: d\n---\nx",
		"config/qq/agents/security.md":  "no definition",
		"config/qq/agents/Summar_ix.md": says("another"),
	})
	reg := Load(Dirs(work, config, nil))
	seen := reg.Glance()
	var names []string
	for _, a := range seen {
		names = append(names, a.Name)
		whole, err := reg.Lookup(a.Name)
		require.NoError(t, err)
		assert.Equal(t, whole.Description, a.Description)
		assert.Equal(t, whole.Source, a.Source)
	}
	assert.Equal(t, []string{"analyzer", "coder", "database", "default", "executor", "explorer", "planner",
		"researcher", "Summar_ix", "summarizer", "worker", "helper"}, names, "that of the checkout is the last")
	assert.Len(t, Load(nil).Glance(), 11)
}

func BenchmarkLookupDefault(b *testing.B) {
	work := b.TempDir()
	for b.Loop() {
		if _, err := Load(Dirs(work, work, nil)).Lookup("default"); err != nil {
			b.Fatal(err)
		}
	}
}
