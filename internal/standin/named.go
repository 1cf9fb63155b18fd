package standin

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"qq/internal/standin/form"
)

// ByName makes the name of a model say how it answers, in place of [Models], [Scripts] and [Reply]: "fast" at once;
// "slow200" after 200 ms; "one200" likewise, but one request at a time, as a stock Ollama does; "say5000" with 5,000
// bytes of text; "vast" as "fast", with a context of 512 M tokens; "echo" and "echo20" with the task itself, at once
// and after 20 ms; "hang" never; "busy" with status 503; "script" with the calls that the task asks for, see step. If
// a [Rule] affects a request, its fault replaces the one that the name means. Prompts of any length fit.
func ByName() Option {
	return func(s *Server) {
		s.byName, s.models = true, []Model{{Name: "fast:latest"}}
		for _, name := range []string{"vast", "script", "hang", "busy", "echo"} { // servers say what they have
			s.models = append(s.models, Model{Name: name})
		}
		for _, n := range []int{1, 5, 20, 50, 100, 200, 400} {
			for _, kind := range []string{"echo", "slow", "one"} {
				s.models = append(s.models, Model{Name: kind + strconv.Itoa(n)})
			}
		}
		for i := range s.models {
			s.models[i] = *namedModel(s.models[i].Name)
		}
	}
}

// parseName splits the name of a model such as slow200 into its kind and number.
func parseName(name string) (kind string, n int, known bool) {
	name = strings.TrimSuffix(name, ":latest")
	kind = strings.TrimRight(name, "0123456789")
	n, _ = strconv.Atoi(name[len(kind):])
	switch kind {
	case "fast", "vast", "script", "hang", "busy":
		return kind, 0, kind == name
	case "echo":
		return kind, n, true
	case "slow", "one", "say":
		return kind, n, n > 0
	}
	return kind, n, false
}

func namedModel(name string) *Model {
	kind, n, known := parseName(name)
	if !known {
		return nil
	}
	m := &Model{Name: name, Context: 1 << 17}
	switch kind { // an answer may not be longer than a few contexts
	case "say":
		m.Context = max(m.Context, n)
	case "vast":
		m.Context = 1 << 29
	}
	m.setDefaults()
	return m
}

// chooseByName selects the answer by the name of the model; size is that of the request in bytes.
func (s *Server) chooseByName(a *answer, size int) {
	a.tokens, a.size = size/a.model.TokenBytes, math.MaxInt
	kind, n, _ := parseName(a.prompt.Model)
	a.text, a.fault = "One two three.", &Fault{}
	switch kind {
	case "slow", "one", "echo":
		a.fault.BeforeFirst = time.Duration(n) * time.Millisecond
	}
	switch kind {
	case "say":
		a.pieces = filler(n)
	case "one":
		a.seats = s.one
	case "echo":
		a.pieces = []form.Piece{{Text: "You said:"}, {Text: " " + EchoLast(a.prompt)}}
	case "hang":
		a.fault.Break = Stall
	case "busy":
		a.fault.Status = http.StatusServiceUnavailable
		a.fault.Error = "server busy, please try again.  maximum pending requests exceeded"
	case "script":
		var err error
		if a.pieces, err = play(a.prompt); err != nil {
			a.fault = &Fault{Status: http.StatusBadRequest, Error: "read the script: " + err.Error()}
		}
	}
	if f := s.strike(a.path, &a.prompt); f != nil {
		a.fault = f
	}
}

// step is a task for the model "script", written as JSON: call Tool, Times times in one answer. If Times is more
// than 1, {i} in the arguments is replaced by the number of the call, from 0. The task of a delegation may be a
// step itself.
type step struct {
	Tool      string
	Times     int
	Arguments map[string]string
}

// play returns the answer of the model "script": the calls of the step or, if the last message is a result, the
// last result.
func play(p Prompt) ([]form.Piece, error) {
	if p.LastRole() == "tool" {
		return []form.Piece{{Text: p.Last("tool")}}, nil
	}
	var s step
	if err := json.Unmarshal([]byte(p.Last("user")), &s); err != nil {
		return nil, err
	}
	pieces := []form.Piece{}
	for i := range s.Times {
		arguments := map[string]string{}
		for name, value := range s.Arguments {
			if s.Times > 1 {
				value = strings.ReplaceAll(value, "{i}", strconv.Itoa(i))
			}
			arguments[name] = value
		}
		encoded, err := json.Marshal(arguments)
		if err != nil {
			return nil, err
		}
		c := &form.Call{Name: s.Tool, Arguments: encoded}
		pieces = append(pieces, form.Piece{Call: c})
	}
	return pieces, nil
}

// filler returns n bytes of text, in lines of at most 64 KiB.
func filler(n int) []form.Piece {
	const most = 64 << 10
	whole := strings.Repeat("All work and no play. ", most/22+1)[:most]
	var pieces []form.Piece
	for ; n > most; n -= most {
		pieces = append(pieces, form.Piece{Text: whole})
	}
	return append(pieces, form.Piece{Text: whole[:n]})
}
