package box

import (
	"context"
	"fmt"
	"os"
	"strings"

	"qq/internal/sandbox"
	"qq/pkg/proc"
)

// Support says what keeps the commands of this system within bounds.
type Support struct {
	View   bool   // commands have mounts of their own
	Why    string // why not
	Groups string // what cgroups limit; empty means nothing
}

// Probe tries what works here. It starts one command with host. exe is the path of this program.
func Probe(ctx context.Context, host *proc.Host, exe string) (s Support) {
	s.Groups = parents().String()
	if !sandbox.Probe().Enforced() {
		s.Why = "there is no sandbox"
		return s
	}
	r, err := New(Config{Host: host, Exe: exe, Dir: "/", Confined: true, Mounts: true, Namespace: true}).
		Launch(proc.Command{Path: "/bin/sh", Args: []string{"sh", "-c", ":"}, Env: os.Environ()}, nil)
	if err != nil {
		s.Why = err.Error()
		return s
	}
	select {
	case <-r.Done():
	case <-ctx.Done():
		r.proc.Kill()
	}
	o := r.Wait()
	if s.View, s.Why = o.Viewed, r.said; s.Why == "" {
		s.Why = fmt.Sprintf("the command that tried it ended with exit code %d", o.Code)
	}
	return s
}

// String describes on one line what is enforced.
func (s Support) String() string {
	text := "their own mounts keep files that programs obey read-only; sockets of servers are hidden"
	if !s.View {
		text = "no mounts of their own (" + s.Why + "): changes of files that programs obey are put back afterwards"
		if sandbox.Probe().Filter {
			text += "; UNIX sockets are refused"
		}
	}
	groups := s.Groups
	if !strings.Contains(groups, "memory") {
		groups = strings.TrimPrefix(groups+", memory is measured", ", ")
	}
	if !strings.Contains(groups, "processes") {
		groups += ", processes are counted"
	}
	return text + "; " + groups
}
