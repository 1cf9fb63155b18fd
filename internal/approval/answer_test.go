package approval

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/event"
	"qq/pkg/tool"
)

// opened returns the ids of the open questions, by the summary.
func (h *hearing) opened() map[string]string {
	ids := map[string]string{}
	for _, q := range h.Open() {
		ids[q.Intent.Summary] = q.ID
	}
	return ids
}

// where lists where the questions were answered, by the summary.
func (h *hearing) where() map[string]string {
	by := map[string]string{}
	for _, e := range h.events {
		if e.Type == event.ValidationResolved {
			by[e.Intent.Summary] = e.AnsweredBy
		}
	}
	return by
}

// Three children ask at once. A face answers them in reverse order, and the terminal lets go of the one that it shows.
func TestAnswerInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHearing(QueueConfig{})
		for i := range 3 {
			h.ask(t.Context(), "edit", fmt.Sprint(i))
		}
		open := h.Open()
		require.Len(t, open, 3)
		for i, q := range open {
			assert.Equal(t, fmt.Sprint(i), q.Intent.Summary, "the oldest first")
			assert.Equal(t, []string{"default", "coder"}, q.Chain)
		}
		for i, a := range []Answer{Once, No, Once} {
			time.Sleep(time.Second)
			require.NoError(t, h.Answer(open[2-i].ID, a, BySocket))
			synctest.Wait()
			assert.Len(t, h.Open(), 2-i)
		}
		h.wg.Wait()
		assert.Equal(t, map[string]heard{"2": {yes, time.Second},
			"1": {tool.Decision{Reason: "the user said no"}, 2 * time.Second}, "0": {yes, 3 * time.Second}}, h.got)
		assert.Equal(t, map[string]string{"0": "socket", "1": "socket", "2": "socket"}, h.where())
		assert.Equal(t, []string{"0"}, h.shown)
	})
}

// An answer to what is over says how it ended, and one to what never was says that.
func TestAnswerTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHearing(QueueConfig{Timeout: time.Minute}, saying{time.Second, Once, nil, false})
		ctx, cancel := context.WithCancelCause(t.Context())
		h.ask(t.Context(), "edit", "answered")
		h.ask(t.Context(), "edit", "late")
		h.ask(ctx, "edit", "withdrawn")
		ids := h.opened()
		cancel(errors.New("timed out"))
		h.wg.Wait()
		for summary, want := range map[string]string{
			"answered": "was already answered at the terminal of its run: once", "late": "is over: unanswered",
			"withdrawn": "is over: cancelled",
		} {
			var over *OverError
			err := h.Answer(ids[summary], No, BySocket)
			require.ErrorAs(t, err, &over, summary)
			assert.ErrorContains(t, err, want)
		}
		assert.ErrorIs(t, h.Answer("none", No, BySocket), ErrUnknownQuestion)
		assert.EqualError(t, h.Answer("none", "maybe", BySocket),
			`no answer "maybe". The answers are: once, session, folder, no`)
		for i := range maxOver {
			h.ask(t.Context(), "edit", fmt.Sprint(i))
			require.NoError(t, h.Answer(h.opened()[fmt.Sprint(i)], No, BySocket))
			h.wg.Wait()
		}
		assert.ErrorIs(t, h.Answer(ids["late"], No, BySocket), ErrUnknownQuestion, "it is forgotten")
		assert.Len(t, h.over, maxOver)
	})
}

// What is allowed for the session by a face counts for all who wait for the same, also the one on the terminal.
func TestAnswerForTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHearing(QueueConfig{}, saying{}, saying{time.Second, No, nil, false})
		special := intent("edit", "special")
		special.Special = true
		h.ask(t.Context(), "edit", "0")
		h.ask(t.Context(), "shell", "1")
		h.ask(t.Context(), "edit", "2")
		h.wg.Go(func() { h.Queue.Ask(t.Context(), tool.Question{Intent: special}) })
		synctest.Wait()
		require.NoError(t, h.Answer(h.opened()["2"], Session, BySocket))
		synctest.Wait()
		assert.Equal(t, map[string]string{"0": "session", "2": "session"}, h.decided())
		assert.Equal(t, map[string]string{"0": "socket", "2": "socket"}, h.where())
		require.NoError(t, h.Answer(h.opened()["special"], Session, BySocket))
		h.wg.Wait()
		assert.Equal(t, "once", h.decided()["special"], "it is asked about each time")
		assert.Equal(t, []string{"0", "1"}, h.shown)
	})
}

