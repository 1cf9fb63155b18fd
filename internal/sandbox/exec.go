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

// variable asks this binary to restrict itself and to become another program. Its
// value is of no matter: the order is the first argument, because an environment
// can hold two entries of a name, and one may come from elsewhere. Whoever sets
// it by hand restricts only what they start by it: the rules of a sandbox that
// the process is in already go on to hold.
const variable = "QQ_SANDBOX"

// refusal is the exit code of a program that could not be started in its
// sandbox, as shells have it.
const refusal = 126

// order is what the first argument says. It holds bytes, since a path may be no
// UTF-8, and JSON would mend that.
type order struct {
	Path  []byte   `json:"path"`
	Write [][]byte `json:"write,omitempty"`
}

// Wrap returns what to start instead of path, with the command line args (the
// name of the program first), so that it runs restricted to r: the program self,
// which must be this binary, with newArgs and with env in its environment. path
// is not looked up in PATH. If the rules cannot be applied, or the program cannot
// be run, the process says so on stderr and exits with code 126. It costs a start
// of this binary, 2 to 3 ms.
func Wrap(self string, r Rules, path string, args []string) (newPath string, newArgs []string, env string) {
	o := order{Path: []byte(path)}
	for _, dir := range r.Write {
		o.Write = append(o.Write, []byte(dir))
	}
	text, _ := json.Marshal(o) // lists of bytes always become JSON
	return self, append([]string{os.Args[0], string(text)}, args...), variable + "=1"
}

// Exec restricts this process and becomes the program of [Wrap] if environ, that
// of the process, asks for it, and returns if it does not. Main calls it first.
func Exec(environ []string) {
	if !slices.ContainsFunc(environ, asks) {
		return
	}
	err := become(os.Args[1:], slices.DeleteFunc(slices.Clone(environ), asks))
	fmt.Fprintf(os.Stderr, "qq: sandbox: %v\n", err)
	os.Exit(refusal)
}

func asks(entry string) bool { return strings.HasPrefix(entry, variable+"=") }

// become returns only if it failed.
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
