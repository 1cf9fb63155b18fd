package main

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"qq/internal/standin"
)

// said is the answer of the model "fast".
const said = "One two three."

// once returns a rule that affects only the first request.
func once(f standin.Fault) standin.Rule {
	f.Times = 1
	return standin.Rule{Fault: f}
}

// later returns a Retry-After header.
func later(d time.Duration) http.Header {
	return http.Header{"Retry-After": {strconv.Itoa(int(d / time.Second))}}
}

// repeated is the expected outcome of a fault that is over at the second request.
func repeated() outcome {
	return outcome{exit: 0, status: "completed", requests: 2, output: said, least: 200 * time.Millisecond,
		most: 5 * time.Second}
}

// first503: the server refuses the first request with 503, and answers the second.
func first503(s *stage) error {
	s.server.Strike(once(standin.Fault{Status: 503}))
	_, err := s.ask("fast", repeated())
	return err
}

// retryAfter: the server sends Retry-After; no request comes earlier.
func retryAfter(s *stage) error {
	s.server.Strike(once(standin.Fault{Status: 429, Header: later(2 * time.Second)}))
	want := repeated()
	want.least, want.most = 2*time.Second, 6*time.Second
	_, err := s.ask("fast", want)
	s.quietFor(2*time.Second, 0)
	return err
}

// retryAfterOfOne: the server sends Retry-After to one child; all five children obey it.
func retryAfterOfOne(s *stage) error {
	s.server.Strike(once(standin.Fault{Status: 429, Header: later(2 * time.Second)}))
	tasks, err := s.tasks("tasks", 20, 0)
	if err != nil {
		return err
	}
	e, list, err := s.batch(batch{tasks: tasks, model: "slow20", jobs: 5})
	if err != nil {
		return err
	}
	s.survived(e, list, 20)
	s.expect(s.row.requests == 21, "%d requests, expected 21", s.row.requests)
	s.inTime(e.took, 2*time.Second, 8*time.Second)
	s.quietFor(2*time.Second, 100*time.Millisecond)
	return nil
}

// quietFor expects that no request comes during d after the status 429, except those that were
// sent before the root knew of it.
func (s *stage) quietFor(d, before time.Duration) {
	chats := s.server.Chats()
	for _, struck := range chats {
		if struck.Status != 429 {
			continue
		}
		for _, c := range chats {
			after := c.Came.Sub(struck.Ended)
			s.expect(after <= before || after >= d, "a request came %v after the answer 429, expected none before %v",
				after, d)
		}
	}
}

// connectionReset: the connection of the first request is reset.
func connectionReset(s *stage) error {
	s.server.Strike(once(standin.Fault{Break: standin.Reset}))
	_, err := s.ask("fast", repeated())
	return err
}

// streamCut: the first answer breaks off in the middle. Its text is not part of the second
// answer.
func streamCut(s *stage) error {
	s.server.Strike(once(standin.Fault{Break: standin.Cut, After: 2}))
	_, err := s.ask("fast", repeated())
	return err
}

// streamCutAsText: the same for text output instead of JSON.
func streamCutAsText(s *stage) error {
	s.server.Strike(once(standin.Fault{Break: standin.Cut, After: 2}))
	p, err := s.start(nil, "--model", s.model("fast"), "Say something.")
	if err != nil {
		return err
	}
	e, err := p.wait()
	if err != nil {
		return err
	}
	s.row.played, s.row.exit, s.row.took, s.row.requests, s.row.status = true, e.code, e.took,
		s.server.Asked(), "(text)"
	s.expect(e.code == 0, "exit code %d, expected 0: %.500q", e.code, e.stderr)
	s.expect(e.stdout == said+"\n", "stdout %q, expected %q", e.stdout, said+"\n")
	s.expect(s.row.requests == 2, "%d requests, expected 2", s.row.requests)
	return nil
}

// streamStalled: the server stops sending in the middle of its answer. The inactivity timeout
// ends the task, and its partial output is kept.
func streamStalled(s *stage) error {
	s.server.Strike(standin.Rule{Fault: standin.Fault{Break: standin.Stall, After: 2}})
	r, err := s.ask("fast", outcome{exit: 124, status: "idle", requests: 1, least: time.Second, most: 8 * time.Second},
		"--idle-timeout", "1")
	s.expect(r.output() == "One two", "output %q, expected what was said: %q", r.output(), "One two")
	return err
}

// childStreamStalled: the same for a child; the other task is done.
func childStreamStalled(s *stage) error {
	s.server.Strike(once(standin.Fault{Break: standin.Stall, After: 2}))
	list, err := s.oneFails("fast", "idle", 124, "QQ_IDLE_TIMEOUT=1")
	if len(list) == 2 {
		s.expect(list[0].output() == "One two", "output %q, expected what was said: %q", list[0].output(), "One two")
	}
	return err
}

