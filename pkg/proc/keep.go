package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// keepVar is the environment variable that makes a program a keeper. Its value does not matter: the order
// is in the first argument.
const keepVar = "QQ_KEEPER"

// unkept is the exit code of a keeper that could not start its command, as in shells.
const unkept = 126

// order is what a keeper is told about its command. It finds the files of the leash behind the Extra ones.
type order struct {
	Path     []byte        `json:"path"` // JSON would change bytes that are not UTF-8
	Stdin    bool          `json:"stdin,omitempty"`
	Terminal bool          `json:"terminal,omitempty"`
	Grace    time.Duration `json:"grace,omitempty"`
	Extra    int           `json:"extra,omitempty"`
}

// leash leads to the keeper of a command.
type leash struct {
	hold   *os.File // when it is closed, by the end of this process too, the keeper ends the command
	report *os.File // gets the Exit of the command
}

// keep starts c behind a keeper. The caller holds h.mu.
func (h *Host) keep(path string, c Command) (pid int, l *leash, err error) {
	held, hold, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	defer held.Close()
	report, reported, err := os.Pipe()
	if err != nil {
		hold.Close()
		return 0, nil, err
	}
	defer reported.Close()
	o := order{[]byte(path), c.Stdin != nil, c.Terminal, c.Grace, len(c.Extra)}
	text, _ := json.Marshal(o) // never fails
	k := Command{
		Path: c.Keeper, Args: append([]string{os.Args[0], string(text)}, c.Args...),
		Env: append(slices.Clip(c.Env), keepVar+"=1"), Dir: c.Dir, Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr,
		Extra: append(slices.Clip(c.Extra), held, reported), Cgroup: c.Cgroup, Expendable: c.Expendable,
	}
	l = &leash{hold, report}
	if pid, _, _, err = h.fork(k.Path, k); err != nil {
		l.close()
		return 0, nil, err
	}
	return pid, l, nil
}

// close closes the leash.
func (l *leash) close() {
	l.hold.Close()
	l.report.Close()
}

// exit returns how the command ended, if its keeper told it, and e otherwise. The keeper has ended.
func (l *leash) exit(e Exit) Exit {
	var told Exit
	text, err := io.ReadAll(l.report)
	if err != nil || json.Unmarshal(text, &told) != nil {
		return e
	}
	e.Code, e.Signal, e.Left = told.Code, told.Signal, told.Left
	return e
}

func keeps(entry string) bool { return strings.HasPrefix(entry, keepVar+"=") }

// IsKeeper reports whether environ, the environment of this process, makes it a keeper: it must call [Keep].
func IsKeeper(environ []string) bool { return slices.ContainsFunc(environ, keeps) }

// Keep is all that a keeper does: it runs the command that args name, the arguments of this process, and
// ends it with all that it started when the process at the other end of the leash ends. SIGTERM in signals
// stops the command, as [Process.Stop] does. The keeper must catch all other signals that could end it. It
// returns the exit code of this process.
func Keep(args, environ []string, signals <-chan os.Signal) int {
	exit, report, err := keep(args, environ, signals)
	if err == nil {
		err = json.NewEncoder(report).Encode(exit)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "qq: keep a command: %v\n", err)
		return unkept
	}
	return 0
}

func keep(args, environ []string, signals <-chan os.Signal) (exit Exit, report *os.File, err error) {
	var o order
	if len(args) < 2 {
		return exit, nil, errors.New(keepVar + " is set, but no program is named")
	}
	if err := json.Unmarshal([]byte(args[0]), &o); err != nil {
		return exit, nil, fmt.Errorf("read the order: %w", err)
	}
	c := Command{
		Path: string(o.Path), Args: args[1:], Env: slices.DeleteFunc(slices.Clone(environ), keeps),
		Stdout: os.Stdout, Stderr: os.Stderr, Terminal: o.Terminal, Grace: o.Grace,
	}
	if o.Stdin {
		c.Stdin = os.Stdin
	}
	const first = 3 // descriptor behind stderr
	var files []*os.File
	for fd := first; fd < first+o.Extra+2; fd++ {
		syscall.CloseOnExec(fd)
		files = append(files, os.NewFile(uintptr(fd), strconv.Itoa(fd)))
	}
	held, report := files[o.Extra], files[o.Extra+1]
	c.Extra = files[:o.Extra]
	h := NewHost()
	defer h.Close()
	p, err := h.Start(c)
	if err != nil {
		return exit, nil, err
	}
	go func() { // ends with the process
		_, _ = held.Read(make([]byte, 1)) // nothing comes but the end
		h.Close()
	}()
	go func() {
		for s := range signals {
			if s == syscall.SIGTERM {
				p.Stop()
			}
		}
	}()
	return p.Wait(), report, nil
}
