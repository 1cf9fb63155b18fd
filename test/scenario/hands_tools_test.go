package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/test/ollamatest"
)

// handy is the definition of an agent with these tools.
func handy(name, tools string) string {
	return fmt.Sprintf("---\nname: %s\ndescription: uses its tools\ntools: [%s]\n---\nYou use your tools.\n", name,
		tools)
}

// recordPlayed records what is asked of a played model.
func recordPlayed(t *testing.T, m *workModel) *recorder {
	t.Helper()
	return newRecorder(t, &ollamatest.Server{URL: &url.URL{Scheme: "http", Host: m.addr}}, meddling{})
}

// changed are the changed files of the result on stdout.
func (e ended) changed() []string {
	e.t.Helper()
	var r struct {
		ChangedFiles []string `json:"changed_files"`
	}
	require.NoError(e.t, json.Unmarshal([]byte(e.stdout), &r), "%q", e.stdout)
	return r.ChangedFiles
}

// finding is what doctor found out about one thing.
type finding struct{ What, State, Text, Fix string }

// doctor is what it says about what, the model server left out.
func (w *world) doctor(what string) finding {
	w.t.Helper()
	e := w.doctored()
	assert.Equal(w.t, 0, e.code, "exit code: what is missing is a note")
	return e.finding(what)
}

// doctored is all that it says, the model server left out.
func (w *world) doctored() ended {
	w.t.Helper()
	alone := *w
	alone.env = append(slices.Clip(w.env), "QQ_MODEL=extract")
	return alone.qq("doctor", "--json")
}

// finding is what it says about what.
func (e ended) finding(what string) finding {
	e.t.Helper()
	var all []finding
	require.NoError(e.t, json.Unmarshal([]byte(e.stdout), &all))
	for _, f := range all {
		if f.What == what {
			return f
		}
	}
	require.FailNow(e.t, "doctor says nothing about "+what)
	return finding{}
}

// astGrepFolder is the folder of ast-grep: that of QQ_AST_GREP, or one of PATH.
func astGrepFolder(t *testing.T) string {
	t.Helper()
	path := os.Getenv("QQ_AST_GREP")
	if path == "" {
		path, _ = exec.LookPath("ast-grep")
	}
	if path == "" && os.Getenv("QQ_AST_GREP_REQUIRED") == "1" {
		t.Fatal("no ast-grep: set QQ_AST_GREP to what test/astgrep/tools.sh prints")
	}
	if path == "" {
		t.Skip("no ast-grep: set QQ_AST_GREP to what test/astgrep/tools.sh prints")
	}
	return filepath.Dir(path)
}

// Code in which a text search finds more than there is.
const (
	codeA = `package a

// To say it: fmt.Println("in a comment")
func A(x int) {
	fmt.Println(
		x,
		1)
	s := "fmt.Println(2)"
	_ = s
}
`
	codeB = `package b

func B() { fmt.Println("b") }
`
)

// structural is an agent that searches and replaces code.
func structural() workAgent {
	return workSteps(
		workDo(workCall("ast_grep", "pattern", "fmt.Println($$$ARGS)", "lang", "go")),
		workDo(workCall("ast_grep_replace", "pattern", "fmt.Println($$$ARGS)", "rewrite", "log.Print($$$ARGS)", "lang",
			"go")),
		workText("So much for that."))
}

func newStructuralWorld(t *testing.T, path string) (*world, *recorder) {
	t.Helper()
	r := recordPlayed(t, workPlay(t, map[string]workAgent{"change": structural()}))
	w := newWorld(t, r.host, played, "PATH="+path, "QQ_AGENT=refactorer")
	w.file(".qq/agents/refactorer.md", handy("refactorer", "read_file, ast_grep, ast_grep_replace"))
	w.file("a.go", codeA)
	w.file("sub/b.go", codeB)
	w.file("notes.txt", `fmt.Println("no code")`)
	return w, r
}

