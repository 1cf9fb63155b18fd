package loop

import (
	"strconv"

	"qq/pkg/llm"
	"qq/pkg/tool"
)

// callIDs are the ids of the calls in a conversation. The zero value has none.
type callIDs struct {
	known map[string]bool
	made  int // how many ids this run has made
}

// note adds the ids of the calls in earlier messages.
func (s *callIDs) note(history []llm.Message) {
	for _, m := range history {
		for _, c := range m.Calls {
			s.add(c.ID)
		}
	}
}

// identify gives a new id to each call whose id is missing, is that of an earlier call or is not
// valid. Events, transcripts and results name a call by its id alone.
func (s *callIDs) identify(calls []tool.Call) {
	for i := range calls {
		id := &calls[i].ID
		for !tool.ValidID(*id) || s.known[*id] {
			s.made++
			*id = "call_" + strconv.Itoa(s.made)
		}
		s.add(*id)
	}
}

func (s *callIDs) add(id string) {
	if s.known == nil {
		s.known = map[string]bool{}
	}
	s.known[id] = true
}
