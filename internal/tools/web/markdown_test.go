package web

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func convert(t testing.TB, page string) markdown {
	t.Helper()
	m, err := toMarkdown(t.Context(), mustURL(t, "https://example.com/a/b?x=1"), page)
	require.NoError(t, err)
	return m
}

func TestMarkdown(t *testing.T) {
	for _, c := range []struct{ name, page, want string }{
		{"text as it is written", `<p>snake_case 2*3*4 [x] a &lt; b List&lt;T&gt; &amp;lt; # x`,
			"snake_case 2*3*4 [x] a < b List<T> &lt; # x"},
		{"emphasis", `<p>a <b>b</b> <em>c</em> <u>d</u> <font color=red>e</font>`, "a **b** *c* d e"},
		{"code", "<pre><code class='x language-go'>if a &lt; b {\n\n\tc()\n}</code></pre><p><code>x|y</code>",
			"```go\nif a < b {\n\n\tc()\n}\n```\n\n`x|y`"},
		{"lists", `<ul><li>a<ul><li>b</ul><li>c</ul><ol start=3><li>d<li>e</ol>`, "- a\n  \n  - b\n- c\n\n3. d\n4. e"},
		{"table", `<table><tr><th>N<th>V<tr><td>a|b<td>1<br>2<tr><td colspan=2>wide</table>`,
			"| N | V |\n|---|---|\n| a\\|b | 1  <br />2 |\n| wide |  |"},
		{"table without a head", `<table><tr><td>a<td>b<tr><td>1<td>2</table>`, "| a | b |\n|---|---|\n| 1 | 2 |"},
		{"links",
			`<a href="../r?q=1#f">rel</a> <a href="//o/x">host</a> <a href="mailto:a@b.c">mail</a> <a ` +
				`href="#top">top</a> ` +
				`<a href="javascript:x()">js</a> <a href="data:x">data</a> <a href="http://[x">bad</a> <a>none</a>`,
			"[rel](https://example.com/r?q=1#f) [host](https://o/x) [mail](mailto:a@b.c) top js data bad none"},
		{"base", `<base href="https://other.org/d/"><a href=x>a</a>`, "[a](https://other.org/d/x)"},
		{"base that is none", `<base href="javascript:/d/"><a href=x>a</a>`, "[a](https://example.com/a/x)"},
		{"images", `<img src=p.png alt="A pic"><img src=q.png><img src="data:x" alt="a chart">`,
			"![A pic](https://example.com/a/p.png)a chart"},
		{"hidden",
			`<p>a<span hidden>b</span><span style="color:red;display: none">c</span><span ` +
				`aria-hidden=true>d</span><i style="VISIBILITY:hidden">e</i>f`, "af"},
		{"around",
			`<header>a</header><nav>b</nav><div ` +
				`role=navigation>c</div><p>text</p><aside>d</aside><footer>e</footer><div role=banner>f</div>`, "text"},
		{"heading with a sign", `<main><header><h2>Part <a href="#p">¶</a></h2></header><p>` +
			strings.Repeat("x", 300) + `</main>`,
			"## Part\n\n" + strings.Repeat("x", 300)},
		{"main only", `<div>site</div><main><p>` + strings.Repeat("x", 300) + `</main><div>more</div>`,
			strings.Repeat("x", 300)},
		{"one article", `<div>site</div><article>` + strings.Repeat("x", 300) + `</article>`, strings.Repeat("x", 300)},
		{"several articles", `<div>site</div><article>a</article><article>b</article>`, "site\n\na\n\nb"},
		{"small main part", `<main>x</main><p>` + strings.Repeat("y", 300), "x\n\n" + strings.Repeat("y", 300)},
		{"nothing but what is around", `<header><h1>Only</h1></header><footer>this</footer>`, "# Only\n\nthis"},
		{"form", `<form><p>subscribe<input><button>Go</button></form><p>a`, "a"},
		{"form around all", `<form><input><h1>T</h1><p>a<select><option>x</select></form>`, "# T\n\na"},
		{"heading that unfolds", `<h3><button>Question?</button></h3><p>Answer<button>Like</button>`,
			"### Question?\n\nAnswer"},
		{"details", `<details><summary>Sum</summary>Body</details>`, "Sum\n\nBody"},
		{"not text",
			`a<script>b</script><style>c</style><noscript>d</noscript><svg><text>e</text></svg><template>f</template><iframe>g</iframe><!-- h -->`, "a"},
		{"unclosed", `<p>a <b>b<p>c</div></span></p><ul><li>d`, "a **b**\n\n**c**\n\n- **d**"},
		{"control characters", "<p>a&#27;[31mb&#7;\x1bc&#xE0041;d\uF002e\uF003", "a[31mbcde"},
		{"frames", `<frameset><frame src=x></frameset>`, ""},
	} {
		assert.Equal(t, c.want, convert(t, c.page).text, c.name)
	}
}

