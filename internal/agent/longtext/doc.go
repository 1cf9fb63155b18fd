// Package longtext answers a request about a text that does not fit the context
// of the model: the text is cut into parts, each part is summarised by a child,
// and the summaries take the place of the text.
//
// Vocabulary: room is how many tokens fit; a part is a piece of the text that
// fits; map is the level at which each part becomes a summary; reduce is a level
// at which groups of neighbouring summaries become one each.
//
// The summaries come from another agent than the answer: it has a room of its own,
// and the parts are cut for the smaller of the two.
//
// Flow: [NewPlan] cuts the text and says what will be done, which is what a dry
// run shows. [Plan.Run] does it: it makes the tasks of a level, has the caller run
// them, checks every result, joins the summaries in order, and goes on to the
// next level until they fit beside the request. The caller then gives the request
// with [Joined.Text] as its context to whom it was meant for.
//
// Nothing is left out in silence: one part without a summary is a [FailedError]
// that names it, a plan without parts means that the text is used as it is, and
// the joined text says of itself that it is made of summaries.
//
// Not promised: that a model keeps to the length that it is asked for (a level
// that does not make the text shorter ends the work), that counts beyond the
// first level are more than estimates, that Markdown is understood beyond
// headings, fences and blank lines. Nothing here reads a file or a clock.
package longtext

import (
	"context"

	"qq/pkg/llm"
	"qq/pkg/task"
)

// Summarizer is the agent of the tasks that are made here.
const Summarizer = "summarizer"

// Job is a request about a long text.
type Job struct {
	// Request is what somebody wants to know of the text.
	Request string
	// Text is the document.
	Text string
	// Agent answers the request in the end; empty means [task.DefaultAgent]. It is
	// only shown.
	Agent string
	// Room is how many tokens the text of a task and its context may have together
	// in one call: the context of the model without system prompt, tools and answer.
	Room int
	// PartRoom is the same for the summarizer, whose prompt and tools are others; 0 is
	// as Room.
	PartRoom int
	// Summary is how many tokens one summary shall have; 0 chooses. More than a
	// quarter of the room for a part is never asked for.
	Summary int
	// Tokens estimates how many tokens a text has.
	Tokens func(text string) int
	// Summarize runs tasks as children and returns their results in input order. It
	// may leave out the last ones when one before them failed.
	Summarize func(ctx context.Context, tasks []task.Task) []task.Result
}

// Fits reports whether the text needs no cutting.
func (j Job) Fits() bool {
	return j.Tokens(llm.WithContext(j.Request, j.Text)) <= j.Room
}
