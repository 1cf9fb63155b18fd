package gate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
)

// server is a model server that serves some requests at once, in the order in
// which they come, and lets others wait.
type server struct {
	slots  int
	silent bool // it does not say how long a request waited
	// cost is how long a request takes to read and to answer.
	cost func() (prompt, answer time.Duration)
	// jitter is how long a request may be on its way: they come in any order.
	jitter time.Duration
	// pause is how long the server needs to begin with a request: for a moment
	// neither that nor the one before it is being served.
	pause time.Duration

	mu      sync.Mutex
	serving int
	line    []chan struct{}
}

func (s *server) begin() {
	s.mu.Lock()
	if s.serving < s.slots {
		s.serving++
		s.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	s.line = append(s.line, turn)
	s.mu.Unlock()
	<-turn
}

func (s *server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.line) == 0 {
		s.serving--
		return
	}
	close(s.line[0])
	s.line = s.line[1:]
}

func (s *server) way() time.Duration { return time.Duration(rand.Int64N(int64(s.jitter) + 1)) }

// chat sends one request and streams its answer.
func (s *server) chat(p llm.Permit) {
	prompt, answer := s.cost()
	time.Sleep(s.way())
	sent := time.Now()
	s.begin()
	time.Sleep(s.pause)
	start := time.Now()
	time.Sleep(prompt)
	for range 4 {
		p.Active()
		time.Sleep(answer / 4)
	}
	r := llm.Report{}
	if !s.silent {
		r.Timing = llm.Timing{Queued: start.Sub(sent), Served: time.Since(start)}
	}
	s.end()
	p.Leave(r)
}

// crowd has that many clients ask s, one request after the other, as often as
// rounds says. The limit is written down whenever a request was answered.
func crowd(t *testing.T, s *server, ceiling, clients, rounds int) (limits []int) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: ceiling})
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				for range rounds {
					p, err := g.Enter(t.Context(), "m", false, nil)
					if !assert.NoError(t, err) {
						return
					}
					s.chat(p)
					mu.Lock()
					limits = append(limits, g.Limit())
					mu.Unlock()
				}
			})
		}
		wg.Wait()
	})
	return limits
}

func fixed(prompt, answer time.Duration) func() func() (time.Duration, time.Duration) {
	return func() func() (time.Duration, time.Duration) {
		return func() (time.Duration, time.Duration) { return prompt, answer }
	}
}

// varied takes anything from half to twice as long, the same each time.
func varied(prompt, answer time.Duration) func() func() (time.Duration, time.Duration) {
	return func() func() (time.Duration, time.Duration) {
		rnd := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		some := func(d time.Duration) time.Duration { return d/2 + time.Duration(rnd.Int64N(int64(d)*3/2+1)) }
		return func() (time.Duration, time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			return some(prompt), some(answer)
		}
	}
}

// share is how much of limits is from low to high.
func share(limits []int, low, high int) float64 {
	n := 0
	for _, l := range limits {
		if l >= low && l <= high {
			n++
		}
	}
	return float64(n) / float64(len(limits))
}

func TestLimitFindsWhatTheServerServes(t *testing.T) {
	for name, cost := range map[string]func() func() (time.Duration, time.Duration){
		"all the same": fixed(time.Second, 4*time.Second),
		"varied":       varied(time.Second, 4*time.Second),
		"long prompts": varied(20*time.Second, time.Second),
		"long answers": varied(time.Second, time.Minute),
		"short":        varied(20*time.Millisecond, 100*time.Millisecond),
	} {
		for _, silent := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, silent %t", name, silent), func(t *testing.T) {
				// What a silent server with long prompts serves cannot be told from a
				// fast one that takes them apart.
				vague := silent && name == "long prompts"
				t.Run("one", func(t *testing.T) {
					limits := crowd(t, &server{slots: 1, cost: cost(), silent: silent}, 5, 5, 30)
					if !vague {
						assert.Equal(t, 1, slices.Min(limits[:5]), "in the first round: %v", limits)
						assert.LessOrEqual(t, slices.Max(limits[5:]), 2, "%v", limits)
						assert.Greater(t, share(limits[5:], 1, 1), 0.7, "%v", limits)
					}
				})
				t.Run("four", func(t *testing.T) {
					limits := crowd(t, &server{slots: 4, cost: cost(), silent: silent}, 12, 16, 20)
					if !vague {
						assert.LessOrEqual(t, slices.Min(limits[:12]), 5, "in the first round: %v", limits)
						assert.Equal(t, 1.0, share(limits[24:], 3, 7), "%v", limits)
						assert.Greater(t, share(limits[24:], 3, 5), 0.8, "%v", limits)
					}
					if !silent {
						// The order of goroutines is that of the scheduler, which rarely makes one limit differ.
						assert.Greater(t, share(limits[24:], 3, 5), 0.98, "%v", limits)
						assert.Greater(t, share(limits[24:], 4, 4), 0.5, "%v", limits)
					}
				})
				t.Run("all", func(t *testing.T) {
					limits := crowd(t, &server{slots: 100, cost: cost(), silent: silent}, 8, 16, 40)
					assert.Equal(t, 1.0, share(limits, 8, 8), "%v", limits)
				})
			})
		}
	}
}

