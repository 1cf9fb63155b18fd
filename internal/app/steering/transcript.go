package steering

import (
	"encoding/json"
	"strings"
	"sync"
	"time"

	"qq/internal/app/command"
	"qq/internal/app/output/transcript"
	"qq/pkg/llm"
)

const (
	// readEvery is how often a transcript is read again.
	readEvery = 500 * time.Millisecond
	// maxLog is how many bytes of a transcript are shown at most: the last ones.
	maxLog = 4 << 20
)

// Transcript is the transcript of one job, and what its model writes now. It is read again and again until Close.
type Transcript struct {
	of   Act
	news chan struct{}
	done chan struct{}

	mu      sync.Mutex
	next    int64
	entries []llm.Entry
	sizes   []int // of the entries
	total   int   // bytes of them
	cut     bool
	writes  string
	problem string
}

// Follow returns the transcript of a job.
func Follow(of Act) *Transcript {
	t := &Transcript{of: of, news: make(chan struct{}, 1), done: make(chan struct{})}
	go func() {
		tick := time.NewTicker(readEvery)
		defer tick.Stop()
		for {
			for more := true; more; {
				more = t.refresh()
			}
			select {
			case t.news <- struct{}{}:
			default:
			}
			select {
			case <-t.done:
				return
			case <-tick.C:
			}
		}
	}()
	return t
}

// News returns a channel that tells when the transcript was read.
func (t *Transcript) News() <-chan struct{} { return t.news }

// Close ends the reading. It does not wait for a run that does not reply.
func (t *Transcript) Close() { close(t.done) }

// refresh reads what is new. It reports whether there is more to read at once.
func (t *Transcript) refresh() (more bool) {
	got, err := t.of.Run.Log(t.of.ID, t.next)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.problem = said(err, ""); err != nil {
		return false
	}
	t.writes, t.next = got.Text, got.Next
	for _, line := range got.Entries {
		var e llm.Entry
		if json.Unmarshal(line, &e) != nil || e.Role == "" { // the header, or a line that is left out
			continue
		}
		t.entries, t.sizes, t.total = append(t.entries, e), append(t.sizes, len(line)), t.total+len(line)
	}
	for t.total > maxLog && len(t.entries) > 1 {
		t.total -= t.sizes[0]
		t.entries, t.sizes, t.cut = t.entries[1:], t.sizes[1:], true
	}
	return got.More && len(got.Entries) > 0
}

// Text returns the transcript for a person.
func (t *Transcript) Text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	if t.cut {
		b.WriteString("(the beginning is left out: qq runs show --log has all)\n")
	}
	b.WriteString(transcript.Text(t.entries, nil))
	if t.writes != "" {
		b.WriteString("\n── writes\n│ " + strings.ReplaceAll(command.Printable(t.writes), "\n", "\n│ ") + "\n")
	}
	if t.problem != "" {
		b.WriteString("\n" + t.problem + "\n")
	}
	return strings.TrimLeft(b.String(), "\n")
}
