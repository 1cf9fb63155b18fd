package runs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/internal/record/history"
	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// Bounds of a comparison for people. With --json there are none.
const (
	maxPairs   = 200 // in the table
	maxAnswers = 10  // pairs whose answers are shown
)

// compared is the JSON of a comparison.
type compared struct {
	A     history.Run    `json:"a"`
	B     history.Run    `json:"b"`
	Pairs []history.Pair `json:"pairs"`
}

func (r runs) diffRuns(c *cli.Context) error {
	if c.NArg() != 2 {
		return command.Usagef("qq runs list shows them", "%s takes two ids", c.Command.HelpName)
	}
	return r.inLedger(c, func(led *ledger.Ledger, o layout) error {
		h := history.New(led, o.Home)
		var two [2]history.Run
		for i := range two {
			var err error
			if two[i], err = h.Run(c.Args().Get(i)); err != nil {
				return runsError(fmt.Errorf("diff %w", err))
			}
		}
		a, b := two[0], two[1]
		if (a.Batch == nil) != (b.Batch == nil) {
			return command.Usagef("give two batches, or two runs: qq runs tree "+c.Args().First()+" shows those of one",
				"diff: a batch and a run cannot be compared")
		}
		pairs, err := h.Compare(a, b)
		if err != nil {
			return err
		}
		if o.JSON {
			a.Jobs, b.Jobs = []*history.Job{}, []*history.Job{} // the pairs have them
			return output.WriteJSON(r.Out, compared{a, b, pairs})
		}
		return o.write(r.Out, o.comparison(a, b, pairs))
	})
}

// comparison returns the lines about two runs.
func (o layout) comparison(a, b history.Run, pairs []history.Pair) []string {
	lines := output.Table{{"A", o.heading(a)}, {"B", o.heading(b)}}.Lines(o.width())
	same, differ := 0, []history.Pair{}
	for _, p := range pairs {
		if p.Same {
			same++
		} else {
			differ = append(differ, p)
		}
	}
	lines = append(lines, "", fmt.Sprintf("%d of %d answers are the same", same, len(pairs)), "")
	t := output.Table{{"answer", "status", "time", "tokens", "cost", "calls", "agent", "task"}}
	for _, p := range pairs[:min(len(pairs), maxPairs)] {
		t = append(t, o.pair(p))
	}
	if !slices.ContainsFunc(pairs, func(p history.Pair) bool {
		return p.A != nil && p.A.Usage.Cost > 0 || p.B != nil && p.B.Usage.Cost > 0
	}) {
		drop(t, 4)
	}
	lines = append(lines, t.Lines(o.width())...)
	if more := len(pairs) - maxPairs; more > 0 {
		lines = append(lines, fmt.Sprintf("(%d more: --json has all)", more))
	}
	for _, p := range differ[:min(len(differ), maxAnswers)] {
		lines = append(lines, o.answers(p)...)
	}
	if more := len(differ) - maxAnswers; more > 0 {
		lines = append(lines, "", fmt.Sprintf("(%d more differ: --json has all answers)", more))
	}
	return lines
}

// heading is what a run is, on one line.
func (o layout) heading(r history.Run) string {
	if r.Batch == nil {
		j := r.Jobs[0]
		return fmt.Sprintf("run %s, %s, %s, %s, %s tokens", short(j.ID), o.moment(minute, j.Started),
			output.OneLine(cmp.Or(j.Model, "no model")), o.took(j.Run), tokens(j.TotalUsage))
	}
	return fmt.Sprintf("batch %s, %s, %d tasks, %s, %s tokens", short(r.ID), o.moment(minute, r.Batch.Started),
		r.Batch.Count, output.OneLine(string(r.Batch.Status)), tokens(r.Usage()))
}

// pair is the row of two jobs. A value that both have stands once.
func (o layout) pair(p history.Pair) []string {
	both := func(value func(s *history.Side) string) string {
		a, b := "-", "-"
		if p.A != nil {
			a = value(p.A)
		}
		if p.B != nil {
			b = value(p.B)
		}
		if a == b {
			return a
		}
		return a + " → " + b
	}
	answer := "differs"
	switch {
	case p.A == nil:
		answer = "only B"
	case p.B == nil:
		answer = "only A"
	case p.Same:
		answer = "same"
	}
	one := cmp.Or(p.A, p.B)
	return []string{
		answer, both(func(s *history.Side) string { return o.status(s.Run) }),
		both(func(s *history.Side) string { return o.took(s.Run) }),
		both(func(s *history.Side) string { return tokens(s.Usage) }),
		both(func(s *history.Side) string { return output.Cost(s.Usage) }),
		both(func(s *history.Side) string { return fmt.Sprint(calls(s.Did)) }),
		strings.Repeat("  ", min(p.Depth, maxNested)) +
			both(func(s *history.Side) string { return o.brief(s.Agent, 16) }),
		o.text(one.Task),
	}
}

// calls is how often an agent called tools.
func calls(did *task.Did) (n int) {
	if did != nil {
		for _, one := range did.Calls {
			n += one
		}
	}
	return n
}

// answers shows the answers of two jobs side by side, below what is known about both.
func (o layout) answers(p history.Pair) []string {
	var heads, answers [2]string
	for i, s := range []*history.Side{p.A, p.B} {
		name := string(rune('A' + i))
		if s == nil {
			heads[i] = name + ": no such job"
			continue
		}
		heads[i], answers[i] = o.side(name, s), s.Answer
	}
	text := output.Beside(heads[0], heads[1], answers[0], answers[1], o.width())
	head := []string{"", "── " + o.text(cmp.Or(p.A, p.B).Task)}
	return append(head, strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
}

// side is what is known about a job, besides its answer.
func (o layout) side(name string, s *history.Side) string {
	text := fmt.Sprintf("%s: %s, %s, %s\n%s, %s, %s tokens", name, short(s.ID), o.brief(s.Agent, 16),
		output.OneLine(cmp.Or(s.Model, "no model")), o.status(s.Run), o.took(s.Run), tokens(s.Usage))
	if called := output.Calls(s.Did); called != "" {
		text += "\n" + called
	}
	if s.Error != "" {
		text += "\n" + s.Error
	}
	return text
}
