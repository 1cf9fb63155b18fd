// Package box starts the commands of agents and keeps them within bounds.
//
// Vocabulary: obeyed files are those from which programs take orders, such as .git and .envrc (see [tree.Obeyed]),
// bare repositories, and what these lead to in the working directory: the target of a link, the folder that a .git
// file names, and what the settings of a repository include or have as the folder of its hooks. An item is one such
// file, or a folder with all that is in it. A view is what a command sees of the file system (see [sandbox.View]). A
// guard says which files of the working directory a command cannot write. A snapshot is the state of the obeyed files.
//
// Flow: [Box.Start] takes a snapshot and starts the command: in a view in which obeyed files are read-only, and the
// folders of qq and the sockets of servers are hidden, in a cgroup with limits, in the sandbox of package sandbox.
// When the command has ended, another snapshot is compared with the first. What changed is reported. What the kernel
// could not keep from being changed is put back, to the state before the first of the commands that run in the folder
// at that time (see baseline): where there are no mount namespaces, that is everything. There, commands can use no
// UNIX sockets.
//
// A process that is in a sandbox itself cannot make a view. So a child asks its root to start its commands: see
// package remote. The root decides what the commands may do.
//
// Obeyed files are looked for in the first 1000 folders, the shallow ones first, and not in node_modules. The names
// at the top of the working directory are kept from being made, by placeholders; below, what is new is reported.
//
// Not promised: that nobody sees a new obeyed file in a folder below while the command runs; that a change is put
// back if the old content is larger than a megabyte, or a repository; that a change by somebody else is not put back
// where there is no view; that commands of several processes, or in folders one in another, share a baseline; that
// memory is limited to the byte without cgroups: it is looked at ten times a second.
package box

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"qq/internal/box/cgroup"
	"qq/internal/box/placeholder"
	"qq/internal/sandbox"
	"qq/pkg/proc"
)

// Config says how a Box starts commands.
type Config struct {
	Host *proc.Host
	// Exe is the path of this program, which starts each command in the sandbox.
	Exe string
	// Dir is the working directory of the agent, an absolute path.
	Dir   string
	Rules sandbox.Rules
	// Confined says that the kernel has a sandbox. Without one, commands have no view and no limit on files.
	Confined bool
	// Mounts says that this process is in no sandbox itself, so that it can make views.
	Mounts bool
	// Namespace starts each command in a PID namespace or, if the system allows none, by a keeper, so that the
	// command ends together with this process, even if this process is killed.
	Namespace bool
	// Writable are the obeyed files and folders that commands may write, as absolute paths. Of a repository, what
	// git runs stays read-only. To sockets in this list, commands may connect.
	Writable []string
	// Hidden are the folders that commands see empty, but for what [Box.Start] is told to show and Rules allow to
	// write.
	Hidden []string
	// Servers are hidden like Hidden, see [Servers]; they may be sockets too.
	Servers []string
	Limits  Limits
	// Open returns what commands may write of the working directory; nil means all of it. It is asked before each
	// command.
	Open Opener
	// Overlay is what commands see instead of a folder that has the working directory; nil means the folder itself.
	// The caller closes its file after the last command. What commands write there changes no file outside, so nothing
	// is put back; who copies it elsewhere asks [Box.Obeyed] first.
	Overlay *Overlay
	// Witness is told before each command; nil means nobody.
	Witness Witness
	// Log is a file that gets the path of each folder in which placeholders are made, with a NUL behind it; empty means
	// none. What is left of them after a SIGKILL can be removed with [placeholder.Sweep].
	Log string
}

// Opener knows which files and folders in dir commands may write. Their paths are relative to dir and lead through no
// link.
type Opener interface {
	Open(dir string) []string
}

// Witness watches commands that work in a copy of a folder.
type Witness interface {
	// Acts notes that a command is about to start. On an error it is not started.
	Acts() error
	// Wrote returns those of files, relative to the working directory, that were changed in the copy, and not by
	// others in the folder.
	Wrote(files []string) []string
}

