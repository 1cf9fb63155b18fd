package faces

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/test/chromium"
)

// play has what a model says to a task, turn by turn.
type play map[string][]string

func (p play) reply(prompt standin.Prompt) string {
	said, task := 0, ""
	for _, m := range prompt.Messages {
		switch m.Role {
		case "assistant":
			said++
		case "user":
			task += m.Content
		}
	}
	for piece, turns := range p {
		if strings.Contains(task, piece) && said < len(turns) {
			return turns[said]
		}
	}
	return "That is all."
}

// files are those of the project in the pictures.
var files = map[string]string{
	"settings.go":   "package tides\n\nimport \"os\"\n\nvar station = os.Getenv(\"TIDES_STATION\")\n",
	"parse.go":      "package tides\n\nfunc parse(line string) (high bool, err error) { return line[0] == 'H', nil }\n",
	"parse_test.go": "package tides\n\nfunc TestEmptyLine(t *testing.T) { parse(\"\") }\n",
	"go.mod":        "module tides\n",
	"README.md":     "# tides\n\nReads tide tables.\n",
}

const question = "Why do the tests fail when a line of the table is empty?"

// scene is what the models say.
func scene() play {
	tool := func(text, name string, args map[string]string) string { return text + " " + call(name, args) }
	long := strings.Repeat("The parser takes the first byte of a line before it looks whether there is one. ", 8)
	var tasks []map[string]string
	for _, one := range []string{"Find out what parse does with an empty line", "Find where the settings are read",
		"List what the tests cover, and what they leave out", "Say how parse should report a bad line",
		"Look for the same mistake elsewhere"} {
		tasks = append(tasks, map[string]string{"agent": "explorer", "task": one})
	}
	return play{
		question: {"Five explorers look at different parts of the project:\n\n" +
			"- the parser, `parse.go`, and how it should report a bad line\n- the settings\n- the tests\n\n" +
			call("run_parallel_tasks", map[string]any{"tasks": tasks})},
		"Find out what": {tool("I read it.", "read_file", map[string]string{"path": "parse.go"}),
			tool("It takes a byte, so I look where.", "grep_file", map[string]string{"pattern": `line\[0`, "path": "parse.go"}), long},
		"Find where": {tool("I look.", "grep_file", map[string]string{"pattern": "os.Getenv", "path": "settings.go"}),
			"settings.go:5 reads TIDES_STATION, once, at the start."},
		"List what":       {tool("I read them.", "read_file", map[string]string{"path": "parse_test.go"}), long},
		"Say how":         {long},
		"Look for":        {long},
		"Describe":        {"It is described."},
		"Read all tables": {tool("I list them.", "list_files", map[string]string{"pattern": "**"}), long},
		"Make parse": {tool("An empty line gets an error of its own, and the others are read as before.", "edit_file",
			map[string]string{"path": "parse.go", "old_text": "return line[0] == 'H', nil",
				"new_text": "if line == \"\" {\n\t\treturn false, errEmpty\n\t}\n\treturn line[0] == 'H', nil"})},
	}
}

