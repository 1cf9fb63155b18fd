package approval

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/event"
	"qq/pkg/tool"
)

// rivals is a queue that several answer at the same time: a terminal, which is its Prompter, and faces.
type rivals struct {
	*Queue
	terminal func(q tool.Question, desk Desk) error // what the terminal does with a question, after a while

	mu   sync.Mutex
	won  map[string][]string // the answers that were taken, by the id of the question
	over map[string]string   // how each question was resolved
	open map[string]bool
}

func newRivals(cfg QueueConfig) *rivals {
	r := &rivals{won: map[string][]string{}, over: map[string]string{}, open: map[string]bool{}}
	cfg.Prompter, cfg.Events = asking{r}, r
	r.Queue = NewQueue(cfg)
	return r
}

// Emit implements Emitter.
func (r *rivals) Emit(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case e.Type == event.ValidationRequired:
		r.open[e.QuestionID] = true
	case !r.open[e.QuestionID]:
		r.over[e.QuestionID] = "twice"
	default:
		delete(r.open, e.QuestionID)
		r.over[e.QuestionID] = e.Decision + " " + e.AnsweredBy
	}
}

// answers answers, and notes it if the answer is taken.
func (r *rivals) answers(id string, a Answer, by string) error {
	err := r.Queue.Answer(id, a, by)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.won[id] = append(r.won[id], string(a)+" "+by)
	}
	return err
}

