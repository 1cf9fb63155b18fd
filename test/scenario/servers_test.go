package scenario

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
)

// hosted stands in for a server that speaks chat completions and allows a number of requests in each window of time. It
// says so in the header of its replies, and answers 429 to whoever asks more often. It says each task back.
type hosted struct {
	*httptest.Server
	most   int // requests in a window; 0 is any number
	window time.Duration

	mu    sync.Mutex
	came  []time.Time // requests for a chat, those that were refused too
	tasks []string
	over  int                                            // those that came too early
	fails func(n int, w http.ResponseWriter) (done bool) // answers the nth request in its own way; nil does not
}

func newHosted(t *testing.T, most int, window time.Duration) *hosted {
	t.Helper()
	h := &hosted{most: most, window: window}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

// setting is a variable that names the server.
func (h *hosted) setting(name string) string { return "QQ_SERVER_" + name + "=openai " + h.URL + "/v1" }

// ServeHTTP implements http.Handler.
func (h *hosted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/models") {
		_, _ = w.Write([]byte(`{"data":[{"id":"m","context_length":8192}]}`))
		return
	}
	var req struct {
		Messages []struct{ Role, Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || len(req.Messages) == 0 {
		http.Error(w, "what?", http.StatusBadRequest)
		return
	}
	task := req.Messages[len(req.Messages)-1].Content
	now := time.Now()
	h.mu.Lock()
	h.came, h.tasks = append(h.came, now), append(h.tasks, task)
	n := len(h.came)
	within := slices.DeleteFunc(slices.Clone(h.came), func(t time.Time) bool { return now.Sub(t) >= h.window })
	if h.most > 0 && len(within) > h.most {
		h.over++
	}
	h.mu.Unlock()
	if h.most > 0 {
		w.Header().Set("x-ratelimit-limit-requests", strconv.Itoa(h.most))
		w.Header().Set("x-ratelimit-remaining-requests", strconv.Itoa(max(h.most-len(within), 0)))
		w.Header().Set("x-ratelimit-reset-requests", h.window.String()) // until as many may be sent as at first
		if len(within) > h.most {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
	}
	if h.fails != nil && h.fails(n, w) {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	text, _ := json.Marshal("You said: " + task)
	fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%s}}]}\n\n", text)
	fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}

func (h *hosted) count() (came, over int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.came), h.over
}

