package runs

import (
	"fmt"
	"io"
	"slices"

	"qq/internal/app/output"
	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// used are the sections about what each agent used, and what was used at each depth.
func used(shares []ledger.Share) []string {
	return append(
		summed("── used by each agent", shares, func(s ledger.Share) string { return output.OneLine(s.Agent) }),
		summed("── used at each depth", shares, func(s ledger.Share) string { return fmt.Sprint(s.Depth) })...)
}

// summed is a section with a line for each name that shares have, in the order of the first of that name. With a
// single name there is none: it would say what the whole used.
func summed(title string, shares []ledger.Share, name func(ledger.Share) string) []string {
	var names []string
	sums := map[string]ledger.Share{}
	for _, s := range shares {
		key := name(s)
		sum, known := sums[key]
		if !known {
			names = append(names, key)
		}
		sums[key] = ledger.Share{Runs: sum.Runs + s.Runs, Usage: sum.Usage.Add(s.Usage)}
	}
	if len(names) < 2 {
		return nil
	}
	t := output.Table{}
	for _, key := range names {
		s := sums[key]
		runs := fmt.Sprintf("%d runs", s.Runs)
		if s.Runs == 1 {
			runs = "1 run"
		}
		t = append(t, []string{key, runs, output.Usage(s.Usage), output.WholeCost(s.Usage)})
	}
	return append([]string{"", title}, t.Lines(0)...)
}

// printUsed prints what the runs of a batch used, all together, if that is more than its row says.
func (o layout) printUsed(w io.Writer, all task.Usage) error {
	lines := used(o.Shares)
	if all.CachedTokens > 0 || all.Cost > 0 {
		lines = append([]string{"", output.Account(all)}, lines...)
	}
	return o.write(w, lines)
}

// drop removes a column.
func drop(t output.Table, column int) {
	for i := range t {
		t[i] = slices.Delete(t[i], column, column+1)
	}
}
