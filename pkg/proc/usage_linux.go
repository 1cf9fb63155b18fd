package proc

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Bounds of what Usage looks at.
const (
	maxMembers     = 100_000 // processes
	maxDescriptors = 100_000 // of all these
)

// Usage returns the resident memory of the process and of all that it started, in bytes, and how many threads they
// have. So do the memory files (memfd) that they have open, if they might make a difference. Memory that several of
// them share counts once, as far as the system tells, if it might make a difference: when the plain sum is more than
// enough. Not counted are memory files that no process has open, those on their way through a socket for example, and
// shared memory of System V that is not mapped. Only Linux tells anything.
func (p *Process) Usage(enough int64) (memory int64, threads int) {
	page := int64(os.Getpagesize())
	members := p.members()
	for _, name := range members {
		stat, _ := os.ReadFile("/proc/" + name + "/stat")
		n, pages := usageIn(stat)
		threads += n
		memory += pages * page
	}
	if total, ok := sharedMemory(); ok && memory+total <= enough { // to look at all open files takes long
		return memory, threads
	}
	files := memoryFiles(members)
	if memory+files <= enough {
		return memory + files, threads
	}
	var private, shared int64
	for _, name := range members {
		own, shmem := proportional(name, page)
		private, shared = private+own, shared+shmem
	}
	return private + max(shared, files), threads // what is mapped of the files is in both
}

// sharedMemory returns the bytes of all memory files and other shared memory of the machine.
func sharedMemory() (size int64, ok bool) {
	text, _ := os.ReadFile("/proc/meminfo")
	for line := range bytes.Lines(text) {
		if f := bytes.Fields(line); len(f) == 3 && string(f[0]) == "Shmem:" {
			kib, err := strconv.ParseInt(string(f[1]), 10, 64)
			return kib << 10, err == nil && kib >= 0
		}
	}
	return 0, false
}

// memoryFiles returns how many bytes are in the memory files that processes have open.
func memoryFiles(names []string) (size int64) {
	left := maxDescriptors
	type file struct{ device, inode uint64 }
	seen := map[file]bool{}
	for _, name := range names {
		dir := "/proc/" + name + "/fd/"
		open, _ := os.ReadDir(dir)
		for _, fd := range open[:min(len(open), left)] {
			left--
			var st syscall.Stat_t
			link, _ := os.Readlink(dir + fd.Name())
			if !strings.HasPrefix(link, "/memfd:") || syscall.Stat(dir+fd.Name(), &st) != nil {
				continue
			}
			if f := (file{st.Dev, st.Ino}); !seen[f] {
				seen[f] = true
				size += st.Blocks * 512
			}
		}
	}
	return size
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

// proportional returns the memory of a process in which shared pages count by the number of those that share them:
// shared are files in memory, private is the rest. Where the system does not tell that, private is all of the resident
// memory.
func proportional(name string, page int64) (private, shared int64) {
	text, _ := os.ReadFile("/proc/" + name + "/smaps_rollup")
	found := false
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) != 3 {
			continue
		}
		kib, _ := strconv.ParseInt(string(f[1]), 10, 64)
		switch string(f[0]) {
		case "Pss:":
			private, found = private+max(kib, 0)<<10, true
		case "Pss_Shmem:":
			shared = max(kib, 0) << 10
		}
	}
	if found {
		return private - shared, shared
	}
	stat, _ := os.ReadFile("/proc/" + name + "/stat")
	_, pages := usageIn(stat)
	return pages * page, 0
}