// TestPictures makes the pictures of the README from real runs, in the folder that QQ_PICTURES names.
func TestPictures(t *testing.T) {
	dir := os.Getenv("QQ_PICTURES")
	if dir == "" {
		t.Skip("QQ_PICTURES names no folder")
	}
	model := standin.Start(t, standin.Reply(scene().reply))
	model.Strike(standin.Rule{Task: question})
	model.Strike(standin.Rule{Fault: standin.Fault{Between: 250 * time.Millisecond}})
	w := newWorldOf(t, model)
	parent, err := os.MkdirTemp("", "qq-") // it is in the pictures
	require.NoError(t, err)
	defer os.RemoveAll(parent)
	w.dir = filepath.Join(parent, "tides")
	require.NoError(t, os.Mkdir(w.dir, 0o700))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600))
	}
	var tasks []string
	tasks = append(tasks, `{"task": "Read all tables of last year", "agent": "explorer"}`,
		`{"task": "Make parse return an error for an empty line", "agent": "coder"}`)
	for _, what := range []string{"station", "harbour", "buoy", "pier"} {
		for i := range 10 {
			tasks = append(tasks, fmt.Sprintf(`{"task": "Describe %s %d of the table", "agent": "explorer"}`, what, i+1))
		}
	}
	list := filepath.Join(t.TempDir(), "tasks.jsonl")
	require.NoError(t, os.WriteFile(list, []byte(strings.Join(tasks, "\n")), 0o600))

	server := w.sit(200, 5, "serve")
	server.shows("token=")
	address := regexp.MustCompile(`http://\S+`).FindString(server.text())
	b := chromium.Start(t)
	p := b.Page(chromium.View{Width: 1100, Height: 1060})
	p.Open(address)
	p.Reads("No runs yet")
	w.background("batch", "-j", "4", list)
	p.Reads("Batch of 42 tasks")

	w.env = append(w.env, "QQ_MAX_PARALLEL=3")
	prompt := w.sit(100, 30, question)
	prompt.shows("reads TIDES_STATION")
	prompt.press(down + down)
	prompt.matches(`›`)
	prompt.picture(filepath.Join(dir, "run.svg"), fmt.Sprintf("qq %q", question))

	top := w.sit(100, 22, "top")
	top.shows("slowest")
	top.shows("your approval")
	top.press(strings.Repeat(down, 5))
	top.picture(filepath.Join(dir, "top.svg"), "qq top")

	var run string
	p.Value(`[...document.querySelectorAll(".runs .name")].find(a => a.textContent.includes("Batch")).href`, &run)
	p.Open(run)
	p.Until(`document.body.dataset.live === "yes"`)
	p.Reads("errEmpty")
	shot := filepath.Join(t.TempDir(), "page.png")
	p.Shot(shot, false)
	smaller(t, shot, filepath.Join(dir, "page.png"))
	var size int64
	for _, name := range []string{"run.svg", "top.svg", "page.png"} {
		of, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		size += of.Size()
	}
	assert.LessOrEqual(t, size, int64(300_000))
}

// picture writes what is on the screen to a file.
func (s *seat) picture(path, title string) {
	s.Helper()
	time.Sleep(300 * time.Millisecond) // what the last key has changed is drawn
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NoError(s, os.WriteFile(path, []byte(s.screen.SVG(title)), 0o644))
}

// smaller writes a picture with at most 256 colours: the most frequent ones, and those next to the others.
func smaller(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	in, err := png.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	counts := map[color.RGBA]int{}
	each := func(do func(x, y int, c color.RGBA)) {
		for y := in.Bounds().Min.Y; y < in.Bounds().Max.Y; y++ {
			for x := in.Bounds().Min.X; x < in.Bounds().Max.X; x++ {
				do(x, y, color.RGBAModel.Convert(in.At(x, y)).(color.RGBA))
			}
		}
	}
	each(func(_, _ int, c color.RGBA) { counts[c]++ })
	var all []color.RGBA
	for c := range counts {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int { return cmp.Compare(counts[b], counts[a]) })
	palette, index := color.Palette{}, map[color.RGBA]uint8{}
	for _, c := range all[:min(256, len(all))] {
		palette = append(palette, c)
	}
	for _, c := range all {
		index[c] = uint8(palette.Index(c))
	}
	out := image.NewPaletted(in.Bounds(), palette)
	each(func(x, y int, c color.RGBA) { out.SetColorIndex(x, y, index[c]) })
	var b bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, out))
	require.NoError(t, os.WriteFile(to, b.Bytes(), 0o644))
}

// TestSVG: a picture is well-formed, has the text of the screen, and loads nothing.
func TestSVG(t *testing.T) {
	s := NewScreen(40, 4)
	s.Print("a <b> & \x1b[1mbold\x1b[0m\n  \x1b[7mchosen 漢字\x1b[0m \x1b[31mred\x1b[0m")
	text := s.SVG(`qq "x" & y`)
	var words []string
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if token == nil {
			require.EqualError(t, err, "EOF")
			break
		}
		if c, ok := token.(xml.CharData); ok && len(bytes.TrimSpace(c)) > 0 {
			words = append(words, string(c))
		}
	}
	assert.Equal(t, []string{"$ qq \"x\" & y", "a <b> &", "bold", "chosen 漢字", "red"},
		slices.DeleteFunc(words[2:], func(w string) bool { return w == "\n" }))
	assert.NotRegexp(t, `url\(|href|@import`, text)
}
