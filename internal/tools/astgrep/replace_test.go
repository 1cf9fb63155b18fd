package astgrep

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/internal/tools/store"
	"qq/pkg/tool"
)

func (c Config) put(t testing.TB, pairs ...any) tool.Result {
	t.Helper()
	return standin.CallTool(t, c.set(), "ast_grep_replace", standin.Args(pairs...))
}

func TestReplace(t *testing.T) {
	c := folder(t, astGrep(t), "a.go", source, "b/b.go", "package b\r\n\r\nvar e = fmt.Errorf(\"ä\")\r\n", "c.go",
		"package c\n")
	require.NoError(t, os.Chmod(c.Dir+"/b/b.go", 0o640))
	r := c.put(t, "pattern", "fmt.Errorf($$$A)", "rewrite", "oops.New($$$A)", "lang", "go")
	assert.Equal(t, tool.Result{Content: "a.go: 3 replaced\nb/b.go: 1 replaced", Changed: []string{"a.go", "b/b.go"}},
		r)
	assert.Equal(t, strings.ReplaceAll(source, "fmt.Errorf", "oops.New"), c.content(t, "a.go"))
	assert.Equal(t, "package b\r\n\r\nvar e = oops.New(\"ä\")\r\n", c.content(t, "b/b.go"))
	info, err := c.Root.Stat("b/b.go")
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o640), info.Mode())

	assert.Equal(t, "Error: nothing to replace: the pattern matches nothing, or is what it would be replaced with",
		c.put(t, "pattern", "fmt.Errorf($$$A)", "rewrite", "oops.New($$$A)", "lang", "go").Content)
	assert.True(t, c.put(t, "pattern", "oops.New($$$A)", "rewrite", "oops.New($$$A)", "lang", "go").Failed,
		"the same is no change")
	r = c.put(t, "pattern", "defer $X.Close()", "rewrite", "", "lang", "go", "glob", "a.*")
	assert.Equal(t, []string{"a.go"}, r.Changed, r.Content)
	assert.NotContains(t, c.content(t, "a.go"), "defer")
}

// Of matches inside of each other the outer one is replaced.
func TestReplaceNested(t *testing.T) {
	c := folder(t, astGrep(t), "a.js", "f(f(f(1))); f(2)\n")
	r := c.put(t, "pattern", "f($A)", "rewrite", "g($A)", "lang", "js")
	assert.Equal(t, "a.js: 2 replaced\n[2 matches inside of others were left: call again for them]", r.Content)
	assert.Equal(t, "g(f(f(1))); g(2)\n", c.content(t, "a.js"))
}

func TestReplaceRefuses(t *testing.T) {
	c := folder(t, astGrep(t), "a.js", "f(1)\n")
	require.NoError(t, c.Root.Symlink("/etc", "out"))
	for args, want := range map[string]string{
		`{"pattern":"f($A)","lang":"js"}`:                            `argument "rewrite" is missing`,
		`{"pattern":"f($A)","rewrite":1,"lang":"js"}`:                `argument "rewrite" must be text`,
		`{"pattern":"f($A)","rewrite":"x","lang":"js","path":"out"}`: `out is outside the working directory`,
		`{"rewrite":"x","lang":"js"}`:                                `argument "pattern" is missing`,
		standin.Args("pattern", "f($A)", "rewrite", strings.Repeat("x", maxText+1), "lang",
			"js"): `rewrite is 16385 bytes long`,
	} {
		r := standin.CallTool(t, c.set(), "ast_grep_replace", args)
		assert.True(t, strings.HasPrefix(r.Content, "Error: "+want), r.Content)
		_, err := tool.Plan(t.Context(), c.set()[1], json.RawMessage(args))
		assert.ErrorContains(t, err, want)
	}
	assert.Equal(t, "f(1)\n", c.content(t, "a.js"))
}

// A file that changed since it was searched stays as it is, the others do not.
func TestReplaceConflict(t *testing.T) {
	c := folder(t, astGrep(t), "a.js", "f(1)\n", "b.js", "f(2)\n")
	c = meanwhile(c, func() { assert.NoError(t, c.Root.WriteFile("a.js", []byte("/**/ f(1)\n"), 0o600)) })
	r := c.put(t, "pattern", "f($A)", "rewrite", "g($A)", "lang", "js")
	assert.Equal(t, tool.Result{Failed: true, Changed: []string{"b.js"},
		Content: "Error: a.js changed since it was searched: nothing was replaced in it, call again\n" +
			"In the other files it was done:\nb.js: 1 replaced"}, r)
	assert.Equal(t, "/**/ f(1)\n", c.content(t, "a.js"))
	assert.Equal(t, "g(2)\n", c.content(t, "b.js"))
}

// Of two replacements of one place exactly one happens.
func TestReplaceAtOnce(t *testing.T) {
	c := folder(t, astGrep(t), "a.js", "f(1)\n")
	both := make(chan struct{})
	var searched, done sync.WaitGroup
	searched.Add(2)
	var results [2]tool.Result
	for i, rewrite := range []string{"one()", "two()"} {
		done.Go(func() {
			w := meanwhile(c, func() { searched.Done(); <-both })
			results[i] = w.set()[1].Run(context.Background(),
				json.RawMessage(standin.Args("pattern", "f($A)", "rewrite", rewrite, "lang", "js")))
		})
	}
	searched.Wait()
	close(both)
	done.Wait()
	assert.NotEqual(t, results[0].Failed, results[1].Failed, results)
	want := "one()\n"
	if results[0].Failed {
		want = "two()\n"
	}
	assert.Equal(t, want, c.content(t, "a.js"))
}