// Overlay is a file of [sandbox.Layers] and the folder that it stands for, a real path.
type Overlay struct {
	File *os.File
	Dir  string
}

// Limits bound a command together with all that it starts; 0 means no limit.
type Limits struct {
	Memory    int64 `json:"memory,omitempty"` // bytes
	Processes int   `json:"processes,omitempty"`
	FileSize  int64 `json:"file_size,omitempty"` // bytes
}

// Box starts the commands of one agent. Several goroutines may use it.
type Box struct {
	Config
	exempted []string    // Writable without links
	servers  []string    // Servers without links
	began    fs.FileInfo // of Dir; nil if there was none

	mu     sync.Mutex // guards the fields below
	watch  *watch
	base   *baseline
	logged []string // folders that are in Log
}

// New returns a Box. It starts nothing before its first command. Paths are resolved here and never again: a command
// may put a link where a folder was.
func New(cfg Config) *Box {
	cfg.Dir = resolve(cfg.Dir)
	cfg.Rules = sandbox.Rules{Write: resolved(cfg.Rules.Write), Real: true}
	cfg.Hidden = resolved(cfg.Hidden)
	b := &Box{Config: cfg}
	b.began, _ = os.Lstat(cfg.Dir)
	b.exempted = slices.DeleteFunc(resolved(cfg.Writable), func(path string) bool {
		return sandbox.Within(cfg.Dir, path)
	})
	b.servers = slices.DeleteFunc(resolved(cfg.Servers), func(path string) bool { return path == cfg.Dir })
	return b
}

func resolved(paths []string) (all []string) {
	for _, path := range paths {
		all = append(all, resolve(path))
	}
	return all
}

// Running is a command that was started.
type Running interface {
	// Stop ends the command and what it started. It does not wait.
	Stop()
	// Done returns a channel that is closed when the command has ended and all is looked at.
	Done() <-chan struct{}
	// Wait waits for that.
	Wait() Outcome
}

// Outcome says how a command ended.
type Outcome struct {
	proc.Exit
	// Viewed says that the command had a view, so that it could not write obeyed files.
	Viewed bool
	// Excess says which limits the command reached, a line each.
	Excess []string
	// Changed are the obeyed files that changed, relative to the working directory, with slashes.
	Changed []string
	// Notes say what happened to them, a line each.
	Notes []string
}

// OutOfMemory begins the line of Excess about a command that used too much memory.
const OutOfMemory = "out_of_memory: "

// expendable is by how many thousandths of the memory a command counts as larger than the process that starts it,
// when memory is short. It is more than that of a child.
const expendable = 600

// canView is whether commands can have a view here, as far as it is known: the first one that reports decides.
var canView atomic.Int32

const (
	unknown = iota
	known
	refused
)

// parents is where this process can make cgroups. It is looked up at the first command.
var parents = sync.OnceValue(cgroup.Find)

// MarkPrefix begins the name of the variable that marks the processes of commands. The depth of the agent follows.
const MarkPrefix = "QQ_COMMAND_ID_"

