package models

import (
	"errors"
	"net/http"
	"sync/atomic"

	"qq/internal/models/dialect"
	"qq/internal/models/wire"
)

// refusals remembers what a server does not take, so that it is not asked for it again.
type refusals struct {
	schemas  atomic.Bool // it holds no answer to a schema, or not to one like this
	thinking atomic.Bool // its model does not think when it is offered tools
}

// taken returns ask as the server takes it, as far as that is known.
func (r *refusals) taken(ask *dialect.Ask) *dialect.Ask {
	ask.NoThinking = len(ask.Tools) > 0 && r.thinking.Load()
	if ask.Schema != nil && r.schemas.Load() {
		return ask.InWords()
	}
	return ask
}

// refused returns the request to send instead of ask, which the server refused with err; nil if there is none. A
// server without schemas, or with rules of its own for them, is asked in words: who asks checks the answer in any case.
func (r *refusals) refused(ask *dialect.Ask, err error) *dialect.Ask {
	f, ok := errors.AsType[*wire.Fault](err)
	switch {
	case !ok, f.Status != http.StatusBadRequest && f.Status != http.StatusUnprocessableEntity, f.BadKey:
		return nil
	case f.Param == "reasoning_effort" && len(ask.Tools) > 0 && !ask.NoThinking: // newer models of OpenAI
		r.thinking.Store(true)
		ask.NoThinking = true
		return ask
	case ask.Schema != nil:
		r.schemas.Store(true)
		return ask.InWords()
	}
	return nil
}
