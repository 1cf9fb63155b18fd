// Package longtext shortens a text that does not fit the context of the model: it cuts
// the text into parts, has children summarize them, and joins the summaries.
//
// Vocabulary: room is the number of tokens that fit; a part is a piece of the text that
// fits; map is the level that makes a summary of each part; reduce is a level that makes
// one summary of each group of adjacent summaries.
//
// Another agent than the one that answers writes the summaries. The two have different
// prompts, so their room differs; parts are cut for the smaller one.
//
// Flow: [NewPlan] cuts the text and plans the levels, which is what a dry run shows.
// [Plan.Run] makes the tasks of a level, has the caller run them, checks every result and
// joins the summaries in order. It repeats that with the next level, until the summaries
// fit together with the request. The caller then asks the agent with [Joined.Text] as the
// context of the request.
//
// Nothing is left out silently. A part without a summary is a [FailedError] that names
// it, and the joined text tells its reader that it consists of summaries. A plan without
// parts means that the text fits unchanged.
//
// Not promised: that a model respects the length that it is asked for (a level that does
// not shorten the text ends the run with an error); exact counts for the levels after the
// first; knowledge of Markdown beyond headings, code fences and blank lines. The package
// reads no file and no clock.
package longtext

import (
	"context"

	"qq/pkg/llm"
	"qq/pkg/task"
)

// Summarizer is the name of the agent that writes the summaries.
const Summarizer = "summarizer"

// Job is a request about a long text.
type Job struct {
	// Request is the question about the text, or what to do with it.
	Request string
	// Text is the document.
	Text string
	// Agent is the agent that answers the request; empty means [task.DefaultAgent]. Only
	// the overview shows it.
	Agent string
	// Room is how many tokens the text of a task and its context may have together
	// in one call: the context of the model without system prompt, tools and answer.
	Room int
	// PartRoom is the room of the summarizer, which has another prompt and other tools; 0
	// means the same as Room.
	PartRoom int
	// Summary is how many tokens one summary should have, at most a quarter of the room
	// for a part; 0 means that the plan chooses.
	Summary int
	// Tokens estimates how many tokens a text has.
	Tokens func(text string) int
	// Children summarize the parts.
	Children Children
}

// Children are other agents.
type Children interface {
	// Summarize runs tasks as children and returns their results in the order of tasks.
	// After a failure it may leave out the tasks that have not started.
	Summarize(ctx context.Context, tasks []task.Task) []task.Result
}

// Fits reports whether request and text fit the model together, uncut.
func (j Job) Fits() bool {
	return j.Tokens(llm.WithContext(j.Request, j.Text)) <= j.Room
}
