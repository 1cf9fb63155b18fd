package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
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

// order is the content of the first argument: the rules and the program. Paths are bytes, because
// JSON would change those that are not UTF-8.
type order struct {
	Path  []byte   `json:"path"`
	Write [][]byte `json:"write,omitempty"`
}

// Wrap returns the command that runs the program path restricted to r: start self, which must be
// this binary, with the arguments newArgs, and with env added to its environment. args is the
// command line of the program, with its name first; path is not looked up in PATH. If the rules
// cannot be applied or the program cannot be executed, the process says so on stderr and exits
// with code 126. The additional start of this binary costs 2 to 3 ms.
func Wrap(self string, r Rules, path string, args []string) (newPath string, newArgs []string, env string) {
	o := order{Path: []byte(path)}
	for _, dir := range r.Write {
		o.Write = append(o.Write, []byte(dir))
	}
	text, _ := json.Marshal(o) // lists of bytes always become JSON
	return self, append([]string{os.Args[0], string(text)}, args...), variable + "=1"
}

// Exec restricts this process and replaces it by the program of [Wrap] if environ, the
// environment of the process, asks for that. Otherwise it returns. Main must call it first.
func Exec(environ []string) {
	if !slices.ContainsFunc(environ, asks) {
		return
	}
	err := become(os.Args[1:], slices.DeleteFunc(slices.Clone(environ), asks))
	fmt.Fprintf(os.Stderr, "qq: sandbox: %v\n", err)
	os.Exit(refusal)
}

func asks(entry string) bool { return strings.HasPrefix(entry, variable+"=") }

// become executes the order in args. It returns only if that failed.
func become(args, environ []string) error {
	if len(args) < 2 {
		return fmt.Errorf("%s is set, but no program is named", variable)
	}
	path, r, err := readOrder(args[0])
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := restrictThread(r); err != nil {
		return err
	}
	if err := dropPowers(); err != nil {
		return err
	}
	if err := syscall.Exec(path, args[1:], environ); err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	return nil
}

func readOrder(text string) (path string, r Rules, err error) {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return "", Rules{}, fmt.Errorf("read the rules: %w", err)
	}
	for _, dir := range o.Write {
		r.Write = append(r.Write, string(dir))
	}
	if path = string(o.Path); !strings.Contains(path, "/") {
		return "", Rules{}, errors.New("the program is named without a path")
	}
	return path, r, nil
}
