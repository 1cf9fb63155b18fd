package proc

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// maxMembers bounds the processes that Usage looks at.
const maxMembers = 100_000

// Usage returns the resident memory of the process and of all that it started, in bytes, and how many threads they
// have. Memory that several of them share counts once, as far as the system tells, if it might make a difference:
// when the plain sum is more than enough. Only Linux tells anything.
func (p *Process) Usage(enough int64) (memory int64, threads int) {
	page := int64(os.Getpagesize())
	members := p.members()
	for _, name := range members {
		stat, _ := os.ReadFile("/proc/" + name + "/stat")
		n, pages := usageIn(stat)
		threads += n
		memory += pages * page
	}
	if memory <= enough {
		return memory, threads
	}
	memory = 0
	for _, name := range members {
		memory += proportional(name, page)
	}
	return memory, threads
}

// members returns the ids in /proc of the process and of all that it started, as far as they can be found.
func (p *Process) members() (names []string) {
	if self, _ := os.Readlink("/proc/self"); self != strconv.Itoa(os.Getpid()) {
		return nil // /proc is that of another PID namespace, where processes have other ids
	}
	h := p.host
	h.mu.Lock()
	if p.reaped {
		h.mu.Unlock()
		return nil
	}
	names = []string{strconv.Itoa(p.pid)}
	if h.subreaper && !p.fenced {
		for _, c := range h.table.children(true) {
			if !h.foreign[c.pid] && !h.leads(c.pid) && h.owner(c) == p {
				names = append(names, c.name)
			}
		}
	}
	h.mu.Unlock()
	for i := 0; i < len(names) && len(names) < maxMembers; i++ {
		threads, _ := os.ReadDir("/proc/" + names[i] + "/task")
		for _, t := range threads {
			list, _ := os.ReadFile("/proc/" + names[i] + "/task/" + t.Name() + "/children")
			names = append(names, strings.Fields(string(list))...)
		}
	}
	return names
}

// usageIn returns the number of threads and of resident pages in the text of a /proc stat file; 0 if it is cut off.
func usageIn(stat []byte) (threads int, pages int64) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const num, rss = 20 - 3, 24 - 3 // the first is the third field
	if len(fields) <= rss {
		return 0, 0
	}
	threads, _ = strconv.Atoi(string(fields[num]))
	pages, _ = strconv.ParseInt(string(fields[rss]), 10, 64)
	return max(threads, 0), max(pages, 0)
}

// proportional returns the memory of a process in which shared pages count by the number of those that share them.
// Where the system does not tell that, it returns all of the resident memory.
func proportional(name string, page int64) int64 {
	text, _ := os.ReadFile("/proc/" + name + "/smaps_rollup")
	for line := range bytes.Lines(text) {
		if f := bytes.Fields(line); len(f) == 3 && string(f[0]) == "Pss:" {
			kib, _ := strconv.ParseInt(string(f[1]), 10, 64)
			return max(kib, 0) << 10
		}
	}
	stat, _ := os.ReadFile("/proc/" + name + "/stat")
	_, pages := usageIn(stat)
	return pages * page
}