func TestReplaceIntent(t *testing.T) {
	c := folder(t, astGrep(t), "a.js", "f(1)\n", "b/b.js", "x\nf(f(2))\n")
	args := json.RawMessage(standin.Args("pattern", "f($A)", "rewrite", "g($A)", "lang", "js"))
	in, err := tool.Plan(t.Context(), c.set()[1], args)
	require.NoError(t, err)
	assert.Equal(t, tool.Intent{Tool: "ast_grep_replace", Effect: tool.Writes, Risk: tool.Medium,
		Paths:   []string{"a.js", "b/b.js"},
		Sums:    map[string]string{"a.js": store.Sum([]byte("f(1)\n")), "b/b.js": store.Sum([]byte("x\nf(f(2))\n"))},
		Summary: "replace code at 2 places in 2 files",
		Preview: "--- a.js\n+++ a.js\n@@ -1 +1 @@\n-f(1)\n+g(1)\n--- b/b.js\n+++ b/b.js\n@@ -1,2 +1,2 @@\n x\n" +
			"-f(f(2))\n+g(f(2))\n"}, in)
	assert.Equal(t, "f(1)\n", c.content(t, "a.js"), "a plan changes nothing")

	require.NoError(t, c.Root.WriteFile("c.js", []byte("f(3)\n"), 0o600))
	r := c.set()[1].Run(tool.WithGrant(t.Context(), in), args)
	assert.Equal(t, "Error: c.js did not match when this was allowed and does now: nothing was changed, call again",
		r.Content)
	assert.Equal(t, "f(1)\n", c.content(t, "a.js"))
	require.NoError(t, c.Root.Remove("c.js"))
	require.NoError(t, c.Root.WriteFile("a.js", []byte("f(1)\nmore\n"), 0o600))
	r = c.set()[1].Run(tool.WithGrant(t.Context(), in), args)
	assert.True(t, r.Failed)
	assert.Contains(t, r.Content, "a.js was changed after this call was shown to the user")
	assert.Equal(t, "f(1)\nmore\n", c.content(t, "a.js"))
	require.NoError(t, c.Root.WriteFile("a.js", []byte("f(1)\n"), 0o600))
	require.NoError(t, c.Root.WriteFile("b/b.js", []byte("x\nf(f(2))\n"), 0o600))
	assert.False(t, c.set()[1].Run(tool.WithGrant(t.Context(), in), args).Failed)
	assert.Equal(t, "g(1)\n", c.content(t, "a.js"))
}

// What is special is changed only when just that was allowed.
func TestReplaceSpecial(t *testing.T) {
	c := folder(t, astGrep(t), "a.js", "f(1)\n", ".git/hooks/x.js", "f(2)\n")
	args := standin.Args("pattern", "f($A)", "rewrite", "g($A)", "lang", "js", "path", ".git/hooks/x.js")
	in, err := tool.Plan(t.Context(), c.set()[1], json.RawMessage(args))
	require.NoError(t, err)
	assert.Equal(t, tool.High, in.Risk)
	assert.True(t, in.Special)
	assert.Equal(t, "replace code at 1 places in 1 files, of which .git/hooks/x.js belongs to git", in.Summary)

	run := func(ctx context.Context) tool.Result { return c.set()[1].Run(ctx, json.RawMessage(args)) }
	const refused = "Error: .git/hooks/x.js belongs to git and is not changed without an approval: nothing was changed"
	assert.Equal(t, refused, run(t.Context()).Content)
	general := in
	general.Special = false
	assert.Equal(t, refused, run(tool.WithGrant(t.Context(), general)).Content)
	other := in
	other.Paths = []string{"a.js"}
	assert.True(t, run(tool.WithGrant(t.Context(), other)).Failed)
	assert.Equal(t, "f(2)\n", c.content(t, ".git/hooks/x.js"))
	assert.Equal(t, []string{".git/hooks/x.js"}, run(tool.WithGrant(t.Context(), in)).Changed)
	assert.Equal(t, "g(2)\n", c.content(t, ".git/hooks/x.js"))

	in, err = tool.Plan(t.Context(), c.set()[1],
		json.RawMessage(standin.Args("pattern", "f($A)", "rewrite", "g($A)", "lang", "js")))
	require.NoError(t, err)
	assert.Equal(t, []string{"a.js"}, in.Paths)
	assert.False(t, in.Special)
}

func TestReplacePreviewIsBounded(t *testing.T) {
	c := folder(t, astGrep(t),
		"a.js", strings.Repeat("f('"+strings.Repeat("ä", 30)+"')\n", 12_000), "b.js", "f(1)\n")
	in, err := tool.Plan(t.Context(), c.set()[1],
		json.RawMessage(standin.Args("pattern", "f($A)", "rewrite", "g($A)", "lang", "js")))
	require.NoError(t, err)
	assert.Equal(t, []string{"a.js", "b.js"}, in.Paths)
	assert.True(t, in.Cut)
	assert.InDelta(t, maxPreview, len(in.Preview), 10)
}
