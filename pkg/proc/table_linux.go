package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// table reads the table of processes, /proc. That may have been mounted in
// another PID namespace, outside of ours: then it counts processes differently.
type table struct {
	self  string // this process, as /proc counts
	level int    // how many namespaces further in we are
}

// child is a child of this process.
type child struct {
	pid  int    // as we count
	name string // its number in /proc
}

func openTable() (table, error) {
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return table{}, err
	}
	ids, err := namespaceIDs(self)
	if err != nil {
		return table{}, err
	}
	return table{self: self, level: len(ids) - 1}, nil
}

// children lists the children of this process; one that ends meanwhile may be
// missing. Unless everywhere, it looks at those of the main thread only, and is
// quick: since Linux 3.19 orphans come to the first thread that lives, and Go
// never ends the main one.
func (t table) children(everywhere bool) []child {
	threads := []string{t.self}
	if everywhere {
		threads = threads[:0]
		entries, _ := os.ReadDir("/proc/self/task")
		for _, e := range entries {
			threads = append(threads, e.Name())
		}
	}
	var names []string
	supported := false
	for _, thread := range threads {
		list, err := os.ReadFile("/proc/self/task/" + thread + "/children")
		supported = supported || err == nil
		names = append(names, strings.Fields(string(list))...)
	}
	if !supported {
		names = t.scan()
	}
	children := make([]child, 0, len(names))
	for _, name := range names {
		if pid, err := t.pid(name); err == nil {
			children = append(children, child{pid, name})
		}
	}
	return children
}

// scan finds the children of this process on a kernel that does not list them.
func (t table) scan() (names []string) {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		stat, _ := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if parent, ok := parentIn(stat); ok && parent == t.self {
			names = append(names, entry.Name())
		}
	}
	return names
}

// parentIn reads the parent from the text of a stat file. The name of the
// program in it may contain anything, also blanks and brackets.
func parentIn(stat []byte) (string, bool) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return "", false
	}
	return string(fields[1]), true
}

// pid is the process id, as we count, of what /proc calls name.
func (t table) pid(name string) (int, error) {
	if t.level == 0 {
		return strconv.Atoi(name)
	}
	ids, err := namespaceIDs(name)
	if err != nil {
		return 0, err
	}
	if len(ids) <= t.level {
		return 0, fmt.Errorf("process %s is outside of this namespace", name)
	}
	return strconv.Atoi(ids[t.level])
}

// namespaceIDs are the ids of a process from the namespace of /proc inwards.
func namespaceIDs(name string) ([]string, error) {
	status, err := os.ReadFile("/proc/" + name + "/status")
	if err != nil {
		return nil, err
	}
	return idsIn(string(status))
}

// idsIn reads the ids from the text of a status file. Kernels before 4.1 do not
// give them; there is no subreaper to be had from us then.
func idsIn(status string) ([]string, error) {
	_, rest, _ := strings.Cut(status, "\nNSpid:")
	line, _, _ := strings.Cut(rest, "\n")
	if ids := strings.Fields(line); len(ids) > 0 {
		return ids, nil
	}
	return nil, errors.New("status without NSpid")
}

// environ is the environment that c was started with; it is empty when c is
// dead or another user's.
func (c child) environ() []byte {
	text, _ := os.ReadFile("/proc/" + c.name + "/environ")
	return text
}

// hasEntry reports whether entry is one of those that each end in a zero byte.
func hasEntry(environ, entry []byte) bool {
	for e := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.Equal(e, entry) {
			return true
		}
	}
	return false
}