// busiest is how many requests came in the busiest window.
func (h *hosted) busiest() (most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, first := range h.came {
		n := 0
		for _, t := range h.came[i:] {
			if t.Sub(first) < h.window {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// deadAddress is where nothing listens.
func deadAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// mixed is a batch of tasks in JSON Lines: n for the model of the run, and between them the given tasks.
func mixed(n int, others ...string) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "{\"task\":\"steady %d\"}\n", i)
		for k := i * len(others) / n; k < (i+1)*len(others)/n; k++ {
			text.WriteString(others[k] + "\n")
		}
	}
	return text.String()
}

// steady returns how long the stand-in was asked, from its first chat to its last.
func steady(s *standin.Server) time.Duration {
	var first, last time.Time
	for _, c := range s.Chats() {
		if first.IsZero() || c.Came.Before(first) {
			first = c.Came
		}
		if c.Came.After(last) {
			last = c.Came
		}
	}
	return last.Sub(first)
}

// TestServersApart: of three servers one is dead and one allows two requests a second. Tasks of the third wait for
// neither, and nobody is asked more often than he allows.
func TestServersApart(t *testing.T) {
	const n, jobs = 120, "--jobs=6"
	s := standin.Start(t, standin.ByName())
	alone := func() time.Duration {
		s.Forget()
		w := newWorld(t, s.Host(), "slow200")
		e := w.qq("batch", "--no-bar", jobs, w.file("tasks.jsonl", mixed(n)))
		require.Equal(t, 0, e.code)
		return steady(s)
	}
	together := func() time.Duration {
		s.Forget()
		h := newHosted(t, 2, time.Second)
		var others []string
		for i := range 24 {
			others = append(others, fmt.Sprintf(`{"task":"never %d","model":"dead:m"}`, i))
			if i%3 == 0 {
				others = append(others, fmt.Sprintf(`{"task":"seldom %d","model":"limited:m"}`, i))
			}
		}
		w := newWorld(t, s.Host(), "slow200", h.setting("limited"), "QQ_SERVER_dead=openai http://"+deadAddress(t)+"/v1")
		r := w.start("", "batch", "--no-bar", jobs, w.file("tasks.jsonl", mixed(n, others...)))
		w.until(runTimeout, "all that can be answered", func() bool {
			came, _ := h.count()
			return s.Count("/api/chat") == n && came >= 8
		})
		took := steady(s)
		time.Sleep(300 * time.Millisecond) // the last answers are on their way
		require.NoError(t, r.cmd.Process.Signal(syscall.SIGINT))
		e := r.wait()
		assert.Contains(t, e.stderr, "no answer from dead at")
		assert.Contains(t, e.stderr, "24 not started")
		assert.Contains(t, e.stderr, "128 completed")
		came, over := h.count()
		assert.Equal(t, 8, came)
		assert.Zero(t, over, "it was asked too often")
		assert.LessOrEqual(t, h.busiest(), 2)
		return took
	}
	ratio := 0.0
	for range 5 { // others use the machine too
		a, b := alone(), together()
		ratio = float64(b) / float64(a)
		t.Logf("alone %v, with the others %v: %.3f", a, b, ratio)
		if ratio <= 1.05 || t.Failed() {
			break
		}
	}
	assert.LessOrEqual(t, ratio, 1.05)
}

// TestServerHangs: a server that accepts requests and never answers delays the tasks of others for some seconds, not for
// its whole idle time, although its tasks have taken all slots.
func TestServerHangs(t *testing.T) {
	t.Parallel() // it waits for most of its time
	const n = 20
	s := standin.Start(t, standin.ByName())
	stuck := standin.Start(t, standin.ByName())
	var others []string
	for i := range n {
		others = append(others, fmt.Sprintf(`{"task":"stuck %d","model":"stuck:hang"}`, i))
	}
	w := newWorld(t, s.Host(), "echo20", "QQ_SERVER_stuck=ollama "+stuck.URL)
	r := w.start("", "batch", "--no-bar", "--jobs=3", w.file("tasks.jsonl", mixed(n, others...)))
	w.until(runTimeout, "the tasks of the other server", func() bool { return s.Count("/api/chat") == n })
	assert.Less(t, steady(s), 25*time.Second)
	assert.LessOrEqual(t, stuck.Count("/api/chat"), 3)
	time.Sleep(300 * time.Millisecond)
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGINT))
	assert.Contains(t, r.wait().stderr, "20 completed")
}

// TestServerDies: a server that dies while its tasks are at work keeps the slots from nobody.
func TestServerDies(t *testing.T) {
	const n = 40
	s := standin.Start(t, standin.ByName())
	dying := standin.Start(t, standin.ByName())
	var others []string
	for i := range n {
		others = append(others, fmt.Sprintf(`{"task":"dying %d","model":"dying:slow200"}`, i))
	}
	w := newWorld(t, s.Host(), "slow200", "QQ_SERVER_dying=ollama "+dying.URL)
	r := w.start("", "batch", "--no-bar", "--jobs=4", w.file("tasks.jsonl", mixed(n, others...)))
	w.until(runTimeout, "the first tasks of both", func() bool { return dying.Count("/api/chat") >= 4 })
	dying.Stop()
	w.until(runTimeout, "the tasks of the other server", func() bool { return s.Count("/api/chat") == n })
	assert.Less(t, steady(s), 20*time.Second, "the breaker is open for a minute")
	time.Sleep(300 * time.Millisecond)
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGINT))
	e := r.wait()
	assert.Contains(t, e.stderr, "circuit breaker open: dying failed 3 times in a row (unreachable)")
	assert.NotContains(t, e.stderr, "unavailable", "none was burned")
}

