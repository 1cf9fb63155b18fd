// Package ollamatest runs a real Ollama server, with models made by tinymodel,
// for integration tests.
//
// The program is that of $QQ_OLLAMA (server/tools.sh builds one and prints its
// path). A server listens on a loopback port of the kernel's choice, has its
// models and its home in a folder of the test, and belongs to a process group
// of its own that is killed and waited for at the end, runners included.
//
// A test without $QQ_OLLAMA is skipped on somebody's desk and fails where the
// server is meant to be there: with $CI or $QQ_OLLAMA_REQUIRED set.
package ollamatest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ollama/ollama/api"

	"qq/test/tinymodel"
)

const (
	startTimeout = 30 * time.Second
	endTimeout   = 10 * time.Second
	pollEvery    = 5 * time.Millisecond
)

// Template is a chat template for tinymodel's models with Reply "<|assistant|>"
// that can call tools. TemplateWithoutTools cannot.
const (
	// Template is a chat template with tool calls, for models of package tinymodel whose Reply is
	// "<|assistant|>". TemplateWithoutTools is the same without tool calls.
	Template = `{{- if .System }}<|system|>{{ .System }}{{ end }}
{{- if .Tools }}<|system|>Tools: {{ .Tools }}{{ end }}
{{- range .Messages }}
{{- if eq .Role "user" }}<|user|>{{ .Content }}
{{- else if eq .Role "assistant" }}<|assistant|>{{ if .Thinking }}<think>{{ .Thinking }}</think>{{ end }}{{ .Content }}{{ if .ToolCalls }}<tool_call>{{ range .ToolCalls }}{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}{{ end }}</tool_call>{{ end }}<|end|>
{{- else if eq .Role "tool" }}<|tool|>{{ .Content }}
{{- end }}
{{- end }}<|assistant|>`

	TemplateWithoutTools = `{{- range .Messages }}<|{{ .Role }}|>{{ .Content }}{{ if eq .Role "assistant" ` +
		`}}<|end|>{{ end }}{{ end }}<|assistant|>`
)

// Spec returns the description of a model that has these scripts and fits the templates of this
// package.
func Spec(scripts ...tinymodel.Script) tinymodel.Spec {
	return tinymodel.Spec{
		Control: []string{"<|user|>", "<|system|>", "<|tool|>"}, Reply: "<|assistant|>", Scripts: scripts,
	}
}

// Binary returns the path of Ollama's program. Without one it skips the test, or fails it on
// machines that must have one.
func Binary(t testing.TB) string {
	t.Helper()
	bin := os.Getenv("QQ_OLLAMA")
	if bin != "" {
		return bin
	}
	const missing = "QQ_OLLAMA is not set: no Ollama server to test against; build one with " +
		"QQ_OLLAMA=$(test/server/tools.sh)"
	for _, name := range []string{"CI", "QQ_OLLAMA_REQUIRED"} {
		if os.Getenv(name) != "" {
			t.Fatalf("%s (required because %s is set)", missing, name)
		}
	}
	t.Skip(missing)
	return ""
}

// Server is a running Ollama server.
type Server struct {
	URL    *url.URL
	Client *api.Client
	Log    string // file with what the server wrote

	cmd    *exec.Cmd
	exited chan struct{} // closed when the server itself has been waited for
	alive  *os.File      // reads end-of-file when the server and all its runners are gone
	kill   func() error
}

