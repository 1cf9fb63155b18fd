// Package report writes the report of a batch: a file in Markdown that says how many tasks ended how, and has a section
// for each task, in the order of the input.
//
// Flow: [Open] before the first task, [Report.Add] with each result, [Report.End] at the end of the batch, also of one
// that was ended early. Only then the file is there, whole: another file of that name is replaced at that moment.
package report

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"qq/internal/app/command"
	"qq/pkg/task"
)

// Report is a report that is being written. A nil Report drops everything.
type Report struct {
	path     string
	file     *os.File // gets the report
	sections *os.File // of the tasks so far; it has no name any more
	w        *bufio.Writer
	counts   task.Counts
	detail   map[string]map[string]int // how many of each of the counts ended how, where that has another name
	err      error                     // the first one
}

// Scratch makes a folder for temporary files.
type Scratch interface{ Scratch() (string, error) }

// Open begins the report that is to be the file path, which is none of those in taken. Without a path there is none.
func Open(path string, s Scratch, taken []string) (*Report, error) {
	if path == "" {
		return nil, nil
	}
	const hint = "--report takes a file that you may write; its folder has to be there"
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, command.Usagef(hint, "--report %s is no regular file", path)
	}
	for _, name := range taken {
		other, otherErr := os.Stat(name)
		if name == path || otherErr == nil && os.SameFile(info, other) {
			return nil, command.Usagef("give another file with --report", "--report would overwrite %s", name)
		}
	}
	scratch, err := s.Scratch()
	if err != nil {
		return nil, err
	}
	r := &Report{path: path}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return nil, command.Usagef(hint, "--report %s: there is no folder %s", path, filepath.Dir(path))
	}
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"-"+rand.Text())
	if r.file, err = os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666); err != nil { // less the umask
		return nil, command.Usagef(hint, "--report %s: %v", path, unwrapped(err))
	}
	if r.sections, err = os.CreateTemp(scratch, "report-*"); err == nil {
		err = os.Remove(r.sections.Name())
	}
	if err != nil {
		r.Drop()
		return nil, task.Machine("", "begin the report: %w", err)
	}
	r.w = bufio.NewWriter(r.sections)
	return r, nil
}

// unwrapped returns the cause of an error about a file that the person has not named.
func unwrapped(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// Drop removes what there is of the report, unless it has ended.
func (r *Report) Drop() {
	if r == nil || r.file == nil {
		return
	}
	r.file.Close()
	_ = os.Remove(r.file.Name())
	r.file = nil
	r.sections.Close() // nil is no harm
}

// Add adds the section of t, which has ended with res.
func (r *Report) Add(t task.Task, res task.Result) {
	if r == nil {
		return
	}
	r.count(res)
	_, err := r.w.WriteString(section(t, res))
	r.err = errors.Join(r.err, err)
}

// notStarted is what is said instead of the status of a task that was not started.
const notStarted = "not started"

// ended returns how a task ended, as the last line of the batch says it.
func ended(res task.Result) string {
	if res.NotStarted() {
		return notStarted
	}
	return string(res.Status)
}

// count counts a result.
func (r *Report) count(res task.Result) {
	r.counts.Add(res.Status)
	var one task.Counts
	one.Add(res.Status)
	group := one.Words()[0].What
	if r.detail[group] == nil {
		if r.detail == nil {
			r.detail = map[string]map[string]int{}
		}
		r.detail[group] = map[string]int{}
	}
	r.detail[group][ended(res)]++
}

// head returns the counts: such as "3 tasks: 1 completed, 2 cancelled (1 interrupted, 1 not started)".
func (r *Report) head() string {
	return r.counts.Text(func(group string) string {
		all := r.detail[group]
		if len(all) == 1 {
			if all[group] > 0 {
				return ""
			}
			for name := range all {
				return " (" + name + ")"
			}
		}
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(all)) {
			parts = append(parts, fmt.Sprintf("%d %s", all[name], name))
		}
		return " (" + strings.Join(parts, ", ") + ")"
	})
}

