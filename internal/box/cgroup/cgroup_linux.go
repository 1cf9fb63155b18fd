package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Group is a group of processes.
type Group struct {
	Tasks  []*os.File // of version 1: a thread joins by writing 0 to each
	Folder *os.File   // of version 2; nil in version 1

	memory, processes string // folders; "" if there is none
	v2                bool
}

// prefix begins the names of groups. The id of the process that made it follows.
const prefix = "qq-"

// made counts the groups of this process.
var made atomic.Int64

// Find looks where this process may make groups. It also removes groups that killed processes left behind.
func Find() (p Parents) {
	groups, err := os.Open("/proc/self/cgroup")
	if err != nil {
		return p
	}
	defer groups.Close()
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return p
	}
	defer mounts.Close()
	for _, h := range hierarchies(groups, mounts) {
		if h.controllers == nil {
			if v2 := h.parents(); v2 != (Parents{}) {
				return v2
			}
			continue
		}
		if unix.Access(h.own, unix.W_OK) != nil {
			continue
		}
		if slices.Contains(h.controllers, "memory") {
			p.Memory = h.own
		}
		if slices.Contains(h.controllers, "pids") {
			p.Processes = h.own
		}
	}
	p.tidy()
	return p
}

// parents returns the nearest folder of version 2 in which groups can have limits: that of this process or one above
// it. Whoever starts a process in a group there must be able to write to the list of processes of that folder.
func (h hierarchy) parents() (p Parents) {
	for dir := h.own; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		if err != nil {
			return p
		}
		enabled := strings.Fields(string(text))
		memory, pids := slices.Contains(enabled, "memory"), slices.Contains(enabled, "pids")
		if memory || pids {
			if unix.Access(dir, unix.W_OK) != nil || unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) != nil {
				return p
			}
			p.V2 = true
			if memory {
				p.Memory = dir
			}
			if pids {
				p.Processes = dir
			}
			p.tidy()
			return p
		}
		if dir == h.top || len(dir) <= 1 {
			return p
		}
	}
}

// tidy removes the groups of processes that have ended.
func (p Parents) tidy() {
	for _, dir := range p.folders() {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			pid, _, ok := strings.Cut(strings.TrimPrefix(e.Name(), prefix), "-")
			if _, err := strconv.Atoi(pid); !ok || err != nil || !strings.HasPrefix(e.Name(), prefix) {
				continue
			}
			if _, err := os.Lstat("/proc/" + pid); errors.Is(err, fs.ErrNotExist) {
				_ = unix.Rmdir(filepath.Join(dir, e.Name())) // fails if there are processes in it
			}
		}
	}
}

// folders returns the different folders of p.
func (p Parents) folders() []string {
	all := []string{p.Memory, p.Processes}
	if p.Memory == p.Processes {
		all = all[:1]
	}
	return slices.DeleteFunc(all, func(dir string) bool { return dir == "" })
}

// Make makes a group with limits, as far as p can set them. It returns nil if there is nothing to limit.
func (p Parents) Make(l Limits) (g *Group, err error) {
	if l.Memory <= 0 {
		p.Memory = ""
	}
	if l.Processes <= 0 {
		p.Processes = ""
	}
	if p.Memory == "" && p.Processes == "" {
		return nil, nil
	}
	g = &Group{v2: p.V2}
	defer func() {
		if err != nil {
			err = fmt.Errorf("make a cgroup: %w", err)
			g.Remove()
		}
	}()
	name := fmt.Sprintf("%s%d-%d", prefix, os.Getpid(), made.Add(1))
	for _, dir := range p.folders() {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return g, err
		}
		if dir == p.Memory {
			g.memory = filepath.Join(dir, name)
		}
		if dir == p.Processes {
			g.processes = filepath.Join(dir, name)
		}
		if err := g.open(filepath.Join(dir, name)); err != nil {
			return g, err
		}
	}
	if g.memory != "" {
		file := map[bool]string{false: "memory.limit_in_bytes", true: "memory.max"}[p.V2]
		if err := set(g.memory, file, l.Memory); err != nil {
			return g, err
		}
		if p.V2 { // the kernel then kills the whole group; an older one does not know that
			_ = set(g.memory, "memory.oom.group", 1)
		}
	}
	if g.processes != "" {
		err = set(g.processes, "pids.max", int64(l.Processes))
	}
	return g, err
}

// open opens what a command needs to join the group in dir.
func (g *Group) open(dir string) (err error) {
	if g.v2 {
		g.Folder, err = os.Open(dir)
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "tasks"), os.O_WRONLY, 0)
	if err == nil {
		g.Tasks = append(g.Tasks, f)
	}
	return err
}

func set(dir, file string, value int64) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(strconv.FormatInt(value, 10)), 0)
}

// Exceeded returns how often the kernel killed a process of the group because of its limit of memory, and how often
// it refused to start one.
func (g *Group) Exceeded() (memory, processes int) {
	if g.memory != "" {
		file := map[bool]string{false: "memory.oom_control", true: "memory.events"}[g.v2]
		text, _ := os.ReadFile(filepath.Join(g.memory, file))
		memory = countIn(string(text), "oom_kill")
	}
	if g.processes != "" {
		text, _ := os.ReadFile(filepath.Join(g.processes, "pids.events"))
		processes = countIn(string(text), "max")
	}
	return memory, processes
}

// Remove kills what is left in the group, and removes it.
func (g *Group) Remove() {
	for _, f := range g.Tasks {
		f.Close()
	}
	if g.Folder != nil {
		g.Folder.Close()
	}
	for _, dir := range (Parents{Memory: g.memory, Processes: g.processes}).folders() {
		for range 100 {
			if err := unix.Rmdir(dir); !errors.Is(err, unix.EBUSY) {
				break
			}
			text, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
			for id := range strings.FieldsSeq(string(text)) {
				if pid, err := strconv.Atoi(id); err == nil && pid > 0 {
					_ = unix.Kill(pid, unix.SIGKILL)
				}
			}
			time.Sleep(time.Millisecond)
		}
	}
}