// Start starts c. show are files in hidden folders that the command may read.
func (b *Box) Start(c proc.Command, show []string) (Running, error) {
	r, err := b.Launch(c, show)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Wrote asks the Witness. Without one, all of files were changed.
func (b *Box) Wrote(files []string) []string {
	if b.Witness == nil {
		return files
	}
	return b.Witness.Wrote(files)
}

// Launch is Start, for those who may have to kill the command.
func (b *Box) Launch(c proc.Command, show []string) (*Process, error) {
	if b.Witness != nil {
		if err := b.Witness.Acts(); err != nil {
			return nil, err
		}
	}
	if err := b.Host.Hold(); err != nil {
		return nil, err
	}
	r := &Process{box: b, done: make(chan struct{})}
	c.Namespace, c.Expendable = c.Namespace || b.Namespace, expendable
	if c.Namespace {
		c.Keeper = b.Exe
	}
	err := r.prepare(&c, show)
	if err == nil {
		r.proc, err = b.Host.Start(c)
	}
	for _, f := range c.Extra {
		if f != nil && !b.keeps(f) && (r.group == nil || !slices.Contains(r.group.Tasks, f)) {
			f.Close()
		}
	}
	if err != nil {
		r.release()
		r.leave()
		b.Host.Release()
		return nil, err
	}
	go r.run()
	return r, nil
}

// Process is a command that this process started.
type Process struct {
	box      *Box
	proc     *proc.Process
	group    *cgroup.Group // nil means none
	before   snapshot
	base     *baseline // nil if the command cannot write to the working directory
	guard    guard
	report   *os.File // nil means that there is no view
	said     string   // what the report said
	measured Limits   // limits that this process watches
	done     chan struct{}
	out      Outcome
}

// prepare makes what the command needs, and changes c to what is started.
func (r *Process) prepare(c *proc.Command, show []string) (err error) {
	b := r.box
	o := sandbox.Order{Path: c.Path, Rules: b.rules(), FileSize: b.Limits.FileSize,
		Processes: int64(b.Limits.Processes)}
	guarded, err := r.look()
	if err != nil {
		return err
	}
	r.measured = Limits{Memory: b.Limits.Memory, Processes: b.Limits.Processes}
	if !b.Confined && b.Overlay == nil {
		return nil
	}
	if b.Overlay != nil {
		c.Extra, c.Mounts = append(c.Extra, b.Overlay.File), true
		o.Overlay = &sandbox.Overlay{File: 2 + len(c.Extra), Dir: b.Overlay.Dir}
	}
	o.NoSockets = len(b.sockets()) == 0
	if can := canView.Load(); b.Mounts && can != refused {
		o.Mountable = can == known
		var w *os.File
		if r.report, w, err = os.Pipe(); err != nil {
			return fmt.Errorf("make a pipe: %w", err)
		}
		c.Extra, c.Mounts, o.Report = append(c.Extra, w), true, 3+len(c.Extra)
		r.see(&o, guarded, show)
	}
	r.limit(c, &o)
	var env string
	c.Path, c.Args, env = sandbox.Wrap(b.Exe, o, c.Args)
	c.Env = append(slices.Clip(c.Env), env)
	long, err := sandbox.Shorten(c.Args, 3+len(c.Extra))
	if long != nil {
		c.Extra = append(c.Extra, long)
	}
	return err
}

// look takes the snapshot before the command. It returns false if the command cannot write to the working directory.
func (r *Process) look() (bool, error) {
	b := r.box
	b.mu.Lock()
	defer b.mu.Unlock()
	if real, err := filepath.EvalSymlinks(b.Dir); err != nil {
		return false, fmt.Errorf("find the working directory: %w", err)
	} else if real != b.Dir {
		return false, fmt.Errorf("the working directory %s is %s now", b.Dir, real)
	} else if now, err := os.Lstat(real); err != nil || b.began != nil && !os.SameFile(now, b.began) {
		return false, fmt.Errorf("the working directory %s is another folder than when the agent began", b.Dir)
	}
	if b.watch == nil {
		b.watch, b.base = &watch{dir: b.Dir, exempt: b.exempt}, baselineOf(b.Dir, b.exempted)
	}
	if !slices.ContainsFunc(b.Rules.Write, func(dir string) bool { return sandbox.Within(b.watch.dir, dir) }) {
		return false, nil
	}
	if b.Overlay != nil {
		r.before = b.watch.snapshot(nil)
		return true, nil
	}
	b.makeAllSettings()
	r.base = b.base
	r.before = r.base.enter(b.watch)
	return true, nil
}

// rules returns what a command that starts now may write.
func (b *Box) rules() sandbox.Rules {
	r := b.Rules
	r.Write = slices.Clone(r.Write)
	at := slices.Index(r.Write, b.Dir)
	if at < 0 || b.Open == nil {
		return r
	}
	r.Write, r.Files = slices.Delete(r.Write, at, at+1), nil
	dir := b.Dir
	if b.Overlay != nil { // as the commands see it
		dir = fmt.Sprintf("/proc/self/fd/%d", b.Overlay.File.Fd()) + strings.TrimPrefix(dir, b.Overlay.Dir)
	}
	for _, name := range b.Open.Open(dir) {
		path := filepath.Join(b.Dir, filepath.FromSlash(name))
		if info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name))); err == nil && info.IsDir() {
			r.Write = append(r.Write, path)
		} else {
			r.Files = append(r.Files, path)
		}
	}
	return r
}

