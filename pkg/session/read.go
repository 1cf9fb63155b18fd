package session

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"qq/pkg/llm"
	"qq/pkg/tool"
)

// Transcript is the content of a session file, without the lines that cannot be read.
type Transcript struct {
	Header  Header      `json:"header"`
	Entries []llm.Entry `json:"entries"`
	// Damaged describes the first lines that could not be read, each with its line number, and says how many more there
	// are. It also says that the beginning is missing, for then most of the rest may be missing too.
	Damaged []string `json:"damaged,omitempty"`

	bad     int   // lines that could not be read
	end     int64 // offset after the last complete line
	unended bool  // the last line is complete except for its newline
}

// Messages returns the messages of the conversation: those of all entries, without system prompts.
func (t Transcript) Messages() []llm.Message {
	messages := make([]llm.Message, 0, len(t.Entries))
	for _, e := range t.Entries {
		if e.Role != llm.System {
			messages = append(messages, e.Message)
		}
	}
	return messages
}

// Add adds e to the entries. The results of calls that ran at once come in the order in which the calls ended; they get
// the order of the calls, which is that of the conversation.
func (t *Transcript) Add(e llm.Entry) {
	at := len(t.Entries)
	first := at // of the results behind the last answer
	for first > 0 && t.Entries[first-1].Role == llm.ToolRole {
		first--
	}
	if e.Role == llm.ToolRole && first > 0 {
		calls := t.Entries[first-1].Calls
		place := func(id string) int {
			return slices.IndexFunc(calls, func(c tool.Call) bool { return c.ID == id })
		}
		for at > first && place(t.Entries[at-1].CallID) > place(e.CallID) {
			at--
		}
	}
	t.Entries = slices.Insert(t.Entries, at, e)
}

var errNewer = errors.New("it was written by a newer qq")

// read reads a session file to its end. It leaves out an incomplete last line, and lists other
// damaged lines in Damaged. A file of a newer format is an error.
func read(r io.Reader) (Transcript, error) {
	var t Transcript
	lines := lineReader{r: bufio.NewReaderSize(r, 64<<10)}
	for number := 1; ; number++ {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			if number == 1 {
				t.Damaged = []string{damaged + "it is empty"}
			}
			return t.read(), nil
		}
		if err != nil && !errors.Is(err, errLong) {
			return t, err
		}
		if err == nil {
			err = t.take(number, line)
		}
		switch {
		case errors.Is(err, errNewer):
			return t, err
		case err == nil:
			t.unended = lines.torn
		case lines.torn && number == 1:
			t.Damaged = []string{damaged + "only a part of its first line is there"}
			return t, nil
		case lines.torn: // incomplete because of a crash
			return t.read(), nil
		default:
			if t.bad++; t.bad <= maxDamaged {
				t.Damaged = append(t.Damaged, fmt.Sprintf(damaged+"line %d is %v", number, err))
			}
		}
		t.end = lines.offset
	}
}

// damaged begins each line of Damaged.
const damaged = "the transcript is damaged: "

// maxDamaged is how many lines that cannot be read are described.
const maxDamaged = 3

// read returns t, whose last line was read.
func (t Transcript) read() Transcript {
	if more := t.bad - maxDamaged; more > 0 {
		t.Damaged = append(t.Damaged, fmt.Sprintf(damaged+"%d more lines", more))
	}
	return t
}

// take decodes one line and adds it to t. The line with the number 1 is the header.
func (t *Transcript) take(number int, line []byte) error {
	if number == 1 {
		h, err := decodeHeader(line)
		t.Header = h
		return err
	}
	e, err := decodeEntry(line)
	if err == nil {
		t.Add(e)
	}
	return err
}

func decodeHeader(line []byte) (Header, error) {
	var h Header
	if err := json.Unmarshal(line, &h); err != nil {
		return Header{}, errNoJSON
	}
	switch {
	case h.V > Version:
		return Header{}, errNewer
	case h.V < 1:
		return Header{}, errNoHeader
	}
	return h, nil
}

func decodeEntry(line []byte) (llm.Entry, error) {
	var e llm.Entry
	if err := json.Unmarshal(line, &e); err != nil {
		return llm.Entry{}, errNoJSON
	}
	if !isMessage(e.Role) {
		return llm.Entry{}, errNoMessage
	}
	return e, nil
}

// counts reports whether line looks like a message, without reading all of it.
func counts(line []byte) bool {
	var e struct{ Role llm.Role }
	return json.Unmarshal(line, &e) == nil && isMessage(e.Role)
}

func isMessage(r llm.Role) bool {
	return slices.Contains([]llm.Role{llm.User, llm.Assistant, llm.ToolRole, llm.System}, r)
}

// Why a line cannot be read.
var (
	errLong      = errors.New("longer than 16 MiB")
	errNoJSON    = errors.New("no JSON of a transcript")
	errNoHeader  = errors.New("not the first line of a transcript")
	errNoMessage = errors.New("no message")
)

// lineReader reads lines of at most maxLine bytes and skips longer ones.
type lineReader struct {
	r      *bufio.Reader
	offset int64 // position in the file after the last line that was read
	torn   bool  // the last line had no newline
	buf    []byte
}

// next returns the next line without its newline. The slice is valid until the following call. The
// error is errLong for a line that is too long, and io.EOF at the end.
func (l *lineReader) next() ([]byte, error) {
	l.buf = l.buf[:0]
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		l.offset += int64(len(part))
		if long = long || len(l.buf)+len(part) > maxLine; !long {
			l.buf = append(l.buf, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case err != nil && len(l.buf) == 0 && !long:
			return nil, io.EOF
		}
		l.torn = err != nil
		if long {
			return nil, errLong
		}
		return bytes.TrimSuffix(l.buf, []byte("\n")), nil
	}
}