// oneFails runs a batch of two tasks, one after the other, and expects the first to end with that
// status.
func (s *stage) oneFails(model, status string, exit int, env ...string) ([]result, error) {
	tasks, err := s.tasks("tasks", 2, 0)
	if err != nil {
		return nil, err
	}
	p, err := s.startBatch(batch{tasks: tasks, model: model, jobs: 1, env: env})
	if err != nil {
		return nil, err
	}
	return s.oneFailed(p, status, exit)
}

// oneFailed waits for a batch that oneFails started.
func (s *stage) oneFailed(p *process, status string, exit int) ([]result, error) {
	e, list, err := p.results()
	if err != nil {
		return list, err
	}
	s.expect(e.code == 4, "exit code %d, expected 4", e.code)
	if len(list) != 2 {
		s.expect(false, "%d results, expected 2: %.500q", len(list), e.stderr)
		return list, nil
	}
	s.expect(list[0].Status == status && *list[0].ExitCode == exit, "the first task is %s (%d), expected %s (%d): %s",
		list[0].Status, *list[0].ExitCode, status, exit, list[0].err())
	s.expect(list[1].Status == "completed", "the second task is %s: %s", list[1].Status, list[1].err())
	return list, nil
}

// busyServer: five children share a server that answers one request at a time. Four of them wait
// for their first token for longer than the inactivity timeout; none of them times out because of
// the others.
func busyServer(s *stage) error {
	n := s.pick(15, 6)
	tasks, err := s.tasks("tasks", n, 0)
	if err != nil {
		return err
	}
	e, list, err := s.batch(batch{tasks: tasks, model: "one400", jobs: 5, env: []string{"QQ_IDLE_TIMEOUT=1"}})
	if err != nil {
		return err
	}
	s.survived(e, list, n)
	s.expect(s.row.requests == n, "%d requests, expected %d", s.row.requests, n)
	least := time.Duration(n) * 400 * time.Millisecond
	s.inTime(e.took, least, least*5/4+time.Second)
	s.note("throughput %.2f of the server's own", least.Seconds()/e.took.Seconds())
	return nil
}

// always503: the server always fails. There are two retries, and no more.
func always503(s *stage) error {
	_, err := s.ask("busy", outcome{exit: 3, status: "unavailable", requests: 3, least: 500 * time.Millisecond,
		most: 6 * time.Second})
	return err
}

// always503Batch: the same for twenty tasks. The circuit breaker stops all of them before sixty
// requests are sent. With retries, the batch waits for that many trials of the breaker before it
// gives up.
func always503Batch(s *stage) error {
	const n, most = 20, 8 // five are under way when the first fails, three are the breaker's
	retries := s.pick(1, 0)
	tasks, err := s.tasks("tasks", n, 0)
	if err != nil {
		return err
	}
	e, list, err := s.batch(batch{tasks: tasks, model: "busy", jobs: 5,
		flags: []string{"--retries", strconv.Itoa(retries)}})
	if err != nil {
		return err
	}
	s.expect(e.code == 4, "exit code %d, expected 4", e.code)
	s.expect(s.row.status == fmt.Sprintf("%d unavailable", n), "%s, expected %d unavailable", s.row.status, n)
	s.expect(len(list) == n, "%d results, expected %d", len(list), n)
	s.expect(s.row.requests <= most, "%d requests, expected at most %d", s.row.requests, most)
	s.inTime(e.took, 0, time.Duration(retries)*65*time.Second+20*time.Second)
	return nil
}

// connectionRefused: no server listens.
func connectionRefused(s *stage) error {
	s.server.Stop()
	_, err := s.ask("fast", outcome{exit: 3, status: "unavailable", most: 10 * time.Second})
	return err
}

// wrongModel: the server does not have the model. This failure is permanent: one request, no
// retry.
func wrongModel(s *stage) error {
	_, err := s.ask("nope", outcome{exit: 2, status: "usage", most: time.Second})
	for _, path := range []string{"/api/show", "/v1/models", "/v1beta/models"} {
		s.row.requests += s.server.Count(path)
	}
	s.expect(s.row.requests == 1, "%d requests, expected 1", s.row.requests)
	return err
}

// serverRestarted: the server dies in the middle of a batch and is back soon. Two answers break
// off; in the end all tasks are done, each once.
func serverRestarted(s *stage) error {
	n := s.pick(60, 40)
	tasks, err := s.tasks("tasks", n, 0)
	if err != nil {
		return err
	}
	p, err := s.startBatch(batch{tasks: tasks, model: "slow50", jobs: 2})
	if err != nil {
		return err
	}
	if err := p.asked(10); err != nil {
		return err
	}
	s.server.Stop()
	<-time.After(200 * time.Millisecond)
	if err := s.server.Start(); err != nil {
		return err
	}
	e, list, err := p.results()
	if err != nil {
		return err
	}
	s.survived(e, list, n)
	s.expect(s.row.requests > n, "%d requests for %d tasks: nothing broke off", s.row.requests, n)
	return nil
}