// keeps reports whether f is the file of the overlay.
func (b *Box) keeps(f *os.File) bool { return b.Overlay != nil && f == b.Overlay.File }

// see adds the view to the order.
func (r *Process) see(o *sandbox.Order, guarded bool, show []string) {
	b := r.box
	v := &sandbox.View{}
	if guarded {
		b.mu.Lock()
		r.guard = b.guard(r.before)
		b.mu.Unlock()
		o.Rules.Write = append(o.Rules.Write, r.guard.write...)
		v.ReadOnly, v.Fixed = r.guard.readOnly, r.guard.fixed
		if b.Open != nil { // a folder that is fixed would be writable by that
			v.Fixed = slices.DeleteFunc(v.Fixed, func(dir string) bool {
				return !slices.ContainsFunc(o.Rules.Write, func(w string) bool { return sandbox.Within(dir, w) })
			})
		}
	}
	for _, dir := range b.Hidden {
		if slices.ContainsFunc(o.Rules.Write, func(w string) bool { return sandbox.Within(dir, w) }) {
			_ = os.MkdirAll(dir, 0o700) // what is not there could be made
		}
		v.Empty = append(v.Empty, dir)
	}
	sockets := b.sockets()
	for _, path := range b.servers {
		if !slices.Contains(sockets, path) {
			v.Empty = append(v.Empty, path)
		}
	}
	whole := slices.Contains(o.Rules.Write, b.Dir) // then it is shown
	if !whole && slices.ContainsFunc(v.Empty, func(dir string) bool { return sandbox.Within(b.watch.dir, dir) }) {
		v.Show = append(v.Show, b.watch.dir)
	}
	v.Sockets, v.Show = append(sockets, lookups...), append(v.Show, sockets...)
	v.Show = append(v.Show, b.shown(show)...)
	o.View = v
}

// shown returns those of paths that are files in hidden folders, without links. Nothing else that is hidden is shown,
// such as the socket of a server: a child may have asked for it.
func (b *Box) shown(paths []string) (files []string) {
	for _, path := range resolved(paths) {
		info, err := os.Lstat(path)
		if err == nil && info.Mode().IsRegular() && slices.ContainsFunc(b.Hidden, func(dir string) bool {
			return sandbox.Within(path, dir)
		}) {
			files = append(files, path)
		}
	}
	return files
}