// Requests that were let pass at the same time reach the server in any order.
func TestLimitWhereRequestsOvertake(t *testing.T) {
	for _, silent := range []bool{false, true} {
		cost := varied(time.Second, 4*time.Second)
		limits := crowd(t, &server{slots: 1, cost: cost(), silent: silent, jitter: 100 * time.Millisecond}, 5, 5, 30)
		assert.LessOrEqual(t, slices.Min(limits[:10]), 2, "%v", limits)
		assert.LessOrEqual(t, slices.Max(limits[10:]), 2, "%v", limits)
		limits = crowd(t, &server{slots: 4, cost: cost(), silent: silent, jitter: 100 * time.Millisecond}, 12, 16, 40)
		assert.Equal(t, 1.0, share(limits[24:], 2, 6), "%v", limits)
		assert.Greater(t, share(limits[24:], 3, 5), 0.8, "%v", limits)
		limits = crowd(t, &server{slots: 100, cost: cost(), silent: silent, jitter: 100 * time.Millisecond}, 8, 16, 40)
		assert.Equal(t, 1.0, share(limits, 8, 8), "%v", limits)
	}
}

// Requests that all end and begin together leave moments in which nothing is
// served.
func TestLimitOfAServerThatPauses(t *testing.T) {
	cost := fixed(20*time.Millisecond, 100*time.Millisecond)()
	limits := crowd(t, &server{slots: 4, cost: cost, pause: 18 * time.Millisecond}, 8, 8, 10)
	assert.GreaterOrEqual(t, slices.Min(limits), 4, "%v", limits)
	assert.LessOrEqual(t, slices.Max(limits[8:]), 5, "%v", limits)
}

// A limit that is found does not last for ever: a server that gets more room is
// used, and one that loses some is spared.
func TestLimitFollowsTheServer(t *testing.T) {
	s := &server{slots: 1, cost: fixed(time.Second, 4*time.Second)()}
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 8})
		work := func(rounds int) {
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for range rounds {
						p, err := g.Enter(t.Context(), "m", false, nil)
						require.NoError(t, err)
						s.chat(p)
					}
				})
			}
			wg.Wait()
		}
		work(5)
		assert.LessOrEqual(t, g.Limit(), 2)
		s.slots = 6
		work(60)
		assert.GreaterOrEqual(t, g.Limit(), 5)
		s.slots = 2
		work(5)
		assert.LessOrEqual(t, g.Limit(), 3)
	})
}

// A server that sends requests away is asked for half as many, once for all that
// it sent away together.
func TestLimitIsHalvedByBusy(t *testing.T) {
	g := NewGate(Config{MaxInFlight: 8})
	busy := llm.Report{Kind: llm.Busy, RetryAfter: time.Nanosecond}
	for _, want := range []int{4, 2, 1, 1} {
		permits := enter(t, g, g.Limit())
		for _, p := range permits {
			p.Leave(busy)
		}
		assert.Equal(t, want, g.Limit())
	}
	// It rises again with each round of answers.
	for _, want := range []int{2, 3, 4, 5, 6, 7, 8, 8} {
		permits := enter(t, g, g.Limit())
		for _, p := range permits {
			p.Leave(llm.Report{Timing: llm.Timing{Served: time.Second}})
		}
		assert.Equal(t, want, g.Limit())
	}
	// One request at a time is no use of the limit.
	enter(t, g, 1)[0].Leave(busy)
	require.Equal(t, 4, g.Limit())
	for range 100 {
		enter(t, g, 1)[0].Leave(llm.Report{Timing: llm.Timing{Served: time.Second}})
	}
	assert.Equal(t, 4, g.Limit())
}

// then costs what is in first, one after the other, and after that the same
// always.
func then(first []time.Duration, prompt, answer time.Duration) func() (time.Duration, time.Duration) {
	var mu sync.Mutex
	return func() (time.Duration, time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if len(first) == 0 {
			return prompt, answer
		}
		prompt := first[0]
		first = first[1:]
		return prompt, answer
	}
}

// A prompt that is much longer than others does not look like a line.
func TestLimitAndOneLongPrompt(t *testing.T) {
	s := &server{slots: 100, silent: true, cost: then([]time.Duration{time.Minute}, time.Second, 4*time.Second)}
	limits := crowd(t, s, 4, 4, 20)
	assert.Equal(t, 1.0, share(limits, 4, 4), "%v", limits)
}

// Nor does one that was much shorter keep the limit low for ever.
func TestLimitAndOneShortPrompt(t *testing.T) {
	s := &server{slots: 100, silent: true, cost: then([]time.Duration{time.Millisecond}, time.Minute, time.Second)}
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 4})
		enter(t, g, 1)[0].Leave(llm.Report{Kind: llm.Busy, RetryAfter: time.Nanosecond})
		time.Sleep(time.Second)
		s.chat(enter(t, g, 1)[0])
		require.Equal(t, 2, g.Limit())
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 15 * time.Second) // never are two answered at once
				for range 60 {
					p, err := g.Enter(t.Context(), "m", false, nil)
					require.NoError(t, err)
					s.chat(p)
				}
			})
		}
		wg.Wait()
		assert.Equal(t, 4, g.Limit())
	})
}

// A server that was slow for a moment served no fewer requests for that. A request that waits behind others is taken
// up when one of them ends, and none ended.
func TestLimitAndAShortDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 50})
		permits := enter(t, g, 50)
		time.Sleep(20 * time.Millisecond)
		permits[9].Active()
		permits[9].Leave(llm.Report{Timing: llm.Timing{Queued: 15 * time.Millisecond, Served: time.Millisecond}})
		assert.Equal(t, 50, g.Limit())
		p := enter(t, g, 1)[0]
		time.Sleep(20 * time.Millisecond)
		permits[8].Leave(llm.Report{Timing: llm.Timing{Served: 40 * time.Millisecond}})
		time.Sleep(time.Millisecond)
		p.Active()
		p.Leave(llm.Report{Timing: llm.Timing{Queued: 20 * time.Millisecond, Served: time.Millisecond}})
		assert.Less(t, g.Limit(), 50, "it was taken up when another ended")
	})
}