// usedUp answers requests from the nth on as a server whose quota is used up, up to the request last; 0 is for good.
func usedUp(from, last int, after string) func(int, http.ResponseWriter) bool {
	return func(n int, w http.ResponseWriter) bool {
		if n < from || last > 0 && n > last {
			return false
		}
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"error":{"message":"You exceeded it.","type":"insufficient_quota"}}`))
		return true
	}
}

// TestQuotaUsedUp: the tasks of a server whose quota is used up are not burned. Those of another server go on; the exit
// code and the summary say why, and --resume runs what was not answered.
func TestQuotaUsedUp(t *testing.T) {
	s := standin.Start(t, standin.ByName())
	h := newHosted(t, 0, time.Second)
	h.fails = usedUp(4, 0, "")
	w := newWorld(t, s.Host(), "echo20", h.setting("lab"))
	var others []string
	for i := range 20 {
		others = append(others, fmt.Sprintf(`{"task":"lab %d","model":"lab:m"}`, i))
	}
	tasks := w.file("tasks.jsonl", mixed(20, others...))
	e := w.qq("batch", "--jobs=2", "--output-format=json", tasks)
	assert.Equal(t, 3, e.code)
	assert.Contains(t, e.stderr, "the quota of lab is used up: no more requests are sent to it")
	assert.Contains(t, e.stderr, "qq: the quota of lab is used up: tasks that need it were not started, or ended\n"+
		"  hint: look at your plan and balance there")
	assert.Contains(t, e.stderr, "23 completed")
	assert.Regexp(t, `to continue, repeat the command with --resume=\w+`, e.stderr)
	var results []result
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &results))
	for _, r := range results {
		if strings.HasPrefix(r.Task, "lab") && !*r.Success {
			assert.Equal(t, "cancelled", r.Status, "it can be run again")
			assert.Regexp(t, "the quota of lab is used up|You exceeded it", *r.Error)
		} else {
			assert.True(t, *r.Success)
		}
	}
	came, _ := h.count()
	assert.LessOrEqual(t, came, 5, "it is not asked again")

	h.fails = nil
	asked := s.Count("/api/chat")
	e = w.qq("batch", "--jobs=2", "--resume", "--output-format=json", tasks)
	assert.Equal(t, 0, e.code)
	assert.Contains(t, e.stderr, "40 completed, 23 of them from before")
	assert.Equal(t, asked, s.Count("/api/chat"))
}

// TestQuotaReset: a batch waits for the reset that the server names, if that is wanted.
func TestQuotaReset(t *testing.T) {
	for _, flags := range [][]string{nil, {"--on-quota", "wait"}, {"--on-quota", "stop"}} {
		h := newHosted(t, 0, time.Second)
		h.fails = usedUp(3, 3, "2")
		w := newWorld(t, "127.0.0.1:1", "none", h.setting("lab"), "QQ_RETRIES=0")
		tasks := w.file("tasks.txt", "one\ntwo\nthree\nfour\nfive\n")
		start := time.Now()
		e := w.qq(append(append([]string{"batch", "--jobs=1", "--model=lab:m"}, flags...), tasks)...)
		if len(flags) > 0 && flags[1] == "stop" {
			assert.Equal(t, 3, e.code)
			assert.Contains(t, e.stderr, "2 completed, 1 cancelled, 2 not started")
			assert.Equal(t, 1, strings.Count(e.stderr, "look at your plan and balance there"), "%s", e.stderr)
			continue
		}
		assert.Equal(t, 0, e.code)
		assert.Contains(t, e.stderr, "the quota of lab is used up: requests wait 2s for its reset")
		assert.GreaterOrEqual(t, time.Since(start), 2*time.Second)
		came, _ := h.count()
		assert.Equal(t, 6, came)
	}
}

// TestQuotaOfAPrompt: a single prompt ends, and says what to do.
func TestQuotaOfAPrompt(t *testing.T) {
	h := newHosted(t, 0, time.Second)
	h.fails = usedUp(1, 0, "")
	w := newWorld(t, "127.0.0.1:1", "none", h.setting("lab"))
	e := w.qq("--model=lab:m", "hello")
	assert.Equal(t, 3, e.code)
	assert.Contains(t, e.stderr, "answered 429: ")
	assert.Contains(t, e.stderr, "hint: look at your plan and balance there")
	came, _ := h.count()
	assert.Equal(t, 1, came, "a retry would be useless")

	e = w.qq("--model=lab:m", "--on-quota=wait", "--timeout=2", "hello")
	assert.Equal(t, 124, e.code)
	assert.Contains(t, e.stderr,
		"qq: the quota of lab is used up, and the server does not say until when: it is asked again in 600s\n")
	h.fails = usedUp(3, 3, "1")
	e = w.qq("--model=lab:m", "--on-quota=wait", "hello")
	assert.Zero(t, e.code)
	assert.Contains(t, e.stderr, "qq: the quota of lab is used up: requests wait 1s for its reset\n")
}
