package longtext

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/pkg/llm"
	"qq/pkg/task"
)

// children is a caller that records what it is asked to run.
type children struct {
	levels [][]task.Task
	answer func(t task.Task) task.Result
}

// summarizer is a function as Children.
type summarizer func(ctx context.Context, tasks []task.Task) []task.Result

func (f summarizer) Summarize(ctx context.Context, tasks []task.Task) []task.Result {
	return f(ctx, tasks)
}

func (c *children) summarize(_ context.Context, tasks []task.Task) []task.Result {
	c.levels = append(c.levels, tasks)
	var results []task.Result
	for _, t := range tasks {
		results = append(results, c.answer(t))
	}
	return results
}

func done(t task.Task, output string) task.Result {
	r := t.Ended(task.Completed, "")
	r.Output = output
	return r
}

// head is a summarizer that answers with the first n characters of the context.
func head(n int) func(task.Task) task.Result {
	return func(t task.Task) task.Result { return done(t, "S "+t.Context[:min(n, len(t.Context))]) }
}

// document is a text with that many sections, each of which contains its number.
func document(sections int) string {
	var b strings.Builder
	for i := range sections {
		fmt.Fprintf(&b, "# Section %d\n\n", i+1)
		b.WriteString(strings.Repeat(fmt.Sprintf("Fact %d holds.\n", i+1), 60))
	}
	return b.String()
}

func job(text string, c *children) Job {
	return Job{Request: "Which facts hold?", Text: text, Room: 1200, Tokens: quarter, Children: summarizer(c.summarize)}
}

// run plans j and runs the plan.
func run(ctx context.Context, j Job) (Joined, error) {
	p, err := NewPlan(j)
	if err != nil {
		return Joined{}, err
	}
	return p.Run(ctx)
}

func TestRunFits(t *testing.T) {
	c := &children{answer: head(10)}
	out, err := run(t.Context(), job("short", c))
	require.NoError(t, err)
	assert.Equal(t, Joined{Text: "short"}, out)
	assert.Empty(t, c.levels)

	j := job("", c)
	assert.True(t, j.Fits())
	out, err = run(t.Context(), j)
	require.NoError(t, err)
	assert.Equal(t, Joined{}, out)
}

func TestRunMapOnly(t *testing.T) {
	c := &children{answer: func(t task.Task) task.Result {
		r := done(t, "\n The facts of "+t.ID+". \n")
		if t.ID == "part-2" {
			r.Truncated, r.Warnings = true, []string{"odd"}
		}
		return r
	}}
	j := job(document(9), c)
	require.False(t, j.Fits())
	out, err := run(t.Context(), j)
	require.NoError(t, err)
	require.Len(t, c.levels, 1)
	require.Len(t, c.levels[0], 3)
	assert.Equal(t, Joined{
		Text: "These are summaries of a document of 7,677 characters, which was too long to be given as a whole. " +
			"It was read in 3 parts; they are in order.\n\n" +
			"## Part 1 of 3 (lines 1-186): Section 1 … Section 3\n\nThe facts of part-1.\n\n" +
			"## Part 2 of 3 (lines 187-372): Section 4 … Section 6\n\nThe facts of part-2.\n\n" +
			"## Part 3 of 3 (lines 373-558): Section 7 … Section 9\n\nThe facts of part-3.\n\n",
		Levels: 1, Parts: 3,
		Warnings: []string{
			"part 2 of 3 (lines 187-372): the summary was too long and was cut",
			"part 2 of 3 (lines 187-372): odd",
		},
	}, out)

	first := c.levels[0][0]
	assert.Equal(t, task.Task{ID: "part-1", Agent: "summarizer", ReadOnly: true, Idempotent: true, Text: first.Text,
		Context: j.Text[:strings.Index(j.Text, "# Section 4")]}, first)
	assert.Equal(t, `Summarize the text in the context in at most 160 words.

The text is part 1 of 3 of a long document, lines 1-186, in the section "Section 1 … Section 3". Your summary takes its place: nobody will read the text again. Keep facts, names, figures, dates, conditions and exceptions exactly as they are. Add nothing.

Keep above all what helps with this request:

<request>
Which facts hold?
</request>

The request is carried out later, by somebody else. Answer with the summary only.`, first.Text)
}

