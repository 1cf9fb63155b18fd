package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// table reads the process table in /proc. /proc may belong to an outer PID namespace, in which
// processes have other ids than in this one.
type table struct {
	self  string // id of this process in /proc
	level int    // how many PID namespaces lie between /proc and this process; 0 means the same one
}

// child is a child of this process.
type child struct {
	pid  int    // its process id in the namespace of this process
	name string // its process id in /proc
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

// children returns the children of this process. It may miss one if another child ends at the same
// time. With everywhere it reads the children of all threads. Without, it reads only those of the
// main thread, which is faster: since Linux 3.19 an orphan is given to the first live thread, and
// Go never ends the main thread.
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

// scan returns the ids in /proc of the children of this process, by reading all of /proc. It is for
// a kernel that has no lists of children.
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

// parentIn returns the id of the parent in the text of a /proc stat file, and false if the text is
// cut off. The program name in it may contain any characters, even spaces and parentheses.
func parentIn(stat []byte) (string, bool) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return "", false
	}
	return string(fields[1]), true
}

// pid returns the process id, in the namespace of this process, of the process that has the id name
// in /proc.
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

// namespaceIDs returns the ids that a process has in its PID namespaces, beginning with that of
// /proc and ending with the innermost.
func namespaceIDs(name string) ([]string, error) {
	status, err := os.ReadFile("/proc/" + name + "/status")
	if err != nil {
		return nil, err
	}
	return idsIn(string(status))
}

// idsIn returns the ids of a process in its PID namespaces from the text of a /proc status file.
// Kernels before 4.1 do not list them, which is an error; this process then does not become a
// subreaper.
func idsIn(status string) ([]string, error) {
	_, rest, _ := strings.Cut(status, "\nNSpid:")
	line, _, _ := strings.Cut(rest, "\n")
	if ids := strings.Fields(line); len(ids) > 0 {
		return ids, nil
	}
	return nil, errors.New("status without NSpid")
}

// environ returns the environment with which c was started, as NUL-terminated entries. It is empty
// if c is dead or belongs to another user.
func (c child) environ() []byte {
	text, _ := os.ReadFile("/proc/" + c.name + "/environ")
	return text
}

// exiting reports whether the main thread of c has begun to end. The environment of c cannot be
// read any more then, but c is still the parent of its children until its last thread has ended.
func (c child) exiting() bool {
	stat, _ := os.ReadFile("/proc/" + c.name + "/stat")
	return exitingIn(stat)
}

// exitingIn reports whether a process is exiting, from the text of its /proc stat file: the flag
// PF_EXITING of its main thread is set.
func exitingIn(stat []byte) bool {
	const flags, exiting = 6, 0x4 // see proc_pid_stat(5) and include/linux/sched.h
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= flags {
		return false
	}
	n, err := strconv.ParseUint(string(fields[flags]), 10, 64)
	return err == nil && n&exiting != 0
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
