package history

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"qq/internal/record/ledger"
)

// Pair is a job of one run and the job of another run for the same task. One of them may be missing.
type Pair struct {
	Depth int   `json:"depth"`
	A     *Side `json:"a"`
	B     *Side `json:"b"`
	// Same says that both have the same answer, byte for byte.
	Same bool `json:"same"`
}

// Side is a job of a [Pair], with its whole answer. The jobs below it are pairs of their own.
type Side struct {
	ledger.Run
	ledger.Outcome
	Answer string `json:"answer"`
}

// Compare pairs the jobs of two runs. Each pair is followed by those of what its jobs have handed on. Jobs belong
// together that have the same task, of the same agent if possible. What is left over in two batches is paired by its
// number, and two prompts belong together whatever they say. Of a task that was run several times, because its batch
// was resumed, the last run counts.
func (h History) Compare(a, b Run) ([]Pair, error) {
	c := comparison{from: h}
	left, right := a.Latest().Jobs, b.Latest().Jobs
	whole := len(left) == 1 && len(right) == 1
	err := c.level(left, right, 0, func(x, y *Job) bool {
		return whole || a.Batch != nil && b.Batch != nil && x.Index == y.Index
	})
	return c.pairs, err
}

// Latest returns the run without the tasks of its batch that were run again, in the order of the batch.
func (r Run) Latest() Run {
	if r.Batch == nil {
		return r
	}
	last := map[int]*Job{}
	for _, j := range r.Jobs {
		last[j.Index] = j
	}
	r.Jobs = slices.DeleteFunc(slices.Clone(r.Jobs), func(j *Job) bool { return last[j.Index] != j })
	r.Sort()
	return r
}

// Sort puts the tasks of a batch into the order of the batch.
func (r Run) Sort() {
	if r.Batch != nil {
		slices.SortStableFunc(r.Jobs, func(a, b *Job) int { return cmp.Compare(a.Index, b.Index) })
	}
}

// comparison collects pairs.
type comparison struct {
	from  History
	pairs []Pair
}

// level pairs the jobs of two lists, in the order of the first one. other says which of those belong together that have
// different tasks.
func (c *comparison) level(a, b []*Job, depth int, other func(x, y *Job) bool) error {
	rules := []func(x, y *Job) bool{
		func(x, y *Job) bool { return x.Task == y.Task && x.Agent == y.Agent && x.Index == y.Index },
		func(x, y *Job) bool { return x.Task == y.Task && x.Agent == y.Agent },
		func(x, y *Job) bool { return x.Task == y.Task },
		other,
	}
	found, taken := map[*Job]*Job{}, map[*Job]bool{}
	for n, same := range rules {
		at := map[string][]*Job{} // those with a task, so that a large batch is not searched for each
		for _, y := range b {
			if !taken[y] {
				at[key(y, n)] = append(at[key(y, n)], y)
			}
		}
		for _, x := range a {
			if found[x] != nil {
				continue
			}
			candidates := at[key(x, n)]
			i := slices.IndexFunc(candidates, func(y *Job) bool { return !taken[y] && same(x, y) })
			if i >= 0 {
				found[x], taken[candidates[i]] = candidates[i], true
			}
		}
	}
	for _, x := range a {
		if err := c.add(x, found[x], depth); err != nil {
			return err
		}
	}
	for _, y := range b {
		if !taken[y] {
			if err := c.add(nil, y, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// key is what two jobs that the rule with the number n pairs have in common.
func key(j *Job, n int) string {
	if n < 3 {
		return j.Task
	}
	return ""
}

// add adds the pair of two jobs and those of what they have handed on.
func (c *comparison) add(a, b *Job, depth int) error {
	p := Pair{Depth: depth}
	var below [2][]*Job
	for i, j := range []*Job{a, b} {
		if j == nil {
			continue
		}
		text, err := c.from.answer(j)
		if err != nil {
			return err
		}
		side := &Side{Run: j.Run, Outcome: j.Outcome, Answer: text}
		side.Summary = "" // the answer has it
		if below[i] = j.Jobs; i == 0 {
			p.A = side
		} else {
			p.B = side
		}
	}
	p.Same = p.A != nil && p.B != nil && p.A.Status.Final() && p.B.Status.Final() && p.A.Answer == p.B.Answer
	c.pairs = append(c.pairs, p)
	return c.level(below[0], below[1], depth+1, func(x, y *Job) bool { return x.Agent == y.Agent })
}

// answer returns the whole answer of a job. Most are short, so that the job has it already.
func (h History) answer(j *Job) (string, error) {
	if utf8.RuneCountInString(j.Summary) < ledger.MaxSummary {
		return j.Summary, nil
	}
	res, _, err := h.Answer(j.ID)
	return res.Output, err
}
