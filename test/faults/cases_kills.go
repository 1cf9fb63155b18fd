package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// volatile matches what may differ between two runs of the same tasks: ids, times, attempts and
// tokens.
var volatile = regexp.MustCompile(
	`"(?:execution_id|parent_execution_id|batch_id)": ?"[^"]*"|,?\s*"waited_ms": ?\d+|` +
		`"(?:duration_ms|queued_ms|first_ms|took_ms|attempts|input_tokens|output_tokens)": ?\d+`)

// rootKilledAllOutputs: in each round the root of a batch is killed at random moments, and the batch
// is resumed until it is done. The rounds go through all output formats, with and without --results
// and --joblog. The agents act: each runs a command that writes a file. All output is that of an
// undisturbed run, and nothing of qq is left beside it.
func rootKilledAllOutputs(s *stage) error {
	formats := []string{"text", "json", "jsonl", "markdown"}
	rounds := s.pick(30, 5)
	for i := range rounds {
		k := killed{s: s, format: formats[i%len(formats)], results: i/len(formats)%2 == 0, joblog: i%3 != 0, n: 24}
		k.name = fmt.Sprintf("round %d (%s, --results %v, --joblog %v)", i+1, k.format, k.results, k.joblog)
		if err := k.play(i); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	s.note("%d rounds, %d kills", rounds, s.kills)
	return nil
}

// killed is one round of rootKilledAllOutputs.
type killed struct {
	s               *stage
	name            string
	format          string
	results, joblog bool
	n               int // tasks
	tasks           string
}

func (k *killed) play(round int) error {
	var text strings.Builder
	for i := range k.n {
		fmt.Fprintf(&text, `{"task":"{\"Tool\":\"run_pty_cmd\",\"Times\":1,\"Arguments\":{\"command\":\"sleep 0.0%d; echo %d > file-%d; echo did %d\"}}",`+
			`"agent":"executor","idempotent":true}`+"\n", i%4, i, i, i)
	}
	var err error
	if k.tasks, err = k.s.file(fmt.Sprintf("tasks-%d.jsonl", round), text.String()); err != nil {
		return err
	}
	want := filepath.Join(k.s.work, fmt.Sprintf("want-%d", round))
	p, err := k.start(want, "undisturbed-home")
	if err != nil {
		return err
	}
	if e, err := p.wait(); err != nil || e.code != 0 {
		return errors.Join(err, fmt.Errorf("the undisturbed run: exit code %d: %.500s", e.code, e.stderr))
	}
	got := filepath.Join(k.s.work, fmt.Sprintf("got-%d", round))
	for range 1 + k.s.random.IntN(4) {
		p, err := k.start(got, "home", "--resume")
		if err != nil {
			return err
		}
		time.Sleep(time.Duration(k.s.random.IntN(600)) * time.Millisecond)
		_ = p.cmd.Process.Kill() // it may have ended
		if _, err := p.wait(); err != nil {
			return err
		}
		k.s.gone()
		k.s.kills++
	}
	if p, err = k.start(got, "home", "--resume"); err != nil {
		return err
	}
	e, err := p.wait()
	if err != nil {
		return err
	}
	k.s.row.played, k.s.row.exit, k.s.row.requests = true, e.code, k.s.server.Asked()
	k.s.expect(e.code == 0, "%s: the last run: exit code %d: %.500s", k.name, e.code, e.stderr)
	return k.compare(want, got)
}

// start starts the batch with its output in dir, or resumes it.
func (k *killed) start(dir, home string, more ...string) (*process, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	args := []string{"batch", "--model", "ollama:script", "-j", "4", "--no-bar", "--auto-approve", "--output-format", k.format,
		"-o", filepath.Join(dir, "out")}
	if k.results {
		args = append(args, "--results", filepath.Join(dir, "results"))
	}
	if k.joblog {
		args = append(args, "--joblog", filepath.Join(dir, "joblog"))
	}
	return k.s.start([]string{"QQ_HOME=" + filepath.Join(k.s.dir, home)}, append(append(args, more...), k.tasks)...)
}

// compare compares all files of two runs.
func (k *killed) compare(want, got string) error {
	expected, err := contents(want)
	if err != nil {
		return err
	}
	actual, err := contents(got)
	if err != nil {
		return err
	}
	for name, text := range actual {
		if other, ok := expected[name]; !ok {
			k.s.expect(false, "%s: %s was left behind", k.name, name)
		} else if other != text {
			k.s.expect(false, "%s: %s (%d bytes) is not that of an undisturbed run (%d bytes)", k.name, name, len(text),
				len(other))
		}
	}
	for name := range expected {
		_, ok := actual[name]
		k.s.expect(ok, "%s: %s is missing", k.name, name)
	}
	for i := range k.n {
		b, _ := os.ReadFile(filepath.Join(k.s.work, fmt.Sprintf("file-%d", i)))
		k.s.expect(string(b) == fmt.Sprintf("%d\n", i), "%s: file-%d holds %.20q", k.name, i, b)
	}
	return nil
}

// contents returns the text of each file below dir, without what may differ between two runs. A job
// log is one of the order in which tasks end: what counts is which tasks it has.
func contents(dir string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name := strings.TrimPrefix(path, dir)
		if files[name] = volatile.ReplaceAllString(string(b), ""); name == "/joblog" {
			files[name] = finished(string(b))
		}
		return err
	})
	return files, err
}

// finished returns the numbers of the tasks that a job log reports as done, each once.
func finished(joblog string) string {
	var done []string
	for line := range strings.Lines(joblog) {
		if f := strings.Split(line, "\t"); len(f) > 7 && f[6] == "0" && f[7] == "0" {
			done = append(done, f[0])
		}
	}
	slices.Sort(done)
	return strings.Join(slices.Compact(done), " ")
}