// Start runs a server until the test ends, with env added to its environment.
func Start(t testing.TB, env ...string) *Server {
	t.Helper()
	s, err := Launch(Binary(t), t.TempDir(), env...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Launch runs the program bin as a server with its files in dir. The caller must Kill the server.
func Launch(bin, dir string, env ...string) (*Server, error) {
	s := &Server{Log: filepath.Join(dir, "log"), exited: make(chan struct{})}
	s.kill = sync.OnceValue(s.killGroup)
	if err := s.start(bin, dir, env); err != nil {
		return nil, fmt.Errorf("start %s: %w", bin, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := s.ready(ctx); err != nil {
		wrote, _ := os.ReadFile(s.Log)
		return nil, errors.Join(fmt.Errorf("ollama did not start: %w; it wrote:\n%s", err, wrote), s.Kill())
	}
	return s, nil
}

func (s *Server) start(bin, dir string, env []string) error {
	log, err := os.Create(s.Log)
	if err != nil {
		return err
	}
	defer log.Close()
	alive, held, err := os.Pipe()
	if err != nil {
		return err
	}
	defer held.Close()
	s.alive = alive
	s.cmd = exec.Command(bin, "serve")
	s.cmd.Dir = dir
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.ExtraFiles = []*os.File{held} // its runners inherit it too
	s.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "OLLAMA_MODELS=" + filepath.Join(dir, "models"),
		// Port 0: the kernel chooses, and nobody can take the port before the server does.
		"OLLAMA_HOST=127.0.0.1:0", "OLLAMA_NO_CLOUD=1", "OLLAMA_KEEP_ALIVE=-1", "OLLAMA_NUM_PARALLEL=4",
		"GIN_MODE=release",
	}, env...)
	// The server's runners are processes of their own: end the whole group, or a
	// killed server leaves them behind.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		return errors.Join(err, alive.Close())
	}
	go func() {
		defer close(s.exited)
		// How it ended is of no interest: it is always killed, and a server that
		// ends by itself is seen by ready, or by the test that talks to it.
		_ = s.cmd.Wait()
	}()
	return nil
}

// ready waits until the server has logged its address and answers there.
func (s *Server) ready(ctx context.Context) error {
	listening := regexp.MustCompile(`Listening on (127\.0\.0\.1:\d+) `)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if s.URL == nil {
			wrote, err := os.ReadFile(s.Log)
			if err != nil {
				return err
			}
			if m := listening.FindSubmatch(wrote); m != nil {
				s.URL = &url.URL{Scheme: "http", Host: string(m[1])}
				// A client of its own: its idle connections go with the server.
				s.Client = api.NewClient(s.URL, &http.Client{Transport: &http.Transport{}})
			}
		}
		if s.URL != nil && s.Client.Heartbeat(ctx) == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.exited:
			return fmt.Errorf("it ended: %v", s.cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("no answer in %v", startTimeout)
		}
	}
}

// Kill kills the server and its runners, and returns when all are gone. It may be called several
// times.
func (s *Server) Kill() error { return s.kill() }

func (s *Server) killGroup() error {
	defer s.alive.Close()
	// Nothing left in the group is what we want, and not an error.
	if err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill ollama: %w", err)
	}
	<-s.exited
	if err := s.alive.SetReadDeadline(time.Now().Add(endTimeout)); err != nil {
		return fmt.Errorf("wait for the runners of ollama: %w", err)
	}
	if _, err := s.alive.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("runners of ollama are left after %v: %w", endTimeout, err)
	}
	return nil
}

// Model describes a model to create.
type Model struct {
	Name string
	// Write writes the GGUF file: a [tinymodel.Scripted] of Spec when nil.
	Write      func(io.Writer, tinymodel.Spec) error
	Spec       tinymodel.Spec
	Template   string         // [Template] when empty
	Parameters map[string]any // over num_thread 1 and a num_ctx of the whole context
}

// Create makes a model on the server. The models of one server need different names.
func (s *Server) Create(ctx context.Context, m Model) error {
	if m.Write == nil {
		m.Write = tinymodel.Scripted
	}
	if m.Template == "" {
		m.Template = Template
	}
	if m.Spec.Context == 0 {
		m.Spec.Context = 8192
	}
	var file bytes.Buffer
	if err := m.Write(&file, m.Spec); err != nil {
		return fmt.Errorf("create model %s: %w", m.Name, err)
	}
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(file.Bytes()))
	if err := s.Client.CreateBlob(ctx, digest, &file); err != nil {
		return fmt.Errorf("create model %s: upload: %w", m.Name, err)
	}
	// Two threads are 20 to 180 times slower than one on a busy machine of two cores.
	parameters := map[string]any{"num_thread": 1, "num_ctx": m.Spec.Context}
	maps.Copy(parameters, m.Parameters)
	err := s.Client.Create(ctx, &api.CreateRequest{
		Model: m.Name, Files: map[string]string{"model.gguf": digest}, Template: m.Template, Parameters: parameters,
	}, func(api.ProgressResponse) error { return nil })
	if err != nil {
		return fmt.Errorf("create model %s: %w", m.Name, err)
	}
	return nil
}
