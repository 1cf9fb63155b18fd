package form

import (
	"encoding/json"
	"strconv"
	"time"
)

// Piece is a part of an answer: text, thinking or a call.
type Piece struct {
	Text, Thinking string
	Call           *Call
}

// Call is a call of a tool.
type Call struct {
	ID        string
	Index     int
	Name      string
	Arguments json.RawMessage

	half bool // its arguments are cut off
}

// CutLast cuts off the arguments of the last piece. It reports false if that is no call.
func CutLast(pieces []Piece) bool {
	c := pieces[len(pieces)-1].Call
	if c != nil {
		c.half = true
	}
	return c != nil
}

// Output collects an answer as a form writes it.
type Output struct {
	Buf  []byte
	Mark int // how many bytes there are up to the end mark; 0 while there is none
	Odd  *Oddities

	Model   string    // its name in the answer
	Tokens  int       // of the prompt
	Cached  int       // those of them that the server has in its cache
	Said    int       // tokens of the answer so far
	Came    time.Time // when the request arrived
	Taken   time.Time // when its wait for a seat ended
	Started time.Time // when the answer began
}

// number writes a field with a number.
func (o *Output) number(before string, n int) {
	o.write(before)
	o.Buf = strconv.AppendInt(o.Buf, int64(n), 10)
}

func (o *Output) write(s string) { o.Buf = append(o.Buf, s...) }
func (o *Output) quote(s string) { o.Buf = AppendString(o.Buf, s) }

func (o *Output) newline() {
	if o.Odd.CRLF {
		o.Buf = append(o.Buf, '\r')
	}
	o.Buf = append(o.Buf, '\n')
}

// begin begins an event of that name, which may be empty.
func (o *Output) begin(name string) {
	o.Odd.between(o, false)
	if name != "" {
		o.write("event: ")
		o.write(name)
		o.newline()
	}
	o.write("data: ")
}

// end ends an event.
func (o *Output) end() {
	o.newline()
	o.newline()
}

// marked notes that the last event was the end mark. The last byte of CRLF is not needed: CR ends a line too.
func (o *Output) marked() {
	o.Mark = len(o.Buf)
	if o.Odd.CRLF {
		o.Mark--
	}
}
