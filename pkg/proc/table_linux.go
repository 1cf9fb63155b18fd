package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// table is the process table in /proc. It may be mounted from an outer PID namespace, in which
// process ids differ.
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

// children lists the children of this process; it may miss one that ends meanwhile. With
// everywhere it looks at the children of all threads, else, faster, only at those of the main
// thread: since Linux 3.19 orphans are given to the first live thread, and Go never ends the main
// one.
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

// parentIn extracts the parent from the text of a stat file. The program name in it may contain
// any characters, also blanks and brackets.
func parentIn(stat []byte) (string, bool) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return "", false
	}
	return string(fields[1]), true
}

// pid returns the process id in our namespace of the process that /proc calls name.
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

// namespaceIDs returns the ids of a process, from the namespace of /proc inwards.
func namespaceIDs(name string) ([]string, error) {
	status, err := os.ReadFile("/proc/" + name + "/status")
	if err != nil {
		return nil, err
	}
	return idsIn(string(status))
}

// idsIn extracts the ids from the text of a status file. Kernels before 4.1 do not list them;
// then this process is no subreaper.
func idsIn(status string) ([]string, error) {
	_, rest, _ := strings.Cut(status, "\nNSpid:")
	line, _, _ := strings.Cut(rest, "\n")
	if ids := strings.Fields(line); len(ids) > 0 {
		return ids, nil
	}
	return nil, errors.New("status without NSpid")
}

// environ returns the environment with which c was started, or nothing if c is dead or belongs to
// another user.
func (c child) environ() []byte {
	text, _ := os.ReadFile("/proc/" + c.name + "/environ")
	return text
}

// hasEntry reports whether environ, whose entries end in zero bytes, contains entry.
func hasEntry(environ, entry []byte) bool {
	for e := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.Equal(e, entry) {
			return true
		}
	}
	return false
}