// End writes the report. took is how long the batch took.
func (r *Report) End(took time.Duration) error {
	if r == nil || r.file == nil {
		return nil
	}
	defer r.Drop()
	err := errors.Join(r.err, r.w.Flush())
	if err == nil {
		_, err = r.sections.Seek(0, io.SeekStart)
	}
	if err == nil {
		_, err = fmt.Fprintf(r.file, "# Report of a batch\n\n%s, in %s\n", r.head(), roundly(took))
	}
	if err == nil {
		_, err = io.Copy(r.file, r.sections)
	}
	if err == nil {
		err = r.file.Sync()
	}
	if err == nil {
		err = os.Rename(r.file.Name(), r.path)
	}
	if err != nil {
		return task.Machine("free some space, or name another file", "write the report %s: %w", r.path, err)
	}
	return nil
}

// section is what the report says about one task. Its heading is what the person wrote, without the results of others.
func section(t task.Task, res task.Result) string {
	var b strings.Builder
	id := ""
	if t.ID != "" {
		id = line(t.ID) + ": "
	}
	fmt.Fprintf(&b, "\n## %d. %s%s\n\n**%s** · %s", res.Index+1, id, line(t.Brief()), ended(res), line(res.Agent))
	if res.DurationMS > 0 {
		b.WriteString(" · " + roundly(time.Duration(res.DurationMS)*time.Millisecond))
	}
	b.WriteString("\n")
	if !res.Success {
		b.WriteString("\n" + plain(line(task.Line(res.Err()))) + "\n")
	}
	var facts []string
	for _, f := range res.ChangedFiles {
		facts = append(facts, "changed "+code(f))
	}
	if res.Did != nil {
		for _, c := range res.Did.Commands {
			what := "ran "
			if c.Check {
				what = "checked with "
			}
			fact := fmt.Sprintf("%s%s: exit code %d", what, code(c.Line), c.ExitCode)
			facts = append(facts, fact+printed(c.Output))
		}
		if n := res.Did.MoreCommands; n > 0 {
			facts = append(facts, fmt.Sprintf("ran %d more commands", n))
		}
	}
	for _, w := range res.Warnings {
		facts = append(facts, "warning: "+line(w))
	}
	if len(facts) > 0 {
		b.WriteString("\n- " + strings.Join(facts, "\n- ") + "\n")
	}
	if text := strings.TrimSpace(command.Printable(res.Output)); text != "" {
		b.WriteString("\n" + quoted(text))
	}
	return b.String()
}

// printed returns what a check has printed, as code below an item of a list.
func printed(text string) string {
	text = strings.TrimRight(command.Printable(text), "\n")
	if text == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n")
	for l := range strings.SplitSeq(text, "\n") {
		b.WriteString("\n" + strings.TrimRight("      "+strings.ReplaceAll(l, "\r", " "), " "))
	}
	return b.String()
}

// roundly returns d in milliseconds below a second, else in tenths of a second.
func roundly(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// line returns text on one line.
func line(text string) string { return command.Printable(strings.Join(strings.Fields(text), " ")) }

// plain returns a line that Markdown takes as text, whatever it begins with.
func plain(line string) string {
	if strings.ContainsAny(line[:min(len(line), 1)], "#<>=-+*_~`|&[") {
		line = `\` + line
	}
	return line
}

// quoted returns an answer as a quotation: nothing in it begins a section of the report, or hides those that follow.
func quoted(text string) string {
	var b strings.Builder
	for l := range strings.SplitSeq(text, "\n") {
		b.WriteString(strings.TrimRight("> "+strings.ReplaceAll(l, "\r", " "), " ") + "\n")
	}
	return b.String()
}

// code returns text as code.
func code(text string) string {
	text = line(text)
	mark := "`"
	for strings.Contains(text, mark) {
		mark += "`"
	}
	if len(mark) > 1 {
		text = " " + text + " "
	}
	return mark + text + mark
}
