package dialect

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"qq/internal/models/dialect/think"
	"qq/internal/models/tokens"
	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Answer collects what a server says into a response. One goroutine may use it.
type Answer struct {
	yield    func(llm.Chunk)
	text     strings.Builder
	thinking strings.Builder
	calls    []tool.Call
	open     []*openCall // calls that come in pieces
	split    think.Splitter
	most     int       // bytes of text, thinking and calls; 0 means no limit
	size     int       // bytes so far
	asked    time.Time // when the request was sent
	began    time.Time // when the first line came
	stop     llm.Stop  // why the answer ended; empty until it has
	closed   bool      // nothing follows
	reason   string    // why the server says that it stops, of a dialect that says it before the end
	// Of a dialect that wants thinking back: that since the last call, and where the text of the last block begins.
	kept     []messagesBlock
	keptFrom int
	details  reasoningDetails // of OpenRouter
	prompt   float64          // tokens that the server counted
	output   float64
	cached   float64 // of the prompt
	written  float64 // of the prompt, into the cache of the server
	timing   llm.Timing
}

// NewAnswer returns an answer that passes its text to yield, which may be nil. Text, thinking and calls have at most
// so many bytes; 0 means no limit.
func NewAnswer(yield func(llm.Chunk), most int) *Answer { return &Answer{yield: yield, most: most} }

// ErrTooLong says that an answer has more bytes than it may have.
var ErrTooLong = errors.New("the answer is too long")

// lineBytes and callBytes are how many bytes a line and a tool call count besides their texts, so that a stream of
// empty ones ends too. A piece of a call is compared with all calls before it: there must be few thousand of them.
const (
	lineBytes = 4
	callBytes = 1 << 10
)

// Asked notes that the request is sent now.
func (a *Answer) Asked() { a.asked = time.Now() }

// Take adds one line or event of a server that speaks d.
func (a *Answer) Take(d Dialect, data []byte) error {
	if a.began.IsZero() {
		a.began = time.Now()
	}
	if a.size += lineBytes; a.full() {
		return ErrTooLong
	}
	if err := d.Decode(data, a); err != nil {
		return err
	}
	if a.full() {
		return ErrTooLong
	}
	return nil
}

// Ended reports whether the server said that the answer is complete.
func (a *Answer) Ended() bool { return a.stop != "" }

// Most returns how many bytes the answer may have; 0 means no limit.
func (a *Answer) Most() int { return a.most }

// Counted returns how many tokens of the prompt the server counted; 0 if it does not say.
func (a *Answer) Counted() int { return int(a.prompt) }

// Closed reports whether nothing can follow: the answer is complete, and so is what the server says about it.
func (a *Answer) Closed() bool { return a.closed }

// end notes that the server said that the answer is complete. Its usage may follow.
func (a *Answer) end(stop llm.Stop) error {
	if err := a.closeCalls(stop); err != nil {
		return err
	}
	a.stop = stop
	return nil
}

// reopen notes that the end was none: more of the answer follows, and the server says again when it ends.
func (a *Answer) reopen() { a.stop = "" }

// close notes that nothing follows.
func (a *Answer) close() { a.closed = a.stop != "" }

// count notes how many tokens the server counted: of the prompt, of the answer, and those of the prompt that it had
// in its cache.
func (a *Answer) count(prompt, output, cached float64) {
	a.prompt, a.output, a.cached = prompt, output, cached
}

// add adds text of the answer and of the thinking before it. What follows the end is no part of the answer.
func (a *Answer) add(thinking, text string) {
	if a.stop != "" {
		return
	}
	split, text := a.split.Add(a.take(text))
	a.emit(a.take(thinking)+split, text)
}

// take returns the beginning of s that fits into the answer.
func (a *Answer) take(s string) string {
	before := a.size
	if a.size += len(s); !a.full() {
		return s
	}
	return strings.ToValidUTF8(s[:max(a.most-before, 0)], "")
}

// full reports whether the answer has more bytes than it may have.
func (a *Answer) full() bool { return a.most > 0 && a.size > a.most }

// call adds a tool call. An empty id is replaced; empty arguments are an empty object.
func (a *Answer) call(c tool.Call) error {
	switch {
	case len(c.Arguments) == 0 || string(c.Arguments) == "null":
		c.Arguments = json.RawMessage("{}")
	case c.Arguments[0] != '{':
		return &Failure{Kind: llm.BrokenStream,
			Text: fmt.Sprintf("arguments of a call of %s are not an object", llm.OneLine(c.Name))}
	}
	if a.size += len(c.Name) + len(c.Arguments) + callBytes; a.full() {
		return ErrTooLong
	}
	if c.ID == "" {
		c.ID = "call_" + strings.ToLower(rand.Text()[:12])
	}
	a.calls = append(a.calls, c)
	return nil
}

// Believe replaces the counts of the server that cannot be true by estimates: those that are negative, or higher than
// both the context of the request and the bytes that were sent or received. sent is the size of the request, in
// bytes, and prompt the estimate for it, in tokens. The answer may have output tokens, also if its thinking is hidden.
func (a *Answer) Believe(context, sent, prompt, output int) {
	if a.prompt < 0 || a.prompt > float64(max(context, sent)) {
		a.prompt = float64(prompt)
		if context > 0 {
			a.prompt = min(a.prompt, float64(context-1)) // the prompt was not cut
		}
	}
	a.cached = min(max(a.cached, 0), a.prompt)
	if a.output < 0 || a.output > float64(max(output, a.size)) {
		a.output = float64(tokens.Estimate(a.text.String()) + tokens.Estimate(a.thinking.String()))
	}
}

// Finish passes on the text that was held back because it could have begun a tag.
func (a *Answer) Finish() { a.emit(a.split.Flush()) }

func (a *Answer) emit(thinking, text string) {
	if thinking == "" && text == "" {
		return
	}
	a.thinking.WriteString(thinking)
	a.text.WriteString(text)
	if a.yield != nil {
		a.yield(llm.Chunk{Text: text, Thinking: thinking})
	}
}

// whole returns a count of the server as a number of tokens. An answer that broke off was not looked at by Believe.
func whole(count float64) int { return int(min(max(count, 0), 1<<40)) }

// Response returns the answer so far.
func (a *Answer) Response() llm.Response {
	return llm.Response{
		Message: llm.Message{
			Role: llm.Assistant, Content: a.text.String(), Thinking: a.thinking.String(), Calls: a.calls,
		},
		Usage:   task.Usage{InputTokens: whole(a.prompt), OutputTokens: whole(a.output), CachedTokens: whole(a.cached)},
		Written: whole(a.written), Timing: a.timing, Stop: a.stop,
	}
}
