package runs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/figures"
	"qq/internal/app/output"
	"qq/internal/app/runs/filter"
	"qq/internal/record/history"
	"qq/internal/record/ledger"
	"qq/pkg/task"
)

func (r runs) statsOfRuns(c *cli.Context) error {
	if c.Args().Present() {
		return command.NoCommand(c)
	}
	f, err := filter.Read(c, time.Now())
	if err != nil {
		return err
	}
	return r.inLedger(c, func(led *ledger.Ledger, o layout) error {
		if f.Batch != "" {
			b, err := led.Find(f.Batch)
			if err != nil {
				return runsError(err)
			}
			f.Batch = b.ID
		}
		list, err := history.New(led, o.Home).Stats(f)
		if err != nil {
			return err
		}
		if o.JSON {
			return output.WriteJSON(r.Out, list)
		}
		if len(list) == 0 {
			r.Say("no runs")
			return nil
		}
		return o.write(r.Out, o.stats(list))
	})
}

// stats returns a table with a row for each agent with a model. The most used come first.
func (o layout) stats(list []history.Figures) []string {
	slices.SortStableFunc(list, func(a, b history.Figures) int { return cmp.Compare(b.Runs, a.Runs) })
	t := output.Table{{"agent", "model", "runs", "completed", "first token", "time", "tokens", "cost", "repeated",
		"cached", "others"}}
	costs, cached := false, false
	for _, f := range list {
		first, mean := "-", "-"
		if f.Time.Answers > 0 {
			first = fmt.Sprintf("%.2fs", f.Time.First().Seconds())
		}
		if f.Ended() > 0 {
			mean = figures.Roundly(f.Mean())
		}
		costs, cached = costs || f.Usage.Cost > 0, cached || f.Cached > 0
		t = append(t, []string{
			o.brief(f.Agent, 20), o.brief(f.Model, 32), fmt.Sprint(f.Runs), success(f), first, mean, tokens(f.Usage),
			output.Cost(f.Usage), fmt.Sprint(f.Repeated), fmt.Sprint(f.Cached), others(f.Statuses),
		})
	}
	if !cached {
		drop(t, 9)
	}
	if !costs {
		drop(t, 7)
	}
	return t.Lines(o.width())
}

// success is the share of the runs that were completed, of those that ended by themselves.
func success(f history.Figures) string {
	if f.Ended() == 0 {
		return "-"
	}
	return fmt.Sprintf("%d%%", 100*f.Statuses[task.Completed]/f.Ended())
}

// others are the statuses of the runs that were not completed, the most frequent first.
func others(counts map[task.Status]int) string {
	var parts []string
	names := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(names, func(a, b task.Status) int { return cmp.Compare(counts[b], counts[a]) })
	for _, s := range names {
		if s != task.Completed {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], output.OneLine(string(s))))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}