// TestStructural: code is found by its structure, with path and line, and
// replaced in all files at once if that is allowed.
func TestStructural(t *testing.T) {
	const (
		found   = "a.go:5: \tfmt.Println( [to line 7]\nsub/b.go:3: func B() { fmt.Println(\"b\") }"
		done    = "a.go: 1 replaced\nsub/b.go: 1 replaced"
		refused = "ast_grep_replace was refused: "
	)
	folder := astGrepFolder(t)
	for _, tt := range []struct {
		name     string
		args     []string
		terminal string // what is answered there
		answer   string // to the replacing
	}{
		{"allowed", []string{"--allow", "ast_grep_replace"}, "", done},
		{"asked, once", nil, "o", done},
		{"asked, no", nil, "n", "Error: " + refused + "the user said no"},
		{"nobody to ask", nil, "",
			"Error: " + refused +
				"it needs an approval and nobody can be asked here: allow it with --allow ast_grep_replace, or " +
				"everything with --auto-approve"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, r := newStructuralWorld(t, folder+":"+os.Getenv("PATH"))
			args := append([]string{"Change it. [[change]]", "--json"}, tt.args...)
			var e ended
			if tt.terminal == "" {
				e = w.qq(args...)
			} else {
				q := w.onTerminal(args...)
				assert.Regexp(t, `rows are left out here …\n(?s:.*)show \[a\]ll first, $`, q.answer(1, "a"))
				asked := q.answer(2, tt.terminal)
				assert.Contains(t, asked, "ast_grep_replace (writes, medium risk)\n")
				assert.Contains(t, asked, "replace code at 2 places in 2 files")
				assert.Contains(t, asked, "│ +␉   log.Print(x,\n", "all of it")
				assert.Contains(t, asked, "-func B() { fmt.Println(\"b\") }\n")
				assert.Contains(t, asked, "+func B() { log.Print(\"b\") }\n")
				e = q.wait()
			}
			c := r.last(t, "[[change]]")
			assert.Equal(t, []string{"ast_grep", "ast_grep_replace", "read_file"}, c.offered())
			assert.Equal(t, []string{found, tt.answer}, c.of("tool"))
			files := w.files("work")
			if tt.answer != done {
				e.failed(1, "refused")
				assert.Empty(t, e.changed())
				assert.Equal(t, []string{codeA, codeB}, []string{files["a.go"], files["sub/b.go"]})
				return
			}
			assert.Equal(t, 0, e.code, "exit code")
			assert.Equal(t, []string{"a.go", "sub/b.go"}, e.changed())
			wantA := strings.Replace(codeA, "\tfmt.Println(\n\t\tx,\n\t\t1)", "\tlog.Print(x,\n\t\t1)", 1)
			assert.Equal(t, wantA, files["a.go"], "neither the comment nor the string")
			assert.Equal(t, strings.Replace(codeB, "fmt.Println", "log.Print", 1), files["sub/b.go"])
			assert.Equal(t, `fmt.Println("no code")`, files["notes.txt"])
		})
	}
	t.Run("doctor", func(t *testing.T) {
		w, _ := newStructuralWorld(t, folder)
		f := w.doctor("ast-grep")
		assert.Equal(t, "ok", f.State)
		assert.Regexp(t, `^\d+\.\d+\.\d+, `+folder+`/ast-grep$`, f.Text)
	})
}

// TestStructuralMissing: where there is no ast-grep its tools are not offered, a
// call of them is answered like that of any unknown tool, and doctor says how to
// get it. A program of that name in the working directory is not taken.
func TestStructuralMissing(t *testing.T) {
	w, r := newStructuralWorld(t, t.TempDir()+":.")
	require.NoError(t, os.Chmod(w.file("ast-grep", "#!/bin/sh\necho ast-grep 0.0.0\n"), 0o700))
	e := w.qq("Change it. [[change]]", "--auto-approve", "--json")
	c := r.last(t, "[[change]]")
	assert.Equal(t, []string{"read_file"}, c.offered())
	assert.Equal(t, []string{
		`Error: no tool "ast_grep". The tools are: read_file`,
		`Error: no tool "ast_grep_replace". The tools are: read_file`,
	}, c.of("tool"))
	assert.Equal(t, 0, e.code, "an unknown tool is no refusal")
	assert.Equal(t, codeA, w.files("work")["a.go"])
	f := w.doctor("ast-grep")
	assert.Equal(t, "note", f.State)
	assert.Equal(t, "not installed: agents have no ast_grep and ast_grep_replace", f.Text)
	for _, way := range []string{"npm install -g @ast-grep/cli", "cargo install ast-grep", "brew install ast-grep"} {
		assert.Contains(t, f.Fix, way)
	}
}

// site is a server on this machine that counts who came.
type site struct {
	addr   string // host:port
	visits atomic.Int32
}

// newSite serves a page, and at /to?… a redirect to what stands there.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.visits.Add(1)
		if r.URL.Path == "/to" {
			http.Redirect(w, r, r.URL.RawQuery, http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, `<!doctype html><html><head><title>Tides</title><script>evil()</script></head><body>
<article><h1>Tides</h1><p>The sea rises <strong>twice</strong> a day, as <a href="/moon">the moon</a> wants it.</p>
<ul><li>high</li><li>low</li></ul></article></body></html>`)
	}))
	t.Cleanup(server.Close)
	s.addr = server.Listener.Addr().String()
	return s
}

func (s *site) port() string { return s.addr[strings.LastIndexByte(s.addr, ':')+1:] }