func TestTitle(t *testing.T) {
	for page, want := range map[string]string{
		"<title> A &amp;\n B </title>":                   "A & B",
		"<svg><title>no</title></svg><title>yes</title>": "yes",
		"<p>x": "",
		"<title>" + strings.Repeat("ä", 400) + "</title>":      strings.Repeat("ä", titleLimit) + "…",
		"<title>a<b>b</b>\x1b[0m</title><title>second</title>": "a<b>b</b>[0m",
	} {
		assert.Equal(t, want, convert(t, page).title, page)
	}
}

// A page that is nested too deeply to be understood is read as text.
func TestTooDeep(t *testing.T) {
	m := convert(t, strings.Repeat("<div>", 1000)+"deep &lt;<script>no</script><p>down")
	assert.Equal(t, "deep <\ndown", m.text)
}

// Each of these pages grows, or takes quadratic time, in some step that is not
// bounded.
func TestHostilePages(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long: make test runs it")
	}
	var bold strings.Builder
	for i := range 400 {
		fmt.Fprintf(&bold, "<b class=c%d>", i)
	}
	fill := func(s string) string { return strings.Repeat(s, 1<<19/len(s)) }
	long := strings.Repeat("x", 1900)
	for name, page := range map[string]string{
		"formatting left open":    "<div>" + bold.String() + "</div>" + fill("<p>x"),
		"links left open":         fill("<a href=x><p>y"),
		"links below a long base": "<base href=https://example.com/" + long + "/>" + fill("<a href=x>y</a>"),
		"quotations":              strings.Repeat("<blockquote>", 400) + fill("<p>x"),
		"lists around code":       strings.Repeat("<ul><li>", 200) + "<pre>" + fill("x\n"),
		"rows":                    "<table>" + fill("<tr><td>x<td>y"),
		"one long row, many short": "<table><tr>" + strings.Repeat("<td>x", 20000) +
			strings.Repeat("<tr><td>x", 20000),
		"spans everywhere":          "<table>" + fill("<tr><td colspan=64 rowspan=64>x"),
		"a span":                    "<table><tr><td rowspan=999999999 colspan=999999999>x",
		"text beside rows":          "<table>" + fill("word<tr>"),
		"tables in tables":          strings.Repeat("<table><tr><td>", 150) + fill("<p>x"),
		"brackets":                  "<p>" + fill("![*_"),
		"backticks":                 "<code>" + fill("`"),
		"angles":                    fill("<"),
		"ends of nothing":           fill("x</q>"),
		"headings in links":         fill("<a href=x><h1>y</h1></a>"),
		"formatting in code, often": fill("<b>x<code>y</code></b>"),
	} {
		m := convert(t, page)
		assert.Less(t, len(m.text), 24<<20, name)
		assert.NotEmpty(t, m.text, name)
	}
}

func TestLongPageIsCut(t *testing.T) {
	for _, page := range []string{strings.Repeat("<br>", maxTags+1), strings.Repeat("ä", maxHTMLText)} {
		m := convert(t, "<p>x"+page)
		assert.True(t, m.cut)
		assert.LessOrEqual(t, len(m.text), maxHTMLText)
	}
	assert.False(t, convert(t, "<p>x").cut)
}

// countdown is a context that ends after its error was asked for n times.
type countdown struct {
	context.Context
	n int
}

func (c *countdown) Err() error {
	if c.n--; c.n < 0 {
		return context.Canceled
	}
	return nil
}

// A conversion stops in whichever step the context ends.
func TestConversionStops(t *testing.T) {
	u := mustURL(t, "https://example.com")
	page := "<title>t</title><p>x <a href=/a>b</a><table><tr><td>c</table>" + strings.Repeat("<div>", 3) + "y"
	for n := range 1000 {
		m, err := toMarkdown(&countdown{t.Context(), n}, u, page)
		if err == nil {
			assert.Greater(t, n, 20, "reading and conversion both look at it")
			assert.Contains(t, m.text, "x [b](https://example.com/a)")
			return
		}
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, m)
	}
	t.Fatal("it never ended")
}
