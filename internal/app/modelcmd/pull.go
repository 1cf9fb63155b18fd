package modelcmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/app/columns"
	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/internal/models"
	"qq/internal/models/servers"
	"qq/pkg/task"
)

func (r commands) pull(c *cli.Context) error {
	const example = "for example: qq models pull qwen3:4b"
	if c.NArg() != 1 {
		return command.Usagef(example, "qq models pull takes one model")
	}
	set, _, err := r.Configure(c)
	if err != nil {
		return err
	}
	at := r.reach(set)
	defer at.close()
	name, err := at.whole(c.Args().First())
	if err != nil {
		return err
	}
	if name == models.Auto || name == models.Extract {
		return command.Usagef(example, "%s is no model that can be downloaded", name)
	}
	if s := at.Server(name); s.Kind != servers.Ollama {
		return command.Usagef("load the model as the documents of the server say",
			"%s is no Ollama server: only Ollama gets models by name", s.Name)
	}
	client, own, err := at.Open(c.Context, name)
	if err != nil {
		return err
	}
	defer client.Close()
	registry, plain := strings.CutPrefix(own, "http://")
	if plain && !c.Bool("insecure") {
		return command.Usagef("if you trust the network between: --insecure",
			"the registry of %s has no certificate", registry)
	}
	name = strings.TrimSuffix(name, own) + strings.TrimPrefix(registry, "https://") // as the server calls it
	r.listen()
	bar := r.newBar()
	for p, err := range client.Pull(c.Context, own, c.Bool("insecure")) {
		if err != nil {
			bar.end()
			return pullError(err, name)
		}
		bar.show(p)
	}
	bar.end()
	r.Note("%s is there", name)
	if c.Bool("json") {
		return output.WriteJSON(r.Out, map[string]string{"model": name, "status": string(task.Completed)})
	}
	return nil
}

// pullError returns err with what to do.
func pullError(err error, name string) error {
	if s := task.StatusOf(err); s == task.Interrupted || s == task.Terminated {
		return task.Hinted("the same command goes on where it was", "%v: %s is not complete", err, name)
	}
	return err
}

// bar shows how far a pull is: on a terminal a line that is redrawn, elsewhere lines.
type bar struct {
	commands
	redrawn bool
	last    models.Pulled
	since   time.Time // when the download of the file began
	first   int64     // what was there then
	told    time.Time // when something was last printed
}

// tellEvery is how often a download is told of where no line can be redrawn.
const tellEvery = 10 * time.Second

// longestStatus is how many characters of what the server says are shown.
const longestStatus = 300

func (r commands) newBar() *bar { return &bar{commands: r, redrawn: r.Coloured(r.Err) && !r.Quiet} }

// show shows p.
func (b *bar) show(p models.Pulled) {
	now := time.Now()
	other := p.Status != b.last.Status || p.Digest != b.last.Digest
	if other {
		b.since, b.first = now, p.Done
	}
	b.last = p
	switch {
	case b.redrawn && (other || now.Sub(b.told) >= output.RedrawEvery):
		b.told = now
		b.Err.Status(b.line(now))
	case !b.redrawn && (other || now.Sub(b.told) >= tellEvery):
		b.told = now
		b.Note("%s", strings.Join(b.parts(now), ", "))
	}
}

// end removes the line.
func (b *bar) end() {
	if b.redrawn {
		b.Err.Status("")
	}
}

// share returns how many of n parts are there. A server may say any number of bytes, also one whose product overflows.
func (b *bar) share(n int) int {
	done := min(max(b.last.Done, 0), b.last.Total)
	return int(float64(n) * float64(done) / float64(b.last.Total))
}

// parts returns what is known, the most important first.
func (b *bar) parts(now time.Time) []string {
	p := b.last
	parts := []string{task.Shorten(output.OneLine(p.Status), longestStatus)}
	if p.Total <= 0 {
		return parts
	}
	done := min(max(p.Done, 0), p.Total)
	parts = append(parts, fmt.Sprintf("%d%% of %s", b.share(100), bytes(p.Total)))
	if passed := now.Sub(b.since); passed > time.Second && done > b.first && done < p.Total {
		speed := float64(done-b.first) / passed.Seconds()
		left := time.Duration(float64(p.Total-done) / speed * float64(time.Second))
		parts = append(parts, output.Left(left)+" left", bytes(int64(speed))+"/s")
	}
	return parts
}

// line returns the parts that have room on the terminal, and a bar if it has room too.
func (b *bar) line(now time.Time) string {
	width := b.Err.Width() - 3 // for the ^C that a terminal echoes
	if width <= 0 {
		width = 77
	}
	parts := b.parts(now)
	text := parts[0]
	for _, part := range parts[1:] {
		if columns.Of(text)+columns.Of(part)+2 <= width {
			text += ", " + part
		}
	}
	if room := min(width-columns.Of(text)-3, 30); b.last.Total > 0 && room >= 10 {
		filled := b.share(room)
		text += " [" + strings.Repeat("=", filled) + strings.Repeat(" ", room-filled) + "]"
	}
	return columns.Cut(text, width)
}