func TestRunReduces(t *testing.T) {
	c := &children{answer: head(300)}
	j := job(document(1000), c)
	j.Summary = 80
	plan, err := NewPlan(j)
	require.NoError(t, err)
	out, err := plan.Run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, len(c.levels), out.Levels)
	assert.Greater(t, out.Levels, 2)
	assert.Len(t, plan.Groups, out.Levels-1)
	assert.Len(t, plan.Parts, out.Parts)
	for i, level := range c.levels {
		for _, one := range level {
			require.NoError(t, one.Validate())
			assert.LessOrEqual(t, quarter(llm.WithContext(one.Text, one.Context)), j.Room)
		}
		if i > 0 {
			assert.InDelta(t, plan.Groups[i-1], len(level), float64(len(level))/2, "level %d", i+1)
		}
	}
	assert.LessOrEqual(t, quarter(llm.WithContext(j.Request, out.Text)), j.Room)

	first := c.levels[1][0]
	assert.Equal(t, "reduce-1-1", first.ID)
	assert.Regexp(
		t,
		`^Summarize the text in the context in at most 50 words.\n\nThe text is a list of summaries: of parts 1 to \d+ of 325 of a long document, in order\. `,
		first.Text,
	)
	assert.Contains(t, first.Text, "<request>\nWhich facts hold?\n</request>")
	assert.True(
		t,
		strings.HasPrefix(first.Context, "## Part 1 of 325 (lines 1-248): Section 1 … Section 4\n\nS # Section 1"),
		first.Context,
	)
	assert.Regexp(t, `(?m)^## Parts 1 to \d+ of 325 \(lines 1-\d+\): Section 1 … Section \d+$`, out.Text)
}

// Every part is in one task of the first level and every summary in one of the next, in
// order, and no call is larger than the room.
func TestRunProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for range rapid.IntRange(1, 30).Draw(t, "pieces") {
			b.WriteString(strings.Repeat(drawText(t), rapid.IntRange(1, 20).Draw(t, "times")))
		}
		text := b.String()
		answered := 0
		length := rapid.IntRange(1, 400).Draw(t, "length")
		c := &children{answer: func(one task.Task) task.Result {
			answered++
			return done(one, fmt.Sprintf("<%d> %s", answered, strings.Repeat("字 x\n", length/10)))
		}}
		j := Job{
			Request:  rapid.StringN(0, 100, -1).Draw(t, "request"),
			Text:     text,
			Room:     rapid.IntRange(1500, 5000).Draw(t, "room"),
			Children: summarizer(c.summarize),
		}
		names := []string{"quarter", "bytes", "characters", "rounds down", "overhead"}
		j.Tokens = estimators[rapid.SampledFrom(names).Draw(t, "estimator")]
		out, err := run(t.Context(), j)
		if err != nil && len(c.levels) == 0 {
			require.ErrorContains(t, err, "fit")
			require.ErrorContains(t, err, "\nhint: ")
			return
		}
		var joined strings.Builder
		next := 1
		for i, level := range c.levels {
			for _, one := range level {
				require.LessOrEqual(t, j.Tokens(llm.WithContext(one.Text, one.Context)), j.Room)
				if i == 0 {
					joined.WriteString(one.Context)
					continue
				}
				for n := range strings.Count(one.Context, "\n\n<") {
					require.Contains(t, one.Context, fmt.Sprintf("\n\n<%d>", next+n))
				}
				next += strings.Count(one.Context, "\n\n<")
			}
		}
		require.True(t, len(c.levels) == 0 || joined.String() == text)
		if err != nil {
			require.Regexp(t, "it does not get shorter|after 8 levels", err)
			require.Empty(t, out.Text)
			return
		}
		require.LessOrEqual(t, j.Tokens(llm.WithContext(j.Request, out.Text)), j.Room)
		require.Equal(t, len(c.levels), out.Levels)
		for ; len(c.levels) > 0 && next <= answered; next++ {
			require.Contains(t, out.Text, fmt.Sprintf("\n\n<%d>", next))
		}
	})
}

func TestRunNamesWhatFailed(t *testing.T) {
	c := &children{answer: func(one task.Task) task.Result {
		switch one.ID {
		case "part-2":
			return one.Ended(task.Timeout, "Child process timed out after 60s\nhint: more time")
		case "part-3":
			return done(one, " \n")
		}
		return done(one, "fine")
	}}
	out, err := run(t.Context(), job(document(9), c))
	failed, ok := errors.AsType[*FailedError](err)
	require.True(t, ok, "%v", err)
	assert.EqualError(t, err, "summarise the document: 2 of 3 summaries failed: "+
		"part 2 of 3 (lines 187-372): Child process timed out after 60s; "+
		"part 3 of 3 (lines 373-558): the model said nothing\n"+
		"hint: without them a part of the document would be missing, so there is no answer; run it again")
	assert.Equal(
		t,
		[]task.Status{task.Timeout, task.Empty},
		[]task.Status{failed.Failed[0].Status, failed.Failed[1].Status},
	)
	assert.Equal(t, Joined{Levels: 1, Parts: 3}, out)

	c.answer = func(one task.Task) task.Result { return one.Ended(task.Killed, "") }
	_, err = run(t.Context(), job(document(100), c))
	require.ErrorContains(
		t,
		err,
		"25 of 25 summaries failed: part 1 of 25 (lines 1-248): killed; part 2 of 25 (lines 249-496): the same; "+
			"part 3 of 25 ",
	)
	require.ErrorContains(t, err, "; and 20 more\nhint: ")
}