// reads has an agent read these pages, one after the other, at the root or as a
// child. It returns what was answered and how qq ended.
func reads(t *testing.T, place string, env, args, urls []string) ([]string, ended) {
	t.Helper()
	m := workPlay(t, map[string]workAgent{
		"read": func(_ context.Context, k workTalk) api.Message {
			if n := len(k.results()); n < len(urls) {
				return workAsk(workCall("web_fetch", "url", urls[n]))
			}
			return api.Message{Role: "assistant", Content: "All read."}
		},
		"lead": workSteps(workDo(workCall("delegate_task", "agent", "reader", "task", "Read. [[read]]")),
			workText("All read.")),
	})
	r := recordPlayed(t, m)
	w := newWorld(t, r.host, played, env...)
	w.file(".qq/agents/reader.md", handy("reader", "web_fetch"))
	w.file(".env", "QQ_WEB_ALLOW=127.0.0.1,localhost,::1\n")
	prompt := []string{"Delegate. [[lead]]"}
	if place == "root" {
		prompt = []string{"Read. [[read]]", "--agent", "reader"}
	}
	e := w.qq(append(prompt, args...)...)
	if e.code == 0 {
		assert.Equal(t, "All read.\n", e.stdout)
	}
	return r.last(t, "[[read]]").of("tool"), e
}

// TestFetchPrivate: whatever was approved, and whatever the checkout says, a
// page on this machine is read only if the user named its host.
func TestFetchPrivate(t *testing.T) {
	for _, place := range workPlaces {
		t.Run(place, func(t *testing.T) {
			s := newSite(t)
			answers, e := reads(t, place, nil, []string{"--auto-approve"}, []string{
				"http://" + s.addr, "http://localhost:" + s.port(), "http://[::ffff:127.0.0.1]:" + s.port(),
				"http://[::1]:" + s.port(), "http://169.254.169.254/latest/",
			})
			require.Len(t, answers, 5)
			assert.Equal(t,
				"Error: 127.0.0.1 is no public address (loopback). "+
					"The user can allow this host: QQ_WEB_ALLOW=127.0.0.1",
				answers[0])
			assert.Regexp(t,
				`^Error: fetch http://localhost:\d+: localhost leads to \S+, which is no public address `+
					`\(loopback\)\. The user can allow this host: QQ_WEB_ALLOW=localhost$`, answers[1])
			assert.Contains(t, answers[2], "is no public address (loopback)")
			assert.Contains(t, answers[3], "::1 is no public address (loopback)")
			assert.Contains(t, answers[4], "169.254.169.254 is no public address (link-local)")
			assert.Zero(t, s.visits.Load())
			assert.Contains(t, e.stderr, "QQ_WEB_ALLOW in .env is ignored: this folder is not trusted")
		})
	}
}

// TestFetchAllowed: a host that the user named is read, as Markdown. That it
// leads to another one does not open that.
func TestFetchAllowed(t *testing.T) {
	for _, place := range workPlaces {
		t.Run(place, func(t *testing.T) {
			s, other := newSite(t), newSite(t)
			base := "http://" + s.addr
			answers, e := reads(t, place, []string{"QQ_WEB_ALLOW=" + s.addr}, []string{"--allow", "web_fetch"},
				[]string{
					base, base + "/to?" + base + "/page", base + "/to?http://" + other.addr,
					base + "/to?http://localhost:" + other.port(), "http://" + other.addr,
				})
			require.Len(t, answers, 5)
			for _, page := range answers[:2] {
				assert.Contains(t, page, "# Tides")
				assert.Contains(t, page, "The sea rises **twice** a day, as [the moon]("+base+"/moon) wants it.")
				assert.Contains(t, page, "- high\n- low")
				assert.NotContains(t, page, "evil")
				assert.NotContains(t, page, "<")
			}
			away := "Error: fetch " + base + "/to?http://"
			assert.Contains(t, answers[2], away+other.addr+": 127.0.0.1 is no public address (loopback)")
			assert.Contains(t, answers[3], away+"localhost:"+other.port()+": localhost leads to ")
			assert.Contains(t, answers[3], ", which is no public address (loopback)")
			assert.Contains(t, answers[4], "Error: 127.0.0.1 is no public address (loopback)")
			assert.Equal(t, int32(1+2+1+1), s.visits.Load())
			assert.Zero(t, other.visits.Load())
			assert.Equal(t, 0, e.code, "exit code")
		})
	}
}

// TestFetchAsks: to reach the network needs an approval.
func TestFetchAsks(t *testing.T) {
	s := newSite(t)
	answers, e := reads(t, "root", []string{"QQ_WEB_ALLOW=" + s.addr}, nil, []string{"http://" + s.addr})
	assert.Equal(t,
		[]string{"Error: web_fetch was refused: it needs an approval and nobody can be asked here: allow it with " +
			"--allow web_fetch, or everything with --auto-approve"}, answers)
	assert.Equal(t, 1, e.code, "exit code")
	assert.Zero(t, s.visits.Load())
}
