package dialect

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

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
	split    thinkSplitter
	most     int       // bytes of text, thinking and calls; 0 means no limit
	size     int       // bytes so far
	asked    time.Time // when the request was sent
	began    time.Time // when the first line came
	stop     llm.Stop  // why the answer ended; empty until it has
	prompt   float64   // tokens that the server counted
	output   float64
	timing   llm.Timing
}

// NewAnswer returns an answer that passes its text to yield, which may be nil. Text, thinking and calls have at most
// so many bytes; 0 means no limit.
func NewAnswer(yield func(llm.Chunk), most int) *Answer { return &Answer{yield: yield, most: most} }

// ErrTooLong says that an answer has more bytes than it may have.
var ErrTooLong = errors.New("the answer is too long")

// lineBytes and callBytes are how many bytes a line and a tool call count besides their texts, so that a stream of
// empty ones ends too.
const (
	lineBytes = 4
	callBytes = 64
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

// end notes that the server said that the answer is complete.
func (a *Answer) end(stop llm.Stop) { a.stop = stop }

// add adds text of the answer and of the thinking before it.
func (a *Answer) add(thinking, text string) {
	split, text := a.split.add(a.take(text))
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
func (a *Answer) call(id, name string, arguments json.RawMessage) error {
	switch {
	case len(arguments) == 0 || string(arguments) == "null":
		arguments = json.RawMessage("{}")
	case arguments[0] != '{':
		return fmt.Errorf("arguments of a call of %s are not an object", llm.OneLine(name))
	}
	if a.size += len(name) + len(arguments) + callBytes; a.full() {
		return ErrTooLong
	}
	if id == "" {
		id = "call_" + strings.ToLower(rand.Text()[:12])
	}
	a.calls = append(a.calls, tool.Call{ID: id, Name: name, Arguments: arguments})
	return nil
}

// Believe replaces the counts of the server that cannot be true by estimates: those that are negative, or higher than
// both the context of the request and the bytes that were sent or received. sent is the size of the request, in
// bytes, and prompt the estimate for it, in tokens.
func (a *Answer) Believe(context, sent, prompt int) {
	if a.prompt < 0 || a.prompt > float64(max(context, sent)) {
		a.prompt = float64(min(prompt, context-1)) // the prompt was not cut
	}
	if a.output < 0 || a.output > float64(max(context, a.size)) {
		a.output = float64(Tokens(a.text.String()) + Tokens(a.thinking.String()))
	}
}

// Finish passes on the text that was held back because it could have begun a tag.
func (a *Answer) Finish() { a.emit(a.split.flush()) }

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

// Response returns the answer so far.
func (a *Answer) Response() llm.Response {
	return llm.Response{
		Message: llm.Message{
			Role: llm.Assistant, Content: a.text.String(), Thinking: a.thinking.String(), Calls: a.calls,
		},
		Usage:  task.Usage{InputTokens: int(a.prompt), OutputTokens: int(a.output)},
		Timing: a.timing, Stop: a.stop,
	}
}
