package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// servers returns the sockets that the view hides: those at which programs of this machine are reached. A read-only
// mount does not keep a program from connecting. If the kernel does not list its sockets, there is nothing to return.
// Under read-only rules the filter refuses all sockets.
func (o Order) servers() (paths []string) {
	if o.Rules.readOnly() && Probe().Filter {
		return nil
	}
	list, err := os.ReadFile("/proc/self/net/unix")
	if err != nil {
		return nil
	}
	open := slices.Concat(o.Rules.Write, o.View.Sockets)
	folders := map[string]string{} // without links
	for line := range strings.Lines(string(list)) {
		path, ok := serves(strings.TrimSuffix(line, "\n"))
		if !ok {
			continue
		}
		dir, name := filepath.Split(path)
		if _, ok := folders[dir]; !ok {
			if folders[dir], err = filepath.EvalSymlinks(dir); err != nil {
				folders[dir] = "" // of another file system, or closed to this user
			}
		}
		path = filepath.Join(folders[dir], name)
		if folders[dir] != "" && !slices.ContainsFunc(open, func(at string) bool { return Within(path, at) }) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// serves returns the absolute path of a socket at which others can reach its program: it listens, or gets datagrams.
// line is one of /proc/net/unix.
func serves(line string) (path string, ok bool) {
	const flags, kind, fields, listens, datagrams = 3, 4, 7, 1 << 16, 2
	before, path, ok := strings.Cut(line, " /")
	f := strings.Fields(before)
	if !ok || len(f) != fields {
		return "", false
	}
	set, err := strconv.ParseUint(f[flags], 16, 32)
	is, kindErr := strconv.ParseUint(f[kind], 16, 32)
	return "/" + path, errors.Join(err, kindErr) == nil && (set&listens != 0 || is == datagrams)
}

// cover hides the file at path: it is seen as /dev/null, to which nobody can connect.
func cover(path string) error {
	if err := unix.Mount("/dev/null", path, "", unix.MS_BIND, ""); err != nil && !gone(err) {
		return err
	}
	return nil
}

// gone reports whether err says that this user finds no file there.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES)
}