// prompt is what the queue calls.
func (r *rivals) prompt(ctx context.Context, q tool.Question, desk Desk) error {
	if err := r.terminal(q, desk); err != nil || desk.Over(q.ID) != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// asking is the Prompter of rivals.
type asking struct{ *rivals }

// Ask implements Prompter.
func (a asking) Ask(ctx context.Context, q tool.Question, desk Desk) error {
	desk.Shown(q.ID)
	return a.prompt(ctx, q, desk)
}

// check looks at the end: each question was resolved once, as the only answer that was taken says.
func (r *rivals) check(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	assert.Empty(t, r.open, "resolved each")
	assert.Empty(t, r.Open())
	for id, over := range r.over {
		switch won := r.won[id]; len(won) {
		case 0:
			assert.Contains(t,
				[]string{"session terminal", "session socket", "session ", "unanswered ", "cancelled "}, over)
		case 1:
			special := strings.Replace(won[0], "session", "once", 1)
			assert.Contains(t, []string{won[0], special}, over)
		default:
			assert.Fail(t, "two answers were taken", won)
		}
	}
}

// The terminal and two faces answer at the same moment, while the asker may go. Exactly one of them wins, and the
// others are told.
func TestAnswerRace(t *testing.T) {
	for range 1000 {
		r := newRivals(QueueConfig{})
		start := make(chan struct{})
		r.terminal = func(q tool.Question, _ Desk) error {
			<-start
			_ = r.answers(q.ID, Once, ByTerminal)
			return nil
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		var d tool.Decision
		var asker, others sync.WaitGroup
		asker.Go(func() { d = r.Ask(ctx, tool.Question{Intent: intent("edit", "")}) })
		for len(r.Open()) == 0 {
			time.Sleep(10 * time.Microsecond)
		}
		id := r.Open()[0].ID
		errs := make([]error, 2)
		for i := range errs {
			others.Go(func() {
				<-start
				errs[i] = r.answers(id, No, BySocket)
			})
		}
		if rand.IntN(4) == 0 {
			others.Go(func() {
				<-start
				cancel(errors.New("gone"))
			})
		}
		close(start)
		asker.Wait()
		others.Wait()
		cancel(nil)
		r.check(t)
		require.Equal(t, r.over[id] == "once terminal", d.Allowed, r.over[id])
		for _, err := range errs {
			var over *OverError
			require.True(t, err == nil || errors.As(err, &over), err)
		}
	}
}

// 1,000 random scenes: whoever asks, answers, puts off, comes and goes when, each question ends once, as the only
// answer that was taken says, and no asker waits for ever.
func TestAnyInterleaving(t *testing.T) {
	for seed := range uint64(1000) {
		synctest.Test(t, func(t *testing.T) { interleaved(t, rand.New(rand.NewPCG(seed, 14))) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func interleaved(t *testing.T, random *rand.Rand) {
	t.Helper()
	soon := func() time.Duration { return time.Duration(random.IntN(8)) * time.Second }
	pick := func(of ...Answer) Answer { return of[random.IntN(len(of))] }
	r := newRivals(QueueConfig{Timeout: time.Duration(random.IntN(3)) * 5 * time.Second})
	if random.IntN(4) == 0 {
		r.gone = true // there is no terminal
	}
	type doing struct {
		after time.Duration
		what  int
		a     Answer
		n     int
	}
	typed := make([]doing, 20)
	for i := range typed {
		typed[i] = doing{soon(), random.IntN(12), pick(Once, Once, No, Session), random.IntN(5)}
	}
	turn := 0
	r.terminal = func(q tool.Question, desk Desk) error {
		do := typed[turn%len(typed)]
		turn++
		time.Sleep(do.after)
		open := desk.Waiting()
		switch {
		case do.what == 0 && turn < 40:
			return ErrBackground
		case do.what == 1:
			return errors.New("hung up")
		case do.what == 2 && desk.PutOff(q.ID):
			return ErrPutOff
		case do.what < 6 && len(open) > 0: // another one of the list
			_ = r.answers(open[do.n%len(open)].ID, do.a, ByTerminal)
		}
		if desk.Over(q.ID) == nil {
			_ = r.answers(q.ID, do.a, ByTerminal)
		}
		return nil
	}
	var wg sync.WaitGroup
	for i := range 1 + random.IntN(8) {
		from, gone, special := soon(), soon(), random.IntN(4) == 0
		wg.Go(func() {
			time.Sleep(from)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if gone > 0 && gone < 4*time.Second {
				defer time.AfterFunc(gone, cancel).Stop()
			}
			in := intent([]string{"edit", "shell"}[i%2], fmt.Sprint(i))
			in.Special = special
			d := r.Ask(ctx, tool.Question{Intent: in})
			assert.Equal(t, d.Allowed, d.Reason == "")
		})
	}
	for range random.IntN(4) {
		from, stays, answers := soon(), soon(), make([]doing, 3)
		for i := range answers {
			answers[i] = doing{soon(), 0, pick(Once, No, Session), random.IntN(5)}
		}
		wg.Go(func() {
			time.Sleep(from)
			leave := r.Attend()
			for _, do := range answers {
				time.Sleep(do.after)
				if open := r.Open(); len(open) > 0 {
					_ = r.answers(open[do.n%len(open)].ID, do.a, BySocket)
				}
			}
			time.Sleep(stays)
			leave()
		})
	}
	wg.Wait()
	synctest.Wait()
	r.check(t)
	assert.Nil(t, r.turn)
	assert.Zero(t, r.faces)
}

// A question that a person puts off waits for a face, and not for ever.
func TestPutOffTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRivals(QueueConfig{Timeout: time.Minute})
		r.terminal = func(q tool.Question, desk Desk) error {
			time.Sleep(time.Second)
			open := desk.Waiting()
			assert.True(t, desk.PutOff(open[len(open)-1].ID))
			return nil
		}
		defer r.Attend()()
		var wg sync.WaitGroup
		start := time.Now()
		for i := range 2 {
			wg.Go(func() {
				d := r.Ask(t.Context(), tool.Question{Intent: intent("edit", fmt.Sprint(i))})
				assert.Contains(t, d.Reason, "nobody answered within 60s")
			})
			synctest.Wait()
		}
		wg.Wait()
		assert.Equal(t, time.Minute+time.Second, time.Since(start))
		r.check(t)
	})
}