// Without a terminal, questions wait for the faces that can answer, each for the time that a question waits, and no
// longer than there is one.
func TestAttend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHearing(QueueConfig{Timeout: time.Minute})
		h.Queue = NewQueue(QueueConfig{Events: h, Timeout: time.Minute})
		h.ask(t.Context(), "edit", "nobody")
		assert.Contains(t, h.got["nobody"].Reason, "nobody can be asked here")

		leave := h.Attend()
		assert.True(t, h.Needs(tool.Question{Intent: intent("edit", "")}))
		long := intent("edit", "long")
		long.Cut = true
		assert.Contains(t, h.Queue.Ask(t.Context(), tool.Question{Intent: long}).Reason, "too long to be shown")
		h.ask(t.Context(), "edit", "answered")
		h.ask(t.Context(), "edit", "late")
		time.Sleep(time.Second)
		require.NoError(t, h.Answer(h.opened()["answered"], Once, BySocket))
		h.wg.Wait()
		assert.Equal(t, heard{yes, time.Second}, h.got["answered"])
		assert.Equal(t, time.Minute, h.got["late"].at)
		assert.Contains(t, h.got["late"].Reason, "nobody answered within 60s")

		h.ask(t.Context(), "edit", "left")
		stay := h.Attend()
		leave()
		leave()
		synctest.Wait()
		assert.Len(t, h.Open(), 1, "one is there")
		stay()
		h.wg.Wait()
		assert.Contains(t, h.got["left"].Reason, "nobody can be asked here")
		assert.Equal(t, "unanswered", h.decided()["left"])
		assert.False(t, h.Needs(tool.Question{Intent: intent("edit", "")}))
		assert.Empty(t, h.shown)
	})
}

// near says that a face is near until then.
type near time.Time

func (n near) Near() bool { return time.Now().Before(time.Time(n)) }

// A face that is about to find the run is waited for, at its start, and not longer than it is there.
func TestAttendSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHearing(QueueConfig{})
		begin := func(until time.Duration) {
			h.Queue = NewQueue(QueueConfig{Events: h, Faces: near(time.Now().Add(until))})
		}
		begin(time.Hour)
		assert.True(t, h.Needs(tool.Question{Intent: intent("edit", "")}))
		h.ask(t.Context(), "edit", "answered")
		time.Sleep(time.Second)
		leave := h.Attend()
		synctest.Wait()
		require.NoError(t, h.Answer(h.opened()["answered"], Once, BySocket))
		h.wg.Wait()
		assert.Equal(t, heard{yes, time.Second}, h.got["answered"])
		leave()
		time.Sleep(findTime)
		assert.False(t, h.Needs(tool.Question{Intent: intent("edit", "")}), "it had its time")

		for name, times := range map[string][2]time.Duration{"gone": {time.Second, time.Second},
			"silent": {time.Hour, findTime}, "none": {}} {
			begin(times[0])
			start := time.Now()
			h.ask(t.Context(), "edit", name)
			h.wg.Wait()
			assert.Equal(t, times[1], time.Since(start).Round(100*time.Millisecond), name)
			assert.Contains(t, h.got[name].Reason, "nobody can be asked here")
		}
	})
}

// In the background of its shell, and when the terminal is lost, qq leaves a question to the faces.
func TestAttendInstead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHearing(QueueConfig{}, saying{after: time.Second, err: ErrBackground},
			saying{after: time.Second, err: ErrBackground}, saying{after: time.Second, err: errors.New("hung up")})
		leave := h.Attend()
		h.ask(t.Context(), "edit", "background")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Len(t, h.Open(), 1)
		require.NoError(t, h.Answer(h.opened()["background"], Once, BySocket))
		h.wg.Wait()
		assert.True(t, h.got["background"].Allowed)

		h.ask(t.Context(), "edit", "left")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Len(t, h.Open(), 1)
		leave()
		leave = h.Attend()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"background", "left", "left"}, h.shown, "the terminal is asked again")
		assert.Len(t, h.Open(), 1, "it is lost, but a face is there")
		leave()
		h.wg.Wait()
		assert.Contains(t, h.got["left"].Reason, "nobody can be asked here")
	})
}

// TestTimeFromShown: a question that the prompter has not shown yet has all its time; all that a list shows are timed.
func TestTimeFromShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends [2]time.Duration
		q := NewQueue(QueueConfig{Timeout: time.Minute, Prompter: late{}})
		start := time.Now()
		var asking sync.WaitGroup
		for i := range ends {
			asking.Go(func() {
				q.Ask(t.Context(), tool.Question{Intent: intent("edit", "")})
				ends[i] = time.Since(start)
			})
		}
		asking.Wait()
		assert.Equal(t, [2]time.Duration{3 * time.Minute, 3 * time.Minute}, ends)
	})
}

// late is a Prompter that shows all questions after two minutes.
type late struct{}

func (late) Ask(ctx context.Context, _ tool.Question, desk Desk) error {
	select {
	case <-ctx.Done():
	case <-time.After(2 * time.Minute):
	}
	for _, q := range desk.Waiting() {
		desk.Shown(q.ID)
	}
	<-ctx.Done()
	return ctx.Err()
}