func TestRunErrors(t *testing.T) {
	c := &children{answer: func(one task.Task) task.Result { return done(one, one.Context) }}
	_, err := run(t.Context(), job(document(20), c))
	require.ErrorContains(t, err, "it does not get shorter\nhint: use a model that keeps to a length")
	assert.Len(t, c.levels, 1)

	// Shorter each time, but by so little that it would never end.
	c = &children{answer: func(one task.Task) task.Result { return done(one, one.Context[:len(one.Context)*19/20]) }}
	_, err = run(t.Context(), job(document(300), c))
	require.ErrorContains(t, err, "after 8 levels the summaries have about ")
	assert.Len(t, c.levels, maxLevels)

	j := job(document(20), c)
	j.Children = summarizer(func(context.Context, []task.Task) []task.Result { return nil })
	_, err = run(t.Context(), j)
	require.EqualError(t, err, "summarise the document: 0 results came back for 5 tasks")

	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	c = &children{answer: func(one task.Task) task.Result {
		cancel(why)
		return done(one, one.Context[:len(one.Context)/2])
	}}
	out, err := run(ctx, job(document(100), c))
	require.ErrorIs(t, err, why)
	assert.Len(t, c.levels, 1)
	assert.Equal(t, 1, out.Levels)
	assert.Empty(t, out.Text)
}

// A summary that is longer than a call is split among several.
func TestRunCutsLongSummaries(t *testing.T) {
	c := &children{answer: func(one task.Task) task.Result {
		if one.ID == "part-1" {
			return done(one, strings.Repeat("Too long. ", 900))
		}
		return done(one, "Short.")
	}}
	j := job(document(20), c)
	out, err := run(t.Context(), j)
	require.NoError(t, err)
	require.Len(t, c.levels, 2)
	long := 0
	for _, one := range c.levels[1] {
		require.LessOrEqual(t, quarter(llm.WithContext(one.Text, one.Context)), j.Room)
		long += strings.Count(one.Context, "Too long.")
	}
	assert.Equal(t, 900, long)
	assert.Equal(t, 2, out.Levels)
}

func TestPlan(t *testing.T) {
	j := job(document(60), nil)
	j.Children, j.Room, j.Summary, j.Agent = nil, 2000, 300, "researcher"
	p, err := NewPlan(j)
	require.NoError(t, err)
	lines := p.Lines()
	assert.Equal(t, p.Overview(), lines[:len(lines)-len(p.Parts)])
	assert.Equal(t, []string{
		"document: 54,291 characters, about 13,573 tokens; the model has room for 2,000",
		"map: 9 parts, each by summarizer, in at most about 200 words",
		"reduce 1: 9 summaries in about 2 groups",
		"answer: researcher, with about 2 summaries (about 648 tokens)",
		"part 1: lines 1-496, about 1,706 tokens, Section 1 … Section 8",
	}, lines[:5])
	assert.Equal(t, "part 9: lines 3287-3720, about 1,600 tokens, Section 54 … Section 60", lines[len(lines)-1])

	j.Summary = 0 // then no second level is needed
	p, err = NewPlan(j)
	require.NoError(t, err)
	assert.Equal(t, "answer: researcher, with 9 summaries (about 1,755 tokens)", p.Overview()[2])

	j.Text = strings.Repeat(j.Text, 100)
	p, err = NewPlan(j)
	require.NoError(t, err)
	assert.Regexp(t, `^reduce 2: about \d+ summaries in about \d+ groups?$`, p.Overview()[3])

	j.Text, j.Agent = "short", ""
	p, err = NewPlan(j)
	require.NoError(t, err)
	assert.Equal(
		t,
		[]string{
			"document: 5 characters, about 2 tokens; the model has room for 2,000",
			"answer: default, with the whole document",
		},
		p.Lines(),
	)
}

