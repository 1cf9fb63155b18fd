package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// variable is the environment variable that tells this binary to restrict itself and to become
// another program. Its value does not matter: the order is in the first argument, because an
// environment can contain a name twice. Setting it by hand only adds restrictions: those of a
// sandbox around the process stay in force.
const variable = "QQ_SANDBOX"

// refusal is the exit code if a program could not be started in its sandbox, as in shells.
const refusal = 126

// Limits of the text of an order, in bytes. The kernel allows 128 KiB for one argument: a longer order is in a file.
const (
	maxArgument = 64 << 10
	maxOrder    = 16 << 20
)

// inFile begins the first argument if the order is in a file. The number of the descriptor follows.
const inFile = "@"

// Order says which program [Wrap] runs, and how.
type Order struct {
	Path  string // of the program; it is not looked up in PATH
	Rules Rules
	// View is what the program sees of the file system; nil means all of it.
	View *View
	// Overlay is what the program sees instead of a folder; nil means the folder itself. If it cannot, it does not run.
	Overlay *Overlay
	// Unconfined says that the program restricts itself: it only loses the capabilities to undo the overlay.
	Unconfined bool
	// NoSockets says that the program can use no UNIX sockets if it gets no view.
	NoSockets bool
	// FileSize is the size of the largest file that the program may write, in bytes; Processes is how many
	// processes it and what it starts may have, threads included. 0 means no limit. Outside of a PID namespace, its
	// user may have that many more than there are. Root has no limit on processes.
	FileSize, Processes int64
	// Groups are open files of cgroups which a process joins by writing 0 to them.
	Groups []int
	// Report is a pipe that gets one line if View is not nil: [Viewed] when the view is in force. Else it says why
	// the process may not mount; the program then runs without a view. After another error it does not run.
	Report int
	// Mountable says that processes like this one may mount, so that the program does not run without the view.
	Mountable bool
}

// Viewed is what Report of an [Order] gets when the view is in force.
const Viewed = "viewed"

// View is what a program of [Wrap] sees of the file system: everything is read-only, mode, owners and attributes
// included, but for the writable folders of its [Rules]. UNIX sockets of servers that run when the program starts are
// hidden, but for those in writable folders. The program has IPC objects of its own too. All paths are absolute and
// without links. A view needs the right to mount: root has it, and whoever is in a user namespace with CAP_SYS_ADMIN.
type View struct {
	ReadOnly []string // files and folders in writable folders that are read-only
	Fixed    []string // folders in writable folders that cannot be moved or removed
	Empty    []string // folders that are seen empty, and files that are seen as /dev/null
	Show     []string // files and folders in those of Empty that are seen all the same, read-only
	Sockets  []string // sockets, and folders of sockets, that are not hidden
}

// order is the content of the first argument: an Order. Paths are bytes, because JSON would change those that are
// not UTF-8.
type order struct {
	Path      []byte   `json:"path"`
	Write     [][]byte `json:"write,omitempty"`
	Files     [][]byte `json:"files,omitempty"`
	Real      bool     `json:"real,omitempty"`
	View      *view    `json:"view,omitempty"`
	Overlay   []byte   `json:"overlay,omitempty"` // the folder; its descriptor is File
	File      int      `json:"file,omitempty"`
	Free      bool     `json:"free,omitempty"`
	NoSockets bool     `json:"no_sockets,omitempty"`
	FileSize  int64    `json:"file_size,omitempty"`
	Processes int64    `json:"processes,omitempty"`
	Groups    []int    `json:"groups,omitempty"`
	Report    int      `json:"report,omitempty"`
	Mountable bool     `json:"mountable,omitempty"`
}

type view struct {
	ReadOnly [][]byte `json:"read_only,omitempty"`
	Fixed    [][]byte `json:"fixed,omitempty"`
	Empty    [][]byte `json:"empty,omitempty"`
	Show     [][]byte `json:"show,omitempty"`
	Sockets  [][]byte `json:"sockets,omitempty"`
}

// Wrap returns the command that runs the program of o with its restrictions: start self, which must be this binary,
// with the arguments newArgs, and with env added to its environment. args is the command line of the program, with
// its name first. If the order cannot be carried out or the program cannot be executed, the process says so on
// stderr and exits with code 126. See [Shorten] for an order of many files. The additional start of this binary costs
// 2 to 3 ms, a view 0.2 ms.
func Wrap(self string, o Order, args []string) (newPath string, newArgs []string, env string) {
	w := order{Path: []byte(o.Path), Write: convert[[]byte](o.Rules.Write),
		Files: convert[[]byte](o.Rules.Files), Real: o.Rules.Real, NoSockets: o.NoSockets,
		FileSize: o.FileSize, Processes: o.Processes, Groups: o.Groups, Report: o.Report,
		Mountable: o.Mountable, Free: o.Unconfined}
	if o.Overlay != nil {
		w.Overlay, w.File = []byte(o.Overlay.Dir), o.Overlay.File
	}
	if v := o.View; v != nil {
		w.View = &view{convert[[]byte](v.ReadOnly), convert[[]byte](v.Fixed), convert[[]byte](v.Empty),
			convert[[]byte](v.Show), convert[[]byte](v.Sockets)}
	}
	text, _ := json.Marshal(w) // lists of bytes always become JSON
	return self, append([]string{os.Args[0], string(text)}, args...), variable + "=1"
}

