// Package cgroup limits the memory and the processes of a command, together with all that it starts, by control
// groups of the kernel.
//
// Flow: [Find] looks where this process may make groups: below its own group (version 1), or next to it or above it
// (version 2, where a group with processes has no groups with limits). [Parents.Make] makes a [Group] with limits
// for one command. The command joins it: of version 1, the thread that becomes the command writes 0 to the files of
// [Group.Tasks]; of version 2, the command is started in the folder [Group.Folder]. [Group.Remove] ends what is
// left in it and removes it.
//
// A process that is killed leaves its groups behind. They are empty then, and the next process that makes one
// removes them.
package cgroup

import (
	"bufio"
	"io"
	"path"
	"slices"
	"strings"
)

// Limits are the limits of a group; 0 means none.
type Limits struct {
	Memory    int64 // bytes
	Processes int   // threads count
}

// Parents are the folders in which this process may make groups. The zero value means none.
type Parents struct {
	Memory, Processes string // folder of the hierarchy with that controller; empty means none
	V2                bool   // version 2; both folders are the same or one is empty
}

// String says what can be limited, or returns "".
func (p Parents) String() string {
	var names []string
	if p.Memory != "" {
		names = append(names, "memory")
	}
	if p.Processes != "" {
		names = append(names, "processes")
	}
	if names == nil {
		return ""
	}
	return "cgroup " + map[bool]string{false: "v1", true: "v2"}[p.V2] + " limits " + strings.Join(names, " and ")
}

// hierarchy is a mounted hierarchy of groups.
type hierarchy struct {
	controllers []string // of version 1; nil means version 2
	own         string   // folder of the group of this process
	top         string   // mount point
}

// hierarchies returns the mounted hierarchies from the texts of /proc/self/cgroup and /proc/self/mountinfo.
func hierarchies(cgroup, mountinfo io.Reader) (all []hierarchy) {
	groups := map[string]string{} // path of the own group by controller; "" is version 2
	for lines := bufio.NewScanner(cgroup); lines.Scan(); {
		if f := strings.SplitN(lines.Text(), ":", 3); len(f) == 3 && path.IsAbs(f[2]) {
			for name := range strings.SplitSeq(f[1], ",") {
				groups[name] = path.Clean(f[2])
			}
		}
	}
	for lines := bufio.NewScanner(mountinfo); lines.Scan(); {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		mount, kind := strings.Fields(before), strings.Fields(after)
		if len(mount) < 5 || len(kind) < 3 || !path.IsAbs(mount[4]) {
			continue
		}
		h := hierarchy{top: unescape(mount[4])}
		first := ""
		switch kind[0] {
		case "cgroup":
			h.controllers = slices.DeleteFunc(strings.Split(kind[2], ","), func(name string) bool {
				_, ok := groups[name]
				return !ok || name == ""
			})
			if len(h.controllers) == 0 {
				continue
			}
			first = h.controllers[0]
		case "cgroup2":
		default:
			continue
		}
		// The mount may show a part of the hierarchy only, as in a container.
		below, ok := within(groups[first], path.Clean(unescape(mount[3])))
		if ok {
			h.own = path.Join(h.top, below)
			all = append(all, h)
		}
	}
	return all
}

// within returns group relative to root, which both are absolute and clean.
func within(group, root string) (string, bool) {
	if group == "" || root == "/" {
		return group, group != ""
	}
	below, ok := strings.CutPrefix(group+"/", root+"/")
	return below, ok
}

// unescape undoes the escapes of a path in mountinfo.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// countIn returns the number after name in a text with one name and number a line; 0 if there is none.
func countIn(text, name string) (n int) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			for _, digit := range f[1] {
				if digit < '0' || digit > '9' || n > 1<<40 {
					return 0
				}
				n = 10*n + int(digit-'0')
			}
		}
	}
	return n
}