func TestPlanErrors(t *testing.T) {
	j := job(document(60), nil)
	j.Request = strings.Repeat("And the next one? ", 1000)
	_, err := NewPlan(j)
	require.EqualError(
		t,
		err,
		"the request itself does not fit: it has about 4,500 tokens, and the model has room for 1,200, "+
			"of which the text needs some\nhint: give the long part as the document and a short request about it, "+
			"or use a model with a larger context",
	)

	j = job(document(60), nil)
	j.Room = 300
	_, err = NewPlan(j)
	require.ErrorContains(t, err, "the document does not fit, and cannot be cut: the model has room for 300 tokens")

	j = job(document(3)+"☃", nil)
	j.Tokens = func(s string) int { return quarter(s) + 5000*strings.Count(s, "☃") }
	_, err = NewPlan(j)
	require.EqualError(
		t,
		err,
		"cut the document: line 187 has a character of about 5,001 tokens, and there is room for 971\n"+
			"hint: use a model with a larger context",
	)
}

func TestGroup(t *testing.T) {
	for n, want := range map[int]string{
		0: "0", 12: "12", 999: "999", 1000: "1,000", 1234567: "1,234,567", -100: "-100", -1000: "-1,000",
	} {
		assert.Equal(t, want, group(n))
	}
}

func TestWider(t *testing.T) {
	for _, c := range [][3]string{{"", "", ""}, {"A", "", "A"}, {"", "B", "B"}, {"A", "A", "A"}, {"A", "B", "A … B"},
		{"A … B", "C … D > E", "A … D > E"}} {
		assert.Equal(t, c[2], wider(c[0], c[1]))
	}
	assert.Equal(t, maxTitle, utf8.RuneCountInString(wider(strings.Repeat("字", 100), strings.Repeat("词", 100))))
}

// Parts are cut for the room of the summarizer, joined summaries for the room of the
// agent that answers.
func TestRunInTwoRooms(t *testing.T) {
	for _, c := range []struct{ room, part, smaller int }{{1200, 700, 700}, {700, 1200, 700}, {1200, 0, 1200}} {
		kids := &children{answer: head(20)}
		j := job(document(60), kids)
		j.Room, j.PartRoom = c.room, c.part
		out, err := run(t.Context(), j)
		require.NoError(t, err)
		largest := 0
		for _, level := range kids.levels {
			for _, one := range level {
				largest = max(largest, quarter(llm.WithContext(one.Text, one.Context)))
			}
		}
		assert.LessOrEqual(t, largest, c.smaller)
		assert.Greater(t, largest, c.smaller*3/4, "not smaller than it must be")
		assert.LessOrEqual(t, quarter(llm.WithContext(j.Request, out.Text)), c.room)
	}
	j := job(document(60), &children{})
	j.PartRoom = 100
	_, err := NewPlan(j)
	assert.ErrorContains(t, err, "the model has room for 100 tokens")
}

// The caller may stop at the first failed task; the tasks that it leaves out are reported
// as not begun.
func TestRunStops(t *testing.T) {
	stopsAt := func(i int, s task.Status) summarizer {
		return func(_ context.Context, tasks []task.Task) (results []task.Result) {
			for _, t := range tasks[:i+1] {
				results = append(results, done(t, "x"))
			}
			results[i].End(s, "as told")
			return results
		}
	}
	j := job(document(9), nil)
	j.Children = stopsAt(1, task.Limit)
	out, err := run(t.Context(), j)
	var failed *FailedError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, task.Limit, failed.TaskStatus())
	assert.Contains(
		t,
		err.Error(),
		"summarise the document: 1 of 3 summaries failed: part 2 of 3 (lines 187-372): as told; 1 not begun\nhint: ",
	)
	assert.Equal(t, 1, out.Levels)
	assert.Empty(t, out.Text)

	j.Children = stopsAt(1, task.Completed)
	_, err = run(t.Context(), j)
	assert.EqualError(t, err, "summarise the document: 2 results came back for 3 tasks")
}

// The status of a failure does not depend on which part comes first.
func TestFailedStatus(t *testing.T) {
	for want, all := range map[task.Status][]task.Status{
		task.Empty:       {task.Empty, task.Empty},
		task.Limit:       {task.Empty, task.Unavailable, task.Limit},
		task.Unavailable: {task.Timeout, task.Unavailable},
		task.Failed:      {task.Timeout, task.Empty},
	} {
		for range 2 {
			e := &FailedError{}
			for _, s := range all {
				e.Failed = append(e.Failed, task.Task{}.Ended(s, ""))
			}
			assert.Equal(t, want, e.TaskStatus(), all)
			slices.Reverse(all)
		}
	}
}