// hold makes placeholders for names in dir, which is noted in the log. They stay empty for the command. The caller
// holds b.mu.
func (b *Box) hold(g *guard, dir string, names []string) {
	if b.Overlay != nil {
		return // they would be made in the folder itself
	}
	if !slices.Contains(b.logged, dir) && b.Log != "" && len(names) > 0 {
		if f, err := os.OpenFile(b.Log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err == nil {
			_, _ = f.WriteString(dir + "\x00") // without it, what a SIGKILL leaves goes with the next command there
			f.Close()
			b.logged = append(b.logged, dir)
		}
	}
	// Programs that find an empty folder .git take it for a broken repository: go build does. In a folder of another
	// repository they find that one.
	socket := ""
	if !inRepository(dir) {
		socket = ".git"
	}
	held := placeholder.Hold(dir, names, socket)
	g.held, g.readOnly = append(g.held, held), append(g.readOnly, held.Paths...)
}

// limit puts the command into a cgroup. What that cannot limit is left to be measured.
func (r *Process) limit(c *proc.Command, o *sandbox.Order) {
	l := cgroup.Limits{Memory: r.box.Limits.Memory, Processes: r.box.Limits.Processes}
	group, err := parents().Make(l)
	if err != nil || group == nil {
		return // what is measured is a limit too
	}
	r.group, c.Cgroup = group, group.Folder
	for _, f := range group.Tasks {
		c.Extra = append(c.Extra, f)
		o.Groups = append(o.Groups, 2+len(c.Extra))
	}
	if parents().Memory != "" {
		r.measured.Memory = 0
	}
	if parents().Processes != "" {
		r.measured.Processes = 0
	}
}

// run waits for the end of the command and looks what it did.
func (r *Process) run() {
	defer r.box.Host.Release()
	defer close(r.done)
	excess := r.measure()
	r.out.Exit = r.proc.Wait()
	if r.report != nil {
		line, _ := bufio.NewReader(io.LimitReader(r.report, 4096)).ReadString('\n')
		r.said = strings.TrimSuffix(line, "\n")
		r.out.Viewed = r.said == sandbox.Viewed
		switch {
		case r.out.Viewed:
			canView.Store(known)
		case line != "" && !strings.HasSuffix(r.said, unix.ENOSPC.Error()): // there may be room for a namespace later
			canView.CompareAndSwap(unknown, refused)
		}
	}
	r.out.Excess = append(excess, r.exceeded()...)
	r.release()
	if r.base == nil {
		return
	}
	r.box.mu.Lock()
	defer r.box.mu.Unlock()
	r.out.Changed, r.out.Notes = r.base.review(r.box.watch, r.before, func(abs string) bool {
		held := func(dir string) bool { return sandbox.Within(abs, dir) }
		return r.out.Viewed && slices.ContainsFunc(r.guard.readOnly, held)
	})
	r.leave()
}

// leave ends the part of the command in the baseline.
func (r *Process) leave() {
	if r.base != nil {
		r.base.leave()
	}
}

// exceeded returns lines about the limits that the kernel enforced.
func (r *Process) exceeded() (lines []string) {
	l := r.box.Limits
	killed, refused := 0, 0
	if r.group != nil {
		killed, refused = r.group.Exceeded()
	}
	if killed > 0 {
		lines = append(lines, memoryExceeded(l))
	} else if r.out.OutOfMemory {
		lines = append(lines, OutOfMemory+"the kernel ended the command because the machine is short of memory")
	}
	if refused > 0 {
		lines = append(lines, processesExceeded(l))
	}
	if sig := syscall.SIGXFSZ; l.FileSize > 0 && (r.out.Signal == sig || r.out.Code == 128+int(sig)) {
		lines = append(lines, fmt.Sprintf("a file reached the limit of %d MB (QQ_COMMAND_FILE_SIZE)", l.FileSize>>20))
	}
	return lines
}

func memoryExceeded(l Limits) string {
	return fmt.Sprintf(OutOfMemory+"the command and what it started reached the limit of %d MB (QQ_COMMAND_MEMORY)",
		l.Memory>>20)
}

func processesExceeded(l Limits) string {
	return fmt.Sprintf("the command and what it started reached the limit of %d processes (QQ_COMMAND_PROCESSES)",
		l.Processes)
}

// release removes what was made for the command.
func (r *Process) release() {
	if r.group != nil {
		r.group.Remove()
	}
	if r.report != nil {
		r.report.Close()
	}
	for _, h := range r.guard.held {
		h.Release()
	}
}

// Kill ends the command and what it started at once.
func (r *Process) Kill() { r.proc.Kill() }

// Stop implements Running.
func (r *Process) Stop() { r.proc.Stop() }

// Done implements Running.
func (r *Process) Done() <-chan struct{} { return r.done }

// Wait implements Running.
func (r *Process) Wait() Outcome {
	<-r.done
	return r.out
}

// resolve returns path without symbolic links, as far as it exists.
func resolve(path string) string {
	resolved, err := filepath.EvalSymlinks(path)
	switch up := filepath.Dir(path); {
	case err == nil:
		return resolved
	case errors.Is(err, unix.ENOENT) && up != path:
		return filepath.Join(resolve(up), filepath.Base(path))
	}
	return path
}