// Shorten moves an order that is too long for an argument from args, which Wrap returned, to a file, which the process
// must inherit as the descriptor fd. It returns nil if args can stay as they are.
func Shorten(args []string, fd int) (*os.File, error) {
	text := args[1]
	if len(text) <= maxArgument {
		return nil, nil
	}
	if len(text) > maxOrder {
		return nil, errors.New("a command has too many files that are read-only or shown to it")
	}
	f, err := memoryFile("order")
	if err != nil {
		return nil, fmt.Errorf("make a file for an order: %w", err)
	}
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		f.Close()
		return nil, fmt.Errorf("write an order: %w", err)
	}
	args[1] = inFile + strconv.Itoa(fd)
	return f, nil
}

// readFile returns the order that Shorten moved to a file, and closes the file: the program must not inherit it. number
// is that of its descriptor.
func readFile(number string) (string, error) {
	fd, err := strconv.ParseUint(number, 10, 16)
	if err != nil || fd < 3 || strconv.FormatUint(fd, 10) != number {
		return "", fmt.Errorf("descriptor %q of an order is not valid", number)
	}
	f := os.NewFile(uintptr(fd), "order")
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("read an order: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxOrder {
		return "", fmt.Errorf("descriptor %d is not the file of an order", fd)
	}
	text, err := io.ReadAll(io.NewSectionReader(f, 0, info.Size())) // Shorten wrote without moving the offset
	if err != nil {
		return "", fmt.Errorf("read an order: %w", err)
	}
	return string(text), nil
}

// convert converts a list of paths between text and bytes.
func convert[To, From ~string | ~[]byte](paths []From) (to []To) {
	for _, p := range paths {
		to = append(to, To(p))
	}
	return to
}

// Exec restricts this process and replaces it by the program of [Wrap] if environ, the
// environment of the process, asks for that. Otherwise it returns. Main must call it first.
func Exec(environ []string) {
	for _, entry := range environ {
		if socket, ok := strings.CutPrefix(entry, mountVariable+"="); ok {
			leave(sendOverlays(socket))
		}
	}
	if !slices.ContainsFunc(environ, asks) {
		return
	}
	leave(become(os.Args[1:], slices.DeleteFunc(slices.Clone(environ), asks)))
}

// leave ends this process, after an error with a line about it.
func leave(err error) {
	if err == nil {
		syscall.Exit(0)
	}
	fmt.Fprintf(os.Stderr, "qq: sandbox: %v\n", err)
	syscall.Exit(refusal) // nothing is to be flushed, and os.Exit writes to stderr in a coverage build
}

func asks(entry string) bool { return strings.HasPrefix(entry, variable+"=") }

// become executes the order in args. It returns only if that failed.
func become(args, environ []string) error {
	if len(args) < 2 {
		return fmt.Errorf("%s is set, but no program is named", variable)
	}
	text := args[0]
	if number, ok := strings.CutPrefix(text, inFile); ok {
		var err error
		if text, err = readFile(number); err != nil {
			return err
		}
	}
	o, err := readOrder(text)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := o.carryOut(); err != nil {
		return err
	}
	if err := syscall.Exec(o.Path, args[1:], environ); err != nil {
		return fmt.Errorf("run %s: %w", o.Path, err)
	}
	return nil
}

// carryOut restricts the calling thread. The order matters: Landlock forbids to mount, and without it and with its
// capabilities root could undo the mounts.
func (o Order) carryOut() error {
	if err := o.join(); err != nil {
		return err
	}
	if err := o.enter(); err != nil {
		return err
	}
	viewed, err := o.show()
	if err != nil {
		return err
	}
	o.NoSockets = o.NoSockets && !viewed
	for _, step := range []func() error{o.restrict, dropPowers, o.limit} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (o Order) restrict() error {
	if o.Unconfined {
		return forgoPrivileges()
	}
	if err := restrictThread(o.Rules); err != nil {
		return err
	}
	if !o.NoSockets || o.Rules.readOnly() { // read-only rules refuse them anyway
		return nil
	}
	return refuseSockets()
}

func readOrder(text string) (Order, error) {
	var w order
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return Order{}, fmt.Errorf("read the rules: %w", err)
	}
	o := Order{Path: string(w.Path), Rules: Rules{convert[string](w.Write), convert[string](w.Files), w.Real},
		NoSockets: w.NoSockets,
		FileSize:  w.FileSize, Processes: w.Processes, Groups: w.Groups, Report: w.Report,
		Mountable: w.Mountable, Unconfined: w.Free}
	if w.File > 0 {
		o.Overlay = &Overlay{w.File, string(w.Overlay)}
	}
	if v := w.View; v != nil {
		o.View = &View{convert[string](v.ReadOnly), convert[string](v.Fixed), convert[string](v.Empty),
			convert[string](v.Show), convert[string](v.Sockets)}
	}
	if !strings.Contains(o.Path, "/") {
		return Order{}, errors.New("the program is named without a path")
	}
	return o, nil
}
