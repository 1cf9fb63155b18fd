package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"qq/test/ollamatest"
	"qq/test/tinymodel"
)

// real is a real Ollama server with one model, which has an answer for each task.
type real struct {
	*ollamatest.Server
	s   *stage
	bin string
	dir string
	env []string
	old int // requests to servers before this one
}

// ollama starts the server of $QQ_OLLAMA, configured to serve one request at a time.
func (s *stage) ollama() (*real, error) {
	bin := os.Getenv("QQ_OLLAMA")
	if bin == "" {
		return nil, skip("QQ_OLLAMA is not set: build a server with QQ_OLLAMA=$(test/server/tools.sh)")
	}
	o := &real{s: s, bin: bin, dir: filepath.Join(s.house.dir, "ollama-"+filepath.Base(s.dir)),
		env: []string{"OLLAMA_NUM_PARALLEL=1"}}
	if err := os.Mkdir(o.dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if o.Server, err = ollamatest.Launch(bin, o.dir, o.env...); err != nil {
		return nil, err
	}
	s.undo = append(s.undo, func() error { return o.Kill() })
	spec := ollamatest.Spec(tinymodel.Script{Start: "[[poem]]", Text: strings.Repeat("The sea is blue. ", 20) +
		"That is all."})
	return o, o.Create(s.ctx, ollamatest.Model{Name: "m", Spec: spec})
}

// restart kills the server and starts it again at the same address.
func (o *real) restart() error {
	o.old = o.requests()
	if err := o.Kill(); err != nil {
		return err
	}
	server, err := ollamatest.Launch(o.bin, o.dir, append(o.env, "OLLAMA_HOST="+o.URL.Host)...)
	if err != nil {
		return err
	}
	o.Server = server
	return nil
}

// requests counts the chats in the server's log.
func (o *real) requests() int {
	b, err := os.ReadFile(o.Log)
	o.s.expect(err == nil, "the log of the server: %v", err)
	path := map[string]string{"": "/api/chat", openAI: "/v1/chat/completions", anthropic: "/v1/messages"}[o.s.dialect]
	return o.old + strings.Count(string(b), strconv.Quote(path))
}

// here returns the environment that makes qq use the real server.
func (o *real) here() []string { return []string{o.s.setting(o.URL.Host)} }

// poems returns a batch of n tasks for the model.
func (o *real) poems(n, jobs int) (batch, error) {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "Task %d. [[poem]]\n", i)
	}
	tasks, err := o.s.file("tasks", text.String())
	return batch{tasks: tasks, model: "m", jobs: jobs, env: o.here()}, err
}

// ollamaWrongModel: a model that the real server does not have.
func ollamaWrongModel(s *stage) error {
	o, err := s.ollama()
	if err != nil {
		return err
	}
	s.env = append(s.env, o.here()...)
	p, err := s.start(o.here(), "--model", s.model("nope"), "--json", "Say something.")
	if err != nil {
		return err
	}
	e, err := p.wait()
	if err != nil {
		return err
	}
	s.row.played, s.row.exit, s.row.took, s.row.requests = true, e.code, e.took, o.requests()
	s.row.status = "usage"
	s.expect(e.code == 2, "exit code %d, expected 2: %.500q", e.code, e.stderr)
	s.expect(strings.Contains(e.stdout, `"status":"usage"`), "stdout %.500q, expected the status usage", e.stdout)
	hint := "ollama pull nope"
	if s.dialect != "" { // the server may be another one
		hint = "the server has: lab:m:latest"
	}
	s.expect(strings.Contains(e.stderr, hint), "stderr does not say what to do: %.500q", e.stderr)
	s.expect(s.row.requests <= 1, "%d chats, expected at most 1", s.row.requests)
	return nil
}

// ollamaOneAtATime: five children share a server that answers one request at a time. None of them
// times out because of the others.
func ollamaOneAtATime(s *stage) error {
	o, err := s.ollama()
	if err != nil {
		return err
	}
	n := s.pick(20, 5)
	b, err := o.poems(n, 5)
	if err != nil {
		return err
	}
	b.env = append(b.env, "QQ_IDLE_TIMEOUT=3")
	e, list, err := s.batch(b)
	if err != nil {
		return err
	}
	s.survived(e, list, n)
	s.row.requests = o.requests()
	s.expect(s.row.requests == n, "%d requests, expected %d", s.row.requests, n)
	return nil
}

// ollamaRestarted: the real server is killed in the middle of a batch and started again, which
// takes longer than the attempts of a task may last. Tasks may fail, but none may falsely be
// called a success. --resume-failed repeats exactly the failed ones.
func ollamaRestarted(s *stage) error {
	o, err := s.ollama()
	if err != nil {
		return err
	}
	n := s.pick(20, 6)
	b, err := o.poems(n, 2)
	if err != nil {
		return err
	}
	p, err := s.startBatch(b)
	if err != nil {
		return err
	}
	if err := p.until("two answers", func() bool { return o.requests() >= 2 }); err != nil {
		return err
	}
	if err := o.restart(); err != nil {
		return err
	}
	e, list, err := p.results()
	if err != nil {
		return err
	}
	s.note("the run through the restart: exit code %d, %s, %.2f s", e.code, s.row.status, e.took.Seconds())
	before := o.requests()
	completed := 0
	for _, r := range list {
		if r.Status == "completed" {
			completed++
		}
		s.expect(r.Status == "completed" || *r.ExitCode == 3,
			"a task is %s, expected completed, or a fault that may pass: %s", r.Status, r.err())
	}
	began := time.Now()
	b.flags = []string{"--resume-failed"}
	e, list, err = s.batch(b)
	if err != nil {
		return err
	}
	s.survived(e, list, n)
	s.row.requests = o.requests()
	again := s.row.requests - before
	s.expect(again <= n-completed, "%d requests for %d tasks that had failed", again, n-completed)
	s.note("resumed: %d requests in %.2f s", again, time.Since(began).Seconds())
	return nil
}
