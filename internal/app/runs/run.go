package runs

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"qq/internal/app/command"
	"qq/internal/app/figures"
	"qq/internal/app/output"
	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// Limits on how much of an answer qq runs show prints, in lines and bytes.
const (
	endLines = 20
	endBytes = 4000
)

// document is the JSON output of qq runs show: everything known about one run.
type document struct {
	Run      ledger.Run          `json:"run"`
	Attempts []ledger.AttemptRow `json:"attempts"`
	Result   *task.Result        `json:"result"` // null without a result
	Shares   []ledger.Share      `json:"shares,omitempty"`
}

// printRun prints everything known about one run. A zero result means that the run has
// none.
func printRun(w io.Writer, r ledger.Run, attempts []ledger.AttemptRow, result task.Result, o layout) error {
	if o.JSON {
		doc := document{Run: r, Attempts: append([]ledger.AttemptRow{}, attempts...), Shares: o.Shares}
		if result.Status != "" {
			doc.Result = &result
		}
		return output.WriteJSON(w, doc)
	}
	fields := output.Table{}
	field := func(name, value string) {
		if value != "" {
			fields = append(fields, []string{name, value})
		}
	}
	field("run", output.OneLine(r.ID))
	field("status", o.status(r))
	field("agent", output.OneLine(r.Agent))
	field("model", output.OneLine(r.Model))
	field("session", output.OneLine(r.Session))
	if r.Batch != "" {
		field("batch", fmt.Sprintf("%s, task %d", output.OneLine(r.Batch), r.Index+1))
	}
	field("parent", output.OneLine(r.Parent))
	field("root", output.OneLine(r.Root))
	if r.Depth > 0 {
		field("depth", fmt.Sprint(r.Depth))
	}
	for _, t := range []struct {
		name string
		at   time.Time
	}{{"queued", r.Queued}, {"started", r.Started}, {"ended", r.Ended}} {
		if !t.at.IsZero() {
			field(t.name, o.moment(second, t.at))
		}
	}
	field("time", o.took(r)+waited(r))
	if all := r.TotalUsage; all != (task.Usage{}) {
		text, cost := output.Usage(all), output.WholeCost(all)
		if own := r.Usage; own != all {
			text += " (its own: " + output.Usage(own) + ")"
			if costs := output.WholeCost(own); cost != "" && costs != "" {
				cost += " (its own: " + costs + ")"
			}
		}
		field("tokens", text)
		field("cost", cost)
	}
	resultFields(field, result)
	lines := fields.Lines(0)
	section := func(title string, body []string) { // an empty section is left out
		if len(body) > 0 {
			lines = append(append(lines, "", "── "+title), body...)
		}
	}
	section("task", split(r.Task))
	lines = append(lines, used(o.Shares)...)
	section("earlier attempts", o.attempts(attempts))
	section("error", split(cmp.Or(result.Err(), r.Error)))
	section(answer(r, result))
	return o.write(w, lines)
}

// resultFields calls field for the values that only a finished run has.
func resultFields(field func(name, value string), result task.Result) {
	if result.Status == "" {
		return
	}
	field("exit code", fmt.Sprint(result.ExitCode))
	if result.Cached {
		field("cached", "nothing was run: an earlier result holds")
	}
	files := make([]string, len(result.ChangedFiles))
	for i, f := range result.ChangedFiles {
		files[i] = output.OneLine(f)
	}
	field("changed", strings.Join(files, ", "))
	didFields(field, result.Did)
	for _, warning := range result.Warnings {
		field("warning", output.OneLine(warning))
	}
}

// didFields calls field for what the agent did.
func didFields(field func(name, value string), did *task.Did) {
	if did == nil {
		return
	}
	field("did", output.Calls(did))
	for _, c := range did.Commands {
		what := ""
		if c.Check {
			what = "the check, "
		}
		field("ran", fmt.Sprintf("%s (%sexit code %d)", output.OneLine(c.Line), what, c.ExitCode))
	}
	if did.MoreCommands > 0 {
		field("ran", fmt.Sprintf("%d more commands", did.MoreCommands))
	}
}

func waited(r ledger.Run) string {
	if r.QueuedMS < 50 {
		return ""
	}
	return ", after " + figures.Roundly(time.Duration(r.QueuedMS)*time.Millisecond) + " in the queue"
}

func (o layout) attempts(all []ledger.AttemptRow) []string {
	t := output.Table{}
	for _, a := range all {
		t = append(t, []string{fmt.Sprint(a.Number), o.moment(second, a.Started), output.OneLine(string(a.Status)),
			figures.Roundly(a.Ended.Sub(a.Started)), output.OneLine(a.Error)})
	}
	return t.Lines(o.width())
}

// answer returns the end of the output of a run, and a title that says where the rest is.
// Both are empty if there is no output.
func answer(r ledger.Run, result task.Result) (title string, body []string) {
	text, where := result.Output, "--json prints all of it"
	if result.Status == "" {
		text, where = r.Summary, "--json prints more of it"
	}
	if result.OutputFile != "" {
		where = "all of it is in " + output.OneLine(result.OutputFile)
	}
	all := split(text)
	from, size := len(all), 0
	for from > max(0, len(all)-endLines) && size+len(all[from-1]) <= endBytes {
		from--
		size += len(all[from])
	}
	switch {
	case len(all) == 0:
		return "", nil
	case from == len(all): // even the last line is too long
		last := all[from-1]
		return "the end of the output (" + where + ")",
			[]string{"..." + strings.ToValidUTF8(last[len(last)-endBytes:], "")}
	case from > 0:
		return fmt.Sprintf("the end of the output, %d of %d lines (%s)", len(all)-from, len(all), where), all[from:]
	case result.OutputFile != "":
		return "output (" + where + ")", all
	}
	return "output", all
}

// split returns the lines of text, without characters that could control the terminal. It
// returns nil if text is blank.
func split(text string) []string {
	text = strings.Trim(command.Printable(text), "\n")
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
