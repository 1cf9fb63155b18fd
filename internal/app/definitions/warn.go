package definitions

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"qq/internal/app/command"
	"qq/pkg/agents"
)

const (
	warnedFile = "warned" // in $QQ_HOME: a line for each content of a file that was warned about
	maxWarned  = 64 << 10 // its size in bytes, of which the newer half is kept
)

// Warn prints the warnings of the definition of an agent before a run. Those that only say what of the
// file does nothing are printed once for each content of the file; qq agents check and qq doctor say
// them always. All others, such as that something is ignored because it is not trusted, are printed
// before each run. home is $QQ_HOME.
func Warn(i *command.Invocation, home string, a agents.Agent) {
	known := len(a.Harmless) > 0 && remembered(home, a)
	for _, w := range a.Warnings {
		if !known || !slices.Contains(a.Harmless, w) {
			i.Say("%s", agents.Located(a.Source, w))
		}
	}
}

// remembered reports whether the file of a was warned about with this content, and remembers that it
// was. Where it cannot be remembered, and where two processes do it at once, people are warned again.
func remembered(home string, a agents.Agent) bool {
	path, err := filepath.Abs(a.Source)
	if err != nil || a.Sum == "" {
		return false
	}
	sum := sha256.Sum256([]byte(path + "\x00" + a.Sum))
	line := hex.EncodeToString(sum[:16]) + "\n"
	if os.MkdirAll(home, 0o700) != nil {
		return false
	}
	f, err := os.OpenFile(filepath.Join(home, warnedFile),
		os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	data, err := io.ReadAll(io.LimitReader(f, maxWarned+1))
	if err != nil || strings.Contains(string(data), line) {
		return err == nil
	}
	if len(data)+len(line) > maxWarned {
		if f.Truncate(0) != nil {
			return false
		}
		_, newer, _ := strings.Cut(string(data[len(data)/2:]), "\n")
		line = newer + line
	}
	_, _ = f.WriteString(line) // else it is said again
	return false
}
