package tinymodel

import (
	"fmt"
	"strings"
)

// chainLogit is the logit that a token gives to its successor.
const chainLogit = 4000

// States that are no token of a script. A token without a state has none.
const (
	none   = iota // wants nothing
	quote         // a string of JSON begins or ends
	inWord        // a string of JSON has its word
	states        // how many these are
)

// want is a token that should follow a state.
type want struct {
	token int
	logit float32
}

// table says which token follows which.
type table struct {
	vocab             *vocab
	begin, end, reply int // tokens; reply is -1 without one

	state  map[int]int  // token → state
	wants  [][]want     // by state
	spoken map[int]bool // tokens that only a script may emit
	starts []int        // the Start tokens, in the order of the scripts
	first  map[int]int  // Start token → first token of its text
}

// newTable makes the table for the scripts of s.
func newTable(s Spec) (*table, error) {
	t := &table{
		reply: -1, state: map[int]int{}, wants: make([][]want, states),
		spoken: map[int]bool{}, first: map[int]int{},
	}
	t.vocab, t.begin, t.end = s.vocabulary()
	if s.Reply != "" {
		t.reply = t.vocab.add(s.Reply, typeControl)
	}
	t.addJSON()
	for _, sc := range s.Scripts {
		if err := t.addScript(sc); err != nil {
			return nil, err
		}
	}
	if t.reply >= 0 && s.Default != "" {
		start, known := t.vocab.id[s.Default]
		first, isStart := t.first[start]
		if !known || !isStart {
			return nil, fmt.Errorf("default %q is not the start of a script", s.Default)
		}
		return t, t.follow(t.reply, first)
	}
	return t, nil
}

// addJSON makes the model put one word into each string of a JSON document.
func (t *table) addJSON() {
	word := t.speak("sample text")
	t.state['"'], t.state[word] = quote, inWord
	t.wants[quote] = []want{{word, chainLogit}, {'x', chainLogit / 2}, {'"', -chainLogit / 4}}
	t.wants[inWord] = []want{{'"', chainLogit}}
}

// addScript chains the tokens of sc behind its Start token.
func (t *table) addScript(sc Script) error {
	texts := sc.Tokens
	if texts == nil {
		texts = chunks(sc.Text)
	}
	start := t.vocab.add(sc.Start, typeControl)
	if _, ok := t.first[start]; ok {
		return fmt.Errorf("two scripts start with %q", sc.Start)
	}
	t.starts = append(t.starts, start)
	t.first[start] = t.end
	at := start
	for i, text := range texts {
		next := t.speak(text)
		if i == 0 {
			t.first[start] = next
		}
		if err := t.follow(at, next); err != nil {
			return err
		}
		at = next
	}
	if sc.Loop {
		return t.follow(at, t.first[start])
	}
	return t.follow(at, t.end)
}

// speak returns a new token with that text.
func (t *table) speak(text string) int {
	id := t.vocab.addPrivate(text)
	t.spoken[id] = true
	return id
}

// follow gives token from a state of its own, after which token to follows.
func (t *table) follow(from, to int) error {
	if _, ok := t.state[from]; ok {
		return fmt.Errorf("token %q has two successors", t.vocab.text[from])
	}
	t.state[from] = len(t.wants)
	t.wants = append(t.wants, []want{{to, chainLogit}})
	return nil
}

// chunks splits text before every space, so that it streams word by word.
func chunks(text string) []string {
	var out []string
	for text != "" {
		i := strings.IndexByte(text[1:], ' ')
		if i < 0 {
			return append(out, text)
		}
		out = append(out, text[:i+1])
		text = text[i+1:]
	}
	return out
}
